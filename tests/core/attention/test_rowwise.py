"""A matrix that is pooled or computed row by row, against the same matrix held as a whole."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from core.attention.rowwise import Band, Entries, Pooling, RowwiseMatrix, Whole, pool, row_ranges
from tests.refusals import refused

MATRICES = arrays(
    np.float64,
    st.tuples(st.integers(1, 40), st.integers(1, 40)),
    elements=st.floats(-5, 5) | st.just(-np.inf) | st.just(np.nan),
)


@given(MATRICES, st.integers(1, 20), st.integers(1, 20))
def test_pooling_keeps_the_number_farthest_from_zero_of_every_block(values, most, fewer):
    """Also of a picture that is pooled once more."""
    first = pool(values, most)
    for pooled, at_most in ((first, most), (first.smaller(fewer), fewer)):
        assert max(pooled.values.shape) <= at_most
        assert pooled.shape == values.shape
        height, width = pooled.row_block, pooled.column_block
        for (row, column), farthest in np.ndenumerate(pooled.values):
            block = values[row * height : (row + 1) * height, column * width : (column + 1) * width]
            rows, columns = pooled.block(row, column)
            assert (rows.start, columns.start) == (row * height, column * width)
            assert (len(rows), len(columns)) == block.shape
            finite = block[np.isfinite(block)]
            if finite.size:
                assert abs(farthest) == np.abs(finite).max()
                assert farthest in finite
            else:
                assert np.isnan(farthest)


@given(MATRICES, st.integers(1, 20), st.integers(1, 12), st.floats(-3, 3))
def test_rows_that_come_in_parts_give_the_same_picture(values, most, at_once, factor):
    """Also where every number is multiplied after pooling, and not before."""
    seen = np.isfinite(values)
    whole = pool(values, most, seen)
    pooling = Pooling(values.shape, most)
    for first in range(0, len(values), at_once):
        part = slice(first, first + at_once)
        # A causal block leaves off what nobody sees.
        reach = np.flatnonzero(seen[part].any(axis=0)).max(initial=0) + 1
        pooling.add(first, Entries(np.where(seen, values, 0)[part, :reach], seen[part, :reach]))
    np.testing.assert_array_equal(pooling.pooled().values, whole.values)
    np.testing.assert_array_equal(pooling.pooled().allowed, whole.allowed)
    multiplied = pool(np.where(seen, values, 0) * factor, most, seen)
    np.testing.assert_array_equal(pooling.pooled(times=factor).values, multiplied.values)


def test_what_is_masked_is_told_from_what_is_not_known():
    values, allowed = np.array([[np.nan, 1.0], [2.0, 3.0]]), np.array([[True, False], [True, True]])
    pooled = pool(values, 64, allowed)
    np.testing.assert_array_equal(pooled.values, [[np.nan, np.nan], [2.0, 3.0]])
    np.testing.assert_array_equal(pooled.allowed, allowed)


def test_half_precision_becomes_single():
    pooled = pool(np.array([[1.5, -2.0]], dtype=np.float16), 1)
    assert pooled.values.dtype == np.float32
    assert pooled.values.tolist() == [[-2.0]]


@dataclass(frozen=True, eq=False)
class Held(RowwiseMatrix):
    """Two matrices, the second the negative of the first, of which it is counted which rows were computed."""

    values: np.ndarray
    computed: list[int]
    cells = 50

    @property
    def shape(self):
        return self.values.shape

    def band(self, rows):
        self.computed.extend(rows)
        part = self.values[rows.start : rows.stop]
        numbers = {"place": np.arange(rows.start, rows.stop)}
        return Band(rows.start, {"values": Entries.of(part), "negative": Entries.of(-part)}, numbers)


@pytest.mark.thorough
@given(MATRICES, st.integers(1, 20))
def test_an_overview_is_the_whole_pooled_from_one_sweep(values, most):
    matrix, done = Held(values, []), []
    overview = matrix.overview(most, done.append)
    for name, whole in (("values", values), ("negative", -values)):
        np.testing.assert_array_equal(overview.matrices[name].values, pool(whole, most).values)
    np.testing.assert_array_equal(overview.row_numbers["place"], np.arange(len(values)))
    assert matrix.computed == list(range(len(values)))
    assert done == sorted(set(done))
    assert done[-1] == len(values)


@given(MATRICES, st.data())
def test_a_window_is_exact_and_computes_no_other_rows(values, data):
    starts = [data.draw(st.integers(0, length - 1)) for length in values.shape]
    stops = [data.draw(st.integers(start + 1, length)) for start, length in zip(starts, values.shape, strict=True)]
    rows, columns = map(range, starts, stops)
    matrix = Held(values, [])
    window = matrix.window(rows, columns)
    part = values[np.ix_(rows, columns)]
    expected = np.where(np.isfinite(part), part, np.nan)
    np.testing.assert_array_equal(window.matrices["values"].values, expected)
    np.testing.assert_array_equal(matrix.exact(rows, columns), expected)
    whole = Whole(np.nan_to_num(values))
    np.testing.assert_array_equal(whole.exact(rows, columns), np.nan_to_num(part))
    np.testing.assert_array_equal(window.row_numbers["place"], rows)
    assert window.matrices["values"].exact
    assert window.matrices["values"].start == (rows.start, columns.start)
    assert set(matrix.computed) == set(rows)


@given(st.integers(0, 2**32 - 1), st.integers(1, 24))
def test_the_strongest_cell_is_the_largest_number_of_the_pooled_cell_that_is_chosen(seed, most):
    values = np.random.default_rng(seed).random((24, 24))
    matrix = Held(values, [])
    overview = matrix.overview(most)
    pooled, (row, column) = overview.matrices["values"], matrix.strongest(overview)
    assert values[row, column] == pooled.values[row // pooled.row_block, column // pooled.column_block]


def test_what_is_not_there_is_refused():
    matrix = Held(np.ones((4, 6)), [])
    for rows, columns, field, words in (
        (range(3, 5), range(2), "rows", "no rows.*from 0 to 3"),
        (range(2), range(5, 7), "columns", "no columns.*from 0 to 5"),
        (range(0), range(2), "rows", "no rows"),
    ):
        with refused(field, words):
            matrix.window(rows, columns)
    assert matrix.computed == []


@pytest.mark.parametrize("multiple", [1, 4])
def test_ranges_of_rows_are_of_about_so_many_numbers(multiple):
    ranges = list(row_ranges(range(3, 50), 10, multiple, cells=100))
    assert [row for rows in ranges for row in rows] == list(range(3, 50))
    assert {len(rows) for rows in ranges[:-1]} == {8 if multiple == 4 else 10}
    assert len(next(row_ranges(range(9), 10**6, multiple, cells=100))) == 1
