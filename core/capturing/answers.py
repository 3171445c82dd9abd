"""The answers of edited passes beside those of the unedited one: next-token probabilities, vectors, the losses of a text."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from ..errors import InputError, model_error, text_error
from ..models.calls import Call, wide
from ..models.inputs import TokenNumbers, all_inputs
from ..models.model import Model
from ..models.tokens import token_texts
from .capture import Capture, edited_pass
from .edits.edits import Edits
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
    columns = {"before": moved.before, "after": moved.after, "change": change}
    numbers = {name: column[order] for name, column in columns.items()}
    return pd.DataFrame({"token": token_texts(before.model.tokenizer, order), **numbers})


def vectors(before: Capture, after: Capture) -> Vectors:
    """The vectors of the last layer in two passes. Raises InputError for models with a language-model head, and for passes
    over texts of different length."""
    first, second = map(_vectors, (before, after))
    if first.shape != second.shape:
        raise text_error(f"One text has {len(first)} tokens and the other {len(second)}; compare texts of the same.")
    return Vectors(1 - _cosine(first, second), float(1 - _cosine(before.sentence_vector, after.sentence_vector)))


def _cosine(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """The cosine along the last axis, at most 1 also after rounding."""
    lengths = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
    same = (first == second).all(axis=-1)  # rounding would make it 1 - 1e-16
    return np.where(same, 1.0, np.minimum((first * second).sum(axis=-1) / np.where(lengths == 0, 1, lengths), 1))


def _vectors(capture: Capture) -> NDArray[np.float64]:
    if capture.vectors is None:
        raise model_error(f"{capture.model.name} gives no vectors here. Choose another model.")
    return capture.vectors.astype(np.float64)


# Maximum number of logits of one pass, at all positions together: 512 MB in float32.
MAX_LOGITS = 2**27
ROWS = 64  # positions whose losses are computed at a time


def require_losses(model: Model) -> None:
    """Raise InputError (field "model") for one that does not predict the next token."""
    if not model.has_language_model_head or model.is_encoder_decoder:
        why = f"{model.name} does not predict the tokens of a text from those before. Choose another model."
        raise model_error(why)


def pass_with_losses(
    model: Model, input_ids: TokenNumbers, *, edits: Edits | None = None, start: int = 1, known: Iterable[Capture] = ()
) -> tuple[list[Call], NDArray[np.float64]]:
    """Run a pass: (its attention calls, one a layer; -ln p of each token from `start` on, given the tokens before it).

    input_ids  the tokens, including special tokens if the model expects them
    start      the first token to predict, at least 1: the first token of a text has none before it
    known      passes over the texts that edits read, if they are known. A patch from a pass of another model of the same shape
               puts in what its heads gave

    The losses are [tokens - start], in nats, at least 0. Raises InputError for models that do not predict the next token, for a
    start outside the text, and for too many logits.
    """
    require_losses(model)
    inputs = all_inputs(model, input_ids=input_ids)
    tokens = inputs["input_ids"].shape[1]
    if not 1 <= start < tokens:
        raise InputError(f"There is no token {start} to predict: they run from 1 to {tokens - 1}.", field="start")
    positions, vocabulary = tokens - start + 1, int(model.text_config.vocab_size)
    if positions * vocabulary > MAX_LOGITS:
        raise text_error(
            f"The logits of {positions:,} positions would take too much memory; {model.name} can predict at most "
            f"{MAX_LOGITS // vocabulary - 1:,} tokens at once. Shorten the text."
        )
    inputs, calls, returned = edited_pass(model, inputs, edits or Edits(), known=known, logits_to_keep=positions)
    logits, following = returned.logits[0, -positions:-1], inputs["input_ids"][0, start:].to(returned.logits.device)
    blocks = zip(logits.split(ROWS), following.split(ROWS), strict=True)
    losses = [torch.nn.functional.cross_entropy(wide(rows), those, reduction="none") for rows, those in blocks]
    return calls, torch.cat(losses).numpy(force=True).astype(np.float64)
