"""How well a language model predicts each token of a text, with or without edits."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import InputError
from ..models.calls import Call, wide
from ..models.inputs import TokenNumbers, all_inputs
from ..models.model import Model
from .capture import edited_pass
from .edits.edits import Edits

# Maximum number of logits of one pass, at all positions together: 512 MB in float32.
MAX_LOGITS = 2**27
ROWS = 64  # positions whose losses are computed at a time


def pass_with_losses(
    model: Model, input_ids: TokenNumbers, *, edits: Edits | None = None, start: int = 1
) -> tuple[list[Call], NDArray[np.float64]]:
    """Run a pass: (its attention calls, one a layer; -ln p of each token from `start` on, given the tokens before it).

    input_ids  the tokens, including special tokens if the model expects them
    start      the first token to predict, at least 1: the first token of a text has none before it

    The losses are [tokens - start], in nats, at least 0. Raises InputError for models that do not predict the next token, for a
    start outside the text, and for too many logits.
    """
    if not model.has_language_model_head or model.is_encoder_decoder:
        raise InputError(
            f"{model.name} does not predict the tokens of a text from those before. Choose another model.",
            field="model",
        )
    inputs = all_inputs(model, input_ids=input_ids)
    tokens = inputs["input_ids"].shape[1]
    if not 1 <= start < tokens:
        raise InputError(f"There is no token {start} to predict: they run from 1 to {tokens - 1}.", field="start")
    positions, vocabulary = tokens - start + 1, int(model.text_config.vocab_size)
    if positions * vocabulary > MAX_LOGITS:
        raise InputError(
            f"The logits of {positions:,} positions would take too much memory; {model.name} can predict at most "
            f"{MAX_LOGITS // vocabulary - 1:,} tokens at once. Shorten the text.",
            field="text",
        )
    inputs, calls, returned = edited_pass(model, inputs, edits or Edits(), logits_to_keep=positions)
    logits, following = returned.logits[0, -positions:-1], inputs["input_ids"][0, start:].to(returned.logits.device)
    losses = [
        torch.nn.functional.cross_entropy(wide(rows), tokens, reduction="none")
        for rows, tokens in zip(logits.split(ROWS), following.split(ROWS), strict=True)
    ]
    return calls, torch.cat(losses).numpy(force=True).astype(np.float64)
