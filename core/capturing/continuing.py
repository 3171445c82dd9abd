"""What a model writes on: the most probable next token again and again, with the same edits in every pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from ..errors import InputError
from ..models.model import Model
from .capture import Capture, read


def continued(
    capture: Capture, new_tokens: int = 20, on_progress: Callable[[int], None] | None = None
) -> tuple[int, ...]:
    """The numbers of the tokens that follow a pass, at most `new_tokens`, fewer where the model ends its text.

    Every token is the most probable one after a pass over all before it (greedy decoding), edited as the capture was.
    on_progress  called after every pass with how many tokens there are; what it raises reaches the caller

    Raises InputError for a model that predicts no next token.
    """
    found = []
    for token in _following(capture):
        found.append(token)
        if on_progress is not None:
            on_progress(len(found))
        if len(found) == new_tokens or token in ends(capture.model):
            break
    return tuple(found)


def _following(capture: Capture) -> Iterator[int]:
    model, limit = capture.model, capture.model.max_tokens
    if capture.logits is None:
        raise InputError(f"{model.name} has no language-model head: it predicts no next token.", field="model")
    growing = "decoder_input_ids" if model.is_encoder_decoder else "input_ids"
    inputs = {"input_ids": torch.tensor([capture.input_ids])}
    if capture.target_ids:
        inputs["decoder_input_ids"] = torch.tensor([capture.target_ids])
    edits = capture.edits.without_tokens()  # they have been replaced already
    last = capture.logits
    while True:
        token = int(last.argmax())
        yield token
        inputs[growing] = torch.cat([inputs[growing], torch.tensor([[token]])], dim=1)
        if limit is not None and inputs[growing].shape[1] > limit:
            return
        following = read(model, inputs, edits).logits
        if following is None:
            return
        last = following


def ends(model: Model) -> set[int]:
    """The tokens with which a model ends its text."""
    settings = model.network.generation_config
    found = None if settings is None else settings.eos_token_id
    return set() if found is None else {found} if isinstance(found, int) else set(found)
