"""Tiny networks taken apart into components, each beside a plain pass of its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
import transformers as t

from core import Attribution, capture, cosine_attribution, load_model, logit_attribution
from core.capturing.capture import Capture
from core.models.inputs import image_inputs
from core.models.model import Model
from tests.core.tiny_models import TINY, number_words, tiny

# Longer than the sliding windows, and with tokens that come again.
READ = np.random.default_rng(1).integers(3, 64, 24)
WRITTEN = np.random.default_rng(2).integers(3, 64, 9)
PICTURE = np.random.default_rng(3).integers(0, 256, (40, 30, 3), dtype=np.uint8)


@dataclass(frozen=True, eq=False)
class TakenApart:
    """A pass with components; another one without; and what the network returned in a third, at all positions."""

    taken: Capture
    plain: Capture
    returned: Any


def inputs_of(model: Model) -> dict:
    """What `capture` is asked for."""
    if model.reads_images:
        return {"image": PICTURE}
    if model.is_encoder_decoder:
        return {"input_ids": READ, "target": " ".join(map(str, WRITTEN))}
    return {"input_ids": READ}


def taken_apart(network: t.PreTrainedModel) -> TakenApart:
    model = load_model(network, tokenizer=number_words())
    given = inputs_of(model)
    tensors = image_inputs(model, PICTURE) if model.reads_images else {"input_ids": torch.from_numpy(READ)[None]}
    if model.is_encoder_decoder:
        tensors["decoder_input_ids"] = torch.tensor([(network.config.decoder_start_token_id, *WRITTEN)])
    with torch.inference_mode():
        returned = network(**tensors)
    return TakenApart(capture(model, **given, components=True), capture(model, **given), returned)


@cache
def tiny_taken_apart(name: str) -> TakenApart:
    assert name in TINY
    return taken_apart(tiny(name))


def attribution(taken: Capture) -> Attribution:
    """Of the most probable next token, or of the cosine with itself."""
    return logit_attribution(taken) if taken.model.has_language_model_head else cosine_attribution(taken, taken)
