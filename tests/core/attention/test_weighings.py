"""Hardmax and sigmoid in the softmax's place, against closed forms, in NumPy and in torch."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from core.attention.trace import WEIGHINGS, Instead, attend, hardmax, sigmoid, softmax

INF = np.inf
SCORES = arrays(np.float64, (3, 5), elements=st.one_of(st.just(-INF), st.floats(-50, 50)))


@pytest.fixture(autouse=True)
def _every_warning_fails():
    with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize(
    ("row", "sinks", "expected"),
    [
        ([1.0, 3.0, 2.0], None, [0, 1, 0]),
        ([3.0, 3.0, 2.0], None, [1 / 2, 1 / 2, 0]),
        ([-5.0, -5.0, -5.0], None, [1 / 3, 1 / 3, 1 / 3]),
        ([-INF, -1000.0, -INF], None, [0, 1, 0]),
        ([-INF, -INF, -INF], None, [0, 0, 0]),
        ([1e300, -1e300, 0.0], None, [1, 0, 0]),
        ([1.0, 3.0, 2.0], 3.5, [0, 0, 0]),
        ([1.0, 3.0, 2.0], 2.5, [0, 1, 0]),
        ([1.0, 3.0, 3.0], 3.0, [0, 1 / 2, 1 / 2]),
        ([-INF, -INF, -INF], -2.0, [0, 0, 0]),
    ],
)
def test_hardmax(row, sinks, expected):
    np.testing.assert_array_equal(hardmax(np.array([row]), sinks=sinks), [expected])
    row64 = torch.tensor([row], dtype=torch.float64)
    given = hardmax(row64, sinks=None if sinks is None else torch.tensor([[sinks]]))
    np.testing.assert_allclose(given.numpy(), [expected], rtol=1e-6)


@given(SCORES)
def test_hardmax_is_softmax_at_a_temperature_near_0(scores):
    scores = np.round(scores)  # equal, or at least 1 apart
    np.testing.assert_allclose(hardmax(scores), softmax(scores * 100), atol=1e-12)


@given(SCORES)
def test_sigmoid_against_its_formula(scores):
    """1 / (1 + n e^-s) with n keys that may be attended to: with one of them the logistic function."""
    choices = np.isfinite(scores).sum(axis=1, keepdims=True)
    expected = np.where(np.isfinite(scores), 1 / (1 + choices * np.exp(-np.maximum(scores, -700))), 0)
    np.testing.assert_allclose(sigmoid(scores), expected, rtol=1e-12)
    np.testing.assert_allclose(sigmoid(torch.from_numpy(scores)).numpy(), expected, rtol=1e-12)
    np.testing.assert_array_equal(sigmoid(scores, sinks=3.0), sigmoid(scores))  # what takes no share needs no sink


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_sigmoid_does_not_overflow(dtype):
    largest = np.finfo(dtype).max
    weights = sigmoid(np.array([[largest, -largest, 0, -INF], [-INF] * 4], dtype=dtype))
    assert weights.dtype == dtype
    np.testing.assert_allclose(weights, [[1, 0, 1 / 4, 0], [0, 0, 0, 0]], atol=1e-3)


def test_a_trace_with_something_in_the_softmaxs_place():
    rng = np.random.default_rng(0)
    query, key, value = (rng.normal(size=(4, 3)) for _ in range(3))
    plain = attend(query, key, value, mask=np.tril(np.ones((4, 4))))
    for name, weighing in WEIGHINGS.items():
        trace = replace(plain, instead=Instead(name))  # pyright: ignore
        np.testing.assert_array_equal(trace.weights, weighing(plain.masked))
        np.testing.assert_allclose(trace.output, trace.weights @ value)
    weights, output = np.full((4, 4), np.nan), np.full((4, 3), np.nan)
    weights[2], output[1] = [0, 1, 0, 0], [7, 8, 9]
    trace = replace(plain, instead=Instead("hardmax", weights, output))
    np.testing.assert_array_equal(trace.weights[2], [0, 1, 0, 0])
    np.testing.assert_array_equal(trace.weights[[0, 1, 3]], hardmax(plain.masked)[[0, 1, 3]])
    np.testing.assert_array_equal(trace.output[1], [7, 8, 9])
    np.testing.assert_allclose(trace.output[2], value[1])
    part = trace.rows(range(1, 3))
    np.testing.assert_array_equal(part.weights, trace.weights[1:3])
    np.testing.assert_array_equal(part.output, trace.output[1:3])
