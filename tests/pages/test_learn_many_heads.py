"""The page "Many heads" without a browser: its numbers are core's."""

from functools import partial

import pytest

from core.heads.contributions import lengths
from core.lessons.many_heads import fetch, heads_of_a_sentence
from core.units import small_number
from tests.pages.lessons import open_lesson, rows
from ui import state
from ui.views.sources.text_fields import SENTENCE

opened = partial(open_lesson, "many_heads")


@pytest.mark.parametrize("heads", [1, 2, 4, 8, 12])
def test_sizes_are_cores(heads):
    page = opened("Split and join", **{state.HEAD_COUNT: str(heads)})
    _, many = heads_of_a_sentence(SENTENCE, heads)
    sizes = rows(page)
    assert sizes["Q, K, V"] == [f"{heads} × 12 × {many.d_head}"]
    assert sizes["parameters"] == [f"{many.parameters:,}"] == ["2,304"]


def test_the_sum_is_cores():
    page = opened("A sum of heads", **{state.WORD: "3"})
    _, many = heads_of_a_sentence(SENTENCE, 4)
    length, _ = lengths(many.contributions)
    shown = "".join(one.value for one in page.markdown)
    assert f"head **{length[:, 3].argmax()}** adds most" in shown
    assert "At “cross”" in shown
    assert f"**{small_number(many.difference)}**" in shown


def test_leaning_shows_in_the_difference():
    page = opened("Why several", **{state.HEAD_SHARE: "0.8"})
    fetched = fetch(0.8)
    shown = "".join(one.value for one in page.markdown)
    assert f"one head **{fetched.apart(fetched.one_head):.1f}**, two heads **1.0**" in shown


def test_a_blank_sentence_is_no_traceback():
    page = opened("Split and join", **{state.TOY_TEXT: " "})
    assert not page.exception
    assert "blank" in page.error[0].value
