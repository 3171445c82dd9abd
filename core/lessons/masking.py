"""Masks: what they do to the weights, and what other ways to mask do."""

from dataclasses import dataclass

import numpy as np

from ..attention.trace import Array, AttentionTrace, softmax
from ..errors import InputError


@dataclass(frozen=True, eq=False)
class Leak:
    """The weights of a head whose forbidden pairs have a finite score instead of -inf."""

    weights: Array  # [queries, keys] in [0, 1]
    leaked: Array  # [queries] in [0, 1]: the weight of each query on forbidden keys


def fill(trace: AttentionTrace, score: float) -> Leak:
    """Give every forbidden pair this score instead of -inf. Its weight is then e^score over the row's sum instead of 0.

    A row without allowed keys becomes uniform for any finite score. Raises InputError if the score is NaN or +inf.
    """
    if not score < np.inf:
        raise InputError(f"The score for forbidden pairs is {score}; a finite number or -inf is needed.", field="fill")
    weights = softmax(np.where(trace.mask, trace.masked, score), sinks=trace.sinks)
    return Leak(weights, np.where(trace.mask, 0, weights).sum(axis=1))


def weight_on_forbidden(trace: AttentionTrace) -> Array:
    """The weight of each query on forbidden keys if there were no mask: [queries] in [0, 1]."""
    unmasked = trace.changed(mask=np.ones(trace.shape, dtype=np.bool_))
    return np.where(trace.mask, 0, unmasked.weights).sum(axis=1)


def without_care(masked: Array) -> Array:
    """The softmax of scores [..., keys] in its usual form: in a row of -inf alone, -inf - (-inf) is NaN."""
    with np.errstate(invalid="ignore"):
        exponentials = np.exp(masked - masked.max(axis=-1, keepdims=True))
        return exponentials / exponentials.sum(axis=-1, keepdims=True)


def lowest_number(trace: AttentionTrace) -> Array:
    """The weights [queries, keys] with the lowest finite number in the place of -inf, as in transformers' eager code.

    It is added to the scores of forbidden pairs. A row with an allowed key has the same weights as with -inf; a row without
    becomes uniform, because the scores are lost when so large a number is added to them.
    """
    scores = trace.changed(mask=np.ones(trace.shape, dtype=np.bool_)).masked
    lowest = np.finfo(scores.dtype).min
    return softmax(np.where(trace.mask, scores, scores + lowest), sinks=trace.sinks)
