"""Fewer cells than numbers: a table of a long text made small enough to draw, without losing a spike."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, kw_only=True)
class Pooled:
    """A table, or several of one shape, made small enough to draw; or a part of one, number by number.

    values     [..., rows', columns']: of each block of cells the number that is farthest from 0; NaN where there is none to see
    allowed    [..., rows', columns'] bool: False where every pair that a cell stands for is masked
    shape      how many rows and columns all cells stand for
    row_block, column_block  how many of them one cell stands for; 1 and 1 when nothing was pooled
    start      positions of the first row and the first column in the whole table
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
        """[columns'] the same of the columns."""
        return _middles(self.shape[1], self.column_block)

    @property
    def exact(self) -> bool:
        return self.row_block == self.column_block == 1

    def block(self, row: int, column: int) -> tuple[range, range]:
        """The rows and the columns of the whole table that one cell stands for."""
        rows, columns = (
            range(first + place * block, first + min((place + 1) * block, length))
            for place, block, length, first in zip(
                (row, column), (self.row_block, self.column_block), self.shape, self.start, strict=True
            )
        )
        return rows, columns

    def smaller(self, max_cells: int) -> Pooled:
        """The same table in at most `max_cells` cells a side: each new cell stands for some of these."""
        again = pool(self.values, max_cells, self.allowed)
        blocks = {"row_block": self.row_block * again.row_block, "column_block": self.column_block * again.column_block}
        return replace(again, shape=self.shape, start=self.start, **blocks)


def pool(values: NDArray[np.floating], max_cells: int, allowed: NDArray[np.bool_] | None = None) -> Pooled:
    """Pool [rows, columns] so that neither side has more than `max_cells` cells.

    Numbers that are not finite are not there to see, as those of masked pairs; allowed: None for every pair.
    """
    allowed = np.ones(values.shape, dtype=np.bool_) if allowed is None else allowed
    seen = np.isfinite(values) & allowed
    pooling = Pooling((values.shape[0], values.shape[1]), max_cells)
    pooling.add(0, np.where(seen, values, 0), seen, allowed)
    return pooling.pooled()


class Pooling:
    """The same of a table whose rows come a few at a time, so that it never has to be there as a whole.

    shape      of all that will come
    max_cells  per side
    start      as in `Pooled`
    """

    def __init__(self, shape: tuple[int, int], max_cells: int, start: tuple[int, int] = (0, 0)) -> None:
        self._shape, self._start = shape, start
        self._blocks = (-(-shape[0] // max_cells), -(-shape[1] // max_cells))
        # Of each cell, so that the number farthest from 0 can be told once all are in. What is not seen is 0, and 0 is never
        # farther from 0 than anything else.
        self._highest: NDArray[np.floating] | None = None
        self._lowest = np.zeros(0)
        self._seen = self._allowed = np.zeros(0, dtype=np.bool_)

    @property
    def row_block(self) -> int:
        return self._blocks[0]

    def add(
        self, first: int, values: NDArray[np.floating], seen: NDArray[np.bool_], allowed: NDArray[np.bool_]
    ) -> None:
        """Some rows, from the `first` on.

        values         [..., rows, columns], 0 where not seen; columns left off at the end are not seen, and masked
        seen, allowed  of that shape, or of one that can be broadcast to it
        """
        if self._highest is None:
            cells = tuple(-(-length // block) for length, block in zip(self._shape, self._blocks, strict=True))
            self._highest, self._lowest = (np.zeros((*values.shape[:-2], *cells), dtype=values.dtype) for _ in range(2))
            self._seen, self._allowed = (np.zeros(self._highest.shape, dtype=np.bool_) for _ in range(2))
        top, above = divmod(first, self.row_block)
        rows, columns = (
            -(-length // block)
            for length, block in zip((above + values.shape[-2], values.shape[-1]), self._blocks, strict=True)
        )
        place = (..., slice(top, top + rows), slice(0, columns))
        marks = self._over_blocks(np.logical_or, allowed, above)
        self._allowed[place] |= marks
        self._seen[place] |= marks if seen is allowed else self._over_blocks(np.logical_or, seen, above)
        for kept, over in ((self._highest, np.maximum), (self._lowest, np.minimum)):
            over(kept[place], self._over_blocks(over, values, above), out=kept[place])

    def pooled(self, times: float = 1) -> Pooled:
        """What has come so far; `times` a number, as if each had been multiplied by it before."""
        if self._highest is None:
            raise ValueError("There are no rows to pool.")
        ends = self._highest * times, self._lowest * times
        highest, lowest = ends if times >= 0 else ends[::-1]
        farthest = np.where(-lowest > highest, lowest, highest)
        # Plotly has no half precision; single and double are drawn as they are.
        farthest = farthest.astype(np.result_type(farthest, np.float32), copy=False)
        return Pooled(
            values=np.where(self._seen, farthest, np.nan),
            allowed=self._allowed,
            shape=self._shape,
            row_block=self._blocks[0],
            column_block=self._blocks[1],
            start=self._start,
        )

    def _over_blocks(self, over: np.ufunc, values: NDArray, above: int) -> NDArray:
        """A ufunc over blocks of rows and columns, the first of which begins `above` rows before the values.

        Zeros fill up the first and the last, which changes no number farthest from 0. A reshaped array is reduced many times
        faster than by `reduceat`, and over rows, which lie side by side in memory, faster than over columns.
        """
        rows, columns = self._blocks
        if rows > 1:
            values = _filled(values, above, -(above + values.shape[-2]) % rows, axis=-2)
            values = over.reduce(values.reshape(*values.shape[:-2], -1, rows, values.shape[-1]), axis=-2)
        if columns > 1:
            values = _filled(values, 0, -values.shape[-1] % columns, axis=-1)
            values = over.reduce(values.reshape(*values.shape[:-1], -1, columns), axis=-1)
        return values


def _filled(values: NDArray, before: int, after: int, axis: int) -> NDArray:
    """With so many zeros before and after."""
    if not before and not after:
        return values
    around = [(0, 0)] * values.ndim
    around[axis] = (before, after)
    return np.pad(values, around)


def _middles(length: int, block: int) -> NDArray[np.floating]:
    return np.arange(0, length, block) + (block - 1) / 2
