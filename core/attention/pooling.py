"""Fewer cells than numbers: a table of a long text made small enough to draw, without losing a spike."""

from __future__ import annotations

from dataclasses import dataclass

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


def pool(values: NDArray[np.floating], max_cells: int, allowed: NDArray[np.bool_] | None = None) -> Pooled:
    """Pool [rows, columns] so that neither side has more than `max_cells` cells.

    Numbers that are not finite are not there to see, as those of masked pairs; allowed: None for every pair.
    """
    allowed = np.ones(values.shape, dtype=np.bool_) if allowed is None else allowed
    seen = np.isfinite(values) & allowed
    # Plotly has no half precision; single and double are drawn as they are.
    shown = np.where(seen, values, 0).astype(np.result_type(values, np.float32), copy=False)
    pooling = Pooling((values.shape[0], values.shape[1]), max_cells)
    pooling.add(0, shown, seen, allowed)
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
        self._values: NDArray[np.floating] | None = None
        self._allowed = np.zeros(0, dtype=np.bool_)

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
        if self._values is None:
            cells = tuple(-(-length // block) for length, block in zip(self._shape, self._blocks, strict=True))
            self._values = np.full((*values.shape[:-2], *cells), np.nan, dtype=values.dtype)
            self._allowed = np.zeros(self._values.shape, dtype=np.bool_)
        top, above = divmod(first, self.row_block)
        # What is not seen is 0, and 0 is never farther from 0 than anything else.
        new = _farthest(self._over_blocks(np.maximum, values, above), self._over_blocks(np.minimum, values, above))
        new = np.where(self._over_blocks(np.logical_or, seen, above), new, np.nan)
        place = (..., slice(top, top + new.shape[-2]), slice(0, new.shape[-1]))
        before = self._values[place]
        # fmax and fmin pass over NaN: a cell whose rows come in several parts keeps what it has.
        self._values[place] = _farthest(np.fmax(before, new), np.fmin(before, new))
        self._allowed[place] |= self._over_blocks(np.logical_or, allowed, above)

    def pooled(self) -> Pooled:
        if self._values is None:
            raise ValueError("There are no rows to pool.")
        return Pooled(
            values=self._values,
            allowed=self._allowed,
            shape=self._shape,
            row_block=self._blocks[0],
            column_block=self._blocks[1],
            start=self._start,
        )

    def _over_blocks(self, over: np.ufunc, values: NDArray, above: int) -> NDArray:
        """A ufunc over blocks of rows and columns, the first of which begins `above` rows before the values.

        Zeros fill up the first and the last, which changes no number farthest from 0. A reshaped array is reduced many times
        faster than by `reduceat`.
        """
        rows, columns = self._blocks
        if rows == columns == 1:
            return values
        *many, height, width = values.shape
        below, beside = -(above + height) % rows, -width % columns
        if above or below or beside:
            full = np.zeros((*many, above + height + below, width + beside), dtype=values.dtype)
            full[..., above : above + height, :width] = values
            values = full
        narrow = over.reduce(values.reshape(*many, -1, rows, width + beside), axis=-2)
        return over.reduce(narrow.reshape(*many, narrow.shape[-2], -1, columns), axis=-1)


def _farthest(highest: NDArray[np.floating], lowest: NDArray[np.floating]) -> NDArray[np.floating]:
    return np.where(-lowest > highest, lowest, highest)


def _middles(length: int, block: int) -> NDArray[np.floating]:
    return np.arange(0, length, block) + (block - 1) / 2
