"""Attention in blocks of keys: the same result without ever holding a whole row of scores.

The softmax of a row needs its maximum and its sum, which seem to need every score first. Milakov and Gimelshein 2018, "Online
normalizer calculation for softmax", algorithm 3, keep both up to date while scores arrive; Dao et al. 2022, "FlashAttention",
algorithm 1, do the same with the output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..attention.trace import Array, AttentionTrace, attend
from ..errors import InputError

FORMATS = ("float64", "float32")


@dataclass(frozen=True, eq=False)
class Blocks:
    """What is known after each block of keys.

    ends        [blocks] how many keys have been seen
    maximum     [blocks, queries] the largest score so far (of the sink too); -inf before any key was allowed
    correction  [blocks, queries] in [0, 1]: e^(old maximum - new maximum), what old sums are multiplied by
    total       [blocks, queries] Σ e^(score - maximum) so far
    output      [blocks, queries, d_v] the attention output over the keys so far; 0 before any key was allowed
    """

    ends: np.ndarray
    maximum: Array
    correction: Array
    total: Array
    output: Array


@dataclass(frozen=True, eq=False)
class _Seen:
    """The same after one block."""

    end: int
    maximum: Array
    correction: Array
    total: Array
    output: Array


def in_blocks(trace: AttentionTrace, block_size: int) -> Blocks:
    """The head's output, computed `block_size` keys at a time. Its last entry is the trace's own output.

    Takes keys × queries × d_v / block_size numbers of memory, because it keeps every step; `last_output` keeps one.
    Raises InputError if the block size is not a whole number above 0.
    """
    steps = list(_recurrence(trace, block_size))
    return Blocks(
        np.array([step.end for step in steps]),
        np.stack([step.maximum for step in steps]),
        np.stack([step.correction for step in steps]),
        np.stack([step.total for step in steps]),
        np.stack([step.output for step in steps]),
    )


def last_output(trace: AttentionTrace, block_size: int) -> Array:
    """[queries, d_v]: what `in_blocks` ends with, holding only one block of scores at a time."""
    *_, last = _recurrence(trace, block_size)
    return last.output


def differences(trace: AttentionTrace, block_size: int) -> dict[str, float]:
    """The largest |output in blocks - trace.output| over all queries, with the head's inputs in float64 and in float32."""
    found = {}
    for dtype in FORMATS:
        converted = _converted(trace, dtype)
        found[dtype] = float(np.abs(last_output(converted, block_size) - converted.output).max())
    return found


def _recurrence(trace: AttentionTrace, block_size: int) -> Iterator[_Seen]:
    if isinstance(block_size, bool) or not isinstance(block_size, int | np.integer) or block_size < 1:
        raise InputError(
            f"The block size is {block_size}; it has to be a whole number of keys, 1 or more.", field="block"
        )
    queries, keys = trace.shape
    dtype = trace.query.dtype
    maximum = np.full(queries, -np.inf if trace.sinks is None else trace.sinks, dtype=dtype)
    total = np.full(queries, 0 if trace.sinks is None else 1, dtype=dtype)  # the sink's own e^(sink - sink)
    output = np.zeros((queries, trace.value.shape[1]), dtype=dtype)
    for start in range(0, keys, block_size):
        part = _keys(trace, slice(start, start + block_size))
        highest = np.maximum(maximum, part.masked.max(axis=1))
        safe = np.where(np.isneginf(highest), 0, highest)  # nothing allowed so far: -inf minus -inf would be NaN
        correction = np.exp(maximum - safe)
        exponentials = np.exp(part.masked - safe[:, None])  # [queries, block]
        old = total * correction
        total = old + exponentials.sum(axis=1)
        mixed = old[:, None] * output + exponentials @ part.value  # [queries, d_v]
        output = mixed / np.where(total == 0, 1, total)[:, None]
        maximum = highest
        yield _Seen(min(start + block_size, keys), maximum, correction, total, output)


def _converted(trace: AttentionTrace, dtype: str) -> AttentionTrace:
    return attend(
        trace.query.astype(dtype),
        trace.key.astype(dtype),
        trace.value.astype(dtype),
        mask=trace.mask,
        bias=trace.bias,
        scale=trace.scale,
        softcap=trace.softcap,
        sinks=trace.sinks,
    )


def _keys(trace: AttentionTrace, columns: slice) -> AttentionTrace:
    """The head over some of its keys."""
    return replace(
        trace,
        key=trace.key[columns],
        value=trace.value[columns],
        mask=trace.mask[:, columns],
        bias=trace.bias[:, columns],
    )
