"""Matrices that are never there as a whole: their rows are computed a few at a time, whatever the length of the text.

A stage of a head, a view of heads and a pair of heads are such matrices. Pooling makes them small enough to draw, without
losing their largest numbers, and each says which of its cells to look at first.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..progress import OnProgress, stop_point
from .trace import frozen, part_of


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
    def of(cls, values: NDArray[np.floating], allowed: NDArray[np.bool_] | None = None) -> "Entries":
        """Numbers of which the infinite and NaN are not known; allowed: None for every pair."""
        allowed = np.broadcast_to(np.True_, values.shape) if allowed is None else allowed
        known = np.isfinite(values) & allowed
        return cls(np.where(known, values, 0), allowed, known)

    def across(self, columns: slice) -> "Entries":
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

    def smaller(self, max_cells: int) -> "Pooled":
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
    blocks = whole.reshape(shape)
    # NumPy is slow where few numbers lie side by side, so blocks of columns are laid out in rows first.
    parts = [over.reduce(blocks, axis=-2) if axis == -2 else over.reduce(np.moveaxis(blocks, -1, 0).copy(), axis=0)]
    if head.size:
        parts.insert(0, over.reduce(head, axis=axis, keepdims=True))
    if tail.size:
        parts.append(over.reduce(tail, axis=axis, keepdims=True))
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis)


def _middles(length: int, block: int) -> NDArray[np.floating]:
    return np.arange(0, length, block) + (block - 1) / 2


# --- the cell worth looking at first

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
        values = self.values[rows.start : rows.stop]
        return Band(rows.start, {"values": Entries(values, np.ones(values.shape, np.bool_))})


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
