"""Recording of one pass of a model: its attention calls, in their order.

The recorded tensors are on the CPU, whatever the device of the network, and all later computation runs there. So they take no
memory of a GPU, and layers on several GPUs come together.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..attention.shaping import BY_HEAD, BY_PAIR
from ..errors import WeightsOnlyError
from ..models.calls import Call, heard_by, part_numbers
from ..models.inputs import run
from ..models.model import Model
from ..models.modules import Kind
from ..progress import OnProgress
from .calls.edited_call import beside
from .calls.rows import split_mask
from .components.running import ComponentPass
from .continuing import Layers
from .finite import NotFiniteError, gives_finite, is_finite_call


def record(
    model: Model,
    inputs: dict[str, torch.Tensor],
    on_progress: OnProgress | None = None,
    edit: Callable[[Call], Call] | None = None,
    layers: Layers | None = None,
    component_pass: ComponentPass | None = None,
    *,
    cached: int = 0,
    **options: Any,
) -> tuple[list[Call], Any]:
    """Run one pass: (its attention calls, one a layer, the network's output).

    on_progress  called after every attention call with the number of layers so far; an error that it raises ends the pass
    edit         returns the call whose output the pass continues with
    layers       the layers of this pass; calls that they take from another pass are neither made nor edited again
    component_pass  notes the components of the pass, which is then a whole one; None: they are not kept
    cached       number of tokens whose keys and values come from earlier passes
    options      for the network, as in core.models.inputs.run

    Raises WeightsOnlyError for a model that computes attention within separate parts of its input, unless these are the tiles
    of an image that it reads with a text, and for one that has not one query and one key for each token; NotFiniteError for a
    pass that gives NaN or infinity.
    """
    calls = [] if layers is None else list(layers.taken)
    shared: dict[int, tuple[Tensor, Tensor]] = {}
    given = dict(options)
    places = _Places(calls)
    if layers is not None:
        layers.heard = calls

    def is_of_tower(heard: Call) -> bool:
        return component_pass is None and model.kind_of(heard.module) == "vision"

    def keep(heard: Call) -> Call:
        call, parts = heard, heard.query.shape[0]
        if heard.query.shape[2] != heard.key.shape[2] and is_of_tower(heard):
            return heard  # a resampler (Idefics 2), whose queries stand for no part of the image
        sees_all = not heard.causal and (heard.mask is None or _allows_all(heard.mask))
        if parts != 1 and is_of_tower(heard) and sees_all:
            call = _in_a_row(heard)
        elif parts != 1:  # Swin's windows, for example
            raise WeightsOnlyError(
                f"{type(call.module).__name__} computes attention within {parts} separate parts of what it reads. "
                f"Such parts are not shown. Choose another model.",
                field="model",
            )
        if component_pass is not None:
            call = component_pass.read(call)
        kind = model.kind_of(call.module)
        layer, part = places.next(heard, kind)
        call = replace(call, kind=kind, layer=layer, part=part)
        if not cached:
            _require_tokens(call, inputs)
        kept = _with_small_mask(_on_cpu(call, shared), shared)
        # Of a text that grows, the keys before were looked at when they were new.
        new = slice(-kept.query.shape[2], None) if cached else slice(None)
        is_finite = is_finite_call(kept, new)
        if is_finite and edit is not None and (edited := edit(kept)) is not kept:
            kept, call = edited, replace(call, output=edited.output.to(call.output.device))
            is_finite = is_finite_call(kept, new)
        if not is_finite:
            raise NotFiniteError(model, call.module)
        calls.append(kept)
        if layers is not None:
            layers.calls = len(calls)
        if on_progress is not None:
            on_progress(sum(one.part == 0 for one in calls))
        if component_pass is not None:
            return replace(call, output=component_pass.wrote(call))
        return call if parts == 1 else replace(heard, output=call.output.unflatten(1, (parts, -1))[0])

    def told(call: Call) -> Call:
        if on_progress is not None:
            on_progress(len(calls))
        return call

    try:
        with heard_by(keep):
            if component_pass is not None:
                twin = component_pass.model(options.pop("logits_to_keep", 1))
                returned = run(twin, inputs, gradients=True, logits_to_keep=0, **options)
            else:
                returned = run(model if layers is None else layers.model(), inputs, **options)
        if not gives_finite(returned, given.get("logits_to_keep", 1)):
            raise NotFiniteError(model)
    except NotFiniteError as error:
        raise error.explained(inputs, told, changed=edit is not None, **given) from None
    return in_layers(calls), returned


class _Places:
    """Counts the layers of a pass: the place of each call among them."""

    def __init__(self, before: Iterable[Call]) -> None:
        """before: calls of this pass that are not made again"""
        self._layers: Counter[Kind] = Counter(call.kind for call in before if call.part == 0)
        self._latest: Call | None = None
        self._part = 0

    def next(self, heard: Call, kind: Kind) -> tuple[int, int]:
        """The layer of the next call, and which part of it the call is."""
        before, self._latest = self._latest, heard
        is_further = before is not None and all(
            getattr(heard, name) is getattr(before, name) for name in ("module", "query", "key")
        )
        self._part = self._part + 1 if is_further else 0
        self._layers[kind] += not is_further
        return self._layers[kind] - 1, self._part


def in_layers(calls: Iterable[Call]) -> list[Call]:
    """The calls, those of a layer's parts as one."""
    layers: list[Call] = []
    for call in calls:
        if call.part:
            layers[-1] = beside(layers[-1], call)
        else:
            layers.append(call)
    return layers


def _require_tokens(call: Call, inputs: Mapping[str, Tensor]) -> None:
    """Raise WeightsOnlyError unless each query and each key of a pass over a text stands for a token."""
    sides = {"self": ("input_ids", "input_ids"), "encoder": ("input_ids", "input_ids")}
    sides |= {"decoder": ("decoder_input_ids", "decoder_input_ids"), "cross": ("decoder_input_ids", "input_ids")}
    for word, part, name in zip(("queries", "keys"), (call.query, call.key), sides.get(call.kind, ()), strict=False):
        if name in inputs and (tokens := inputs[name].shape[1]) != (count := part.shape[2]):
            raise WeightsOnlyError(
                f"{type(call.module).__name__} has {count:,} {word} where it reads {tokens:,} tokens: some of them stand for "
                f"no token, or for several. Such attention is not shown. Choose another model.",
                field="model",
            )


def _allows_all(mask: Tensor) -> bool:
    return bool(mask.all() if mask.dtype == torch.bool else (mask == 0).all())


def _in_a_row(call: Call) -> Call:
    """A call over a batch of tiles as a call over one sequence of all tiles, whose tokens attend within their own tile."""
    query, key, value = (part.transpose(0, 1).flatten(1, 2)[None] for part in (call.query, call.key, call.value))
    parts = part_numbers([call.query.shape[2]] * call.query.shape[0])
    output = call.output.flatten(0, 1)[None]
    return call.reshaped(query=query, key=key, value=value, output=output, mask=None, parts=parts)


def _on_cpu(call: Call, shared: dict[int, tuple[Tensor, Tensor]]) -> Call:
    """The call with copies on the CPU, unless it is there. shared: (tensor, what is kept) by id, as layers share masks."""
    if call.query.device.type == "cpu":
        return call

    def copy_of(tensor: Tensor) -> Tensor:
        # The tensor is kept because its id could be reused otherwise.
        shared[id(tensor)] = shared.get(id(tensor)) or (tensor, tensor.detach().cpu())
        return shared[id(tensor)][1]

    copies = {name: getattr(call, name).cpu() for name in ("query", "key", "value", "output")}
    return replace(call, **copies, shaping=call.shaping.each((*BY_PAIR, *BY_HEAD), copy_of))


def _with_small_mask(call: Call, shared: dict[int, tuple[Tensor, Tensor]]) -> Call:
    """The call with a mask of numbers that only forbids as one of True and False, which takes a quarter of the memory. shared:
    as in `_on_cpu`"""
    mask = call.mask
    if mask is None or mask.dtype == torch.bool:
        return call
    if id(mask) not in shared:
        allowed, rest = split_mask(mask, mask.dtype)
        shared[id(mask)] = mask, mask if bool(rest.any()) else allowed
    return call.reshaped(mask=shared[id(mask)][1])


def by_kind(calls: Iterable[Call]) -> dict[Kind, tuple[Call, ...]]:
    """The calls of each kind of attention, one a layer."""
    kinds: dict[Kind, tuple[Call, ...]] = {}
    for call in calls:
        kinds[call.kind] = (*kinds.get(call.kind, ()), call)
    return kinds
