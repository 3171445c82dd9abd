"""Other ways of looking at heads: weighted by what is passed on, without some tokens, word by word, several heads at once.

Every view is made from the exact stages, some query rows at a time (`core.capturing.rows`), so that it costs the memory of the
picture and not of the text.

    weights  w_qk                        who is looked at
    values   w_qk · |v_k|                how much arrives of what was found there
    outputs  w_qk · |v_k W_O|            and of what leaves the head (Kobayashi et al. 2020, equation 5)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from core.capturing.capture import Capture
from core.capturing.rows import Rows, row_blocks
from core.errors import InputError
from core.models.calls import Call
from core.models.modules import Kind
from core.models.projections import head_weights
from core.models.words import merge_keys

Array = NDArray[np.floating]

Quantity = Literal["weights", "values", "outputs", "raw", "scaled", "masked"]

MAX_CELLS = 256  # of a picture, per side
SCORES = ("raw", "scaled", "masked")


@dataclass(frozen=True, eq=False)
class View:
    """What to show of which heads.

    heads        (layer, head) pairs; of several, the mean is shown
    quantity     see the module; "raw", "scaled" and "masked" are the scores before the softmax
    hidden       [keys] bool: tokens that are left out as keys, or None
    renormalise  divide what remains of a row by its sum, so that it is again a share
    query_starts, key_starts  where words begin: keys are summed, queries averaged (Clark et al. 2019, section 4.1); None:
                 tokens as they are
    """

    heads: tuple[tuple[int, int], ...]
    quantity: Quantity = "weights"
    hidden: NDArray[np.bool_] | None = None
    renormalise: bool = False
    query_starts: NDArray[np.integer] | None = None
    key_starts: NDArray[np.integer] | None = None


@dataclass(frozen=True, eq=False)
class Seen:
    """A part of a view, or the whole of it made small.

    values   [rows, columns], NaN where forbidden or left out
    allowed  [rows, columns] bool, False where every pair that a cell stands for is masked
    removed  [queries] the share of each query's attention that went to what is left out (before any renormalising), also
             where a row of values stands for several queries
    rows, columns            position of the first query and the first key (token or word)
    row_block, column_block  how many rows and columns a cell stands for; it shows the number farthest from 0 among them
    """

    values: Array
    allowed: NDArray[np.bool_]
    removed: Array
    rows: int
    columns: int
    row_block: int
    column_block: int


def shape(capture: Capture, kind: Kind, view: View) -> tuple[int, int]:
    """(rows, columns) of a view: its queries and keys, tokens or words."""
    call = capture.calls[kind][0]
    rows = call.query.shape[2] if view.query_starts is None else len(view.query_starts)
    columns = call.key.shape[2] if view.key_starts is None else len(view.key_starts)
    return rows, columns


def overview(capture: Capture, kind: Kind, view: View, max_cells: int = MAX_CELLS) -> Seen:
    """The whole view in at most `max_cells` rows and columns: each cell has the number farthest from 0 among its own."""
    rows, columns = shape(capture, kind, view)
    row_block, column_block = -(-rows // max_cells), -(-columns // max_cells)
    parts = [
        _pooled(part, row_block, column_block) for part in _parts(capture, kind, view, range(rows), multiple=row_block)
    ]
    return _seen(parts, 0, 0, row_block, column_block)


def window(capture: Capture, kind: Kind, view: View, rows: range, columns: range) -> Seen:
    """A part of the view, every number of it exact."""
    part_columns = slice(columns.start, columns.stop)
    parts = [
        _Part(part.values[:, part_columns], part.seen[:, part_columns], part.allowed[:, part_columns], part.removed)
        for part in _parts(capture, kind, view, rows, multiple=1)
    ]
    return _seen(parts, rows.start, columns.start, 1, 1)


def around(place: int, length: int, size: int) -> range:
    """A window of at most `size` positions with `place` as near to its middle as the text allows."""
    start = max(0, min(place - size // 2, length - size))
    return range(start, min(start + size, length))


@dataclass(frozen=True, eq=False)
class _Part:
    """Some rows of a view with all its columns.

    values   0 where not seen
    seen     neither forbidden nor left out
    allowed  not forbidden
    removed  of every query
    """

    values: Array
    seen: NDArray[np.bool_]
    allowed: NDArray[np.bool_]
    removed: Array


def _seen(parts: Sequence[_Part], rows: int, columns: int, row_block: int, column_block: int) -> Seen:
    values = np.concatenate([np.where(part.seen, part.values, np.nan) for part in parts])
    allowed = np.concatenate([part.allowed for part in parts])
    removed = np.concatenate([part.removed for part in parts])
    return Seen(values, allowed, removed, rows, columns, row_block, column_block)


def _parts(capture: Capture, kind: Kind, view: View, rows: range, multiple: int) -> Iterator[_Part]:
    """The rows of a view in order, a multiple of so many at a time (but for the last)."""
    _check(capture, kind, view)
    call = capture.calls[kind][0]
    keys = call.key.shape[2]
    at_once = max(1, 2**19 // keys // multiple) * multiple
    sizes = {at: _sizes(capture, kind, view.quantity, *at) for at in view.heads}
    for start in range(rows.start, rows.stop, at_once):
        wanted = range(start, min(start + at_once, rows.stop))
        tokens = _tokens(wanted, view.query_starts, call.query.shape[2])
        shown = (_of_head(capture.calls[kind][at[0]], at[1], view, tokens, sizes[at]) for at in view.heads)
        yield _by_word(_mean(shown, len(view.heads)), view, wanted, tokens)


def _tokens(rows: range, starts: NDArray[np.integer] | None, count: int) -> range:
    """The query tokens that these rows stand for."""
    if starts is None:
        return rows
    return range(int(starts[rows.start]), int(starts[rows.stop]) if rows.stop < len(starts) else count)


def _of_head(call: Call, head: int, view: View, tokens: range, sizes: Array | None) -> _Part:
    keys = call.key.shape[2]
    blocks = list(row_blocks(call, head, rows=tokens))
    allowed = np.concatenate([_padded(rows.allowed[0].numpy(force=True), keys) for rows in blocks])
    values = np.concatenate([_padded(_stage(rows, view.quantity), keys) for rows in blocks])
    removed = np.zeros(len(values))
    if view.hidden is not None:
        weights = values if view.quantity == "weights" else _weights(blocks, keys)
        removed = weights[:, view.hidden].sum(axis=1, dtype=np.float64)
    if sizes is not None:
        values = values * sizes
    if view.hidden is not None and view.quantity not in SCORES:
        values = np.where(view.hidden, 0, values)
        if view.renormalise:
            total = values.sum(axis=1, keepdims=True)
            values = np.divide(values, total, out=np.zeros_like(values), where=total > 0)
    seen = allowed if view.hidden is None else allowed & ~view.hidden
    return _Part(values, seen, allowed, removed)


def _stage(rows: Rows, quantity: Quantity) -> Array:
    if quantity in SCORES:
        # Forbidden scores are told by `allowed`: a -inf could not be averaged over heads.
        return getattr(rows, quantity).masked_fill(~rows.allowed, 0)[0].numpy(force=True)
    return rows.weights[0].numpy(force=True)


def _weights(blocks: Sequence[Rows], keys: int) -> Array:
    return np.concatenate([_padded(rows.weights[0].numpy(force=True), keys) for rows in blocks])


def _padded(block: NDArray, keys: int) -> NDArray:
    """With the keys that a block leaves off because no row of it may attend to them."""
    missing = keys - block.shape[1]
    return np.pad(block, ((0, 0), (0, missing))) if missing else block


def _mean(parts: Iterator[_Part], heads: int) -> _Part:
    """Added up as they come, so that the rows of no more than two heads are there at once."""
    total = reduce(_sum, parts)
    return _Part(total.values / heads, total.seen, total.allowed, total.removed / heads)


def _sum(one: _Part, other: _Part) -> _Part:
    return _Part(
        one.values + other.values, one.seen | other.seen, one.allowed | other.allowed, one.removed + other.removed
    )


def _by_word(part: _Part, view: View, rows: range, tokens: range) -> _Part:
    """Words for tokens: of what is true of a token, any that is true of one of its tokens is true of a word."""
    values, seen, allowed, removed = part.values, part.seen, part.allowed, part.removed
    if view.key_starts is not None:
        values = merge_keys(values, view.key_starts)
        seen, allowed = (np.logical_or.reduceat(marks, view.key_starts, axis=1) for marks in (seen, allowed))
    if view.query_starts is not None:
        starts = view.query_starts[rows.start : rows.stop] - tokens.start
        lengths = np.diff([*starts, len(tokens)])
        values = np.add.reduceat(values, starts, axis=0) / lengths[:, None].astype(values.dtype)
        seen, allowed = (np.logical_or.reduceat(marks, starts, axis=0) for marks in (seen, allowed))
        removed = np.add.reduceat(removed, starts) / lengths
    return _Part(values, seen, allowed, removed)


def _pooled(part: _Part, row_block: int, column_block: int) -> _Part:
    """One cell for each block of cells. What is not seen is 0, and 0 is never farther from 0 than anything else."""
    if row_block == column_block == 1:
        return part
    highest, lowest, seen, allowed = (
        _over_blocks(over, values, row_block, column_block)
        for over, values in (
            (np.maximum, part.values),
            (np.minimum, part.values),
            (np.logical_or, part.seen),
            (np.logical_or, part.allowed),
        )
    )
    return _Part(np.where(-lowest > highest, lowest, highest), seen, allowed, part.removed)


def _over_blocks(over: np.ufunc, values: NDArray, rows: int, columns: int) -> NDArray:
    """A ufunc over blocks of rows and columns. Zeros fill up the last ones, which changes no number farthest from 0.

    A reshaped array is reduced many times faster than by `reduceat`.
    """
    down, across = (-length % block for length, block in zip(values.shape, (rows, columns), strict=True))
    full = np.pad(values, ((0, down), (0, across))) if down or across else values
    narrow = over.reduce(full.reshape(-1, rows, full.shape[1]), axis=1)
    return over.reduce(narrow.reshape(len(narrow), -1, columns), axis=2)


def _sizes(capture: Capture, kind: Kind, quantity: Quantity, layer: int, head: int) -> Array | None:
    """[keys] what each weight is multiplied by, or None."""
    if quantity not in ("values", "outputs"):
        return None
    call = capture.calls[kind][layer]
    key_head, _ = capture.key_head(layer, head, kind)
    value = call.value[0, key_head].double().numpy(force=True)
    if quantity == "outputs":
        value = value @ head_weights(capture.model, layer, head, kind).W_O.astype(np.float64)
    return np.linalg.norm(value, axis=1)


def _check(capture: Capture, kind: Kind, view: View) -> None:
    if not view.heads:
        raise InputError("No head is chosen. Choose at least one.", field="heads")
    for layer, head in view.heads:
        capture.key_head(layer, head, kind)  # raises where there is none
    merging = (view.query_starts is not None) or (view.key_starts is not None)
    if merging and view.quantity in SCORES:
        raise InputError(
            "Scores of several tokens have no common score; choose weights to see words.", field="quantity"
        )
