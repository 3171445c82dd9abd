"""A matrix that is computed row by row, against the same matrix held as a whole."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from core.attention.pooling import Entries, pool
from core.attention.rowwise import Band, RowwiseMatrix, row_ranges
from core.errors import InputError

MATRICES = arrays(
    np.float64,
    st.tuples(st.integers(1, 30), st.integers(1, 30)),
    elements=st.floats(-5, 5) | st.just(-np.inf) | st.just(np.nan),
)


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
    rows, columns = (
        range(start, data.draw(st.integers(start + 1, length)))
        for start, length in zip(starts, values.shape, strict=True)
    )
    matrix = Held(values, [])
    window = matrix.window(rows, columns)
    part = values[rows.start : rows.stop, columns.start : columns.stop]
    expected = np.where(np.isfinite(part), part, np.nan)
    np.testing.assert_array_equal(window.matrices["values"].values, expected)
    np.testing.assert_array_equal(matrix.exact(rows, columns), expected)
    np.testing.assert_array_equal(window.row_numbers["place"], rows)
    assert window.matrices["values"].exact
    assert window.matrices["values"].start == (rows.start, columns.start)
    assert set(matrix.computed) == set(rows)


@given(st.integers(0, 2**32 - 1), st.integers(1, 24))
def test_the_strongest_cell_is_the_largest_number_of_the_pooled_cell_that_is_chosen(seed, most):
    values = np.random.default_rng(seed).random((24, 24))
    matrix = Held(values, [])
    overview = matrix.overview(most)
    row, column = matrix.strongest(overview)
    pooled = overview.matrices["values"]
    assert values[row, column] == pooled.values[row // pooled.row_block, column // pooled.column_block]


def test_what_is_not_there_is_refused():
    matrix = Held(np.ones((4, 6)), [])
    for rows, columns, words in (
        (range(3, 5), range(2), "no rows.*from 0 to 3"),
        (range(2), range(5, 7), "no columns.*from 0 to 5"),
        (range(0), range(2), "no rows"),
    ):
        with pytest.raises(InputError, match=words):
            matrix.window(rows, columns)
    assert matrix.computed == []


@pytest.mark.parametrize("multiple", [1, 4])
def test_ranges_of_rows_are_of_about_so_many_numbers(multiple):
    ranges = list(row_ranges(range(3, 50), 10, multiple, cells=100))
    assert [row for rows in ranges for row in rows] == list(range(3, 50))
    assert {len(rows) for rows in ranges[:-1]} == {8 if multiple == 4 else 10}
    assert len(next(row_ranges(range(9), 10**6, multiple, cells=100))) == 1
