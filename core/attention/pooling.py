"""Pooling: a large matrix made small enough to draw, without losing its largest numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Entries(NamedTuple):
    """Numbers of some rows of a matrix.

    values   [..., rows, columns] 0 where not known; columns left off at the end are neither known nor allowed
    allowed  bool, broadcasts to that shape: False where a pair is masked
    known    bool likewise: False where there is no number to show; None: wherever the pair is allowed
    """

    values: NDArray[np.floating]
    allowed: NDArray[np.bool_]
    known: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, values: NDArray[np.floating], allowed: NDArray[np.bool_] | None = None) -> Entries:
        """Numbers of which the infinite and NaN are not known; allowed: None for every pair."""
        allowed = np.broadcast_to(np.True_, values.shape) if allowed is None else allowed
        known = np.isfinite(values) & allowed
        return cls(np.where(known, values, 0), allowed, known)

    def across(self, columns: slice) -> Entries:
        """All rows, in some of the columns."""
        known = None if self.known is None else self.known[..., columns]
        return Entries(self.values[..., columns], self.allowed[..., columns], known)


@dataclass(frozen=True, eq=False)
class Pooled:
    """A matrix, or several of one shape, made small enough to draw; or an exact part of one.

    values     [..., rows', columns']: the number farthest from 0 of each block of cells; NaN where none is known
    allowed    [..., rows', columns'] bool: False where every pair that a cell stands for is masked
    shape      how many rows and columns all cells stand for
    row_block, column_block  how many of them one cell stands for; 1 and 1 when nothing was pooled
    start      positions of the first row and the first column in the whole matrix
    """

    values: NDArray[np.floating]
    allowed: NDArray[np.bool_]
    shape: tuple[int, int]
    row_block: int
    column_block: int
    start: tuple[int, int] = (0, 0)

    @property
    def rows(self) -> NDArray[np.floating]:
        """[rows'] the middle of each cell, counted from the first row."""
        return _middles(self.shape[0], self.row_block)

    @property
    def columns(self) -> NDArray[np.floating]:
        """[columns'] the middle of each cell, counted from the first column."""
        return _middles(self.shape[1], self.column_block)

    @property
    def exact(self) -> bool:
        return self.row_block == self.column_block == 1

    def block(self, row: int, column: int) -> tuple[range, range]:
        """The rows and columns of the whole matrix that one cell stands for."""
        axes = zip((row, column), (self.row_block, self.column_block), self.shape, self.start, strict=True)
        rows, columns = (
            range(first + cell * block, first + min((cell + 1) * block, length)) for cell, block, length, first in axes
        )
        return rows, columns

    def smaller(self, max_cells: int) -> Pooled:
        """Pool once more, to at most `max_cells` cells a side: each new cell stands for several of these."""
        again = pool(self.values, max_cells, self.allowed)
        blocks = {"row_block": self.row_block * again.row_block, "column_block": self.column_block * again.column_block}
        return replace(again, shape=self.shape, start=self.start, **blocks)


def pool(values: NDArray[np.floating], max_cells: int, allowed: NDArray[np.bool_] | None = None) -> Pooled:
    """Pool [rows, columns] so that neither side has more than `max_cells` cells. The arrays as in `Entries.of`."""
    pooling = Pooling((values.shape[0], values.shape[1]), max_cells)
    pooling.add(0, Entries.of(values, allowed))
    return pooling.pooled()


def ceil_divide(length: int, by: int) -> int:
    """length / by, rounded up: rows a cell stands for if at most `by` cells are drawn, or cells of `by` rows each."""
    return -(-length // by)


class Pooling:
    """Pool a matrix whose rows come a few at a time, so that it never has to be there as a whole.

    shape      (rows, columns) of all that will come
    max_cells  per side
    """

    def __init__(self, shape: tuple[int, int], max_cells: int, start: tuple[int, int] = (0, 0)) -> None:
        self._shape, self._start = shape, start
        self._blocks = ceil_divide(shape[0], max_cells), ceil_divide(shape[1], max_cells)
        # Both ends of each cell, from which the number farthest from 0 follows once all rows are in. What is not known is 0,
        # and 0 is never farther from 0 than anything else.
        self._highest: NDArray[np.floating] | None = None
        self._lowest = np.zeros(0)
        self._known = self._allowed = np.zeros(0, dtype=np.bool_)

    def add(self, first: int, entries: Entries) -> None:
        """Add some rows, from the `first` on."""
        values, allowed, known = entries
        if self._highest is None:
            cells = tuple(map(ceil_divide, self._shape, self._blocks))
            self._highest, self._lowest = (np.zeros((*values.shape[:-2], *cells), dtype=values.dtype) for _ in range(2))
            self._known, self._allowed = (np.zeros(self._highest.shape, dtype=np.bool_) for _ in range(2))
        top, above = divmod(first, self._blocks[0])
        rows, columns = map(ceil_divide, (above + values.shape[-2], values.shape[-1]), self._blocks)
        cells = (..., slice(top, top + rows), slice(0, columns))
        marks = self._over_blocks(np.logical_or, allowed, above)
        self._allowed[cells] |= marks
        self._known[cells] |= marks if known is None else self._over_blocks(np.logical_or, known, above)
        for kept, over in ((self._highest, np.maximum), (self._lowest, np.minimum)):
            over(kept[cells], self._over_blocks(over, values, above), out=kept[cells])

    def pooled(self, times: float = 1) -> Pooled:
        """The rows that have come so far, pooled as if each number had been multiplied by `times` before."""
        if self._highest is None:
            raise ValueError("There are no rows to pool.")
        ends = self._highest * times, self._lowest * times
        highest, lowest = ends if times >= 0 else ends[::-1]
        farthest = np.where(-lowest > highest, lowest, highest)
        # Plotly has no half precision; single and double are drawn as they are.
        farthest = farthest.astype(np.result_type(farthest, np.float32), copy=False)
        values, (row_block, column_block) = np.where(self._known, farthest, np.nan), self._blocks
        return Pooled(values, self._allowed, self._shape, row_block, column_block, self._start)

    def _over_blocks(self, over: np.ufunc, values: NDArray, above: int) -> NDArray:
        """A ufunc over blocks of rows and columns, the first of which begins `above` rows before the values. Rows come first:
        they lie side by side in memory, and are reduced faster than columns."""
        rows, columns = self._blocks
        return _reduced(over, _reduced(over, values, rows, above, -2), columns, 0, -1)


def _reduced(over: np.ufunc, values: NDArray, size: int, before: int, axis: int) -> NDArray:
    """A ufunc over blocks of `size` along the axis -2 or -1, the first of which begins `before` places before the values.

    Whole blocks are reduced as a reshaped array, many times faster than by `reduceat`; the first and the last may be shorter.
    """
    if size == 1:
        return values
    first = min(-before % size, values.shape[axis])
    last = first + (values.shape[axis] - first) // size * size
    head, whole, tail = np.split(values, [first, last], axis)
    at = values.ndim + axis
    shape = (*values.shape[:at], (last - first) // size, size, *values.shape[at + 1 :])
    parts = [_along(over, whole.reshape(shape), axis)]
    if head.size:
        parts.insert(0, over.reduce(head, axis=axis, keepdims=True))
    if tail.size:
        parts.append(over.reduce(tail, axis=axis, keepdims=True))
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis)


def _along(over: np.ufunc, values: NDArray, axis: int) -> NDArray:
    """A ufunc over the axis -2 or -1. NumPy is slow where few numbers lie side by side, so these are laid out in rows first."""
    return over.reduce(values, axis=-2) if axis == -2 else over.reduce(np.moveaxis(values, -1, 0).copy(), axis=0)


def _middles(length: int, block: int) -> NDArray[np.floating]:
    return np.arange(0, length, block) + (block - 1) / 2
