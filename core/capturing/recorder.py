"""Recording one pass of a model: its attention calls, in the order in which they were made.

Whatever device the network computes on, what is kept is on the CPU, and whatever is computed from it is computed there: a GPU
need not hold what somebody may want to look at, and layers that are spread over several of them meet in one place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..errors import WeightsOnlyError
from ..models.calls import Call, heard_by
from ..models.inputs import run
from ..models.model import Model
from ..models.modules import Kind, kind_of


def record(
    model: Model,
    inputs: dict[str, torch.Tensor],
    on_progress: Callable[[int], None] | None = None,
    edit: Callable[[Call], Call] | None = None,
    **options: object,
) -> tuple[list[Call], Any]:
    """(the attention calls of one pass over these inputs, what the network returned).

    edit  changes each call before the pass goes on with what it gives
    on_progress  called after every attention call with how many there have been; what it raises ends the pass there
    options      of the network's own, as in core.models.inputs.run

    Raises WeightsOnlyError for a model that computes attention within separate parts of what it reads.
    """
    calls: list[Call] = []
    at_hand = _OnCpu()

    def keep(call: Call) -> Call:
        parts = call.query.shape[0]
        if parts != 1:  # Swin's windows, for example
            raise WeightsOnlyError(
                f"{type(call.module).__name__} computes attention within {parts} separate parts of what it reads. "
                f"Such parts are not shown. Choose another model.",
                field="model",
            )
        kept = at_hand.call(call)
        if edit is not None and (edited := edit(kept)) is not kept:
            kept, call = edited, replace(call, output=edited.output.to(call.output.device))
        calls.append(kept)
        if on_progress is not None:
            on_progress(len(calls))
        return call

    with heard_by(keep):
        returned = run(model, inputs, **options)
    return calls, returned


class _OnCpu:
    """Brings the calls of one pass to the CPU. What is there already is not copied; a mask that several layers share is
    copied once."""

    def __init__(self) -> None:
        self._shared: dict[
            int, tuple[Tensor, Tensor]
        ] = {}  # what was copied is held as well, or its id might be another's

    def call(self, call: Call) -> Call:
        if call.query.device.type == "cpu":
            return call
        own = {name: getattr(call, name).cpu() for name in ("query", "key", "value", "output")}
        shared = {name: self._once(getattr(call, name)) for name in ("mask", "bias", "sinks")}
        return replace(call, **own, **shared)

    def _once(self, tensor: Tensor | None) -> Tensor | None:
        if tensor is None:
            return None
        return self._shared.setdefault(id(tensor), (tensor, tensor.detach().cpu()))[1]


def kinds_of(model: Model) -> Callable[[Call], Kind]:
    """Tells which kind of attention a call of this model is. A layer is a call's place among those of its kind."""
    names = {id(module): name for name, module in model.network.named_modules()}
    return lambda call: kind_of(names[id(call.module)], model.is_encoder_decoder)
