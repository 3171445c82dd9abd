"""One head of a text of any length: the trace of any of its rows, and its stages as matrices that are computed row by row.

A trace holds [queries, keys] arrays, which grow with the square of the text. A head makes traces of a few rows at a time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..progress import stop_point
from .ledger import Ledger, OutputSum, explain, refuse_outside, sum_of
from .masks import Predicate
from .rowwise import (
    MAX_CELLS,
    Band,
    Entries,
    Overview,
    Pooled,
    RowwiseMatrix,
    ceil_divide,
    pool,
    row_ranges,
    strongest_of,
    sweep,
)
from .shaping import Shaping
from .stages import BY_KEY, INPUTS, STAGES, Stage
from .trace import AS_IT_IS, Array, AttentionTrace, Instead, attend, frozen, part_of

Permissions = Callable[[range], tuple[NDArray[np.bool_], Array]]
Watch = Callable[[range, AttentionTrace], None]
Edited = Callable[[range], Instead]


def unedited(_: range) -> Instead:
    return AS_IT_IS


@dataclass(frozen=True, eq=False, repr=False)
class Head:
    """One attention head, in memory that grows linearly with the text.

    query, key, value  as in AttentionTrace
    shaping      gives what shapes the scores of some rows, with a mask and a bias [rows, keys]
    edited       gives what an edit puts in the place of some rows

    Get one from a trace by `Head.of`, or from a model's pass by `Capture.head`.
    """

    query: Array
    key: Array
    value: Array
    shaping: Callable[[range], Shaping]
    edited: Edited = unedited

    def __repr__(self) -> str:
        return "<Head: {:,} queries × {:,} keys>".format(*self.shape)

    @classmethod
    def of(cls, trace: AttentionTrace, permissions: Permissions | None = None, edited: Edited | None = None) -> "Head":
        """The head of a trace, with the trace's own mask, bias and edit unless others are given.

        permissions  gives (mask, bias) of some rows, both [rows, keys]
        """

        def shaping(rows: range) -> Shaping:
            if permissions is None:
                return trace.rows(rows).shaping
            mask, bias = map(frozen, permissions(rows))
            return replace(trace.shaping, mask=mask, bias=bias)

        return cls(trace.query, trace.key, trace.value, shaping, edited or (lambda rows: trace.rows(rows).instead))

    @property
    def shape(self) -> tuple[int, int]:
        """(queries, keys)."""
        return self.query.shape[0], self.key.shape[0]

    @property
    def scale(self) -> float:
        """What the raw scores are multiplied by."""
        return self.shaping(range(1)).scale

    def trace(self, rows: range) -> AttentionTrace:
        """The trace of these queries alone, after a stop point. Raises InputError for rows that are not there."""
        stop_point()
        query = self.query[part_of(rows, self.shape[0], "queries")]
        return AttentionTrace(query, self.key, self.value, self.shaping(rows), self.edited(rows))

    def changed(self, *, scale: float | None = None, mask: Predicate | ArrayLike | None = None) -> "Head":
        """The head with another scale, another mask, or both; None keeps its own. Errors as in `attend`.

        mask  a predicate, asked for a few rows at a time, or [queries, keys] bool
        """
        own, whole = self.shaping(range(1)), None if callable(mask) else mask
        options = vars(own) | {"scale": own.scale if scale is None else scale, "mask": whole, "bias": None}
        checked, keys = attend(self.query, self.key, self.value, **options), np.arange(self.shape[1])

        def permissions(rows: range) -> tuple[NDArray[np.bool_], Array]:
            before = self.shaping(rows)
            if callable(mask):
                allowed = np.broadcast_to(mask(np.arange(rows.start, rows.stop)[:, None], keys), before.mask.shape)
                return allowed, before.bias
            return before.mask if mask is None else checked.mask[rows.start : rows.stop], before.bias

        return Head.of(checked, permissions, self.edited)

    def overview(self, max_cells: int = MAX_CELLS, *, watch: Watch | None = None) -> Overview:
        """Every stage in at most `max_cells` rows and columns, from one sweep over the rows.

        Its matrices are the stages by their keys. Its row numbers are "output" [queries, d_v] and "forbidden" [queries], how
        many keys a query may not attend to. `watch` is called with the rows and the trace of each band, as `reached` gives it.
        """
        poolings, row_numbers = sweep(self._bands(max_cells, watch), self.shape, max_cells)
        stages = {key: pooling.pooled() for key, pooling in poolings.items()}
        # A product of the number farthest from 0 is the product farthest from 0.
        stages["scaled"] = poolings["raw"].pooled(times=self.scale)
        stages["mask"] = replace(stages["masked"], values=np.where(stages["masked"].allowed, 1.0, np.nan))
        stages |= {stage.key: pool(getattr(self, stage.key), max_cells) for stage in INPUTS}
        stages["output"] = pool(row_numbers["output"], max_cells)
        return Overview({stage.key: stages[stage.key] for stage in STAGES}, row_numbers)

    def stages(self, *keys: str) -> "HeadStages":
        """Stages of one shape by their keys, as matrices of which any part can be had."""
        return HeadStages(self, tuple(BY_KEY[key] for key in keys))

    def window(self, stage_key: str, rows: range, columns: range) -> Pooled:
        """A part of one stage, every number exact. Raises InputError for what is not there."""
        return self.stages(stage_key).window(rows, columns).matrices[stage_key]

    def explain(self, query: int, key: int) -> Ledger:
        """The arithmetic of one cell, as in `core.attention.ledger.explain`, with its errors."""
        refuse_outside(self.shape, query, key)
        return replace(explain(self.trace(range(query, query + 1)), 0, key), query=query)

    def sum_of(self, query: int, most: int = 8) -> OutputSum:
        """The output of one query as a sum, as in `core.attention.ledger.sum_of`, with its errors."""
        refuse_outside(self.shape, query)
        return replace(sum_of(self.trace(range(query, query + 1)), 0, most), query=query)

    def strongest(self, overview: Overview) -> tuple[int, int]:
        """The (query, key) worth looking at first, by the weights."""
        weights = overview.matrices["weights"]
        picture = replace(weights, values=np.nan_to_num(weights.values))  # a forbidden weight is 0, as it is in a trace
        return strongest_of(picture, self.stages("weights").exact)

    def blocks(self, multiple: int = 1) -> Iterator[range]:
        """All rows in ranges that fit the processor's cache; `multiple` is as in `row_ranges`."""
        return row_ranges(range(self.shape[0]), self.shape[1], multiple)

    def _bands(self, max_cells: int, watch: Watch | None) -> Iterator[Band]:
        """The stages from which the others follow once they are pooled."""
        for rows in self.blocks(ceil_divide(self.shape[0], max_cells)):
            trace = self.trace(rows)
            reached = trace.reached()
            yield _swept(rows, trace.raw, reached)
            if watch is not None:
                watch(rows, reached)
            del trace, reached  # before the next one is made: they take the same room in the processor's cache


