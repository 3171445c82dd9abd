"""The softmax lesson against closed forms, torch, and the limits of floating point."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from core.attention import attend, softmax
from core.errors import InputError
from core.normalising import (
    euclidean_norm,
    naive_softmax,
    overflow_limit,
    precisions,
    rms_norm,
    softmax_steps,
)

NUMBERS = st.integers(-2000, 2000).map(lambda n: n / 100)
ROWS = arrays(np.float64, st.integers(1, 12), elements=NUMBERS)


def test_the_worked_example():
    steps = softmax_steps([1.0, 0.5, 2.5, -0.1])
    np.testing.assert_allclose(steps.exponentials, [2.718, 1.649, 12.182, 0.905], atol=5e-4)
    assert steps.total == pytest.approx(17.454, abs=5e-4)
    np.testing.assert_allclose(steps.weights, [0.156, 0.094, 0.698, 0.052], atol=5e-4)


@given(ROWS, st.floats(0.1, 10), st.floats(-50, 50))
def test_what_the_page_claims_of_every_row(row, temperature, shift):
    weights = softmax_steps(row, temperature=temperature, shift=shift).weights
    assert np.all(weights >= 0)
    assert weights.sum() == pytest.approx(1)
    assert np.all(np.diff(weights[np.argsort(row, kind="stable")]) >= -1e-15)  # order kept
    np.testing.assert_allclose(weights, softmax_steps(row, temperature=temperature).weights, atol=1e-12)  # constant
    np.testing.assert_allclose(weights, torch.softmax(torch.from_numpy(row) / temperature, 0).numpy(), atol=1e-12)


@given(ROWS)
def test_rms_and_euclidean(row):
    theirs = torch.nn.functional.normalize(torch.from_numpy(row), dim=0, eps=1e-300).numpy()
    np.testing.assert_allclose(euclidean_norm(row), theirs, atol=1e-12)
    np.testing.assert_allclose(rms_norm(row), theirs * np.sqrt(row.size), atol=1e-11)


@pytest.mark.parametrize(("dtype", "limit"), [("float16", 11.09), ("float32", 88.72), ("float64", 709.78)])
def test_where_the_exponential_overflows(dtype, limit):
    assert overflow_limit(dtype) == pytest.approx(limit, abs=0.005)
    below, above = np.array([limit * 0.999, 0]), np.array([limit * 1.01, 0])
    assert np.isfinite(naive_softmax(below, dtype)).all()
    assert np.isnan(naive_softmax(above, dtype)[0])
    np.testing.assert_allclose(softmax(above.astype(dtype)), [1, 0], atol=1e-4)


def test_scores_that_cannot_be_used_are_named():
    with pytest.raises(InputError, match="float64") as caught:
        softmax_steps([800.0])
    assert caught.value.field == "scores"
    for row in ([], [np.nan], [[1.0]], [-np.inf]):
        with pytest.raises(InputError, match="finite"):
            softmax_steps(row)
    with pytest.raises(InputError, match="temperature is 0"):
        softmax_steps([1.0], temperature=0)


def test_a_real_head_in_three_precisions(smollm):
    from core import capture

    trace = capture(smollm, "The animal didn't cross the street because it was too tired.").trace(13, 8)
    half, single, double = precisions(trace)
    assert double.weight_error == 0
    assert double.row_sum_error < 1e-14 < single.row_sum_error < 1e-6 < half.row_sum_error < 1e-2
    assert single.naive_failures == double.naive_failures == 0
    exceeds = (trace.masked > overflow_limit("float16")).any(axis=1).mean()
    assert half.naive_failures >= exceeds  # sums overflow a little before single terms do


def test_empty_rows_are_left_out():
    trace = attend(np.eye(3), np.eye(3), np.eye(3), mask=[[1, 0, 0], [0, 0, 0], [1, 1, 1]])
    assert all(np.isfinite([one.row_sum_error, one.weight_error]).all() for one in precisions(trace))
