"""The page "In blocks" without a browser: its numbers are core's."""

from functools import partial

import pytest

from core import attend
from core.attention.sources import toy_sentence
from core.lessons.blocks import differences, in_blocks
from core.units import small_number
from tests.pages.lessons import open_lesson, said
from ui import state
from ui.views.lesson.frame import IN_A_MODEL

opened = partial(open_lesson, "blocks")


@pytest.mark.parametrize("block_size", [1, 3, 50])
def test_steps_and_differences_are_cores(block_size):
    page = opened("A sentence", **{state.BLOCK_SIZE: str(block_size)})
    words = toy_sentence("Blocks of keys give the very same result as all keys.", d_head=6)
    trace = attend(words.query, words.key, words.value)
    blocks = in_blocks(trace, block_size)
    last = f"| {blocks.ends[-1]} | {blocks.maximum[-1, 6]:.3f} | {blocks.correction[-1, 6]:.3f} | {blocks.total[-1, 6]:.3f} |"
    assert last in said(page)
    for dtype, difference in differences(trace.rows(range(6, 7)), block_size).items():
        assert f"{dtype} **{small_number(difference)}**" in said(page)


@pytest.mark.parametrize(("query", "block_size"), [("0", "1"), ("0", "3"), ("12", "64")])
def test_a_real_head_with_masked_blocks(query, block_size):
    knobs = {state.MODEL: "SmolLM2-135M-Instruct", state.ROW: query, state.BLOCK_SIZE: block_size}
    page = opened(IN_A_MODEL, **knobs)
    assert not page.exception
    assert not page.error
    assert "nan" not in said(page).lower()
