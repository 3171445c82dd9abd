"""What a mask does to the weights, and what happens if it is done in another way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..attention.trace import Array, AttentionTrace, softmax
from ..errors import InputError


@dataclass(frozen=True, eq=False)
class Leak:
    """The weights of a head whose forbidden pairs got some score instead of -inf.

    weights  [queries, keys] in [0, 1]
    leaked   [queries] in [0, 1]: how much of each row went to forbidden keys
    """

    weights: Array
    leaked: Array


def fill(trace: AttentionTrace, score: float) -> Leak:
    """Give every forbidden pair this score instead of -inf: its weight is then e^score over the row's sum, and not 0.

    A row that allows nothing becomes uniform for any finite score. Raises InputError if the score is NaN or +inf.
    """
    if not score < np.inf:
        raise InputError(f"The score for forbidden pairs is {score}; a finite number or -inf is needed.", field="fill")
    weights = softmax(np.where(trace.mask, trace.masked, score), sinks=trace.sinks)
    return Leak(weights, np.where(trace.mask, 0, weights).sum(axis=1))


def weight_on_forbidden(trace: AttentionTrace) -> Array:
    """[queries] in [0, 1]: how much of each row would go to the forbidden keys if there were no mask at all."""
    unmasked = trace.changed(mask=np.ones(trace.shape, dtype=np.bool_))
    return np.where(trace.mask, 0, unmasked.weights).sum(axis=1)


def without_care(masked: Array) -> Array:
    """The softmax of scores [..., keys] as usually written: a row of -inf alone becomes -inf - (-inf) = NaN."""
    with np.errstate(invalid="ignore"):
        exponentials = np.exp(masked - masked.max(axis=-1, keepdims=True))
        return exponentials / exponentials.sum(axis=-1, keepdims=True)


def lowest_number(trace: AttentionTrace) -> Array:
    """The weights [queries, keys] when the lowest number of the scores' format stands for -inf, as in transformers' eager code.

    It is added to the score. Where a row has an allowed key the weights are as with -inf; a row without becomes uniform,
    because adding so large a number rounds the scores away.
    """
    scores = trace.changed(mask=np.ones(trace.shape, dtype=np.bool_)).masked
    lowest = np.finfo(scores.dtype).min
    return softmax(np.where(trace.mask, scores, scores + lowest), sinks=trace.sinks)
