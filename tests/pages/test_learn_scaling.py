"""The page "Why 1/√d_k" without a browser: every setting opens, its numbers are core's."""

from functools import partial

import pytest

from core import capture
from core.lessons.scaling import model_scores, over_heads
from tests.pages.lessons import open_lesson, rows
from ui import state
from ui.views.lesson.frame import IN_A_MODEL
from ui.views.sources.text_fields import SENTENCE

opened = partial(open_lesson, "scaling")


@pytest.mark.parametrize(
    ("part", "knobs"),
    [
        ("Dot products", {state.TERMS: "1"}),
        ("Spread", {state.DISTRIBUTION: "sign", state.DEVIATION: "2"}),
        ("Saturation", {state.KEY_COUNT: "8", state.DIVISOR: "8"}),
        *(("Gradient", {state.GRADIENT_OF: shown}) for shown in ("norm", "q", "k", "w-q")),
        ("Gradient", {state.HEAD_SIZE: "4096", state.SCALED: "true"}),
        ("Depth", {state.DEPTH: "1", state.AROUND: "nothing", state.STACK_WIDTH: "16"}),
        ("Depth", {state.AROUND: "after", state.STACK_WIDTH: "16"}),
        *((IN_A_MODEL, {state.MEASURE: shown}) for shown in ("entropy", "near-one")),
        (IN_A_MODEL, {state.MODEL: "SmolLM2-135M-Instruct"}),
    ],
)
def test_every_setting_opens(part, knobs):
    page = opened(part, **knobs)
    assert not page.exception
    assert not page.error
    assert page.get("plotly_chart")
    for name, value in knobs.items():
        assert str(page.session_state[name]).lower().removesuffix(".0") == value.lower()


def test_the_norm_is_told_twice():
    shown = next(one.value for one in opened("Gradient").markdown if one.value.startswith("Norm"))
    norm = shown.split("**")[1]
    assert f"differentiation: {norm}." in shown


def test_the_table_is_that_of_all_heads(minilm):
    found = model_scores(capture(minilm, SENTENCE))
    table = rows(opened(IN_A_MODEL, **{state.MODEL: minilm.name}))
    assert table["spread, median head"][0] == f"{over_heads(found.without_scale).spread:.2f}"
    assert table["mean entropy"][1] == f"{over_heads(found.with_scale).entropy:.3f}"
    assert table["rows with a weight above 0.99"][0] == f"{over_heads(found.without_scale).near_one:.1%}"
