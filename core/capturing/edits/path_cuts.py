"""Path cuts: an attention call as it would be if heads did not read some components.

This is path patching (Wang et al. 2022, "Interpretability in the Wild", https://arxiv.org/abs/2211.00593). The component is
taken out of the residual stream that the norm before the attention reads, as it came there with all earlier norms held; that
norm is computed anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError, shortened
from ...models.calls import Call, wide
from ...models.inputs import all_inputs, image_inputs
from ...models.model import Model
from ...models.modules import Kind
from ..calls.edited_call import Cut
from ..calls.head_places import Path, Side
from ..components.running import ComponentPass, Reading
from ..components.written import Component
from ..recorder import kinds_of, record
from ..rounding import OF_SUMS, rounding_error

# What is left of a token's vector is 0 up to so many times the rounding of one sum: a norm would make a whole vector of it.
SUMMED = 4


def call_without(reading: Reading, cuts: Mapping[Path, Cut], elsewhere: Mapping[Path, Tensor]) -> Call:
    """The call without some components of what it reads. Raises InputError for components that it doesn't read.

    elsewhere  what those that are patched are in the other text (`vectors_over`)
    """
    left = _without(reading.stream.detach(), _taken(reading, cuts, elsewhere))
    with torch.no_grad():
        return reading.call_on(left if reading.norm is None else reading.norm(left))


def not_read(path: Path) -> InputError:
    """The error for a path from a component that a head doesn't read."""
    return InputError(
        f"The {path.side} of head {path.place.words} is not made from “{shortened(path.component)}”. Choose a component that "
        f"is written before it, by its name in an attribution, such as “embedding”, “0.0” or “mlp 0”.",
        field="edits",
    )


def components_read(model: Model, kind: Kind, layer: int, side: Side) -> tuple[str, ...]:
    """The names of the components that the heads of a layer read, as a pass over a single token shows.

    Raises InputError as `call_without` does.
    """
    if model.network not in _READ:
        found: dict[tuple[Kind, int, bool], tuple[str, ...]] = {}

        def look(kind: Kind, layer: int, reading: Callable[[Side], Reading]) -> None:
            for is_query, read in ((True, reading("query")), (False, reading("key"))):
                found[kind, layer, is_query] = tuple(_known(read))

        picture = np.zeros((32, 32, 3), np.uint8)
        inputs = image_inputs(model, picture) if model.reads_images else all_inputs(model, input_ids=[0])
        _look_at_readings(model, inputs, look)
        _READ[model.network] = found
    return _READ[model.network][kind, layer, side == "query"]


# By network: what `components_read` has found.
_READ: WeakKeyDictionary[Any, dict[tuple[Kind, int, bool], tuple[str, ...]]] = WeakKeyDictionary()


def vectors_over(model: Model, inputs: dict[str, Tensor], paths: Collection[Path]) -> dict[Path, Tensor]:
    """What the component of each path adds to the stream that its head reads, in a plain pass: [1, tokens, width].

    Raises InputError as `call_without` does.
    """
    found: dict[Path, Tensor] = {}
    kinds: list[Kind] = []  # the one of the first call first

    def look(kind: Kind, layer: int, reading: Callable[[Side], Reading]) -> None:
        kinds.append(kind)
        here = [path for path in paths if path.place.covers(kind, layer, path.place.head or 0, kinds[0])]
        sides: set[Side] = {path.side for path in here}
        for side in sides:
            read, own = reading(side), [path for path in here if path.side == side]
            vectors = wide(read.components.vectors(read.stream, _parts(read, own)))
            found.update(zip(own, vectors, strict=True))

    _look_at_readings(model, inputs, look)
    return found


def _look_at_readings(
    model: Model, inputs: dict[str, Tensor], look: Callable[[Kind, int, Callable[[Side], Reading]], None]
) -> None:
    """Run a pass and look at what each of its attention calls reads. look: gets the kind, the layer and `Reading` by side"""
    component_pass, layers = ComponentPass(model, kind_of := kinds_of(model)), Counter[Kind]()

    def heard(call: Call) -> Call:
        kind = kind_of(call)
        look(kind, layers[kind], partial(component_pass.reading, call))
        layers[kind] += 1
        return call

    record(model, inputs, edit=heard, component_pass=component_pass)


def _known(reading: Reading) -> dict[str, Component]:
    """The components that are read, by name."""
    written = reading.components.written
    return {
        part.name: part
        for part in reading.components.each
        if any(id(written[index].tensor) in reading.connected for index, _ in part.places)
    }


def _parts(reading: Reading, paths: Iterable[Path]) -> list[Component]:
    """The components of paths into the head that reads. Raises InputError for one that it doesn't read."""
    known = _known(reading)
    for path in paths:
        if path.component not in known:
            raise not_read(path)
    return [known[path.component] for path in paths]


def _taken(reading: Reading, cuts: Mapping[Path, Cut], elsewhere: Mapping[Path, Tensor]) -> Tensor:
    """What the cuts take out of the stream, in its shape."""
    parts = dict(zip(cuts, _parts(reading, cuts), strict=True))
    places = {
        how: tuple(place for path, part in parts.items() if cuts[path] == how for place in part.places)
        for how in cuts.values()
    }
    groups = [Component(how, "group", "", None, None, of_cut) for how, of_cut in places.items()]
    vectors = dict(zip(places, wide(reading.components.vectors(reading.stream, groups)), strict=True))
    if "mean" in vectors:
        vectors["mean"] -= vectors["mean"].mean(dim=-2, keepdim=True)
    if "patch" in vectors:
        _subtract(vectors["patch"], torch.stack([elsewhere[path] for path, cut in cuts.items() if cut == "patch"]))
    return torch.stack([*vectors.values()]).sum(dim=0)


def _subtract(vectors: Tensor, elsewhere: Tensor) -> None:
    """Leave of vectors [..., tokens, width] what they are more than in another text; 0 for tokens that have come since."""
    tokens = min(vectors.shape[-2], elsewhere.shape[-2])
    vectors[..., :tokens, :] -= elsewhere.sum(dim=0)[..., :tokens, :]
    vectors[..., tokens:, :] = 0


def _without(stream: Tensor, taken: Tensor) -> Tensor:
    """The difference of both, 0 for tokens of which rounding errors alone are left."""
    left, rounding = wide(stream) - taken, OF_SUMS[stream.dtype] * rounding_error(stream.dtype)
    largest = torch.maximum(wide(stream).abs(), taken.abs()).amax(dim=-1, keepdim=True)
    is_nothing = left.abs().amax(dim=-1, keepdim=True) <= SUMMED * rounding * largest
    return left.masked_fill(is_nothing, 0).to(stream.dtype)
