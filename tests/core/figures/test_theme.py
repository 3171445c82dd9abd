"""Figures look the same whatever was imported before, have letters as large as wanted, and stand out (WCAG 2.2, AA)."""

import json

import numpy as np
import plotly.graph_objects as go
import pytest
import streamlit  # noqa: F401 - it changes Plotly's default template

from core import attend, explain
from core.attention.head import Head
from core.attention.stages import BY_KEY
from core.figures import palette
from core.figures.heatmaps.frames import VEIL, with_borders, with_spotlight
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.heatmaps.side_by_side import equation, side_by_side, small
from core.figures.heatmaps.views import additive_mask, metric_grid, on_image, small_pictures, stage_heatmap
from core.figures.plots import bars as bars_of
from core.figures.plots.diagrams import plane, wiring
from core.figures.plots.dots import dots, dots_against, head_map
from core.figures.plots.lines import Series, lines
from core.figures.theme import smallest_letters, template
from tests.contrast import BACKGROUNDS, THEME, contrast, hexadecimal, mixed

ONES, AB = np.ones((2, 2)), ["a", "b"]
CELL = explain(attend(ONES, ONES, ONES), 0, 1)
HEAD = Head.of(attend(ONES, ONES, ONES, mask=np.tri(2, dtype=bool)))
CHARTS = {
    "additive": lambda: additive_mask(ONES, AB, AB),
    "metric grid": lambda: metric_grid(ONES, "sink", signed=False, chosen=(0, 0), height=300),
    "small pictures": lambda: small_pictures(np.ones((2, 2, 2, 2)), chosen=(0, 0), left_out=None, height=300),
    "bar panels": lambda: bars_of.bar_panels(AB, {"one": [1, 2], "two": [2, 1]}, x="x"),
    "blocks": lambda: bars_of.running(np.ones(2), AB, [1, 2], [1.0, 1.0]),
    "lines": lambda: lines([Series("a", [1, 2], [1, 2])], x="x", y="y"),
    "bars": lambda: bars_of.bars(AB, {"one": [1, 2]}, y="y"),
    "dots": lambda: dots({"one": ONES}, y="y"),
    "dots by two numbers": lambda: dots_against(ONES, ONES, names=("one", "other"), marked=(0, 0)),
    "heatmap": lambda: heatmap(ONES, Axis("query"), Axis("key"), name="weight"),
    "waterfall": lambda: bars_of.waterfall(CELL),
    "passed on": lambda: bars_of.passed_on(CELL),
    "log bars": lambda: bars_of.log_bars(AB, {"one": [1, 2]}, x="x", limits=(1, 10)),
    "patches": lambda: on_image(np.zeros((4, 4, 3), np.uint8), ONES, (0, 0)),
    "side by side": lambda: side_by_side([small(ONES)], ["a"], AB, AB, across=1),
    "equation": lambda: equation(HEAD.overview().matrices, pin=(0, 1), opened="raw", scale=HEAD.scale),
    "stage": lambda: with_borders(
        stage_heatmap(BY_KEY["masked"], HEAD.overview().matrices, AB, AB, pin=(0, 1)), columns=[1], names=AB
    ),
    "share bars": lambda: bars_of.share_bars(AB, {"before": np.array([0.5, 0.1]), "after": np.array([0.2, 0.1])}),
    "distribution": lambda: bars_of.distribution_bars(
        np.array([3, 0, 1]), 1.0, label="sink", mean=0.2, quartiles=(0.1, 0.2, 0.4), means=ONES / 2, chosen=(0, 1)
    ),
    "head map": lambda: head_map(
        np.arange(2.0), np.arange(2.0), np.arange(2), AB, [(0, 0), (0, 1)], chosen=(0, 1), height=300
    ),
    "plane": lambda: plane([1.0, 0.5], ONES, "a", AB, np.array([1.5, np.nan]), values=ONES, outputs={"o": ONES[0]}),
    "wiring": lambda: wiring("read", "written", causal=False),
}


@pytest.mark.parametrize("draw", CHARTS.values(), ids=CHARTS)
def test_every_figure_has_the_one_template(draw):
    layout = draw().figure.to_plotly_json()["layout"]
    assert layout["template"] == go.layout.Template(template()).to_plotly_json()
    assert len(json.dumps(template())) < 1_000
    repeated = {"paper_bgcolor", "plot_bgcolor", "hoverlabel"} & set(layout)
    assert not repeated, f"{repeated} stand in the template"


ROWS, COLUMNS = 5, 7


