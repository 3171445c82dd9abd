"""Two heads on the same axes: what one gives more than the other, and how far apart their rows are.

How far: the Jensen-Shannon divergence of two rows of weights p and q (Lin 1991, "Divergence Measures Based on the Shannon
Entropy"), in nats, from 0 where they are the same to ln 2 where no key gets anything of both:

    m = (p + q) / 2        JS(p, q) = ½ Σ p ln(p / m) + ½ Σ q ln(q / m)

The sum runs over all keys of both texts: what goes to a key that the other text does not have is weight where the other has
none. A row that sums to less than 1, because a sink takes its share or because nothing may be attended to, has what is missing
as one further outcome.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from ..attention.head import CELLS, MAX_CELLS, Head
from ..attention.pooling import Pooled, Pooling, pool
from ..attention.trace import Array, part_of
from ..errors import InputError
from .aligning import GAP, Alignment

# The weights and the mask of some query rows of a head, both [rows, keys].
Weights = Callable[[range], tuple[Array, NDArray[np.bool_]]]


class Weighted(Protocol):
    """Whatever has weights [queries, keys]: an `AttentionTrace`, above all."""

    @property
    def weights(self) -> Array: ...


class Comparison(NamedTuple):
    """Two heads compared, row by row.

    difference  [rows, columns] weights of the second head minus those of the first, in [-1, 1]; NaN where one text has a gap
    divergence  [rows] Jensen-Shannon divergence of the two rows in nats, in [0, ln 2]; NaN where one text has a gap
    """

    difference: Array
    divergence: Array

    def __repr__(self) -> str:
        """In one line, without its numbers."""
        return "<Comparison: {} × {} weights, rows {:.4g} nats apart on average>".format(
            *self.difference.shape, self.mean
        )

    @property
    def mean(self) -> float:
        """Mean divergence of the rows that both have; NaN if they have none."""
        return mean_of(self.divergence)

    @property
    def worst(self) -> tuple[int, float]:
        """(row, divergence) where the two are farthest apart."""
        return worst_of(self.divergence)


def compare(
    trace: Weighted, other: Weighted, *, queries: Alignment | None = None, keys: Alignment | None = None
) -> Comparison:
    """Compare the weights of two heads: `difference, divergence = compare(trace, other)`.

    queries, keys  how their rows and columns belong together, from `core.heads.aligning.align`; None: one by one, for equally
                   many. Rows and columns of what is returned are the places of these

    Makes [rows, columns] arrays; for long texts there is `HeadPair`. Raises InputError where the shapes do not fit.
    """
    pair = HeadPair(
        _all_of(trace), _all_of(other), *_axes(trace.weights.shape, other.weights.shape, queries=queries, keys=keys)
    )
    rows = pair.rows(range(pair.shape[0]))
    return Comparison(rows.difference, rows.divergence)


def divergence(first: Any, second: Any) -> Any:
    """Jensen-Shannon divergence of rows of weights, as in the module: [..., keys] twice to [...], in [0, ln 2].

    first, second  each row at least 0, with a sum of at most 1; NumPy arrays or torch tensors, and so is the result; shapes may
                   be broadcast to each other. Exactly 0 for equal rows
    """
    xp = array_namespace(first, second)
    missing, other_missing = (xp.clip(1 - xp.sum(side, axis=-1), min=0) for side in (first, second))
    total = xp.sum(_terms(first, second), axis=-1) + _terms(missing, other_missing)
    return xp.clip(total / 2, min=0, max=math.log(2))


def _terms(p: Any, q: Any) -> Any:
    """p ln(p / m) + q ln(q / m) for each outcome, 0 ln 0 being 0."""
    xp = array_namespace(p, q)
    least = xp.finfo(p.dtype).smallest_normal
    m = xp.clip((p + q) / 2, min=least)
    return p * xp.log(xp.clip(p / m, min=least)) + q * xp.log(xp.clip(q / m, min=least))


def mean_of(divergence: Array) -> float:
    """The mean of the rows that are there."""
    there = divergence[~np.isnan(divergence)]
    return float(there.mean()) if there.size else math.nan


def worst_of(divergence: Array) -> tuple[int, float]:
    """(row, divergence) of the largest; the first row and NaN where none is there."""
    row = int(np.argmax(np.nan_to_num(divergence, nan=-1)))
    return row, float(divergence[row])


@dataclass(frozen=True, eq=False)
class Compared:
    """Two heads, their difference and their divergence, small enough to draw, or a window of them.

    first, second  weights; NaN where the pair is masked (not `allowed`) and where the text has a gap
    difference     second minus first; NaN where the pair is masked in both heads (not `allowed`), or one text has a gap
    divergence     [rows] as in `Comparison`, of whole rows and number by number
    """

    first: Pooled
    second: Pooled
    difference: Pooled
    divergence: Array

    @property
    def mean(self) -> float:
        return mean_of(self.divergence)

    @property
    def worst(self) -> tuple[int, float]:
        return worst_of(self.divergence)


@dataclass(frozen=True, eq=False)
class HeadPair:
    """Two heads of texts of any length on common axes, compared a few rows at a time.

    queries, keys  what the rows and the columns are
    """

    first: Weights
    second: Weights
    queries: Alignment
    keys: Alignment

    @classmethod
    def of(
        cls, head: Head, other: Head, *, queries: Alignment | None = None, keys: Alignment | None = None
    ) -> HeadPair:
        """Of two heads, from the same pass or from two. Raises InputError as `compare` does."""
        return cls(_part_of(head), _part_of(other), *_axes(head.shape, other.shape, queries=queries, keys=keys))

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns) of the common axes."""
        return len(self.queries), len(self.keys)

    def rows(self, rows: range) -> Rows:
        """Some rows with all their columns, in float64."""
        first, second = (
            _on_axes(weights, queries[part_of(rows, self.shape[0], "rows")], keys)
            for weights, queries, keys in zip(
                (self.first, self.second), self.queries.positions, self.keys.positions, strict=True
            )
        )
        return Rows(*first, *second)

    def overview(self, max_cells: int = MAX_CELLS, on_progress: Callable[[int], None] | None = None) -> Compared:
        """All of it in at most `max_cells` rows and columns, from one sweep over the rows.

        on_progress: called now and then with how many of the rows are done; what it raises stops the work
        """
        pictures = [Pooling(self.shape, max_cells) for _ in range(3)]
        divergence = []
        multiple = pictures[0].row_block
        size = max(1, CELLS // self.shape[1] // multiple) * multiple
        for start in range(0, self.shape[0], size):
            part = self.rows(range(start, min(start + size, self.shape[0])))
            for into, (values, allowed) in zip(pictures, part.pictures, strict=True):
                seen = np.isfinite(values) & allowed
                into.add(start, np.where(seen, values, 0), seen, allowed)
            divergence.append(part.divergence)
            if on_progress is not None:
                on_progress(start + len(part.divergence))
        first, second, difference = (picture.pooled() for picture in pictures)
        return Compared(first, second, difference, np.concatenate(divergence))

    def window(self, rows: range, columns: range) -> Compared:
        """A part of it, every number exact. Raises InputError for what is not there."""
        part = self.rows(rows)
        across = (slice(None), part_of(columns, self.shape[1], "columns"))
        most = max(len(rows), len(columns))
        start = (rows.start, columns.start)
        first, second, difference = (
            replace(pool(values[across], most, allowed[across]), start=start) for values, allowed in part.pictures
        )
        return Compared(first, second, difference, part.divergence)


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of two heads, all [rows, columns].

    first, second    weights, NaN where the text has a gap
    allowed, other_allowed  False where a pair is masked
    """

    first: Array
    allowed: NDArray[np.bool_]
    second: Array
    other_allowed: NDArray[np.bool_]

    @cached_property
    def difference(self) -> Array:
        return self.second - self.first

    @cached_property
    def divergence(self) -> Array:
        """[rows] over all columns, whichever text they belong to; NaN where one text has no such row."""
        gap = np.isnan(self.first).all(axis=1) | np.isnan(self.second).all(axis=1)
        found = divergence(np.nan_to_num(self.first), np.nan_to_num(self.second))
        return np.where(gap, np.nan, found)

    @property
    def pictures(self) -> tuple[tuple[Array, NDArray[np.bool_]], ...]:
        """(values, allowed) of first, second and difference."""
        either = self.allowed | self.other_allowed
        return (self.first, self.allowed), (self.second, self.other_allowed), (self.difference, either)


def _on_axes(weights: Weights, queries: NDArray[np.intp], keys: NDArray[np.intp]) -> tuple[Array, NDArray[np.bool_]]:
    """The weights of one head at these places of the common axes, NaN at gaps; and its mask, which forbids no gap."""
    shape = len(queries), len(keys)
    values, allowed = np.full(shape, np.nan), np.ones(shape, dtype=np.bool_)
    there = queries[queries != GAP]
    if len(there):
        # All keys are on the axis and in their order, and so are the queries of a stretch of it.
        place = np.ix_(queries != GAP, keys != GAP)
        values[place], allowed[place] = weights(range(int(there[0]), int(there[-1]) + 1))
    return values, allowed


def _all_of(trace: Weighted) -> Weights:
    """Of weights that are there as a whole, with whatever mask."""

    def rows(wanted: range) -> tuple[Array, NDArray[np.bool_]]:
        part = trace.weights[wanted.start : wanted.stop]
        return part, np.broadcast_to(np.True_, part.shape)

    return rows


def _part_of(head: Head) -> Weights:
    def rows(wanted: range) -> tuple[Array, NDArray[np.bool_]]:
        trace = head.trace(wanted)
        return trace.weights, trace.mask

    return rows


def _axes(
    shape: tuple[int, ...], other: tuple[int, ...], *, queries: Alignment | None, keys: Alignment | None
) -> tuple[Alignment, Alignment]:
    """How rows and columns belong together. Raises InputError where that is not said, or not of these heads."""
    axes = []
    for axis, (name, given) in enumerate({"queries": queries, "keys": keys}.items()):
        lengths = (shape[axis], other[axis])
        if given is None and lengths[0] != lengths[1]:
            raise InputError(
                f"The first head has {_size(shape)} weights and the second {_size(other)} (queries × keys): which {name} "
                f"belong together? Give {name}=align(...) of their tokens.",
                field=name,
            )
        if given is not None and given.lengths != lengths:
            raise InputError(
                f"This alignment is of {given.lengths[0]} and {given.lengths[1]} tokens, but the heads have {lengths[0]} and "
                f"{lengths[1]} {name}. Align the tokens of these heads.",
                field=name,
            )
        axes.append(Alignment.same(lengths[0]) if given is None else given)
    return axes[0], axes[1]


def _size(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))
