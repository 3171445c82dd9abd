"""The recurrence against the direct result: sums and maxima computed at once, and attention over the first keys alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import attend, toy_sentence
from core.lessons.blocks import differences, in_blocks, last_output
from tests.core.attention.test_head import traces

TRACES = traces(12, sizes=(0.1, 1.0, 5.0))


@given(TRACES, st.integers(1, 14))
def test_it_ends_with_the_direct_result(trace, block_size):
    blocks = in_blocks(trace, block_size)
    np.testing.assert_allclose(blocks.output[-1], trace.output, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(last_output(trace, block_size), blocks.output[-1])
    assert not np.any(blocks.output[-1][trace.empty_rows])
    assert blocks.ends.tolist() == [*range(block_size, trace.shape[1], block_size), trace.shape[1]]


@given(TRACES, st.integers(1, 14))
def test_every_step_is_the_direct_result_over_the_keys_so_far(trace, block_size):
    blocks = in_blocks(trace, block_size)
    nothing = -np.inf if trace.sinks is None else trace.sinks
    before = np.full(trace.shape[0], nothing)
    for step, end in enumerate(blocks.ends):
        scores = trace.masked[:, :end]
        highest = np.maximum(scores.max(axis=1), nothing)
        np.testing.assert_allclose(blocks.maximum[step], highest, atol=1e-12)
        safe = np.where(np.isneginf(highest), 0, highest)
        sink = 0 if trace.sinks is None else np.exp(trace.sinks - safe)
        np.testing.assert_allclose(blocks.total[step], np.exp(scores - safe[:, None]).sum(axis=1) + sink, rtol=1e-11)
        np.testing.assert_allclose(blocks.correction[step], np.exp(before - safe), atol=1e-12)
        before = highest
        shaping = {"bias": trace.bias[:, :end], "scale": trace.scale, "softcap": trace.softcap, "sinks": trace.sinks}
        so_far = attend(trace.query, trace.key[:end], trace.value[:end], mask=trace.mask[:, :end], **shaping)
        np.testing.assert_allclose(blocks.output[step], so_far.output, rtol=0, atol=1e-12)


@pytest.mark.parametrize("block_size", [1, 3, 5])
def test_how_close_two_formats_come(block_size):
    words = toy_sentence("Attention in blocks of keys gives the same result")
    found = differences(attend(words.query, words.key, words.value), block_size)
    assert found["float64"] < 2e-15
    assert 1e-9 < found["float32"] < 1e-6


def test_scores_far_beyond_what_e_to_the_x_can_hold():
    trace = attend([[1000.0]], [[-1.0], [0.5], [2.0]], [[1.0], [2.0], [3.0]], scale=1.0)
    assert in_blocks(trace, 1).maximum.ravel().tolist() == [-1000, 500, 2000]
    assert last_output(trace, 1).item() == 3
