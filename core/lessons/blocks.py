"""Attention in blocks of keys: the same result without a whole row of scores in memory.

The softmax of a row needs its maximum and its sum, which seem to need every score first. Milakov and Gimelshein 2018, "Online
normalizer calculation for softmax", algorithm 3, update both with every block of scores; Dao et al. 2022, "FlashAttention",
algorithm 1, also update the output.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..attention.trace import Array, AttentionTrace, attend
from ..errors import InputError
from ..progress import stop_point

FORMATS = ("float64", "float32")


class Blocks(NamedTuple):
    """The running results after each block of keys. After a single block they are without their first axis."""

    ends: NDArray[np.integer]  # [blocks] number of keys so far
    maximum: Array  # [blocks, queries] the largest score so far (or the sink); -inf before any key was allowed
    correction: Array  # [blocks, queries] in [0, 1]: e^(old maximum - new maximum), by which the old sum is multiplied
    total: Array  # [blocks, queries] Σ e^(score - maximum) so far
    output: Array  # [blocks, queries, d_v] the attention output over the keys so far; 0 before any key was allowed


def in_blocks(trace: AttentionTrace, block_size: int) -> Blocks:
    """Compute the head's output, `block_size` keys at a time. The last output is that of the trace.

    Takes keys × queries × d_v / block_size numbers of memory, because it keeps every block; `last_output` keeps one.
    Raises InputError if the block size is not a whole number above 0.
    """
    return Blocks(*(np.stack(part) for part in zip(*_recurrence(trace, block_size), strict=True)))


def last_output(trace: AttentionTrace, block_size: int) -> Array:
    """The last output of `in_blocks`, [queries, d_v], with a single block of scores in memory."""
    *_, last = _recurrence(trace, block_size)
    return last.output


def differences(trace: AttentionTrace, block_size: int) -> dict[str, float]:
    """The largest |output in blocks - trace.output| over all queries, with the head's inputs in float64 and in float32."""
    largest = {}
    for dtype in FORMATS:
        matrices = (matrix.astype(dtype) for matrix in (trace.query, trace.key, trace.value))
        converted = attend(*matrices, **vars(trace.shaping))
        largest[dtype] = float(np.abs(last_output(converted, block_size) - converted.output).max())
    return largest


def _recurrence(trace: AttentionTrace, block_size: int) -> Iterator[Blocks]:
    """The running results after each block."""
    if isinstance(block_size, bool) or not isinstance(block_size, int | np.integer) or block_size < 1:
        why = f"The block size is {block_size}; it has to be a whole number of keys, 1 or more."
        raise InputError(why, field="block")
    queries, keys = trace.shape
    dtype = trace.query.dtype
    maximum = np.full(queries, -np.inf if trace.sinks is None else trace.sinks, dtype=dtype)
    total = np.full(queries, 0 if trace.sinks is None else 1, dtype=dtype)  # the sink's own e^(sink - sink)
    output = np.zeros((queries, trace.value.shape[1]), dtype=dtype)
    for start in range(0, keys, block_size):
        stop_point()
        part = trace.of_keys(slice(start, start + block_size))
        highest = np.maximum(maximum, part.masked.max(axis=1))
        safe = np.where(np.isneginf(highest), 0, highest)  # nothing allowed so far: -inf minus -inf would be NaN
        correction = np.exp(maximum - safe)
        exponentials = np.exp(part.masked - safe[:, None])  # [queries, block]
        old = total * correction
        total = old + exponentials.sum(axis=1)
        mixed = old[:, None] * output + exponentials @ part.value  # [queries, d_v]
        output = mixed / np.where(total == 0, 1, total)[:, None]
        maximum = highest
        yield Blocks(np.asarray(min(start + block_size, keys)), maximum, correction, total, output)
