"""Layers: what is special about the attention of each, and which layers of a hybrid model have none."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from ..models.calls import Call
from ..models.model import Model, RecordedModel
from ..models.modules import Kind, attention_modules
from .calls.rows import split_mask
from .weights_only import WeightsOnly, no_weights

# Layer types of configurations without further information: the attention call tells more, or there is nothing to tell.
_ORDINARY = {"full_attention", "sliding_attention", "attention"}


@dataclass(frozen=True)
class LayerLabel:
    """A captured layer.

    number  its number among all the model's layers, from 0; in hybrid models not its number in the capture
    words   how it differs from plain attention over the whole text, such as "sliding window 4, sinks"; "" if it does not:
            "sliding window 4"   keys less than 4 tokens back ("sliding window ±3": to either side)
            "soft cap 50"        scores squeezed to ±50 (Gemma 2)
            "sinks"              a score without a key takes a share of every row (gpt-oss)
            "position bias"      numbers that depend on the distance are added to the scores (T5)
            or the name of the layer's type in the model's configuration
    """

    number: int
    words: str


class WithLayers(Protocol):
    """A `Capture`."""

    @property
    def model(self) -> Model: ...
    @property
    def kinds(self) -> tuple[Kind, ...]: ...
    def each_layer(self, kind: Kind | None = None) -> Iterator[Call]: ...


def layer_labels(capture: WithLayers | WeightsOnly, kind: Kind | None = None) -> tuple[LayerLabel, ...]:
    """A label for each layer of this kind (None: the first), from its attention call; of `WeightsOnly` its number alone."""
    if isinstance(capture, WeightsOnly):
        return tuple(LayerLabel(number, "") for number in range(capture.layers(kind)))
    if isinstance(capture.model, RecordedModel):
        return tuple(LayerLabel(*label) for label in capture.model.labels[kind or capture.kinds[0]])
    config = capture.model.text_config
    types = (getattr(config, "layer_types", None) or ()) if capture.kinds == ("self",) else ()
    layers = zip(layer_numbers(capture, kind), capture.each_layer(kind), strict=True)
    return tuple(
        LayerLabel(number, ", ".join(_words(call, types[number : number + 1], config))) for number, call in layers
    )


def missing_layers(model: Model) -> tuple[str, ...]:
    """The layers of a hybrid model that have no softmax attention, such as "layer 0: linear attention (JambaMambaMixer)".

    A name consists of the layer's type in the configuration and the class that works in the place of attention. Empty for any
    other model, and for models that expose only their weights.
    """
    if isinstance(model, RecordedModel):
        return ()
    config, network = model.text_config, model.network
    attending: dict[str, set[int]] = defaultdict(set)  # the numbers of layers with attention, by their list
    for stack, number in map(_stack_and_number, attention_modules(network)):
        attending[stack].add(number)
    lists = {name: part for name, part in network.named_modules() if isinstance(part, torch.nn.ModuleList)}
    if not attending and no_weights(model) is not None:
        count = getattr(config, "num_hidden_layers", None)
        attending[next((name for name, layers in lists.items() if len(layers) == count), "")] = set()
    types = getattr(config, "layer_types", None) or ()
    missing: list[str] = []
    for stack, numbers in attending.items():
        if (layers := lists.get(stack)) is not None:
            usual = {part for number in numbers for part in _parts(layers[number])}
            missing += [_missing(n, layer, types, usual) for n, layer in enumerate(layers) if n not in numbers]
    return tuple(missing)


def _missing(number: int, layer: torch.nn.Module, types: Sequence[str], usual: set[tuple[str, str]]) -> str:
    """The name of a layer without attention. Its first part that is neither a norm nor in `usual`, the parts of layers with
    attention, works in the place of attention."""
    own = (kind for name, kind in _parts(layer) if (name, kind) not in usual and "norm" not in kind.lower())
    worker = next(own, type(layer).__name__)
    word = types[number].replace("_", " ") if number < len(types) else ""
    return f"layer {number}: {word} ({worker})" if word else f"layer {number}: {worker}"


def _words(call: Call, layer_types: Sequence[str], config: object) -> Iterator[str]:
    if (window := _window(call)) is not None:
        yield f"sliding window ±{window - 1}" if _looks_ahead(call) else f"sliding window {window}"
    yield from call.shaping.words
    if call.bias is not None and bool(call.bias.any()):
        yield "position bias"
    for layer_type in layer_types:
        if layer_type == "chunked_attention":
            yield f"chunks of {getattr(config, 'attention_chunk_size', '?')}"
        elif layer_type not in _ORDINARY:
            yield layer_type.replace("_", " ")


def _looks_ahead(call: Call) -> bool:
    """Whether a query may attend to later keys. With a single query only the module could tell."""
    if call.query.shape[2] == 1:
        return not getattr(call.module, "is_causal", True)
    if call.mask is None:
        return not call.causal
    allowed, _ = split_mask(call.mask[0, 0, 0, 1 : call.key.shape[2]], call.mask.dtype)
    return bool(allowed.any())


def _window(call: Call) -> int | None:
    """The layer's sliding window, unless the mask lets the last query look further back."""
    window, tokens = call.sliding_window, call.key.shape[2]
    if window is None or tokens <= window:
        return window
    if call.mask is None:
        return None
    allowed, _ = split_mask(call.mask[0, 0, -1, :tokens], call.mask.dtype)
    return window if not bool(allowed[: tokens - window].any()) else None


def layer_numbers(capture: WithLayers, kind: Kind | None = None) -> tuple[int, ...]:
    """The number of each captured layer of this kind among all the model's layers, from 0.

    It is part of the name of its module. If layers share a module (ALBERT), every pass is a layer; if they hold several one
    after another (LongCat), each of these counts, as in their configuration.
    """
    if isinstance(capture.model, RecordedModel):
        return tuple(number for number, _ in capture.model.labels[kind or capture.kinds[0]])
    modules = [call.module for call in capture.each_layer(kind)]
    names = {id(module): name for name, module in capture.model.network.named_modules()}
    if len({id(module) for module in modules}) < len(modules):
        return tuple(range(len(modules)))
    numbers = tuple(_stack_and_number(names[id(module)])[1] for module in modules)
    return numbers if len(set(numbers)) == len(numbers) else tuple(range(len(numbers)))


def _stack_and_number(name: str) -> tuple[str, int]:
    """The list of layers and the number of the layer: ("model.layers", 3) for "model.layers.3.self_attn"."""
    parts = name.split(".")
    first = next((index for index, part in enumerate(parts) if part.isdecimal()), None)
    return (name, 0) if first is None else (".".join(parts[:first]), int(parts[first]))


def _parts(layer: torch.nn.Module) -> list[tuple[str, str]]:
    return [(name, type(child).__name__) for name, child in layer.named_children()]
