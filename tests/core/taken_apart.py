"""Tiny networks taken apart into components, each beside a plain pass of its own."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import transformers as t

from core import Attribution, capture, cosine_attribution, load_model, logit_attribution
from core.capturing.capture import Capture
from core.models.inputs import all_inputs, image_inputs
from tests.core.passes import PICTURE, given_to
from tests.core.tiny_models import TINY, number_words, tiny


@dataclass(frozen=True, eq=False)
class TakenApart:
    """A pass with components; another one without; its inputs; and what the network returned in a third, at all positions."""

    taken: Capture
    plain: Capture
    inputs: dict[str, torch.Tensor]
    returned: Any


def taken_apart(network: t.PreTrainedModel) -> TakenApart:
    model = load_model(network, tokenizer=number_words())
    given = given_to(model)
    inputs = image_inputs(model, PICTURE) if model.reads_images else all_inputs(model, **given)
    with torch.inference_mode():
        returned = network(**inputs)
    return TakenApart(capture(model, **given, components=True), capture(model, **given), inputs, returned)


@cache
def tiny_taken_apart(name: str) -> TakenApart:
    assert name in TINY
    return taken_apart(tiny(name))


def attribution(taken: Capture) -> Attribution:
    """Of the most probable next token, or of the cosine with itself."""
    return logit_attribution(taken) if taken.model.has_language_model_head else cosine_attribution(taken, taken)
