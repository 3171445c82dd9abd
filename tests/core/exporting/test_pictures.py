"""Figures that are taken away: titled, on a ground of their own, whole on one page, with nothing read as markup."""

import json
import re

import numpy as np

from core import attend
from core.attention.head import Head
from core.exporting.pictures import GROUNDS, portrait, to_html
from core.figures.heatmaps.all_heads import metric_grid
from core.figures.heatmaps.equation import equation
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.heatmaps.patches import on_image
from core.figures.plots.bars import bars
from core.figures.plots.waterfall import waterfall

NASTY = "</script><img src=x onerror=alert(1)> $x$"
TOKENS = [NASTY, *(f"token {place}" for place in range(1, 90))]


def picture(tokens=TOKENS):
    values = np.random.default_rng(0).random((len(tokens), len(tokens)))
    return heatmap(values, Axis("query", tokens, 3), Axis("key", tokens, 4), name="weight", scale="share").figure


def test_the_page_keeps_its_own_figure():
    figure = picture()
    before = figure.to_json()
    portrait(figure, "Weights", ["a model"], GROUNDS["light"])
    assert figure.to_json() == before


def test_title_notes_ground_and_size_are_in_it():
    taken = portrait(
        picture(), f"Weights {NASTY}", ["a model · layer 1, head 10", "Text: " + "word " * 500], GROUNDS["dark"]
    )
    texts = [annotation.text for annotation in taken.layout.annotations]
    assert texts[-2] == "<b>Weights &lt;/script&gt;&lt;img src=x onerror=alert(1)&gt; &#36;x&#36;</b>"
    assert "layer 1, head 10<br>Text: word" in texts[-1]
    assert texts[-1].count("<br>") == 3  # a long text is cut
    assert texts[-1].endswith("…")
    assert (taken.layout.paper_bgcolor, taken.layout.font.color) == ("#14171c", "#e8ebf0")
    assert taken.layout.width >= 900
    assert taken.layout.margin.t > picture().layout.margin.t + 80  # the words have room of their own


def test_all_labels_are_written_where_there_is_room():
    figure = picture(TOKENS[:40])
    assert len(figure.layout.yaxis.ticktext) < 40
    taken = portrait(figure, "Weights", [], GROUNDS["light"])
    assert len(taken.layout.yaxis.ticktext) == 40
    assert taken.layout.yaxis.ticktext[3] == "<b>token 3</b>"  # the pinned one
    assert taken.layout.xaxis.ticktext[5] == "token 5"
    assert len(portrait(picture(), "Weights", [], GROUNDS["light"]).layout.yaxis.ticktext) < 90  # here there is none


def test_any_figure_can_be_taken_away():
    trace = attend(np.eye(4), np.eye(4), np.eye(4))
    head = Head.of(trace)
    figures = [
        bars(["a", "b"], {"one": np.array([1.0, 2.0])}, y="y").figure,
        waterfall(head.explain(0, 0)).figure,
        equation(head.overview().matrices, pin=(0, 0), opened="weights", scale=head.scale).figure,
        metric_grid(np.eye(3), "entropy", signed=False, chosen=(0, 1), left_out=None, height=300).figure,
        on_image(np.zeros((8, 8, 3), np.uint8), np.eye(2), (0, 1)).figure,
    ]
    for figure in figures:
        taken = portrait(figure, "A title", ["a note"], GROUNDS["light"])
        assert [annotation.text for annotation in taken.layout.annotations][-2:] == ["<b>A title</b>", "a note"]
        assert taken.layout.height > 100
        json.loads(taken.to_json())


def test_the_html_page_holds_everything_and_runs_nothing_of_it():
    page = to_html(portrait(picture(), NASTY, [NASTY], GROUNDS["light"]), NASTY, {"text": NASTY, "model": "a & b"})
    drawn, words = page[: page.index("<table>")], page[page.index("<table>") :]
    assert "</script><img" not in page
    assert "<img" not in words
    assert "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt; $x$" in words
    assert "a &amp; b" in words
    assert "default-src 'none'" in page
    assert not re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=", page.replace("\\u003c", "<"))  # nothing to fetch
    assert "plotly.js v" in drawn  # the whole of it is inside
