"""The page "Self and cross" without a browser: its numbers are core's."""

from functools import partial

import pytest

from core.lessons.self_and_cross import other_keys
from tests.pages.lessons import open_lesson, said
from ui import state

opened = partial(open_lesson, "self_and_cross")
READ, INSTEAD, WRITTEN = "Il fait beau .", "Il pleut", "It is"


@pytest.mark.parametrize(
    ("place", "weights", "output"),
    [("encoder", "4 × 4", "4 × 8"), ("decoder", "2 × 2", "2 × 8"), ("cross", "2 × 4", "2 × 8")],
)
def test_the_weights_are_queries_by_keys(place, weights, output):
    page = opened("Three blocks", **{state.BLOCK: place, state.READ: READ, state.WRITTEN: WRITTEN})
    assert f"weights **{weights}** and an output of **{output}**" in said(page)


def test_the_change_is_cores():
    page = opened("Other keys", **{state.READ: READ, state.READ_INSTEAD: INSTEAD, state.WRITTEN: WRITTEN})
    found = other_keys(READ, INSTEAD, WRITTEN)
    assert f"queries **0**, in the output **{found.output_change:.2f}**" in said(page)


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ("Three blocks", state.READ),
        ("Other keys", state.READ_INSTEAD),
        ("A whole model", state.WRITTEN),
        ("In a real model", state.SECOND_TEXT),
    ],
)
def test_a_blank_text_is_no_traceback(part, field):
    page = opened(part, **{field: " "})
    assert not page.exception
    assert len(page.error) == 1
