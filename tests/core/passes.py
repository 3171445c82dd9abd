"""Tiny models and their passes, as the tests of many modules read them."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from core import Capture, Model, capture, load_model
from core.models.modules import Kind
from tests.core.tiny_models import number_words, tiny

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
