"""The pass that a check-up looks at: a model over a short fixed text, and what its modules read and returned."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MethodType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from ...models.calls import Call
from ...models.inputs import all_inputs, image_inputs, image_size, known_tokens, run
from ...models.model import Model
from ...models.modules import Kind
from ..capture import Capture, read
from ..continuing import twin_of

# Some words occur twice, and it is longer than the small windows of networks for tests.
TEXT = "The cat sat on the mat because the cat was tired, and the dog (7 years old) slept."
LINEAR = (nn.Linear, Conv1D)


class Visit(NamedTuple):
    """One run of a module: what it was given, by place and by name, and what it returned."""

    module: nn.Module
    inputs: tuple[Any, ...]
    options: dict[str, Any]
    returned: Any


@dataclass(frozen=True, eq=False)
class Reading:
    """A model over the fixed text.

    inputs   of the network
    layers   the layers of each kind that are checked: the first, the middle and the last one
    visits   what the modules of these layers and those outside all layers read and returned, by name
    """

    model: Model
    inputs: dict[str, Tensor]
    capture: Capture
    layers: dict[Kind, tuple[int, ...]]
    visits: dict[str, Visit]

    @cached_property
    def returned(self) -> Tensor:
        """What the pass returned, as `returned_by`."""
        return returned_by(self.model, self.inputs)

    def calls(self) -> list[tuple[str, Kind, int, Call]]:
        """(its name in sentences, kind, layer, attention call) of each chosen layer."""
        named = []
        for kind, layers in self.layers.items():
            of_kind = "" if kind == "self" else f"{kind} "
            named += [
                (f"{of_kind}layer {layer}", kind, layer, self.capture.layer_call(layer, kind)) for layer in layers
            ]
        return named


def read_fixed(model: Model) -> Reading:
    """Read the fixed text, or a fixed image. Raises InputError if the model cannot read it or gives NaN."""
    inputs = _inputs(model)
    capture = read(model, inputs)
    layers: dict[Kind, tuple[int, ...]] = {kind: _chosen(capture.layers(kind)) for kind in capture.kinds}
    calls = [capture.layer_call(layer, kind) for kind, own in layers.items() for layer in own]
    return Reading(model, inputs, capture, layers, _watched(model, inputs, calls))


def returned_by(model: Model, inputs: dict[str, Tensor], **options: Any) -> Tensor:
    """What a pass returns at each position: logits or vectors, [tokens, size], on the CPU in float64."""
    returned = run(model, inputs, logits_to_keep=0, **options)
    given = returned.logits if model.has_language_model_head else returned.last_hidden_state
    return given[0].detach().to("cpu", torch.float64)


def _inputs(model: Model) -> dict[str, Tensor]:
    if model.reads_images:
        height, width = image_size(model)
        rows, columns, colours = np.ogrid[:height, :width, :3]
        return image_inputs(model, ((3 * rows + 5 * columns + 40 * colours) % 256).astype(np.uint8))
    target = [5, 9, 6, 9, 7] if model.is_encoder_decoder else None
    if model.tokenizer is not None and not model.is_encoder_decoder:
        return all_inputs(model, TEXT, max_tokens=32, truncate=True)
    known = known_tokens(model.network) or 16
    return all_inputs(model, input_ids=[token % known for token in (3, 8, 5, 11, 8, 5, 7, 12, 9, 4)], target=target)


def _chosen(layers: int) -> tuple[int, ...]:
    return tuple(sorted({0, layers // 2, layers - 1}))


def _watched(model: Model, inputs: dict[str, Tensor], calls: list[Call]) -> dict[str, Visit]:
    """The visits of one more pass, in a twin of the network, which shares its weights."""
    modules = {name: module for name, module in model.network.named_modules() if name}
    attention = {name for name, module in modules.items() if any(call.module is module for call in calls)}
    chosen = {_layer_of(name) for name in attention}
    visits: dict[str, Visit] = {}

    def visit(name: str, module: nn.Module, own: Callable[..., Any], *given: Any, **options: Any) -> Any:
        returned = own(*given, **options)
        visits.setdefault(name, Visit(module, given, options, returned))
        return returned

    def is_watched(name: str, module: nn.Module) -> bool:
        is_one = isinstance(module, (*LINEAR, nn.Embedding)) or "norm" in name.rpartition(".")[2] or name in attention
        return is_one and _layer_of(name) in (chosen | {""})

    watched = {name: partial(visit, name, module) for name, module in modules.items() if is_watched(name, module)}
    twin = twin_of(model.network, watched)
    # Under a partial it would not say what it accepts.
    twin.forward = MethodType(type(model.network).forward, twin)
    run(replace(model, network=twin), inputs)
    return visits


def _layer_of(name: str) -> str:
    """The name of the layer that a module stands in: up to the first number; "" outside of all layers."""
    found = re.match(r"(.*?\.|)\d+(?=\.|$)", name)
    return found[0] if found else ""
