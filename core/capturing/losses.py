"""How well a language model foretells each token of a text, with or without edits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import InputError
from ..models.calls import Call, wide
from ..models.inputs import text_inputs
from ..models.model import Model
from .capture import edited_pass
from .edits import Edits

# Logits that a pass may give, at all positions together: 512 MB in float32.
MOST_LOGITS = 2**27
ROWS = 64  # positions whose probabilities are worked out at a time


def next_token_losses(
    model: Model,
    input_ids: Sequence[int] | NDArray[np.integer],
    *,
    edits: Edits | None = None,
    start: int = 1,
) -> NDArray[np.float64]:
    """-ln p of each token of a text from `start` on, given all that stand before it: [tokens - start], in nats, at least 0.

    input_ids  the tokens, special ones included where the model wants them
    start      at least 1: nothing foretells the first token

    Raises InputError for models that predict no next token, for a start that is not there, and for more logits than memory
    should hold.
    """
    _, losses = foretold(model, input_ids, edits=edits, start=start)
    return losses


def foretold(
    model: Model,
    input_ids: Sequence[int] | NDArray[np.integer],
    *,
    edits: Edits | None = None,
    start: int = 1,
) -> tuple[list[Call], NDArray[np.float64]]:
    """(the attention calls of the pass, one a layer; `next_token_losses`)."""
    if not model.has_language_model_head or model.is_encoder_decoder:
        raise InputError(
            f"{model.name} does not foretell the tokens of a text from those before. Choose another model.",
            field="model",
        )
    inputs = text_inputs(model, input_ids=input_ids)
    tokens = inputs["input_ids"].shape[1]
    if not 1 <= start < tokens:
        raise InputError(f"There is no token {start} to foretell: they run from 1 to {tokens - 1}.", field="start")
    positions, vocabulary = tokens - start + 1, int(model.text_config.vocab_size)
    if positions * vocabulary > MOST_LOGITS:
        raise InputError(
            f"The logits of {positions:,} positions would take too much memory; {model.name} can foretell at most "
            f"{MOST_LOGITS // vocabulary - 1:,} tokens at once. Shorten the text.",
            field="text",
        )
    inputs, calls, returned = edited_pass(model, inputs, edits or Edits(), logits_to_keep=positions)
    logits, following = returned.logits[0, -positions:-1], inputs["input_ids"][0, start:].to(returned.logits.device)
    found = []
    for rows, tokens_there in zip(logits.split(ROWS), following.split(ROWS), strict=True):
        found.append(torch.nn.functional.cross_entropy(wide(rows), tokens_there, reduction="none"))
    return calls, torch.cat(found).numpy(force=True).astype(np.float64)
