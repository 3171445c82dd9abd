"""attend against torch's scaled_dot_product_attention, closed forms and the worked examples of the textbooks; and what
may stand in the softmax's place."""

import dataclasses
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from core.attention.trace import WEIGHINGS, Instead, attend, hardmax, sigmoid, softmax
from tests.refusals import refused


@pytest.fixture(autouse=True)
def _every_warning_fails():
    with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("error")
        yield


@st.composite
def heads(draw):
    """Inputs of one head: sizes 1 to 64, magnitudes 1e-3 to 1e3, masks with empty rows, biases, scales."""
    queries, keys, d_k, d_v = (draw(st.integers(1, 64)) for _ in range(4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def matrix(*shape):
        return rng.normal(size=shape) * 10 ** draw(st.floats(-3, 3))

    mask = rng.random((queries, keys)) < draw(st.sampled_from([0.0, 0.1, 0.5, 0.9])) if draw(st.booleans()) else None
    if mask is not None and draw(st.booleans()):
        mask[rng.integers(queries)] = False
    bias = matrix(queries, keys) if draw(st.booleans()) else None
    scale = draw(st.none() | st.floats(0.01, 2))
    return matrix(queries, d_k), matrix(keys, d_k), matrix(keys, d_v), mask, bias, scale


@settings(max_examples=300, deadline=None)
@given(heads())
def test_output_is_torchs(inputs):
    query, key, value, mask, bias, scale = inputs
    trace = attend(query, key, value, mask=mask, bias=bias, scale=scale)
    added = torch.zeros(trace.shape, dtype=torch.float64)
    if bias is not None:
        added += torch.from_numpy(bias)
    if mask is not None:
        added.masked_fill_(~torch.from_numpy(mask), -torch.inf)
    tensors = (torch.from_numpy(matrix)[None] for matrix in (query, key, value))
    attention = torch.nn.functional.scaled_dot_product_attention
    expected = attention(*tensors, attn_mask=added[None], scale=scale)[0].numpy()
    full = ~trace.empty_rows
    # A score is known to about its own size times 2e-16, and e^x turns that into a relative error of the weight.
    rounding = 1e-13 * (1 + np.abs(trace.scaled).max() + (0 if bias is None else np.abs(bias).max()))
    difference = np.abs(trace.output[full] - expected[full]).max(initial=0) / np.abs(value).max()
    assert difference <= rounding
    sums = trace.weights.sum(axis=1)
    assert np.all(trace.output[~full] == 0)
    assert np.all(sums[~full] == 0)
    np.testing.assert_allclose(sums[full], 1, atol=1e-13)
    assert np.all((trace.weights >= 0) & (trace.weights <= 1))
    assert np.all(trace.weights[~trace.mask] == 0)


def test_worked_examples():
    scores = np.array([1.0, 0.5, 2.5, -0.1])
    np.testing.assert_allclose(softmax(scores), [0.156, 0.094, 0.698, 0.052], atol=5e-4)
    # Scaled by 1/2 the weights are more even.
    np.testing.assert_allclose(softmax(np.array([14.0, 10.0])), [0.982, 0.018], atol=5e-4)
    np.testing.assert_allclose(softmax(np.array([7.0, 5.0])), [0.881, 0.119], atol=5e-4)
    # The same through attend: d_k = 4 halves the scores.
    trace = attend([[1, 1, 1, 1]], [[14, 0, 0, 0], [10, 0, 0, 0]], [[1], [0]])
    np.testing.assert_allclose(trace.scaled, [[7, 5]])
    np.testing.assert_allclose(trace.weights, [[0.881, 0.119]], atol=5e-4)


def test_a_query_that_may_attend_to_nothing_gets_nothing():
    trace = attend(np.eye(3), np.eye(3), np.eye(3), mask=[[1, 1, 0], [0, 0, 0], [0, 0, 1]])
    assert trace.empty_rows.tolist() == [False, True, False]
    assert trace.weights[1].tolist() == trace.output[1].tolist() == [0, 0, 0]
    # A sink alone takes everything, and minus infinity in the bias forbids.
    assert attend(*EYES, mask=np.zeros((2, 2)), sinks=1.0).weights.tolist() == [[0, 0], [0, 0]]
    trace = attend(*EYES, bias=np.array([[0.5, -np.inf], [0, 0]]))
    assert trace.mask.tolist() == [[True, False], [True, True]]
    assert trace.weights[0].tolist() == [1, 0]


def test_soft_cap_and_sink_against_torch():
    rng = np.random.default_rng(1)
    query, key, value = (rng.normal(size=(6, 8)) * 5 for _ in range(3))
    trace = attend(query, key, value, softcap=3.0, sinks=0.7)
    scores = torch.from_numpy(query) @ torch.from_numpy(key).T / 8**0.5
    capped = torch.tanh(scores / 3) * 3
    weights = torch.cat([capped, torch.full((6, 1), 0.7)], dim=1).softmax(dim=1)[:, :-1]
    np.testing.assert_allclose(trace.weights, weights.numpy(), atol=1e-14)
    assert np.all(trace.weights.sum(axis=1) < 1)


def test_precision_is_kept():
    for dtype in (np.float16, np.float32, np.float64):
        trace = attend(*(np.eye(3, dtype=dtype) for _ in range(3)))
        stages = (trace.raw, trace.scaled, trace.masked, trace.weights, trace.output)
        assert {stage.dtype for stage in stages} == {np.dtype(dtype)}
    assert attend([[1]], [[1]], [[1]]).query.dtype == np.float64


def test_a_trace_cannot_be_altered():
    source = np.eye(3)
    trace = attend(source, source, source)
    for name in ("query", "key", "value", "mask", "bias", "raw", "scaled", "masked", "weights", "output"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(trace, name)[0, 0] = 7
    with pytest.raises(dataclasses.FrozenInstanceError):
        trace.scale = 2.0
    source[0, 0] = 9  # what the caller keeps is the caller's
    assert trace.query[0, 0] == 1


EYES = (np.eye(2),) * 3
BAD = {
    "columns of query and key": ((np.ones((2, 3)), np.ones((4, 5)), np.ones((4, 2))), {}, "key", "2 × 3.*4 × 5"),
    "rows of key and value": ((np.ones((2, 3)), np.ones((4, 3)), np.ones((5, 2))), {}, "value", "4 × 3.*5 × 2"),
    "three dimensions": ((np.ones((1, 2, 3)), np.ones((4, 3)), np.ones((4, 2))), {}, "query", r"\(1, 2, 3\)"),
    "empty": ((np.ones((0, 3)), np.ones((4, 3)), np.ones((4, 2))), {}, "query", r"\(0, 3\)"),
    "NaN": ((np.ones((1, 2)), [[1, np.nan]], [[1]]), {}, "key", "nan in row 0, column 1"),
    "infinity": ((np.ones((1, 2)), [[1, 1]], [[np.inf]]), {}, "value", "inf in row 0, column 0"),
    "text": (([["a"]], [[1]], [[1]]), {}, "query", "real numbers"),
    "complex": (([[1j]], [[1]], [[1]]), {}, "query", "complex128"),
    "ragged": (([[1, 2], [3]], [[1, 2]], [[1]]), {}, "query", "differ in length"),
    "mask shape": (EYES, {"mask": np.ones((2, 3))}, "mask", r"\(2, 3\).*\(2, 2\)"),
    "mask values": (EYES, {"mask": [[1, 2], [0, 1]]}, "mask", "True and False"),
    "bias shape": (EYES, {"bias": np.ones((1, 2))}, "bias", r"\(1, 2\)"),
    "bias values": (EYES, {"bias": [[np.inf, 0], [0, 0]]}, "bias", "finite"),
    "scale": (EYES, {"scale": np.nan}, "scale", "nan"),
    "soft cap": (EYES, {"softcap": -1}, "softcap", "above 0"),
    "overflow": ((np.eye(2) * 1e200, np.eye(2) * 1e200, np.eye(2)), {}, "query", "too large for float64"),
    "overflow in half precision": (np.full((3, 1, 64), 100, np.float16), {}, "query", "too large for float16"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    matrices, options, field, words = BAD[case]
    with refused(field, words):
        attend(*matrices, **options)


# --- in the softmax's place

INF = np.inf
SCORES = arrays(np.float64, (3, 5), elements=st.one_of(st.just(-INF), st.floats(-50, 50)))


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
        trace = dataclasses.replace(plain, instead=Instead(name))  # pyright: ignore
        np.testing.assert_array_equal(trace.weights, weighing(plain.masked))
        np.testing.assert_allclose(trace.output, trace.weights @ value)
    weights, output = np.full((4, 4), np.nan), np.full((4, 3), np.nan)
    weights[2], output[1] = [0, 1, 0, 0], [7, 8, 9]
    trace = dataclasses.replace(plain, instead=Instead("hardmax", weights, output))
    np.testing.assert_array_equal(trace.weights[2], [0, 1, 0, 0])
    np.testing.assert_array_equal(trace.weights[[0, 1, 3]], hardmax(plain.masked)[[0, 1, 3]])
    np.testing.assert_array_equal(trace.output[1], [7, 8, 9])
    np.testing.assert_allclose(trace.output[2], value[1])
    part = trace.rows(range(1, 3))
    np.testing.assert_array_equal(part.weights, trace.weights[1:3])
    np.testing.assert_array_equal(part.output, trace.output[1:3])
