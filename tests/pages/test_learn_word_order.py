"""The page "Word order" without a browser: its numbers are core's."""

import json
from base64 import b64decode
from functools import partial

import numpy as np
import pytest

from core.lessons.word_order import ORDER_FROM, alibi_slopes, shift, shuffle
from core.units import small_number
from tests.pages.lessons import open_lesson, said
from ui import state
from ui.views.lesson.frame import IN_A_MODEL

opened = partial(open_lesson, "word_order")


@pytest.mark.parametrize(
    ("word", "source"), list(zip(("nothing", "sinusoids", "rotary", "alibi", "causal"), ORDER_FROM, strict=True))
)
def test_the_difference_is_cores(word, source):
    page = opened("Shuffle", **{state.ORDER_FROM: word})
    expected = shuffle("the dog bites the man", source, seed=29)
    assert f"**{small_number(expected.difference)}**" in said(page)
    drawn = json.loads(page.get("plotly_chart")[0].proto.spec)
    assert "dog" in drawn["layout"]["yaxis"]["ticktext"]


def test_the_residual_is_cores():
    page = opened("Shift", **{state.ONWARD: "40"})
    assert f"**{small_number(shift(10, 40, 32).residual)}**" in said(page)


@pytest.mark.parametrize("kind", ["alibi", "t5-encoder", "t5-decoder"])
def test_each_bias_has_a_picture(kind):
    page = opened("Biases", **{state.BIAS_KIND: kind})
    assert not page.exception
    assert len(page.get("plotly_chart")) == 2


def test_slopes_are_cores():
    page = opened("Biases", **{state.ALIBI_HEADS: "12", state.ALIBI_HEAD: "11"})
    assert f"**{alibi_slopes(12)[11]:.4g}**" in said(page)


def test_a_head_that_does_not_exist_is_named():
    page = opened("Biases", **{state.ALIBI_HEADS: "4", state.ALIBI_HEAD: "9"})
    assert not page.exception
    assert "no head 9" in page.error[0].value


def test_a_blank_sentence_is_no_traceback():
    page = opened("Shuffle", **{state.ORDER_TEXT: " "})
    assert not page.exception
    assert "blank" in page.error[0].value


def test_the_bands_add_up_to_the_raw_score():
    page = opened(
        IN_A_MODEL,
        **{state.MODEL: "SmolLM2-135M-Instruct", state.QUERY: "8", state.KEY: "1"},
    )
    assert not page.exception
    parts_here = json.loads(page.get("plotly_chart")[0].proto.spec)["data"][0]["y"]
    values = np.frombuffer(b64decode(parts_here["bdata"]), dtype=parts_here["dtype"])
    assert values.sum() == pytest.approx(49.2635, abs=0.02)
    assert said(page).count(f"{values.sum():.4f}") == 2


def test_a_model_without_rotation_says_so():
    page = opened(IN_A_MODEL, **{state.MODEL: "all-MiniLM-L6-v2"})
    assert "does not rotate queries and keys" in said(page)
