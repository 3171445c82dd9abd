"""What masks do to weights, against torch and transformers' own conventions."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from core import attend, random_matrices
from core.attention import masks as m
from core.lessons.masking import fill, lowest_number, weight_on_forbidden, without_care


def head(mask, *, seed=0, dtype=np.float64):
    queries, keys = np.shape(mask)
    random = random_matrices(queries, keys, seed=seed)
    return attend(random.query.astype(dtype), random.key.astype(dtype), random.value.astype(dtype), mask=mask)


@given(st.integers(0, 1000), st.integers(1, 8))
def test_forbidden_pairs_get_exactly_nothing(seed, size):
    mask = np.random.default_rng(seed).random((size, size)) < 0.6
    trace = head(mask, seed=seed)
    assert not trace.weights[~mask].any()
    np.testing.assert_array_equal(fill(trace, -np.inf).weights, trace.weights)
    assert not fill(trace, -np.inf).leaked.any()
    np.testing.assert_allclose(fill(trace, -1e4).weights[~trace.empty_rows], trace.weights[~trace.empty_rows])


@given(st.integers(0, 1000))
def test_a_finite_score_leaks_what_its_exponential_says(seed):
    mask = m.grid(m.causal, 6, 6)
    trace = head(mask, seed=seed)
    for score in (0.0, -2.0, 1.0):
        kept = np.where(mask, np.exp(trace.scaled), 0).sum(axis=1)
        let_in = np.exp(score) * (~mask).sum(axis=1)
        leak = fill(trace, score)
        np.testing.assert_allclose(leak.leaked, let_in / (kept + let_in), atol=1e-12)
        np.testing.assert_allclose(leak.weights.sum(axis=1), 1)


def test_what_the_future_would_get():
    trace = head(m.grid(m.causal, 5, 5))
    direct = torch.softmax(torch.from_numpy(trace.scaled.copy()), dim=1).triu(1).sum(dim=1).numpy()
    np.testing.assert_allclose(weight_on_forbidden(trace), direct)
    assert weight_on_forbidden(trace)[-1] == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_with_nothing_left_is_what_torch_makes_of_it(dtype):
    mask = m.grid(m.both(m.causal, m.padding([False, False, True, True])), 4, 4)
    trace = head(mask, dtype=dtype)
    assert trace.empty_rows.tolist() == [True, True, False, False]
    assert not trace.weights[:2].any()

    masked = torch.from_numpy(trace.masked.copy())
    np.testing.assert_allclose(without_care(trace.masked), torch.softmax(masked, dim=1).numpy(), atol=1e-7)
    assert np.isnan(without_care(trace.masked)[:2]).all()

    scores = torch.from_numpy(trace.scaled.copy())
    lowest = torch.zeros_like(scores).masked_fill(torch.from_numpy(~mask), torch.finfo(scores.dtype).min)
    np.testing.assert_allclose(lowest_number(trace), torch.softmax(scores + lowest, dim=1).numpy(), atol=1e-7)
    np.testing.assert_allclose(lowest_number(trace)[:2], 0.25)
    np.testing.assert_allclose(lowest_number(trace)[2:], trace.weights[2:], atol=1e-7)
