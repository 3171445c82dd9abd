"""What pages send of a chart, beside what Plotly itself writes of the same figure after checking every entry."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import plotly.io
import pytest

from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.palette import DIVERGING, DIVERGING_ON_DARK, TEXT_ON_DARK
from tests.core.figures.test_theme import CHARTS
from ui.views.charts import as_sent


def plain(part: Any) -> Any:
    """A part of a figure with packed arrays as lists, None for NaN."""
    if isinstance(part, dict) and "bdata" in part:
        numbers = np.frombuffer(base64.b64decode(part["bdata"]), part["dtype"])
        shape = [int(length) for length in str(part.get("shape", numbers.size)).split(",")]
        return plain(json.loads(json.dumps(numbers.reshape(shape).tolist()), parse_constant=lambda _: None))
    if isinstance(part, dict):
        return {name: plain(entry) for name, entry in part.items()}
    return [plain(entry) for entry in part] if isinstance(part, list) else part


def written(figure: Any) -> Any:
    """The figure as a browser reads it. Plotly leaves out empty lists, and repeats in a template the types of traces."""
    found = plain(json.loads(str(plotly.io.to_json(figure, validate=False))))
    found["layout"] = {name: part for name, part in found["layout"].items() if part != []}
    for look in found["layout"]["template"]["data"].values():
        look[0].pop("type", None)
    return found


@pytest.mark.parametrize("draw", CHARTS.values(), ids=CHARTS)
def test_a_page_sends_what_plotly_writes(draw):
    chart = draw()
    assert written(as_sent(chart, dark=False)) == written(chart.figure)


def test_a_dark_page_gets_its_own_colours_and_the_chart_keeps_those_for_exports():
    chart = heatmap(np.array([[-1.0, 0.5]]), Axis("query"), Axis("key"), name="score")
    before = written(chart.figure)
    sent = as_sent(chart, dark=True)
    assert sent["layout"]["font"] == {"size": chart.layout["font"]["size"], "color": TEXT_ON_DARK}
    assert sent["data"][0]["colorscale"] == DIVERGING_ON_DARK
    assert chart.traces[0]["colorscale"] == DIVERGING
    assert written(chart.figure) == before