@pytest.mark.parametrize("scale", ["share", "signed"])
@pytest.mark.parametrize(("row", "column"), [(2, 3), (0, 0), (4, 6)])
@pytest.mark.parametrize("spot", ["none", "row", "column", "cell"])
def test_all_cells_but_the_lit_ones_are_dimmed_once(spot, row, column, scale):
    chart = heatmap(np.eye(ROWS, COLUMNS), Axis("q", pinned=row), Axis("k", pinned=column), name="x", scale=scale)
    frames = list(chart.figure.layout.shapes)
    dimmed = np.zeros((ROWS, COLUMNS), int)
    with_spotlight(chart, spot)
    lit = chart.figure
    veils = [shape for shape in lit.layout.shapes if shape.fillcolor == VEIL]
    for veil in veils:
        at = np.s_[int(veil.y0 + 0.5) : int(veil.y1 + 0.5), int(veil.x0 + 0.5) : int(veil.x1 + 0.5)]
        dimmed[at] += 1
    expected = np.full((ROWS, COLUMNS), int(spot != "none"))
    expected[{"none": np.s_[:], "row": np.s_[row], "column": np.s_[:, column], "cell": np.s_[row, column]}[spot]] = 0
    np.testing.assert_array_equal(dimmed, expected)
    assert list(lit.layout.shapes)[len(veils) :] == frames, "the frames are no longer on top"
    assert all(veil.xref == "x" and veil.yref == "y" for veil in veils), "the colour bar is dimmed"


def letters(part):
    """The size of every font that a part of a figure names, in pixels."""
    if isinstance(part, dict):
        yield from (font["size"] for name, font in part.items() if name.endswith("font") and "size" in font)
        part = part.values()
    for value in part if not isinstance(part, str | int | float | bool | None) else ():
        yield from letters(value)


@pytest.mark.parametrize("least", [18, 22])
@pytest.mark.parametrize("draw", CHARTS.values(), ids=CHARTS)
def test_no_letter_is_smaller_than_wanted(draw, least):
    token = smallest_letters.set(least)
    try:
        figure = draw().figure.to_json()
    finally:
        smallest_letters.reset(token)
    assert min(letters(json.loads(figure))) >= least
    assert min(letters(json.loads(draw().figure.to_json())["layout"])) < least, "nor are they larger at a desk"


GREY = ("#80848e", 0.28)  # FORBIDDEN
READ = {"black": "#000000", "white": "#ffffff"}


@pytest.mark.parametrize(("mode", "text"), [("light", palette.TEXT), ("dark", palette.TEXT_ON_DARK)])
def test_text_lines_and_bars_of_figures(mode, text):
    background = BACKGROUNDS[mode]
    assert contrast(text, background) >= 4.5
    assert contrast(text, mixed(GREY[0], background, GREY[1])) >= 4.5  # "−∞" on a masked cell
    drawn = (palette.ABOVE, palette.BELOW, palette.TOTAL, palette.PIN, palette.INK, palette.ALLOWED, *palette.SERIES)
    for colour in drawn:
        assert contrast(colour, background) >= 3, colour


def test_numbers_on_bars():
    for colour, text in zip(palette.SERIES, palette.text_on(palette.SERIES), strict=True):
        assert contrast(colour, READ[text]) >= 4.5, colour


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_of_pages(mode):
    """Streamlit writes captions and placeholders with 60 % of the text's colour, and the chosen one of several buttons, while
    the mouse is on it, in the primary colour on 20 % of it."""
    theme = THEME | THEME[mode]
    primary = theme["primaryColor"]
    assert contrast(primary, mixed(primary, theme["backgroundColor"], 0.2)) >= 4.5
    for place in ("backgroundColor", "secondaryBackgroundColor"):
        assert contrast(mixed(theme["textColor"], theme[place], 0.6), theme[place]) >= 4.5, place
        assert contrast(primary, theme[place]) >= 4.5, place


@pytest.mark.parametrize(("mode", "scale"), [("light", palette.DIVERGING), ("dark", palette.DIVERGING_ON_DARK)])
def test_signed_numbers_stand_out_the_more_the_farther_they_are_from_zero(mode, scale):
    colours = [hexadecimal(colour) for colour in palette.colours_of(np.linspace(0, 1, 41), scale)]
    stands_out = [contrast(colour, colours[20]) for colour in colours]
    assert contrast(colours[20], BACKGROUNDS[mode]) < 1.15
    assert (np.diff(stands_out[20:]) > 0).all()
    assert (np.diff(stands_out[:21]) < 0).all()
    masked = mixed(GREY[0], BACKGROUNDS[mode], GREY[1])
    assert contrast(masked, colours[20]) > 1.25


IN_TURN = {"share": [palette.SEQUENTIAL], "signed": [palette.DIVERGING, palette.DIVERGING_ON_DARK, palette.DIVERGING]}


@pytest.mark.parametrize("scale", IN_TURN)
def test_numbers_in_cells_are_legible_on_every_colour_and_background(scale):
    values = np.linspace(-1 if scale == "signed" else 0, 1, 144).reshape(12, 12)
    chart = heatmap(values, Axis("query"), Axis("column"), name="n", scale=scale)
    before = chart.figure.to_json()
    for colours in IN_TURN[scale]:
        palette.set_signed_colours(chart.traces, chart.layout, colours)
        cells, printed = chart.figure.data[:2]
        assert cells.colorscale == tuple(map(tuple, colours))
        under = map(hexadecimal, palette.colours_of((values - cells.zmin) / (cells.zmax - cells.zmin), colours))
        assert min(map(contrast, under, map(READ.get, printed.textfont.color))) >= 4.5
    assert chart.figure.to_json() == before
