"""What an edited pass comes to in the end, beside the unedited one: next-token probabilities, or the vectors of tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import InputError
from ..models.tokens import token_texts
from .capture import Capture


@dataclass(frozen=True, eq=False)
class NextToken:
    """How the prediction of the next token has moved.

    before, after  [vocabulary] probabilities in float64
    divergence     Kullback-Leibler divergence of after from before, Σ before · ln(before / after), in nats, 0 or more
    """

    before: NDArray[np.float64]
    after: NDArray[np.float64]
    divergence: float


@dataclass(frozen=True, eq=False)
class Vectors:
    """How the vectors of the last layer have moved.

    tokens    [tokens] 1 - cosine of each token's vector before and after, from 0 to 2
    sentence  the same of the mean over all tokens, special ones included
    """

    tokens: NDArray[np.float64]
    sentence: float


def check_finite(capture: Capture) -> None:
    """Raises InputError for a pass whose numbers some edit has made infinite, as scores multiplied by 1e300 do."""
    last = (
        capture.layer_call(capture.layers(kind) - 1, kind) for kind in capture.kinds
    )  # what was lost before arrives here
    if not all(part.isfinite().all() for call in last for part in (call.query, call.output)):
        raise InputError(
            "With these changes the model's numbers are beyond what it can compute with. Scale by less, or switch one off.",
            field="edits",
        )


def next_token(before: Capture, after: Capture) -> NextToken:
    """Raises InputError for models without a language-model head."""
    logits = [_needed(capture.logits, capture, "predicts no next token") for capture in (before, after)]
    logs = [one - np.logaddexp.reduce(one) for one in (part.astype(np.float64) for part in logits)]
    one, two = (np.exp(log) for log in logs)
    there = one > 0  # elsewhere 0 ln 0, which is 0
    return NextToken(one, two, max(0.0, float((one[there] * (logs[0][there] - logs[1][there])).sum())))


def movers(moved: NextToken, before: Capture, k: int = 8) -> pd.DataFrame:
    """The k tokens whose probability has moved most, the largest first, with the most probable ones of both passes before them.

    Of those that have moved as far as each other, or not at all, the more probable come first. Columns: token (its text),
    before, after, change. At most k rows.
    """
    change = moved.after - moved.before
    first = [int(np.argmax(moved.before)), int(np.argmax(moved.after))]
    order = list(dict.fromkeys([*first, *np.lexsort((-moved.before, -np.abs(change)))[:k].tolist()]))[:k]
    return pd.DataFrame(
        {
            "token": token_texts(before.model.tokenizer, order),
            "before": moved.before[order],
            "after": moved.after[order],
            "change": change[order],
        }
    )


def vectors(before: Capture, after: Capture) -> Vectors:
    """Of models without a language-model head. Raises InputError for others, and for passes over texts of different length."""
    one, two = (
        _needed(capture.vectors, capture, "gives no vectors here").astype(np.float64) for capture in (before, after)
    )
    if one.shape != two.shape:
        raise InputError(
            f"One text has {len(one)} tokens and the other {len(two)}; compare texts of the same.", field="text"
        )
    return Vectors(1 - _cosine(one, two), float(1 - _cosine(one.mean(axis=0), two.mean(axis=0))))


def _cosine(one: NDArray[np.float64], two: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of the last axis, at most 1 also after rounding."""
    lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(two, axis=-1)
    same = (one == two).all(axis=-1)  # rounding would make it 1 - 1e-16
    return np.where(same, 1.0, np.minimum((one * two).sum(axis=-1) / np.where(lengths == 0, 1, lengths), 1))


def _needed(part: NDArray[np.floating] | None, capture: Capture, what: str) -> NDArray[np.floating]:
    if part is None:
        raise InputError(f"{capture.model.name} {what}. Choose another model.", field="model")
    return part
