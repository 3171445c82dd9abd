"""Every figure looks the same whatever was imported before it, and takes little along for that."""

import json

import numpy as np
import plotly.io
import pytest
import streamlit  # noqa: F401 - it changes Plotly's default template

from core.attention.ledger import explain
from core.attention.trace import attend
from core.figures.heatmaps.additive import additive_mask
from core.figures.heatmaps.all_heads import metric_grid, small_pictures
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.heatmaps.patches import on_image
from core.figures.heatmaps.side_by_side import side_by_side, small
from core.figures.plots.bars import bar_panels, bars, log_bars
from core.figures.plots.dots import dots
from core.figures.plots.lines import Series, lines
from core.figures.plots.running import running
from core.figures.plots.waterfall import passed_on, waterfall
from core.figures.plots.wiring import wiring
from core.figures.theme import TEMPLATE

ONES, AB = np.ones((2, 2)), ["a", "b"]
CELL = explain(attend(ONES, ONES, ONES), 0, 1)
FIGURES = {
    "additive": lambda: additive_mask(ONES, AB, AB).figure,
    "metric grid": lambda: metric_grid(ONES, "sink", signed=False, chosen=(0, 0), left_out=None, height=300).figure,
    "small pictures": lambda: small_pictures(np.ones((2, 2, 2, 2)), chosen=(0, 0), left_out=None, height=300).figure,
    "bar panels": lambda: bar_panels(AB, {"one": [1, 2], "two": [2, 1]}, x="x").figure,
    "blocks": lambda: running(np.ones(2), AB, [1, 2], [1.0, 1.0]).figure,
    "lines": lambda: lines([Series("a", [1, 2], [1, 2])], x="x", y="y").figure,
    "bars": lambda: bars(AB, {"one": [1, 2]}, y="y").figure,
    "dots": lambda: dots({"one": ONES}, y="y").figure,
    "heatmap": lambda: heatmap(ONES, Axis("query"), Axis("key"), name="weight").figure,
    "waterfall": lambda: waterfall(CELL).figure,
    "passed on": lambda: passed_on(CELL).figure,
    "log bars": lambda: log_bars(AB, {"one": [1, 2]}, x="x", limits=(1, 10)).figure,
    "patches": lambda: on_image(np.zeros((4, 4, 3), np.uint8), ONES, (0, 0)).figure,
    "side by side": lambda: side_by_side([small(ONES)], ["a"], AB, AB, across=1).figure,
    "wiring": lambda: wiring("read", "written", causal=False).figure,
}


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)
def test_every_figure_has_the_one_template(draw):
    template = plotly.io.templates[TEMPLATE].to_plotly_json()
    layout = draw().to_plotly_json()["layout"]
    assert layout["template"] == template
    repeated = {"paper_bgcolor", "plot_bgcolor", "hoverlabel"} & set(layout)
    assert not repeated, f"{repeated} stand in the template"


def test_the_template_is_small():
    assert len(json.dumps(plotly.io.templates[TEMPLATE].to_plotly_json())) < 1_000
