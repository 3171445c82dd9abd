"""The softmax lesson against closed forms, torch, and the limits of floating point."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from core import attend, capture, softmax
from core.lessons import softmax as lesson

NUMBERS = st.integers(-2000, 2000).map(lambda n: n / 100)
ROWS = arrays(np.float64, st.integers(1, 12), elements=NUMBERS)


def test_the_worked_example_and_its_row_in_three_ways():
    row = [1.0, 0.5, 2.5, -0.1]
    steps = lesson.softmax_steps(row)
    np.testing.assert_allclose(steps.exponentials, [2.718, 1.649, 12.182, 0.905], atol=5e-4)
    assert steps.total == pytest.approx(17.454, abs=5e-4)
    np.testing.assert_allclose(steps.weights, [0.156, 0.094, 0.698, 0.052], atol=5e-4)
    softmaxed, rms, euclidean = lesson.normalised(row)
    assert (softmaxed.total, rms.total, euclidean.total) == pytest.approx((1, 2.846, 1.423), abs=5e-4)
    assert (rms.length, euclidean.length) == pytest.approx((2, 1))  # √4 scores
    assert rms.values.min() < 0 < softmaxed.values.min()


@given(ROWS, st.floats(0.1, 10), st.floats(-50, 50))
def test_what_the_page_claims_of_every_row(row, temperature, shift):
    weights = lesson.softmax_steps(row, temperature=temperature, shift=shift).weights
    assert np.all(weights >= 0)
    assert weights.sum() == pytest.approx(1)
    assert np.all(np.diff(weights[np.argsort(row, kind="stable")]) >= -1e-15)  # order kept
    unshifted = lesson.softmax_steps(row, temperature=temperature)
    np.testing.assert_allclose(weights, unshifted.weights, atol=1e-12)
    np.testing.assert_allclose(weights, torch.softmax(torch.from_numpy(row) / temperature, 0).numpy(), atol=1e-12)


@given(ROWS)
def test_rms_and_euclidean(row):
    theirs = torch.nn.functional.normalize(torch.from_numpy(row), dim=0, eps=1e-300).numpy()
    _, rms, euclidean = lesson.normalised(row)
    np.testing.assert_allclose(euclidean.values, theirs, atol=1e-12)
    np.testing.assert_allclose(rms.values, theirs * np.sqrt(row.size), atol=1e-11)


@pytest.mark.parametrize(("dtype", "limit"), [("float16", 11.09), ("float32", 88.72), ("float64", 709.78)])
def test_where_the_exponential_overflows(dtype, limit):
    assert lesson.overflow_limit(dtype) == pytest.approx(limit, abs=0.005)
    below, above = np.array([limit * 0.999, 0]), np.array([limit * 1.01, 0])
    assert np.isfinite(lesson.naive_softmax(below, dtype)).all()
    assert np.isnan(lesson.naive_softmax(above, dtype)[0])
    np.testing.assert_allclose(softmax(above.astype(dtype)), [1, 0], atol=1e-4)


def test_a_real_head_in_three_precisions(smollm):
    trace = capture(smollm, "The animal didn't cross the street because it was too tired.").trace(13, 8)
    half, single, double = lesson.precisions(trace)
    assert double.weight_error == 0
    assert double.row_sum_error < 1e-14 < single.row_sum_error < 1e-6 < half.row_sum_error < 1e-2
    assert single.naive_failures == double.naive_failures == 0
    exceeds = (trace.masked > lesson.overflow_limit("float16")).any(axis=1).mean()
    assert half.naive_failures >= exceeds  # sums overflow a little before single terms do


def test_empty_rows_are_left_out():
    trace = attend(np.eye(3), np.eye(3), np.eye(3), mask=[[1, 0, 0], [0, 0, 0], [1, 1, 1]])
    assert all(np.isfinite([one.row_sum_error, one.weight_error]).all() for one in lesson.precisions(trace))


@pytest.mark.parametrize(
    ("largest", "holding"),
    [(10, (True, True, True)), (80, (False, True, True)), (362, (False, False, True)), (720, (False, False, False))],
)
def test_formats_break_one_after_another(largest, holding):
    formats = lesson.in_formats([largest, 0.5, -3])
    assert tuple(one.naive_holds for one in formats) == holding
    for one in formats:
        assert one.careful.dtype == one.dtype
        np.testing.assert_allclose(one.careful, torch.softmax(torch.tensor([largest, 0.5, -3.0]), 0), atol=1e-3)
    assert [round(one.reach, 2) for one in formats] == [11.09, 88.72, 709.78]


def test_a_row_of_minus_infinity():
    for one in lesson.in_formats([-np.inf, -np.inf]):
        assert np.isnan(one.naive).all()
        assert one.careful.tolist() == [0, 0]


def test_the_largest_scores_of_smollm2(smollm):
    done = capture(smollm, "The animal didn't cross the street because it was too tired.")
    traces = [done.trace(layer, head) for layer in range(done.layers()) for head in range(done.heads())]
    largest = [float(trace.raw[trace.mask].max()) for trace in traces]
    assert max(largest) == pytest.approx(lesson.LARGEST_RAW_SCORE, abs=0.1)
    assert divmod(int(np.argmax(largest)), done.heads()) == (2, 4)
    assert max(float(trace.masked.max()) for trace in traces) == pytest.approx(lesson.LARGEST_SCALED_SCORE, abs=0.02)
    half, single = map(lesson.overflow_limit, ("float16", "float32"))
    assert half < lesson.LARGEST_SCALED_SCORE < single < lesson.LARGEST_RAW_SCORE
    assert min(float(trace.raw[trace.mask].min()) for trace in traces) < -200
