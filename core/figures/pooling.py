"""Fewer cells than numbers: a picture of a long text that loses no spike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Pooled:
    """An array made small enough to draw.

    values     [rows', columns']: of each block of cells the one that is farthest from 0; NaN where all are forbidden
    rows       [rows'] and columns [columns']: the position of each block's middle in the original array
    row_block, column_block: how many rows and columns one drawn cell stands for; 1 and 1 when nothing was pooled
    """

    values: NDArray[np.floating]
    rows: NDArray[np.floating]
    columns: NDArray[np.floating]
    row_block: int
    column_block: int

    @property
    def exact(self) -> bool:
        return self.row_block == self.column_block == 1


def pool(values: NDArray[np.floating], max_cells: int) -> Pooled:
    """Pool [rows, columns] so that neither side has more than `max_cells` cells. NaN and -inf count as forbidden."""
    row_block, column_block = (-(-length // max_cells) for length in values.shape)
    # Plotly has no half precision; single and double are drawn as they are.
    drawn = np.where(np.isfinite(values), values, np.nan).astype(np.result_type(values, np.float32), copy=False)
    if row_block > 1 or column_block > 1:
        drawn = _farthest(_farthest(drawn, row_block, axis=0), column_block, axis=1)
    return Pooled(
        drawn, _middles(values.shape[0], row_block), _middles(values.shape[1], column_block), row_block, column_block
    )


def _farthest(values: NDArray[np.floating], block: int, axis: int) -> NDArray[np.floating]:
    """The entry farthest from 0 of every `block` entries along an axis; a shorter last block is allowed."""
    starts = np.arange(0, values.shape[axis], block)
    # fmax and fmin pass over NaN, so a block is NaN only if all of it is.
    highest = np.fmax.reduceat(values, starts, axis=axis)
    lowest = np.fmin.reduceat(values, starts, axis=axis)
    return np.where(-lowest > highest, lowest, highest)


def _middles(length: int, block: int) -> NDArray[np.floating]:
    return np.arange(0, length, block) + (block - 1) / 2
