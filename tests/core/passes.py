"""Tiny models and their passes, as the tests of many modules read them, and what they compare of passes."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
import transformers as t

from core import Attribution, Capture, Model, capture, cosine_attribution, load_model, logit_attribution
from core.attention.masks import describe
from core.attention.trace import AttentionTrace
from core.capturing import certifying
from core.capturing.certifying import Certificate, Origin
from core.models.inputs import all_inputs, image_inputs
from core.models.modules import Kind
from tests.core.tiny_models import TINY, number_words, tiny

# Longer than the sliding windows, and with tokens that come again.
READ = np.random.default_rng(1).integers(3, 64, 24)
WRITTEN = np.random.default_rng(2).integers(3, 64, 9)
PICTURE = np.random.default_rng(3).integers(0, 256, (40, 30, 3), dtype=np.uint8)


@cache
def tiny_model(name: str) -> Model:
    """Shared by all tests of a process, which leave it as it is."""
    return load_model(tiny(name), tokenizer=number_words())


def given_to(model: Model) -> dict[str, Any]:
    """What `capture` is asked for: an image, a text, or a text and what was written of its translation."""
    if model.reads_images:
        return {"image": PICTURE}
    return {"input_ids": READ} | ({"target": WRITTEN.tolist()} if model.is_encoder_decoder else {})


def tiny_pass(name: str, **other: Any) -> Capture:
    """A pass of a shared model over what is given to it, or over something else."""
    model = tiny_model(name)
    return capture(model, **given_to(model) | other)


def eager_layers(returned: Any, kind: Kind) -> tuple[Any, ...]:
    """The weights that transformers' eager code returned for a kind: of each layer [1, heads, queries, keys]."""
    return returned["attentions" if kind == "self" else f"{kind}_attentions"]


def every_head(taken: Capture) -> Iterator[tuple[int, int, Kind]]:
    """(layer, head, kind) of every head of every kind, in the order in which `trace` takes them."""
    for kind in taken.kinds:
        for layer, head in np.ndindex(taken.layers(kind), taken.heads(kind)):
            yield layer, head, kind


def assert_eager_weights(taken: Capture, returned: Any, atol: float = 1e-5) -> None:
    """Those of every head are the ones that transformers' eager code returned."""
    for layer, head, kind in every_head(taken):
        weights = eager_layers(returned, kind)[layer][0, head].numpy()
        np.testing.assert_allclose(taken.trace(layer, head, kind).weights, weights, rtol=0, atol=atol)


def assert_same_bits(one: Capture, other: Capture) -> None:
    """Every attention call, the logits or vectors, and what was read are the same numbers to the last bit."""
    for name in ("kinds", "edits", "input_ids", "target_ids"):
        assert getattr(one, name) == getattr(other, name), name
    for kind in one.kinds:
        for ours, theirs in zip(one.calls[kind], other.calls[kind], strict=True):
            assert ours.module is theirs.module
            for name in ("query", "key", "value", "output"):
                assert torch.equal(getattr(ours, name), getattr(theirs, name)), (kind, name)
    for name in ("logits", "vectors"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def certify(trace: AttentionTrace, output: np.ndarray, model: Model | Origin) -> Certificate:
    """Compare a whole trace at once with the output [queries, d_v] that the model's own attention returned for the head."""
    rounding = certifying._rounding(model, trace.shaping)
    return certifying._certificate(
        [certifying._compare(trace, output, range(len(output)), rounding)], model, trace.scale, describe(trace.mask)
    )


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
