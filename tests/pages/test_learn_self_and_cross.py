"""The page "Self and cross" without a browser: its numbers are core's."""

from functools import partial

import pytest

from core import generate, load_model
from core.lessons.self_and_cross import ALIGNING_HEAD, DATES_MODEL, looks, mean_share, other_keys
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
        ("A date, by hand", state.DATE),
        ("In a real model", state.SECOND_TEXT),
    ],
)
def test_a_blank_text_is_no_traceback(part, field):
    page = opened(part, **{field: " "})
    assert not page.exception
    assert len(page.error) == 1


def of_a_date(text, head=ALIGNING_HEAD[1]):
    passed = generate(load_model(DATES_MODEL), text, 64).capture_of(-1)
    return looks(passed.trace(ALIGNING_HEAD[0], head, "cross").weights, *passed.tokens("cross"))


def test_the_alignment_of_a_date_is_cores():
    page = opened("A date, by hand", **{state.DATE: "Sat 21 Nov 2026", state.DIGIT: "5", state.HEAD: "1"})
    found = of_a_date("Sat 21 Nov 2026", 1)
    words = said(page).replace("\\", "")
    assert "The model writes “2026-11-21”. The row of “-” writes “1” and looks most at “v”" in words
    assert f": **{found[5].weight:.1%}**. This “1” comes from “Nov”, which gets **{found[5].share:.1%}**." in words
    assert f"On average, a character's origin gets **{mean_share(found):.1%}**." in words
    assert not page.error


def test_of_what_is_no_date_no_origin_is_said():
    page = opened("A date, by hand", **{state.DATE: "hello <b>world", state.DIGIT: "2"})
    words = said(page)
    assert f": **{of_a_date('hello <b>world')[2].weight:.1%}**." in words
    assert "comes from" not in words
    assert "On average" not in words
    assert any("trained only on dates" in caption.value for caption in page.caption)


@pytest.mark.parametrize("text", ["3 march 1987 " * 6, "x" * 400])
def test_a_text_that_is_too_long_for_the_model_of_dates_is_no_traceback(text):
    page = opened("A date, by hand", **{state.DATE: text})
    assert not page.exception
    assert "at most 64" in page.error[0].value


def test_a_head_of_the_larger_model_is_not_asked_of_the_smaller_one():
    page = opened("In a real model", **{state.LAYER: "4", state.HEAD: "11"})
    page.segmented_control(state.PART).set_value("date").run()
    assert not page.exception
    assert "On average" in said(page)
