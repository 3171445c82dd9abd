"""The magnified window on each page that has one, against whole traces."""

import re

import numpy as np
import pytest

from tests.pages.app import figure, has, opened
from ui import state
from ui.requests import ModelChoice, TextRequest
from ui.views.sources import passes

LONG = "The cat sat on the mat. " * 45
QUERY, KEY = 150, 90
HERE = {state.LAYER: 2, state.HEAD: 3, state.QUERY: QUERY, state.KEY: KEY}


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
        (
            "what_if",
            {"view": "compare", "other_layer": 4, "other_head": 1},
            "compared difference near",
            24,
            lambda: trace(4, 1).weights - trace().weights,
        ),
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


@pytest.mark.parametrize("page", ["heads", "step_by_step"])
def test_a_short_text_has_none(page):
    app = opened(page)
    assert not windows(app)
    assert not has(app, "loupe")
