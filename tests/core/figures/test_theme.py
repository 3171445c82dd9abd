"""Every figure looks the same whatever was imported before it, and takes little along for that."""

import json

import numpy as np
import plotly.graph_objects as go
import pytest
import streamlit  # noqa: F401 - it changes Plotly's default template

from core.attention.head import Head
from core.attention.ledger import explain
from core.attention.stages import BY_KEY
from core.attention.trace import attend
from core.figures.heatmaps.additive import additive_mask
from core.figures.heatmaps.all_heads import metric_grid, small_pictures
from core.figures.heatmaps.equation import equation
from core.figures.heatmaps.frames import with_borders
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.heatmaps.patches import on_image
from core.figures.heatmaps.side_by_side import side_by_side, small
from core.figures.heatmaps.stages import stage_heatmap
from core.figures.plots.bars import bar_panels, bars, log_bars, share_bars
from core.figures.plots.distribution import distribution_bars
from core.figures.plots.dots import dots, dots_against
from core.figures.plots.head_map import head_map
from core.figures.plots.lines import Series, lines
from core.figures.plots.plane import plane
from core.figures.plots.running import running
from core.figures.plots.waterfall import passed_on, waterfall
from core.figures.plots.wiring import wiring
from core.figures.theme import template

ONES, AB = np.ones((2, 2)), ["a", "b"]
CELL = explain(attend(ONES, ONES, ONES), 0, 1)
HEAD = Head.of(attend(ONES, ONES, ONES, mask=np.tri(2, dtype=bool)))
CHARTS = {
    "additive": lambda: additive_mask(ONES, AB, AB),
    "metric grid": lambda: metric_grid(ONES, "sink", signed=False, chosen=(0, 0), left_out=None, height=300),
    "small pictures": lambda: small_pictures(np.ones((2, 2, 2, 2)), chosen=(0, 0), left_out=None, height=300),
    "bar panels": lambda: bar_panels(AB, {"one": [1, 2], "two": [2, 1]}, x="x"),
    "blocks": lambda: running(np.ones(2), AB, [1, 2], [1.0, 1.0]),
    "lines": lambda: lines([Series("a", [1, 2], [1, 2])], x="x", y="y"),
    "bars": lambda: bars(AB, {"one": [1, 2]}, y="y"),
    "dots": lambda: dots({"one": ONES}, y="y"),
    "dots by two numbers": lambda: dots_against(ONES, ONES, names=("one", "other"), marked=(0, 0)),
    "heatmap": lambda: heatmap(ONES, Axis("query"), Axis("key"), name="weight"),
    "waterfall": lambda: waterfall(CELL),
    "passed on": lambda: passed_on(CELL),
    "log bars": lambda: log_bars(AB, {"one": [1, 2]}, x="x", limits=(1, 10)),
    "patches": lambda: on_image(np.zeros((4, 4, 3), np.uint8), ONES, (0, 0)),
    "side by side": lambda: side_by_side([small(ONES)], ["a"], AB, AB, across=1),
    "equation": lambda: equation(HEAD.overview().matrices, pin=(0, 1), opened="raw", scale=HEAD.scale),
    "stage": lambda: with_borders(
        stage_heatmap(BY_KEY["masked"], HEAD.overview().matrices, AB, AB, pin=(0, 1)), columns=[1], names=AB
    ),
    "share bars": lambda: share_bars(AB, {"before": np.array([0.5, 0.1]), "after": np.array([0.2, 0.1])}),
    "distribution": lambda: distribution_bars(
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
    repeated = {"paper_bgcolor", "plot_bgcolor", "hoverlabel"} & set(layout)
    assert not repeated, f"{repeated} stand in the template"


def test_the_template_is_small():
    assert len(json.dumps(template())) < 1_000