def _swept(rows: range, raw: Array, trace: AttentionTrace) -> Band:
    """The raw scores of all keys, and everything else of those that one of these rows reaches."""
    mask = trace.mask
    matrices = {
        "raw": Entries(raw, np.ones(raw.shape, dtype=np.bool_)),
        "masked": Entries(np.where(mask, trace.masked, 0), mask),
        "weights": Entries(trace.weights, mask),
    }
    # Counted in packed bits, four times as fast as the sum of a row.
    forbidden = raw.shape[1] - np.bitwise_count(np.packbits(mask, axis=1)).sum(axis=1, dtype=np.int64)
    return Band(rows.start, matrices, {"output": trace.output, "forbidden": forbidden})


@dataclass(frozen=True, eq=False)
class HeadStages(RowwiseMatrix):
    """Stages of a head as matrices of one shape, with rows and columns as each stage names them."""

    head: Head
    stages: tuple[Stage, ...]

    @property
    def shape(self) -> tuple[int, int]:
        stage, (queries, keys) = self.stages[0], self.head.shape
        if stage in INPUTS:
            return getattr(self.head, stage.key).shape
        return queries, keys if stage.columns == "key" else self.head.value.shape[1]

    @property
    def names(self) -> tuple[str, str]:
        return "rows" if self.stages[0] in INPUTS else "queries", "columns"

    def band(self, rows: range) -> Band:
        if self.stages[0] in INPUTS:
            part = slice(rows.start, rows.stop)
            return Band(rows.start, {each.key: Entries.of(getattr(self.head, each.key)[part]) for each in self.stages})
        trace = self.head.trace(rows)
        matrices = {}
        for stage in self.stages:
            values = stage.values(trace)
            values = values.astype(float) if stage.scale == "permission" else values
            matrices[stage.key] = Entries.of(values, trace.mask if stage.after_mask else None)
        return Band(rows.start, matrices)
