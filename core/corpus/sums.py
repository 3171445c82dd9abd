"""The queries that are kept of a corpus, the same ones in whatever order passages are read.

With all of their weights are kept those where a metric is largest, and a sample. Both are bounded whatever the size of the
corpus. The strongest are ordered by the metric and then by their draw, the sample by the draw alone; a draw is a number that
follows from where a query stands. Queries are the rows of structured arrays.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
