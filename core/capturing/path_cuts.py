"""Path cuts: an attention call as it would be if heads did not read some components.

This is path patching (Wang et al. 2022, "Interpretability in the Wild", https://arxiv.org/abs/2211.00593). The component is
taken out of the residual stream that the norm before the attention reads, as it came there with all earlier norms held; that
norm is computed anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError, shortened
from ..models.calls import Call, wide
from ..models.inputs import all_inputs, image_inputs
from ..models.model import Model
from ..models.modules import Kind
from .component_pass import ComponentPass, Reading
from .components import Component
from .edited import Cut
from .held_norms import ALLOWED_ROUNDING, rounding_error
from .places import Path, Side
from .recorder import kinds_of, record

# What is left of a token's vector is 0 up to so many times the rounding of one sum: a norm would make a whole vector of it.
SUMMED = 4


def call_without(reading: Reading, cuts: Mapping[Path, Cut]) -> Call:
    """The call without some components of what it reads. Raises InputError for components that it doesn't read."""
    left = _without(reading.stream.detach(), _taken(reading, cuts))
    with torch.no_grad():
        return reading.call_on(left if reading.norm is None else reading.norm(left))


def not_read(path: Path) -> InputError:
    """The error for a path from a component that a head doesn't read."""
    return InputError(
        f"The {path.side} of head {path.place.words} is not made from “{shortened(path.component)}”. Choose a component that "
        f"is written before it, by its name in an attribution, such as “embedding”, “0.0” or “mlp 0”.",
        field="edits",
    )


def components_read(model: Model, kind: Kind, layer: int, side: Side) -> frozenset[str]:
    """The names of the components that the heads of a layer read, as a pass over a single token shows.

    Raises InputError as `call_without` does.
    """
    of_network = _READ.setdefault(model.network, {})
    at = kind, layer, side == "query"
    if at not in of_network:
        component_pass, layers = ComponentPass(model, kind_of := kinds_of(model)), Counter[Kind]()

        def look(call: Call) -> Call:
            own = kind_of(call)
            if (own, layers[own]) == (kind, layer):
                of_network[at] = frozenset(_known(component_pass.reading(call, side)))
            layers[own] += 1
            return call

        picture = np.zeros((32, 32, 3), np.uint8)
        inputs = image_inputs(model, picture) if model.reads_images else all_inputs(model, input_ids=[0])
        record(model, inputs, edit=look, component_pass=component_pass)
    return of_network[at]


# By network: what `components_read` has found.
_READ: WeakKeyDictionary[Any, dict[tuple[Kind, int, bool], frozenset[str]]] = WeakKeyDictionary()


def _known(reading: Reading) -> dict[str, Component]:
    """The components that are read, by name."""
    written = reading.components.written
    return {
        part.name: part
        for part in reading.components.each
        if any(id(written[index].tensor) in reading.connected for index, _ in part.places)
    }


def _taken(reading: Reading, cuts: Mapping[Path, Cut]) -> Tensor:
    """What the cuts take out of the stream, in its shape."""
    components, known = reading.components, _known(reading)
    for path in cuts:
        if path.component not in known:
            raise not_read(path)
    by_name = {path.component: cut for path, cut in cuts.items()}
    places = {
        cut: tuple(place for name, own in by_name.items() if own == cut for place in known[name].places)
        for cut in by_name.values()
    }
    groups = [Component(cut, "group", "", None, None, of_cut) for cut, of_cut in places.items()]
    vectors = dict(zip(places, wide(components.vectors(reading.stream, groups)), strict=True))
    if "mean" in vectors:
        vectors["mean"] -= vectors["mean"].mean(dim=-2, keepdim=True)
    return torch.stack([*vectors.values()]).sum(dim=0)


def _without(stream: Tensor, taken: Tensor) -> Tensor:
    """The difference of both, 0 for tokens of which rounding errors alone are left."""
    left, rounding = wide(stream) - taken, ALLOWED_ROUNDING[stream.dtype] * rounding_error(stream.dtype)
    largest = torch.maximum(wide(stream).abs(), taken.abs()).amax(dim=-1, keepdim=True)
    is_nothing = left.abs().amax(dim=-1, keepdim=True) <= SUMMED * rounding * largest
    return left.masked_fill(is_nothing, 0).to(stream.dtype)
