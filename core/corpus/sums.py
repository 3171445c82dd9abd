"""What is added up over passages and is the same in whatever order they are read: exact sums, and the queries that are kept.

Sums are those of whole numbers. Queries are kept with all of their weights: those where a metric is largest, and a sample. Both
are bounded whatever the size of the corpus. The strongest are ordered by the metric and then by their draw, the sample by the
draw alone; a draw is a number that follows from where a query stands. Queries are the rows of structured arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_BITS = 62  # of the part below 1: two of them together still fit into 64


@dataclass(eq=False)
class ExactSum:
    """Sums of finite numbers, one for each entry of an array: `whole` + `part` / 2^62, with 0 ≤ part < 2^62.

    The largest is 2^63, far beyond any sum over a corpus. What is added is truncated to a multiple of 2^-62, about 2e-19.
    """

    whole: NDArray[np.int64]
    part: NDArray[np.int64]

    @classmethod
    def zeros(cls, *shape: int) -> ExactSum:
        return cls(np.zeros(shape, np.int64), np.zeros(shape, np.int64))

    def add(self, numbers: ArrayLike) -> None:
        """Add a finite number to each sum."""
        numbers = np.asarray(numbers, np.float64)
        whole = np.trunc(numbers)  # and not the floor: 1 less something tiny would be rounded
        self._carry(whole.astype(np.int64), ((numbers - whole) * 2.0**_BITS).astype(np.int64))

    def merge(self, other: ExactSum) -> None:
        """Add another's sums to these."""
        self._carry(other.whole, other.part)

    def _carry(self, whole: NDArray[np.int64], part: NDArray[np.int64]) -> None:
        self.whole += whole
        self.part += part
        self.whole += self.part >> _BITS
        self.part &= (1 << _BITS) - 1

    @property
    def values(self) -> NDArray[np.float64]:
        """The sums as floating point, to within one unit in the last place."""
        up = (self.whole < 0).astype(np.int64)  # a negative sum would cancel with its whole
        return (self.whole + up) + (self.part - (up << _BITS)) * 2.0**-_BITS

    def exact(self) -> NDArray[np.object_]:
        """The sums as fractions, not rounded at all."""
        return self.whole.astype(object) + self.part.astype(object) * Fraction(1, 1 << _BITS)


