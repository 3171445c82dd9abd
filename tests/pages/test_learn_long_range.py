"""The page "Long range" without a browser: every part opens, its words are few, its numbers are core's."""

import pytest
from streamlit.testing.v1 import AppTest

from core import capture
from core.lessons.long_range import compare_reach, mean_distances
from tests.pages.lessons import PAGES, parts, word_count
from ui import state
from ui.controls.scene import SENTENCE
from ui.views.lesson import IN_A_MODEL

PAGE = PAGES / "long_range.py"


def opened(part: str, **knobs: str) -> AppTest:
    page = AppTest.from_file(str(PAGE), default_timeout=60)
    page.query_params[state.PART] = part
    for name, value in knobs.items():
        page.query_params[name] = value
    return page.run()


def said(page: AppTest) -> str:
    return "\n".join(one.value for one in page.markdown)


@pytest.mark.parametrize("part", parts(PAGE))
def test_every_part_opens_with_a_picture(part):
    page = opened(part)
    assert not page.exception
    assert not page.error
    assert page.get("plotly_chart")


def test_few_words():
    assert word_count(PAGE) <= 120


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
    assert f"From **{expected.min():.1f}** to **{expected.max():.1f}** tokens" in said(page)
