"""The page "Long range" without a browser: its numbers are core's."""

from functools import partial

import pytest

from core import capture
from core.lessons.long_range import compare_reach, mean_distances
from tests.pages.lessons import open_lesson, said
from ui import state
from ui.views.lesson.frame import IN_A_MODEL
from ui.views.sources.text_fields import SENTENCE

opened = partial(open_lesson, "long_range")


def test_the_crossing_is_the_width():
    assert "**1,024** tokens" in said(opened("Steps and operations", **{state.VECTOR_SIZE: "1024"}))


def test_exponents_are_cores():
    page = opened("Gradients", **{state.LENGTH: "32", state.GAIN: "2.5", state.FORGET: "1.0"})
    for reach in compare_reach(32, gain=2.5, forget_bias=1.0).values():
        assert f"10^{{{reach.log10[-1]:.1f}}}" in said(page)


@pytest.mark.parametrize("first", ["false", "true"])
def test_distances_are_cores(smollm, first):
    page = opened(IN_A_MODEL, **{state.MODEL: "SmolLM2-135M-Instruct", state.WITHOUT_FIRST: first})
    expected = mean_distances(capture(smollm, SENTENCE), without_first=first == "true")
    assert f"The heads look **{expected.min():.1f}** to **{expected.max():.1f}** tokens" in said(page)