def mean_and_spread(
    count: NDArray[np.int64], total: ExactSum, squares: ExactSum
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of `count` numbers from their sum and the sum of their squares; NaN where there are none.

    A variance is the difference of two large numbers: it is taken before anything is rounded.
    """
    number = np.maximum(count, 1).astype(object)
    mean = total.exact() / number
    variance = np.maximum(squares.exact() / number - mean**2, 0)
    spread = np.array([float(exact) ** 0.5 for exact in variance.flat]).reshape(count.shape)
    return np.where(count, mean.astype(np.float64), np.nan), np.where(count, spread, np.nan)


PRUNE_AT = 1.5  # rows are pruned once there are this many times as many as can be kept
QUERY = [("draw", np.uint64), ("passage", np.uint64), ("query", np.int32)]  # query: its position in the passage


def strongest_dtype(tokens: int) -> np.dtype:
    """Queries at which a metric of a head is large: head and metric are places in the arrays of a tally.

    score    what the metric is there; of equal scores the one with the smaller draw comes first
    weights  [tokens] all of its weights; NaN after the last key of the passage
    """
    fields: list[Any] = [*QUERY, ("head", np.int32), ("metric", np.int16), ("score", np.float32)]
    return np.dtype([*fields, ("weights", np.float32, (tokens,))], align=True)


def sample_dtype(metrics: int, heads: int, tokens: int) -> np.dtype:
    """Queries drawn at random, the same ones for all heads: values [metrics, heads], NaN where a metric has nothing to
    measure, and weights [heads, tokens] as above."""
    fields: list[Any] = [*QUERY, ("values", np.float32, (metrics, heads)), ("weights", np.float32, (heads, tokens))]
    return np.dtype(fields, align=True)


def rows_of(dtype: np.dtype, **fields: ArrayLike) -> NDArray[np.void]:
    """Rows of this kind from all of their fields. A number stands for the same one in each row."""
    rows = np.empty(len(np.asarray(fields["query"])), dtype)
    for name in dtype.names or ():
        rows[name] = fields[name]
    return rows


def _joined(parts: Sequence[NDArray[np.void]]) -> NDArray[np.void]:
    """Rows of one kind one after another, copied as bytes: field by field NumPy takes twice as long."""
    dtype = parts[0].dtype
    return np.concatenate([rows.view(f"V{dtype.itemsize}") for rows in parts]).view(dtype)


def draws(passage: int, queries: int) -> NDArray[np.uint64]:
    """The draw of each query of a passage: [queries] 64 bits, as good as random (splitmix64, Steele et al. 2014)."""
    with np.errstate(over="ignore"):
        mixed = np.uint64(passage) + (np.arange(queries, dtype=np.uint64) + 1) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


class _KeptSoFar:
    """Collects rows, and drops those that are not wanted whenever there are too many. A subclass says which."""

    def __init__(self, dtype: np.dtype, wanted: int) -> None:
        """wanted: how many rows are kept at most"""
        self._held, self._count, self._limit = [np.empty(0, dtype)], 0, int(PRUNE_AT * wanted)

    def extend(self, rows: NDArray[np.void]) -> None:
        if not len(rows):
            return
        self._held.append(rows)
        self._count += len(rows)
        if self._count > self._limit:
            self._prune()

    @property
    def rows(self) -> NDArray[np.void]:
        """The rows that are kept, in the order that the class names."""
        self._prune()
        return self._held[0]

    def _prune(self) -> None:
        """Make `_held` one array of the wanted rows, in their order, and `_count` its length."""
        raise NotImplementedError


class SampleSoFar(_KeptSoFar):
    """Collects the queries with the smallest draws, at most `most`: the smallest first."""

    def __init__(self, dtype: np.dtype, most: int) -> None:
        super().__init__(dtype, most)
        self.dtype, self._most = dtype, most
        self._last: np.uint64 | None = None  # the draw that a query has to stay below, once there are enough

    def candidates(self, draw: NDArray[np.uint64]) -> NDArray[np.intp]:
        """The queries of a passage that may become part of the sample, by their draws: their places, rising."""
        if self._last is not None:
            return np.flatnonzero(draw < self._last)
        return np.sort(np.argsort(draw)[: self._most])

    def _prune(self) -> None:
        if len(self._held) > 1:
            draw = np.concatenate([rows["draw"] for rows in self._held])
            self._held = [_joined(self._held)[np.argsort(draw, kind="stable")[: self._most]]]
        self._count = len(self._held[0])
        if 0 < self._count == self._most:
            self._last = self._held[0]["draw"][-1]


class StrongestSoFar(_KeptSoFar):
    """Collects the strongest queries: of each of so many heads and metrics at most `most`. For each head and metric, in their
    order, the rows with the largest scores, the largest first."""

    def __init__(self, heads: int, metrics: int, most: int, tokens: int) -> None:
        super().__init__(strongest_dtype(tokens), heads * metrics * most)
        self._most = most
        # The score and draw that a query has to beat; 0, which it has to exceed, until there are enough.
        self._score = np.zeros((heads, metrics), np.float32)
        self._draw = np.zeros((heads, metrics), np.uint64)

    def candidates(
        self, heads: slice | list[int], scores: NDArray, draw: NDArray[np.uint64]
    ) -> tuple[NDArray[np.intp], ...]:
        """The queries of a passage that may be among the strongest: (metric, place in `heads`, query), each [candidates].

        scores  [metrics, heads, queries], NaN where there is none; only scores above 0 are ever kept
        draw    [queries]
        """
        least, tie = self._score[heads].T[..., None], self._draw[heads].T[..., None]
        return np.nonzero((scores > least) | ((scores == least) & (draw < tie)))

    def add(self, **fields: ArrayLike) -> None:
        """Add queries, by the fields of `strongest_dtype`."""
        self.extend(rows_of(self._held[0].dtype, **fields))

    def _prune(self) -> None:
        rows = _joined(self._held)
        group = rows["head"] * self._score.shape[1] + rows["metric"]
        order = np.lexsort((rows["draw"], -rows["score"], group))
        group = group[order]
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        counts = np.diff(starts, append=len(rows))
        rank = np.arange(len(rows)) - np.repeat(starts, counts)
        weakest = rows[order[starts[counts >= self._most] + self._most - 1]]
        self._score[weakest["head"], weakest["metric"]] = weakest["score"]
        self._draw[weakest["head"], weakest["metric"]] = weakest["draw"]
        self._held = [rows.take(order[rank < self._most])]
        self._count = len(self._held[0])
