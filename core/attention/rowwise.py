"""Matrices that are never there as a whole: their rows are computed a few at a time, whatever the length of the text.

A stage of a head, a view of heads and a pair of heads are such matrices. Each says which of its cells to look at first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..progress import OnProgress, stop_point
from .pooling import Entries, Pooled, Pooling, ceil_divide
from .trace import frozen, part_of

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


# Numbers of a band in one matrix: half a megabyte in float32, so that matrices which are made one after another, each from the
# one before, find each other in the processor's cache.
CELLS = 2**17
MAX_CELLS = 256  # of an overview, per side


@dataclass(frozen=True, eq=False)
class Band:
    """Some rows of one or several matrices of one shape, from the `first` on, and exact numbers [rows, ...]; by name."""

    first: int
    matrices: Mapping[str, Entries]
    row_numbers: Mapping[str, NDArray] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Overview:
    """Matrices small enough to draw, pooled as a whole or an exact window of them, and exact numbers [rows, ...]; by name."""

    matrices: dict[str, Pooled]
    row_numbers: dict[str, NDArray]

    @property
    def first(self) -> Pooled:
        return next(iter(self.matrices.values()))


class RowwiseMatrix(ABC):
    """A matrix [rows, columns], or several of one shape that are computed together, from any few of its rows.

    A subclass has a `shape` and computes a `band` of rows. By the first matrix of a band the strongest cell is found.
    """

    cells: int | None = None  # numbers of a band in one matrix; None: CELLS

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""

    @abstractmethod
    def band(self, rows: range) -> Band:
        """Compute some rows with all their columns."""

    @property
    def rows(self) -> range:
        """The rows that an overview covers."""
        return range(self.shape[0])

    @property
    def columns(self) -> range:
        """The columns that an overview covers."""
        return range(self.shape[1])

    @property
    def names(self) -> tuple[str, str]:
        """Names of both axes in errors."""
        return "rows", "columns"

    def overview(self, max_cells: int = MAX_CELLS, on_progress: OnProgress | None = None) -> Overview:
        """Pool every matrix to at most `max_cells` rows and columns. on_progress: called with how many of the rows are done."""
        return self._part(self.rows, self.columns, max_cells, on_progress)

    def window(self, rows: range, columns: range) -> Overview:
        """Compute a part of every matrix, every number of it exact. Raises InputError for what is not there."""
        for places, length, name in zip((rows, columns), self.shape, self.names, strict=True):
            part_of(places, length, name)
        return self._part(rows, columns, max(len(rows), len(columns)))

    def exact(self, rows: range, columns: range) -> NDArray[np.floating]:
        """The numbers of a window by which the strongest cell is found; NaN where there is none."""
        return self.window(rows, columns).first.values

    def strongest(self, overview: Overview) -> tuple[int, int]:
        """The (row, column) worth looking at first, as in `strongest_of`, from an overview of this matrix."""
        return strongest_of(overview.first, self.exact)

    def _part(self, rows: range, columns: range, max_cells: int, on_progress: OnProgress | None = None) -> Overview:
        across = slice(columns.start, columns.stop)

        def bands() -> Iterator[Band]:
            for wanted in row_ranges(rows, self.shape[1], ceil_divide(len(rows), max_cells), self.cells):
                band = self.band(wanted)
                matrices = {name: entries.across(across) for name, entries in band.matrices.items()}
                yield Band(wanted.start - rows.start, matrices, band.row_numbers)
                if on_progress is not None:
                    on_progress(wanted.stop - rows.start)

        start = rows.start, columns.start
        poolings, row_numbers = sweep(bands(), (len(rows), len(columns)), max_cells, start)
        return Overview({name: pooling.pooled() for name, pooling in poolings.items()}, row_numbers)


@dataclass(frozen=True, eq=False)
class Whole(RowwiseMatrix):
    """A matrix that is there as a whole: its finite numbers [rows, columns]."""

    values: NDArray[np.floating]

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.values.shape
        return rows, columns

    def band(self, rows: range) -> Band:
        return Band(rows.start, {"values": Entries(self.values[rows.start : rows.stop], np.ones((1, 1), np.bool_))})


def sweep(
    bands: Iterable[Band], shape: tuple[int, int], max_cells: int, start: tuple[int, int] = (0, 0)
) -> tuple[dict[str, Pooling], dict[str, NDArray]]:
    """Pool the matrices of bands that come from the first row to the last, and join their row numbers; both by name."""
    poolings: dict[str, Pooling] = {}
    row_numbers: dict[str, list[NDArray]] = {}
    for band in bands:
        for name in band.matrices:
            poolings.setdefault(name, Pooling(shape, max_cells, start)).add(band.first, band.matrices[name])
        for name, numbers in band.row_numbers.items():
            row_numbers.setdefault(name, []).append(numbers)
        del band  # so that the next band takes their room, which is in the processor's cache
    return poolings, {name: frozen(np.concatenate(parts)) for name, parts in row_numbers.items()}


def row_ranges(rows: range, columns: int, multiple: int = 1, cells: int | None = None) -> Iterator[range]:
    """Cut rows into ranges of about `cells` numbers (None: `CELLS`), with a stop point before each: a multiple of so many rows
    each, where that many fit."""
    size = max(1, (cells or CELLS) // columns)
    size -= size % multiple if size > multiple else 0
    for start in range(rows.start, rows.stop, size):
        stop_point()
        yield range(start, min(start + size, rows.stop))


def around(position: int, length: int, size: int) -> range:
    """A window of at most `size` positions with `position` as near to its middle as the text allows."""
    start = max(0, min(position - size // 2, length - size))
    return range(start, min(start + size, length))
