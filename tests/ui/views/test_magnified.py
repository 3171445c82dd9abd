"""The magnified window on each page that has one, against whole traces."""

import json
import re

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.browser.driver import Picture
from tests.source_files import ROOT
from ui import state
from ui.requests import ModelChoice, TextRequest
from ui.views.sources import passes

LONG = "The cat sat on the mat. " * 45
QUERY, KEY = 150, 90


def opened(page, text, **address):
    app = AppTest.from_file(str(ROOT / "pages" / f"{page}.py"))
    named = {"model": "all-MiniLM-L6-v2", "text": text, "layer": "2", "head": "3"}
    for name, value in (named | address).items():
        app.query_params[name] = value
    app.run()
    assert not app.exception, app.exception
    assert not app.error, app.error
    return app


def trace(layer=2, head=3):
    return passes.captured(TextRequest(ModelChoice("all-MiniLM-L6-v2"), LONG)).trace(layer, head)


def drawn(app, name):
    (chart,) = (chart.proto for chart in app.get("plotly_chart") if chart.proto.id.endswith(f"-{state.picture(name)}"))
    spec = json.loads(chart.spec)
    return Picture(spec["data"], spec["layout"])


def said(app):
    found = [re.search(r"queries (\d+) to (\d+), keys (\d+) to (\d+)", element.value) for element in app.markdown]
    return [[int(number) for number in match.groups()] for match in found if match]


@pytest.mark.parametrize(
    ("page", "address", "name", "side", "numbers"),
    [
        ("heads", {"query": QUERY, "key": KEY}, "loupe", 32, lambda: trace().weights),
        ("heads", {"query": QUERY, "key": KEY, "what": "raw"}, "loupe", 32, lambda: trace().raw),
        ("step_by_step", {"query": QUERY, "key": KEY, "stage": "masked"}, "loupe", 32, lambda: trace().masked),
        (
            "what_if",
            {"query": QUERY, "key": KEY, "view": "compare", "other_layer": 4, "other_head": 1},
            "compared difference near",
            24,
            lambda: trace(4, 1).weights - trace().weights,
        ),
    ],
)
def test_the_numbers_near_the_chosen_pair(page, address, name, side, numbers):
    app = opened(page, LONG, **{key: str(value) for key, value in address.items()})
    ((top, bottom, left, right),) = said(app)
    assert bottom - top + 1 == right - left + 1 == side
    picture = drawn(app, name)
    np.testing.assert_allclose(picture.values, numbers()[top : bottom + 1, left : right + 1], rtol=1e-4, atol=1e-5)
    assert picture.pinned == (QUERY - top, KEY - left)


@pytest.mark.parametrize("page", ["heads", "step_by_step"])
def test_a_short_text_has_none(page):
    app = opened(page, "The cat sat on the mat.")
    assert not said(app)
    assert not [chart for chart in app.get("plotly_chart") if "loupe" in chart.proto.id]
