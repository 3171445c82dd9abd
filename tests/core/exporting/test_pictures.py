"""Figures that are taken away: titled, on a ground of their own, whole on one page, with nothing read as markup."""

import json

import numpy as np
import pytest

from core.exporting.pictures import GROUNDS, panels, portrait, print_widths
from core.figures.heatmaps.heatmap import Axis, heatmap
from tests.core.figures.test_theme import CHARTS, letters

NASTY = "</script><img src=x onerror=alert(1)> $x$"
TOKENS = [NASTY, *(f"token {place}" for place in range(1, 90))]


def picture(tokens=TOKENS):
    values = np.random.default_rng(0).random((len(tokens), len(tokens)))
    return heatmap(values, Axis("query", tokens, 3), Axis("key", tokens, 4), name="weight", scale="share").figure


def test_title_notes_ground_and_size_are_in_it():
    notes = ["a model · layer 1, head 10", "Text: " + "word " * 500]
    taken = portrait(picture(), f"Weights {NASTY}", notes, GROUNDS["dark"])
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


def test_the_words_above_and_the_marks_can_be_left_out_and_labels_stay():
    figure = picture()
    bare, named = (portrait(figure, title, notes, GROUNDS["light"]) for title, notes in (("", []), ("Weights", ["a"])))
    assert not bare.layout.annotations
    assert [annotation.text for annotation in named.layout.annotations] == ["<b>Weights</b>", "a"]
    rooms = [taken.layout.height - taken.layout.margin.t for taken in (bare, named)]
    assert rooms[0] == rooms[1]  # the cells are as large as before
    assert bare.layout.height < named.layout.height
    figure = picture(TOKENS[:20])
    bare = portrait(figure, "", [], GROUNDS["light"], marks=False)
    assert [shape.line.width for shape in figure.layout.shapes] == [1, 1, 3]
    assert [shape.line.width for shape in bare.layout.shapes] == [0, 0, 0]  # an axis without any has no labels
    assert bare.layout.yaxis.ticktext[3] == "token 3"


@pytest.mark.parametrize("millimetres", [None, 170])
def test_two_panels_stand_beside_each_other_with_their_names(millimetres):
    figures = {"As it is": picture(TOKENS[1:9]), "<b>Changed": picture(TOKENS[9:17])}
    taken = panels(figures, "A title", ["a note"], GROUNDS["light"], millimetres=millimetres)
    layout = taken.layout
    assert [annotation.text for annotation in layout.annotations] == [
        "<b>As it is</b>",
        "<b>&lt;b&gt;Changed</b>",
        "<b>A title</b>",
        "a note",
    ]
    heatmaps = [trace for trace in taken.data if trace.type == "heatmap"]
    for figure, drawn, (across, down) in zip(figures.values(), heatmaps, (("x2", "y2"), ("x4", "y4")), strict=True):
        assert np.array_equal(drawn.z, figure.data[0].z)
        assert (drawn.xaxis, drawn.yaxis) == (across, down)
    left, right = layout.xaxis, layout.xaxis3
    assert (left.anchor, layout.yaxis.anchor) == ("y", "x")
    assert (right.anchor, layout.yaxis3.anchor, layout.xaxis4.overlaying) == ("y3", "x3", "x3")
    assert right.ticktext[4] == "<b>token 13</b>"
    # Cells, then a colour bar, then the labels of the other rows: nothing lies on anything else.
    pixels = layout.width - layout.margin.l - layout.margin.r
    bar = heatmaps[0].colorbar.x
    assert left.domain[0] == 0
    assert left.domain[1] < bar < right.domain[0] - (40 + 60) / pixels
    assert right.domain[1] == pytest.approx(1)
    frames = [(shape.xref, shape.yref, shape.x0) for shape in layout.shapes if shape.line.width >= 3]
    assert frames == [("x", "y", 3.5), ("x3", "y3", 3.5)]
    if millimetres:
        assert layout.width == 960
        assert min(letters(json.loads(taken.to_json()))) * 170 / 25.4 * 72 / 960 >= 6


@pytest.mark.parametrize("name", CHARTS)
def test_any_figure_can_be_taken_away_and_in_print_letters_have_six_points(name):
    """The equation can be read only across two columns."""
    figure = CHARTS[name]().figure
    before = figure.to_json()
    assert print_widths(figure) == ((170,) if name == "equation" else (85, 170))
    for millimetres in (None, *print_widths(figure)):
        taken = portrait(figure, "A title", ["a note"], GROUNDS["light"], millimetres=millimetres)
        assert [annotation.text for annotation in taken.layout.annotations][-2:] == ["<b>A title</b>", "a note"]
        assert taken.layout.height > 100
        pixel = (millimetres or 0) / 25.4 * 72 / taken.layout.width  # in points
        points = [size * pixel for size in letters(json.loads(taken.to_json()))]
        assert millimetres is None or 6 <= min(points) <= max(points) < 16
    assert figure.to_json() == before  # the page keeps its own


def square(taken, rows, columns):
    """The sides of a cell in pixels."""
    layout = taken.layout
    across, down = (layout.width - layout.margin.l - layout.margin.r), layout.height - layout.margin.t - layout.margin.b
    return across / columns, down / rows


@pytest.mark.parametrize("millimetres", [85, 170])
@pytest.mark.parametrize(("rows", "columns"), [(8, 8), (40, 40), (5, 64), (30, 9), (3, 2)])
def test_cells_in_print_are_square_and_their_labels_apart(millimetres, rows, columns):
    names = [f"token {place}" for place in range(64)]
    sides = Axis("query", names[:rows], 2), Axis("key", names[:columns], 1)
    drawn = heatmap(np.random.default_rng(0).random((rows, columns)), *sides, name="weight", scale="share").figure
    taken = portrait(drawn, "Weights", ["a note"], GROUNDS["light"], millimetres=millimetres)
    width, height = square(taken, rows, columns)
    assert width == pytest.approx(height, rel=0.02)
    layout = taken.layout
    assert layout.height < 1.8 * layout.width
    for axis, side in ((layout.xaxis, width), (layout.yaxis, height)):
        assert all(np.diff(axis.tickvals) * side >= axis.tickfont.size)
        assert any(text.startswith("<b>") for text in axis.ticktext)  # the pinned one
    printed = [trace for trace in taken.data if trace.type == "scatter" and trace.mode == "text"]
    assert all(4 * 0.6 * trace.textfont.size <= width for trace in printed)  # "0.12"
