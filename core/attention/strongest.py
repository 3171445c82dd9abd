"""The cell of a matrix worth looking at first."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .pooling import Pooled

LEAST = 0.01  # of the largest number of a matrix: less is nothing to look at first
Numbers = Callable[[range, range], NDArray[np.floating]]  # exact numbers of some rows and columns of a matrix


def strongest_cell(values: NDArray[np.floating]) -> tuple[int, int]:
    """Find a (row, column) worth looking at first: the largest number between two different positions away from both ends.

    At the ends are special tokens, and many heads give their attention to them out of habit. The last row of a causal head is
    no such end: there the model chooses the next token. If almost nothing lies between the ends, it is the largest number
    between two different positions, and else the largest of all. NaN is left out.
    """
    above = np.nan_to_num(values[np.triu_indices_from(values, 1)], neginf=0)
    is_causal = values.shape[0] == values.shape[1] and not above.any()
    values = np.where(np.isnan(values), -np.inf, values)
    rows, columns = values.shape
    apart = values.copy()
    if rows == columns:
        np.fill_diagonal(apart, -np.inf)
    inner = np.full_like(apart, -np.inf)
    last = rows if is_causal else rows - 1
    inner[1:last, 1:-1] = apart[1:last, 1:-1]
    least = LEAST * max(values.max(), 0)
    for matrix in (inner, apart):
        cell = _largest(matrix)
        if matrix[cell] > -np.inf and (matrix[cell] >= least or least == 0):
            return cell
    return _largest(values)


def strongest_of(pooled: Pooled, exact: Numbers) -> tuple[int, int]:
    """`strongest_cell` of a matrix that was pooled: the largest number of what the chosen cell stands for."""
    cell = strongest_cell(pooled.values)
    return cell if pooled.exact else largest_in(*pooled.block(*cell), exact)


def largest_in(rows: range, columns: range, exact: Numbers) -> tuple[int, int]:
    """Find the (row, column) of the largest number among some rows and columns. NaN is left out."""
    values = exact(rows, columns)
    row, column = _largest(np.where(np.isnan(values), -np.inf, values))
    return rows[row], columns[column]


def _largest(values: NDArray[np.floating]) -> tuple[int, int]:
    row, column = np.unravel_index(values.argmax(), values.shape)
    return int(row), int(column)
