"""Two texts in an encoder: what goes from one to the other, and a border between them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from core import capture
from tests.pages.app import drawn
from tests.pages.app import texts as words
from tests.pages.test_encoder_decoder import opened
from ui import state

MINILM, FIRST, SECOND = "all-MiniLM-L6-v2", "The cat sat on the mat.", "A kitten is sitting on a rug."
PAIR = {state.TEXT: FIRST, state.PAIR: SECOND, state.LAYER: 1, state.HEAD: 1}


def borders(app, picture: str) -> list[tuple[float, float]]:
    """Where lines go through all of a picture: (x0, y0) of each."""
    (chart,) = [chart for chart in app.get("plotly_chart") if chart.proto.id.endswith(state.picture(picture))]
    lines = [shape for shape in json.loads(chart.proto.spec)["layout"]["shapes"] if shape["type"] == "line"]
    return [(shape["x0"], shape["y0"]) for shape in lines]


@pytest.mark.parametrize(
    ("part", "at"), [("there", (slice(1, 8), slice(9, 17))), ("back", (slice(9, 17), slice(1, 8)))]
)
def test_what_goes_from_one_text_to_the_other(minilm, part, at) -> None:
    app = opened("heads", MINILM, **PAIR | {state.PART_OF_PAIR: part})
    expected = capture(minilm, FIRST, pair=SECOND).trace(1, 1).weights[at]
    np.testing.assert_allclose(drawn(app, "head"), expected, atol=1e-6)
    assert f"{expected.sum(axis=1).mean():.1%} of the attention of these tokens" in words(app.caption)
    query, key = np.unravel_index(expected.argmax(), expected.shape)
    tokens = capture(minilm, FIRST, pair=SECOND).tokens()[0]
    assert f"“{tokens[at[0].start + query]}” gives" in words(app.markdown)
    assert f"to “{tokens[at[1].start + key]}”" in words(app.markdown)


@pytest.mark.parametrize(("page", "picture"), [("heads", "head"), ("step_by_step", "As it is")])
def test_a_border_stands_where_the_second_text_begins(page, picture) -> None:
    assert (8.5, -0.5) in borders(opened(page, MINILM, **PAIR), picture)
    assert (-0.5, 8.5) in borders(opened(page, MINILM, **PAIR), picture)
    assert not borders(opened(page, MINILM, **PAIR | {state.PAIR: ""}), picture)


def test_a_part_of_one_text_is_not_there() -> None:
    app = opened("heads", MINILM, **PAIR | {state.PAIR: "", state.PART_OF_PAIR: "there"})
    assert "Of the pair “there”" in words(app.warning)
    assert drawn(app, "head").shape == (9, 9)
