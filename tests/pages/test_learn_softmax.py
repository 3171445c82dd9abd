"""The page "Softmax" without a browser: its numbers are core's."""

from functools import partial

import pytest

from core.lessons.softmax import in_formats, normalised, precisions, softmax_steps
from core.units import small_number
from tests.pages.lessons import open_lesson, said
from ui import state
from ui.views.lesson.frame import IN_A_MODEL
from ui.views.sources.heads import opening_head
from ui.views.sources.text_fields import SENTENCE
from ui.views.tables import numbers

opened = partial(open_lesson, "softmax")


def test_sums_ranks_and_the_shift():
    page = opened("Scores to weights", **{state.SHIFT: "1.5"})
    weights = " | ".join(numbers(softmax_steps([1, 0.5, 2.5, -0.1]).weights))
    assert said(page).count(f"| {weights} | **1.000** |") == 2  # with and without the shift
    assert said(page).count("| 2 | 3 | 1 | 4 |") == 2  # the ranks of scores and of weights
    assert "**78.225**" in said(page)  # 17.454 · e^1.5


def test_the_three_normalisations():
    page = opened("Not the same")
    for one in normalised([1, 0.5, 2.5, -0.1]):
        assert f"| {one.name} | **{one.total:.3f}** |" in said(page)


@pytest.mark.parametrize(("factor", "broken"), [("1", 0), ("5", 1), ("40", 2), ("320", 3)])
def test_which_formats_break(factor, broken):
    page = opened("Overflow", **{state.FACTOR: factor})
    assert said(page).count("NaN**] |\n") == broken  # the sums that are no numbers
    results = in_formats([value * int(factor) for value in (1, 0.5, 2.5, -0.1)])
    assert sum(not one.naive_holds for one in results) == broken


def test_rows_of_minus_infinity():
    page = opened("Overflow", **{state.NOTHING: "true"})
    assert not page.exception
    assert said(page).count("| 0.000 | 0.000 | 0.000 | 0.000 | 0.000 |") == 3
    assert "every weight 0" in said(page)


@pytest.mark.parametrize("scores", ["", "a, b", "1, 2; 3", "1 2\n3 4", "1e300", "nan"])
@pytest.mark.parametrize("part", ["Scores to weights", "Not the same", "Overflow"])
def test_bad_scores_are_named(part, scores):
    page = opened(part, **{state.SCORES: scores})
    assert not page.exception
    assert len(page.error) == 1 or not scores


def test_a_real_head():
    page = opened(IN_A_MODEL, **{state.MODEL: "SmolLM2-135M-Instruct"})
    assert not page.exception
    half, _, double = precisions(page_head())
    assert f"| float16 | {small_number(half.row_sum_error)} | {small_number(half.weight_error)} |" in said(page)
    assert f"| float64 | {small_number(double.row_sum_error)} | 0 |" in said(page)


def page_head():
    from core import capture, load_model

    return capture(load_model("SmolLM2-135M-Instruct"), SENTENCE).trace(*opening_head("SmolLM2-135M-Instruct"))
