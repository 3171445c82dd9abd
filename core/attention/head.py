"""One head of a text of any length: the trace of any of its rows, every stage small enough to draw, any part of one exactly.

A trace holds [queries, keys] arrays, and so grows with the square of the text; a head holds the inputs and makes the traces of
a few rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .ledger import Ledger, OutputSum, explain, refuse_outside, strongest_of, sum_of
from .masks import Predicate
from .pooling import Pooled, Pooling, pool
from .stages import BY_KEY, STAGES, Stage
from .trace import AS_IT_IS, Array, AttentionTrace, Instead, attend, frozen, part_of

# Numbers of a block of rows in one stage: the half of a megabyte in float32, so that the stages of a block, which are made
# one after another, find each other in the processor's cache.
CELLS = 2**17
MAX_CELLS = 256  # of a picture, per side

Permissions = Callable[[range], tuple[NDArray[np.bool_], Array]]
Edited = Callable[[range], Instead]


def unedited(_: range) -> Instead:
    return AS_IT_IS


@dataclass(frozen=True, eq=False)
class Overview:
    """Every stage of a head, small enough to draw.

    stages     by the key of the stage: what `pool` gives for its array, forbidden pairs told apart in stages after the mask
    output     [queries, d_v], whole
    forbidden  how many pairs are
    """

    stages: dict[str, Pooled]
    output: Array
    forbidden: int


@dataclass(frozen=True, eq=False, repr=False)
class Head:
    """One attention head, in memory that grows linearly with the text.

    query, key, value, scale, softcap, sinks: as in AttentionTrace
    permissions  gives (mask, bias) of some rows, both [rows, keys], as in AttentionTrace
    edited       gives what an edit puts in the place of some rows

    Get one from a trace by `Head.of`, or from a model's pass by `Capture.head`.
    """

    query: Array
    key: Array
    value: Array
    scale: float
    softcap: float | None
    sinks: float | None
    permissions: Permissions
    edited: Edited = unedited

    def __repr__(self) -> str:
        """In one line, without its numbers."""
        return "<Head: {:,} queries × {:,} keys>".format(*self.shape)

    @classmethod
    def of(cls, trace: AttentionTrace, permissions: Permissions | None = None, edited: Edited | None = None) -> Head:
        """The head of a trace; with other permissions and another edit than the trace's own if they are given."""

        def own(rows: range) -> tuple[NDArray[np.bool_], Array]:
            part = trace.rows(rows)
            return part.mask, part.bias

        def own_edit(rows: range) -> Instead:
            return trace.rows(rows).instead

        inputs = (trace.query, trace.key, trace.value, trace.scale, trace.softcap, trace.sinks)
        return cls(*inputs, permissions or own, edited or own_edit)

    @property
    def shape(self) -> tuple[int, int]:
        """(queries, keys)."""
        return self.query.shape[0], self.key.shape[0]

    def trace(self, rows: range) -> AttentionTrace:
        """The trace of these queries alone. Raises InputError for rows that are not there."""
        query = self.query[part_of(rows, self.shape[0], "queries")]
        mask, bias = self.permissions(rows)
        return AttentionTrace(
            query,
            self.key,
            self.value,
            self.scale,
            frozen(mask),
            frozen(bias),
            self.softcap,
            self.sinks,
            self.edited(rows),
        )

    def changed(self, *, scale: float | None = None, mask: Predicate | ArrayLike | None = None) -> Head:
        """The same head with another scale, another mask, or both; what is None stays as it is.

        mask  a predicate, asked for a few rows at a time, or [queries, keys] bool

        Raises InputError as `attend` does.
        """
        checked = attend(
            self.query,
            self.key,
            self.value,
            scale=self.scale if scale is None else scale,
            mask=None if callable(mask) else mask,
            softcap=self.softcap,
            sinks=self.sinks,
        )
        before, keys = self.permissions, np.arange(self.shape[1])

        def permissions(rows: range) -> tuple[NDArray[np.bool_], Array]:
            allowed, bias = before(rows)
            if callable(mask):
                allowed = np.broadcast_to(mask(np.arange(rows.start, rows.stop)[:, None], keys), allowed.shape)
            elif mask is not None:
                allowed = checked.mask[rows.start : rows.stop]
            return allowed, bias

        return Head.of(checked, permissions, self.edited)

    def overview(
        self, max_cells: int = MAX_CELLS, *, watch: Callable[[range, AttentionTrace], None] | None = None
    ) -> Overview:
        """Every stage in at most `max_cells` rows and columns, from one sweep over the rows.

        watch  called with the rows and the trace of each block, from the first to the last, for what else is to be known of
               all rows
        """
        pooling = {key: Pooling(self.shape, max_cells) for key in ("raw", "masked", "weights")}
        output, allowed_pairs = [], 0
        for rows in self.blocks(pooling["raw"].row_block):
            trace = self.trace(rows)
            mask, every = trace.mask, np.broadcast_to(np.True_, trace.shape)
            pooling["raw"].add(rows.start, trace.raw, every, every)
            pooling["masked"].add(rows.start, np.where(mask, trace.masked, 0), mask, mask)
            pooling["weights"].add(rows.start, trace.weights, mask, mask)
            output.append(trace.output)
            allowed_pairs += int(np.count_nonzero(mask))
            if watch is not None:
                watch(rows, trace)
        whole = frozen(np.concatenate(output))
        stages = {key: of_stage.pooled() for key, of_stage in pooling.items()}
        # A product of the number farthest from 0 is the product farthest from 0.
        stages["scaled"] = pooling["raw"].pooled(times=self.scale)
        stages["mask"] = replace(stages["masked"], values=np.where(stages["masked"].allowed, 1.0, np.nan))
        stages |= {key: pool(getattr(self, key), max_cells) for key in ("query", "key", "value")}
        stages["output"] = pool(whole, max_cells)
        ordered = {stage.key: stages[stage.key] for stage in STAGES}
        return Overview(ordered, whole, self.shape[0] * self.shape[1] - allowed_pairs)

    def window(self, stage_key: str, rows: range, columns: range) -> Pooled:
        """A part of one stage, every number of it exact. Raises InputError for what is not there."""
        stage = BY_KEY[stage_key]
        values, allowed = self._rows_of(stage, rows)
        across = (slice(None), part_of(columns, values.shape[1], "columns"))
        part = pool(values[across], max(len(rows), len(columns)), None if allowed is None else allowed[across])
        return replace(part, start=(rows.start, columns.start))

    def explain(self, query: int, key: int) -> Ledger:
        """`core.attention.ledger.explain` of one cell. Raises InputError for positions that are not there."""
        refuse_outside(self.shape, query, key)
        return replace(explain(self.trace(range(query, query + 1)), 0, key), query=query)

    def sum_of(self, query: int, most: int = 8) -> OutputSum:
        """`core.attention.ledger.sum_of` one query. Raises InputError for a position that is not there."""
        refuse_outside(self.shape, query)
        return replace(sum_of(self.trace(range(query, query + 1)), 0, most), query=query)

    def strongest(self, overview: Overview) -> tuple[int, int]:
        """The (query, key) worth looking at first, as in `strongest_pair`; where the cells of the overview stand for several,
        the largest weight in the one that is chosen so."""
        weights = overview.stages["weights"]
        picture = replace(weights, values=np.nan_to_num(weights.values))  # a forbidden weight is 0, as it is in a trace
        return strongest_of(picture, lambda rows, columns: self.window("weights", rows, columns).values)

    def blocks(self, multiple: int = 1) -> Iterator[range]:
        """All rows in blocks of about `CELLS` numbers a stage, each but the last a multiple of so many rows."""
        queries, keys = self.shape
        size = max(1, CELLS // keys // multiple) * multiple
        for start in range(0, queries, size):
            yield range(start, min(start + size, queries))

    def _rows_of(self, stage: Stage, rows: range) -> tuple[NDArray, NDArray[np.bool_] | None]:
        """Some rows of a stage with all its columns, and which of them are not masked; None: all."""
        if stage.rows == "key" or stage.key == "query":  # inputs
            whole = getattr(self, stage.key)
            return whole[part_of(rows, len(whole), "rows")], None
        trace = self.trace(rows)
        values = stage.values(trace)
        return values.astype(float) if stage.scale == "permission" else values, trace.mask if stage.after_mask else None
