"""Recording of one pass of a model: its attention calls, in their order.

The recorded tensors are on the CPU, whatever the device of the network, and all later computation runs there. So they take no
memory of a GPU, and layers on several GPUs come together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..errors import WeightsOnlyError
from ..models.calls import Call, heard_by
from ..models.inputs import run
from ..models.model import Model
from ..models.modules import Kind, kind_of
from .component_pass import ComponentPass
from .continuing import Layers

OnProgress = Callable[[int], None]


def record(
    model: Model,
    inputs: dict[str, torch.Tensor],
    on_progress: OnProgress | None = None,
    edit: Callable[[Call], Call] | None = None,
    layers: Layers | None = None,
    component_pass: ComponentPass | None = None,
    **options: Any,
) -> tuple[list[Call], Any]:
    """Run one pass: (its attention calls, the network's output).

    on_progress  called after every attention call with the number of calls so far; an error that it raises ends the pass
    edit         returns the call whose output the pass continues with
    layers       the layers of this pass; calls that they take from another pass are neither made nor edited again
    component_pass  notes the components of the pass, which is then a whole one; None: they are not kept
    options      for the network, as in core.models.inputs.run

    Raises WeightsOnlyError for a model that computes attention within separate parts of its input.
    """
    calls = [] if layers is None else list(layers.taken)
    shared: dict[int, tuple[Tensor, Tensor]] = {}

    def keep(call: Call) -> Call:
        parts = call.query.shape[0]
        if parts != 1:  # Swin's windows, for example
            raise WeightsOnlyError(
                f"{type(call.module).__name__} computes attention within {parts} separate parts of what it reads. "
                f"Such parts are not shown. Choose another model.",
                field="model",
            )
        if component_pass is not None:
            call = component_pass.read(call)
        kept = _on_cpu(call, shared)
        if edit is not None and (edited := edit(kept)) is not kept:
            kept, call = edited, replace(call, output=edited.output.to(call.output.device))
        calls.append(kept)
        if layers is not None:
            layers.calls = len(calls)
        if on_progress is not None:
            on_progress(len(calls))
        return call if component_pass is None else replace(call, output=component_pass.wrote(call))

    with heard_by(keep):
        if component_pass is not None:
            twin = component_pass.model(options.pop("logits_to_keep", 1))
            returned = run(twin, inputs, gradients=True, logits_to_keep=0, **options)
        else:
            returned = run(model if layers is None else layers.model(), inputs, **options)
    return calls, returned


def _on_cpu(call: Call, shared: dict[int, tuple[Tensor, Tensor]]) -> Call:
    """The call with copies on the CPU, unless it is there. shared: (tensor, its copy) by id, as layers share masks."""
    if call.query.device.type == "cpu":
        return call
    copies = {name: getattr(call, name).cpu() for name in ("query", "key", "value", "output")}
    for name in ("mask", "bias", "sinks"):
        if (tensor := getattr(call, name)) is not None:
            # The tensor is kept because its id could be reused otherwise.
            shared[id(tensor)] = shared.get(id(tensor)) or (tensor, tensor.detach().cpu())
            _, copies[name] = shared[id(tensor)]
    return replace(call, **copies)


def kinds_of(model: Model) -> Callable[[Call], Kind]:
    """A function that gives the kind of attention of a call. The layer of a call is its position among those of its kind."""
    names = {id(module): name for name, module in model.network.named_modules()}
    return lambda call: kind_of(names[id(call.module)], model.is_encoder_decoder)


def by_kind(calls: Iterable[Call], kind_of: Callable[[Call], Kind]) -> dict[Kind, tuple[Call, ...]]:
    """The calls of each kind of attention, one a layer. kind_of: from `kinds_of`"""
    kinds: dict[Kind, tuple[Call, ...]] = {}
    for call in calls:
        kinds[kind_of(call)] = (*kinds.get(kind_of(call), ()), call)
    return kinds
