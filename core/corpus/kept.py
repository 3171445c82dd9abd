"""The queries of a corpus that are kept with all of their weights: those where a metric is largest, and a sample.

Both are bounded whatever the size of the corpus, and the same in whatever order it is read. The strongest are ordered by the
metric and then by their draw, the sample by the draw alone; a draw is a number that follows from where a query stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

PRUNE_AT = 1.25  # rows are pruned once there are this many times as many as can be kept


def draws(passage: int, queries: int) -> NDArray[np.uint64]:
    """The draw of each query of a passage: [queries] 64 bits, as good as random (splitmix64, Steele et al. 2014)."""
    with np.errstate(over="ignore"):
        mixed = np.uint64(passage) + (np.arange(queries, dtype=np.uint64) + 1) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@dataclass(eq=False)
class QueryTable:
    """Columns of equal length: the base of both tables below."""

    def __len__(self) -> int:
        return len(self.columns()[0])

    def columns(self) -> list[NDArray]:
        return [getattr(self, one.name) for one in fields(self)]

    def take(self, places: NDArray) -> Any:
        """A table of these rows alone, in this order."""
        return type(self)(*(column[places] for column in self.columns()))

    @classmethod
    def joined(cls, tables: Iterable[Any]) -> Any:
        """One table of the rows of several."""
        return cls(*map(np.concatenate, zip(*(table.columns() for table in tables), strict=True)))


@dataclass(eq=False)
class Strongest(QueryTable):
    """Queries at which a metric of a head is large.

    head     [rows] as the tally counts them
    metric   [rows] as the tally counts them
    score    [rows] what the metric is there
    draw     [rows] uint64; of equal scores the one with the smaller draw comes first
    passage  [rows] uint64, its id
    query    [rows] its position in the passage
    weights  [rows, tokens] float32, all of its weights; NaN after the last key of the passage
    """

    head: NDArray[np.int32]
    metric: NDArray[np.int16]
    score: NDArray[np.float32]
    draw: NDArray[np.uint64]
    passage: NDArray[np.uint64]
    query: NDArray[np.int32]
    weights: NDArray[np.float32]

    @classmethod
    def empty(cls, tokens: int) -> Strongest:
        return cls(
            np.empty(0, np.int32),
            np.empty(0, np.int16),
            np.empty(0, np.float32),
            np.empty(0, np.uint64),
            np.empty(0, np.uint64),
            np.empty(0, np.int32),
            np.empty((0, tokens), np.float32),
        )

    def best(self, most: int) -> Strongest:
        """The `most` rows with the largest scores of each head and metric, the largest first."""
        order = np.lexsort((self.draw, -self.score, self.metric, self.head))
        group = np.stack([self.head[order], self.metric[order].astype(np.int32)])
        begins = (
            np.concatenate([[True], (group[:, 1:] != group[:, :-1]).any(axis=0)]) if len(order) else np.empty(0, bool)
        )
        starts = np.flatnonzero(begins)
        rank = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
        return self.take(order[rank < most])


class StrongestSoFar:
    """Collects the strongest queries, which are in `rows`.

    heads, metrics  how many there are
    most            the maximum number of rows that are kept of each head and metric
    """

    def __init__(self, heads: int, metrics: int, most: int, tokens: int) -> None:
        self._most, self._limit = most, int(PRUNE_AT * heads * metrics * most)
        self._held: list[Strongest] = [Strongest.empty(tokens)]
        self._count = 0
        # The score and draw that a query has to beat; 0, which it has to exceed, until there are enough.
        self._score = np.zeros((heads, metrics), np.float32)
        self._draw = np.zeros((heads, metrics), np.uint64)

    def candidates(
        self, heads: Sequence[int] | NDArray, scores: NDArray[np.float32], draw: NDArray[np.uint64]
    ) -> tuple[NDArray, NDArray, NDArray]:
        """The queries of a passage that may be among the strongest: (metric, place in `heads`, query), each [candidates].

        scores  [metrics, heads, queries], NaN where there is none; only scores above 0 are ever kept
        draw    [queries]
        """
        least, tie = self._score[heads].T[..., None], self._draw[heads].T[..., None]
        return np.nonzero((scores > least) | ((scores == least) & (draw < tie)))  # type: ignore[return-value]

    def add(self, rows: Strongest) -> None:
        if not len(rows):
            return
        self._held.append(rows)
        self._count += len(rows)
        if self._count > self._limit:
            self._prune()

    @property
    def rows(self) -> Strongest:
        self._prune()
        return self._held[0]

    def _prune(self) -> None:
        best = Strongest.joined(self._held).best(self._most)
        self._held, self._count = [best], len(best)
        full = np.zeros(self._score.shape, np.int64)
        np.add.at(full, (best.head, best.metric), 1)
        # The last of each metric of each head is its weakest.
        last = np.flatnonzero(
            np.append((best.head[1:] != best.head[:-1]) | (best.metric[1:] != best.metric[:-1]), True)
        )
        last = last[: len(best)]
        last = last[full[best.head[last], best.metric[last]] >= self._most]
        self._score[best.head[last], best.metric[last]] = best.score[last]
        self._draw[best.head[last], best.metric[last]] = best.draw[last]


@dataclass(eq=False)
class Sample(QueryTable):
    """Queries drawn at random, the same ones for all heads, the smallest draw first.

    draw     [rows] uint64
    passage  [rows] uint64, its id
    query    [rows] its position in the passage
    values   [rows, metrics, heads] float32, NaN where a metric has nothing to measure
    weights  [rows, heads, tokens] float32; NaN after the last key of the passage
    """

    draw: NDArray[np.uint64]
    passage: NDArray[np.uint64]
    query: NDArray[np.int32]
    values: NDArray[np.float32]
    weights: NDArray[np.float32]

    @classmethod
    def empty(cls, metrics: int, heads: int, tokens: int) -> Sample:
        return cls(
            np.empty(0, np.uint64),
            np.empty(0, np.uint64),
            np.empty(0, np.int32),
            np.empty((0, metrics, heads), np.float32),
            np.empty((0, heads, tokens), np.float32),
        )

    def first(self, most: int) -> Sample:
        """The `most` rows with the smallest draws."""
        return self.take(np.argsort(self.draw, kind="stable")[:most])
