"""The results of an edited pass beside those of the unedited one: next-token probabilities, or the vectors of tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import InputError
from ..models.tokens import token_texts
from .capture import Capture
from .sampling import smallest


@dataclass(frozen=True, eq=False)
class NextToken:
    """The change of the prediction of the next token.

    before, after  [vocabulary] probabilities in float64
    divergence     Kullback-Leibler divergence of after from before, Σ before · ln(before / after), in nats, 0 or more
    """

    before: NDArray[np.float64]
    after: NDArray[np.float64]
    divergence: float


@dataclass(frozen=True, eq=False)
class Vectors:
    """The change of the vectors of the last layer.

    tokens    [tokens] 1 - cosine of each token's vector before and after, from 0 to 2
    sentence  the same for the sentence vector (core.models.sentences)
    """

    tokens: NDArray[np.float64]
    sentence: float


def next_token(before: Capture, after: Capture) -> NextToken:
    """The prediction of the next token in two passes. Raises InputError for models without a language-model head."""
    pair = (capture.predicted.astype(np.float64) for capture in (before, after))
    first_log, second_log = (logits - np.logaddexp.reduce(logits) for logits in pair)
    first, second = np.exp(first_log), np.exp(second_log)
    possible = first > 0  # elsewhere 0 ln 0, which is 0
    divergence = float((first[possible] * (first_log[possible] - second_log[possible])).sum())
    return NextToken(first, second, max(0.0, divergence))


def movers(moved: NextToken, before: Capture, k: int = 8) -> pd.DataFrame:
    """The k tokens whose probability changed most, the largest change first, after the most probable token of either pass.

    Among equal changes the more probable token comes first. Columns: token (its text), before, after, change. At most k rows.
    """
    change = moved.after - moved.before
    most_probable = [int(np.argmax(moved.before)), int(np.argmax(moved.after))]
    # Where nothing changes, all changes are equal, and sorting so many takes long.
    places = smallest(-np.abs(change) if change.any() else -moved.before, k)
    largest = places[np.lexsort((-moved.before[places], -np.abs(change[places])))][:k]
    order = list(dict.fromkeys([*most_probable, *largest.tolist()]))[:k]
    return pd.DataFrame(
        {
            "token": token_texts(before.model.tokenizer, order),
            "before": moved.before[order],
            "after": moved.after[order],
            "change": change[order],
        }
    )


def vectors(before: Capture, after: Capture) -> Vectors:
    """The vectors of the last layer in two passes.

    Raises InputError for models with a language-model head, and for passes over texts of different length.
    """
    first, second = map(_vectors, (before, after))
    if first.shape != second.shape:
        raise InputError(
            f"One text has {len(first)} tokens and the other {len(second)}; compare texts of the same.", field="text"
        )
    return Vectors(1 - _cosine(first, second), float(1 - _cosine(before.sentence_vector, after.sentence_vector)))


def _cosine(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """The cosine along the last axis, at most 1 also after rounding."""
    lengths = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
    same = (first == second).all(axis=-1)  # rounding would make it 1 - 1e-16
    return np.where(same, 1.0, np.minimum((first * second).sum(axis=-1) / np.where(lengths == 0, 1, lengths), 1))


def _vectors(capture: Capture) -> NDArray[np.float64]:
    if capture.vectors is None:
        raise InputError(f"{capture.model.name} gives no vectors here. Choose another model.", field="model")
    return capture.vectors.astype(np.float64)
