"""Pooling against a plain reading of what a cell stands for, all at once and in parts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from core.attention.pooling import Entries, Pooling, pool

MATRICES = arrays(
    np.float64,
    st.tuples(st.integers(1, 40), st.integers(1, 40)),
    elements=st.floats(-5, 5) | st.just(-np.inf) | st.just(np.nan),
)


@given(MATRICES, st.integers(1, 20))
def test_pooling_keeps_the_number_farthest_from_zero_of_every_block(values, most):
    pooled = pool(values, most)
    assert max(pooled.values.shape) <= most
    finite = np.where(np.isfinite(values), values, np.nan)
    for i in range(pooled.values.shape[0]):
        for j in range(pooled.values.shape[1]):
            block = finite[
                i * pooled.row_block : (i + 1) * pooled.row_block,
                j * pooled.column_block : (j + 1) * pooled.column_block,
            ]
            if np.isnan(block).all():
                assert np.isnan(pooled.values[i, j])
            else:
                assert abs(pooled.values[i, j]) == np.nanmax(np.abs(block))
                assert pooled.values[i, j] in block


@given(MATRICES)
def test_small_arrays_are_left_alone(values):
    pooled = pool(values, 64)
    assert pooled.exact
    np.testing.assert_array_equal(pooled.values, np.where(np.isfinite(values), values, np.nan))
    np.testing.assert_array_equal(pooled.rows, np.arange(values.shape[0]))


@given(MATRICES, st.integers(1, 20), st.integers(1, 12))
def test_rows_that_come_in_parts_give_the_same_picture(values, most, at_once):
    seen = np.isfinite(values)
    whole = pool(values, most, seen)
    pooling = Pooling(values.shape, most)
    for first in range(0, len(values), at_once):
        part = slice(first, first + at_once)
        reach = max(1, *(np.flatnonzero(seen[part].any(axis=0)) + 1), 1)  # a causal block leaves off what nobody sees
        pooling.add(first, Entries(np.where(seen, values, 0)[part, :reach], seen[part, :reach]))
    np.testing.assert_array_equal(pooling.pooled().values, whole.values)
    np.testing.assert_array_equal(pooling.pooled().allowed, whole.allowed)


def test_what_is_masked_is_told_from_what_is_not_known():
    values, allowed = np.array([[np.nan, 1.0], [2.0, 3.0]]), np.array([[True, False], [True, True]])
    pooled = pool(values, 64, allowed)
    np.testing.assert_array_equal(pooled.values, [[np.nan, np.nan], [2.0, 3.0]])
    np.testing.assert_array_equal(pooled.allowed, allowed)


@given(MATRICES, st.integers(1, 20), st.floats(-3, 3))
def test_what_is_multiplied_after_pooling_is_what_was_multiplied_before(values, most, factor):
    seen = np.isfinite(values)
    pooling = Pooling(values.shape, most)
    pooling.add(0, Entries(np.where(seen, values, 0), seen))
    expected = pool(np.where(seen, values, 0) * factor, most, seen)
    np.testing.assert_array_equal(pooling.pooled(times=factor).values, expected.values)


@given(MATRICES, st.integers(1, 20), st.integers(1, 20))
def test_a_picture_made_smaller_still_has_the_farthest_numbers(values, most, fewer):
    first = pool(values, most)
    again = first.smaller(fewer)
    assert max(again.values.shape) <= fewer
    assert again.shape == values.shape
    for row in range(again.values.shape[0]):
        for column in range(again.values.shape[1]):
            rows, columns = again.block(row, column)
            block = values[rows.start : rows.stop, columns.start : columns.stop]
            block = block[np.isfinite(block)]
            if block.size:
                assert abs(again.values[row, column]) == np.abs(block).max()
                assert again.values[row, column] in block
            else:
                assert np.isnan(again.values[row, column])


def test_half_precision_becomes_single():
    pooled = pool(np.array([[1.5, -2.0]], dtype=np.float16), 1)
    assert pooled.values.dtype == np.float32
    assert pooled.values.tolist() == [[-2.0]]
