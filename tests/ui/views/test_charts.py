"""Charts on pages: what is sent of them, beside what Plotly itself writes, and the magnified window, against whole traces."""

import base64
import json
import re

import numpy as np
import plotly.io
import pytest

from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.palette import DIVERGING, DIVERGING_ON_DARK, TEXT_ON_DARK
from tests.core.figures.test_theme import CHARTS
from tests.pages.app import figure, opened
from ui import state
from ui.requests import ModelChoice, TextRequest
from ui.views.charts import as_sent
from ui.views.sources import passes

LONG = "The cat sat on the mat. " * 45
QUERY, KEY = 150, 90
HERE = {state.LAYER: 2, state.HEAD: 3, state.QUERY: QUERY, state.KEY: KEY}
OF_TWO = {"view": "compare", "other_layer": 4, "other_head": 1}


def plain(part):
    """A part of a figure with packed arrays as lists, None for NaN."""
    if isinstance(part, dict) and "bdata" in part:
        numbers = np.frombuffer(base64.b64decode(part["bdata"]), part["dtype"])
        shape = [int(length) for length in str(part.get("shape", numbers.size)).split(",")]
        return plain(json.loads(json.dumps(numbers.reshape(shape).tolist()), parse_constant=lambda _: None))
    if isinstance(part, dict):
        return {name: plain(entry) for name, entry in part.items()}
    return [plain(entry) for entry in part] if isinstance(part, list) else part


def written(figure):
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


def trace(layer=2, head=3):
    return passes.captured(TextRequest(ModelChoice("all-MiniLM-L6-v2"), LONG)).trace(layer, head)


def windows(app):
    found = [re.search(r"queries (\d+) to (\d+), keys (\d+) to (\d+)", element.value) for element in app.markdown]
    return [[int(number) for number in match.groups()] for match in found if match]


@pytest.mark.parametrize(
    ("page", "address", "name", "side", "numbers"),
    [
        ("heads", {}, "loupe", 32, lambda: trace().weights),
        ("heads", {"what": "raw"}, "loupe", 32, lambda: trace().raw),
        ("step_by_step", {"stage": "masked"}, "loupe", 32, lambda: trace().masked),
        ("what_if", OF_TWO, "compared difference near", 24, lambda: trace(4, 1).weights - trace().weights),
    ],
)
def test_the_numbers_near_the_chosen_pair(page, address, name, side, numbers):
    app = opened(page, **{state.TEXT: LONG} | HERE | address)
    assert not app.error
    ((top, bottom, left, right),) = windows(app)
    assert bottom - top + 1 == right - left + 1 == side
    picture = figure(app, name)
    np.testing.assert_allclose(picture.values, numbers()[top : bottom + 1, left : right + 1], rtol=1e-4, atol=1e-5)
    assert picture.pinned == (QUERY - top, KEY - left)
