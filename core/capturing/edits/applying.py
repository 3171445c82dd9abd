"""Applies edits to the attention calls of a pass, one after another, and cuts paths: heads then do not read some components.

Cutting is path patching (Wang et al. 2022, "Interpretability in the Wild", https://arxiv.org/abs/2211.00593). The component is
taken out of the residual stream that the norm before the attention reads, as it came there with all earlier norms held; that
norm is computed anew.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, get_args
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError, check_index, edits_error, shortened
from ...models.calls import Call, wide
from ...models.inputs import all_inputs, image_inputs
from ...models.model import Model
from ...models.modules import Kind, first_of
from ..calls.edited_call import UNEDITED, Cut, EditedCall, HeadEdit
from ..calls.head_places import PathIntoHead, Place, Side
from ..calls.rows import edited_output
from ..components.running import ComponentPass, Reading
from ..components.written import Component
from ..recorder import record
from ..rounding import OF_SUMS, rounding_error
from .edit import HeadInPass
from .edits import Edits


@dataclass(eq=False)
class Editor:
    """Edits the attention calls of one pass, one after another as they are made.

    others   by the keyword of `Edits` that names another text: (kind, layer) -> the outputs over it, [tokens, heads, d_v]
    reading  what a call of the running pass reads (`ComponentPass.reading`); None: no path is cut
    elsewhere  by path: what its component is in another text (`core.capturing.edits.applying.vectors_over`)
    """

    edits: Edits
    others: Mapping[str, Callable[[Kind, int], Tensor]] = field(default_factory=dict)
    reading: Callable[[Call, Side], Reading] | None = None
    elsewhere: Mapping[PathIntoHead, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._shapes: dict[Kind, tuple[int, int]] = {}  # (layers so far, heads), the kind of the first call first
        of_heads = [(edit.place, edit) for edit in self.edits.each if edit.place is not None]
        # In the order of application: if two edits change the same, the last one counts.
        self._edits = sorted(of_heads, key=lambda both: (both[1].rank, both[0].narrowness))
        named = [(place, tuple(zip(*edit.positions, strict=True))) for place, edit in of_heads]
        self._farthest = [(place, max(both[0]), max(both[1])) for place, both in named if both]

    def edit(self, call: Call) -> Call:
        """The call with its edits, and the output of the edited heads. Raises InputError for positions that are not there."""
        edits = self.changes(call)
        if not edits:
            return call
        edited = EditedCall(**vars(self._cut(call, edits)), edits=edits)
        return replace(edited, output=edited_output(edited))

    def _cut(self, call: Call, edits: Mapping[int, HeadEdit]) -> Call:
        """The call with the queries, keys and values that heads read without some components."""
        sides = {path.side for edit in edits.values() for path in edit.cuts}
        if not sides or self.reading is None:
            return call
        parts: dict[str, Tensor] = {"query": call.query.clone()} if "query" in sides else {}
        if sides - {"query"}:
            parts |= {side: getattr(call, side).repeat_interleave(call.group, dim=1) for side in ("key", "value")}
        for head, edit in edits.items():
            for side in get_args(Side):
                cuts: dict[PathIntoHead, Cut] = {path: cut for path, cut in edit.cuts.items() if path.side == side}
                if cuts:
                    anew = getattr(call_without(self.reading(call, side), cuts, self.elsewhere), side)
                    parts[side][0, head] = anew[0, head if side == "query" else head // call.group]
        return replace(call, **parts)

    def changes(self, call: Call) -> dict[int, HeadEdit]:
        """What is changed in each head of the next call, by head. Raises InputError for positions that are not there."""
        kind, layer = self.check(call)
        each = ((head, self._of_head(call, kind, layer, head)) for head in range(call.heads))
        return {head: edit for head, edit in each if edit.changes}

    def check(self, call: Call) -> tuple[Kind, int]:
        """The kind and the layer of the next call. Raises InputError for positions that are not there."""
        kind, layer = call.kind, call.layer
        self._shapes[kind] = layer + 1, call.heads
        for place, query, key in self._farthest:
            if self._covers(place, kind, layer, place.head or 0) and (place.head or 0) < call.heads:
                check_index(key, call.key.shape[2], "key")
                if query >= 0:
                    check_index(query, call.query.shape[2], "query")
        return kind, layer

    def finish(self) -> None:
        """Raise InputError after the pass for layers, heads and kinds of attention that it did not have."""
        for place, named in {(place, edit.field) for place, edit in self._edits}:
            kind = place.kind or first_of(self._shapes)
            if kind not in self._shapes:
                kinds = ", ".join(self._shapes)
                raise InputError(f"There is no {kind} attention here, only {kinds}.", field=named or "kind")
            layers, heads = self._shapes[kind]
            for number, count, name in ((place.layer, layers, "layer"), (place.head, heads, "head")):
                if number is not None:
                    check_index(number, count, name, field=named)

    def _covers(self, place: Place, kind: Kind, layer: int, head: int) -> bool:
        return place.covers(kind, layer, head, first=first_of(self._shapes))

    def _of_head(self, call: Call, kind: Kind, layer: int, head: int) -> HeadEdit:
        """All changes of a head together."""
        size = call.value.shape[3]
        own = slice(call.part * size, (call.part + 1) * size)  # among the outputs of all parts of the layer
        outputs = {keyword: output_of(kind, layer)[:, head, own] for keyword, output_of in self.others.items()}
        in_pass = HeadInPass(call, UNEDITED, outputs)
        for place, edit in self._edits:
            if self._covers(place, kind, layer, head):
                in_pass = replace(in_pass, edit=edit.apply(in_pass))
        return in_pass.edit


def unchanged(calls: Sequence[Call], before: Edits, after: Edits) -> int:
    """How many attention calls of a pass are the same with other edits: all before the first that an edit of only one covers.
    0 where they replace different tokens.

    calls  of the pass with the edits `before`
    """
    if before.tokens != after.tokens:
        return 0
    places = [edit.place for edit in set(before.each) ^ set(after.each) if edit.place is not None]
    first = first_of(call.kind for call in calls)
    for number, call in enumerate(calls):
        if any(place.covers(call.kind, call.layer, place.head or 0, first=first) for place in places):
            return number
    return len(calls)


# What is left of a token's vector is 0 up to so many times the rounding of one sum: a norm would make a whole vector of it.
SUMMED = 4


def call_without(reading: Reading, cuts: Mapping[PathIntoHead, Cut], elsewhere: Mapping[PathIntoHead, Tensor]) -> Call:
    """The call without some components of what it reads. Raises InputError for components that it doesn't read.

    elsewhere  what those that are patched are in the other text (`vectors_over`)
    """
    left = _without(reading.stream.detach(), _taken(reading, cuts, elsewhere))
    with torch.no_grad():
        return reading.call_on(left if reading.norm is None else reading.norm(left))


def not_read(path: PathIntoHead) -> InputError:
    """The error for a path from a component that a head doesn't read."""
    return edits_error(
        f"The {path.side} of head {path.place.words} is not made from “{shortened(path.component)}”. Choose a component that "
        f"is written before it, by its name in an attribution, such as “embedding”, “0.0” or “mlp 0”."
    )


def components_read(model: Model, kind: Kind, layer: int, side: Side) -> tuple[str, ...]:
    """The names of the components that the heads of a layer read, as a pass over a single token shows. Raises InputError as
    `call_without` does."""
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


def vectors_over(
    model: Model, inputs: dict[str, Tensor], paths: Collection[PathIntoHead]
) -> dict[PathIntoHead, Tensor]:
    """What the component of each path adds to the stream that its head reads, in a plain pass: [1, tokens, width]. Raises
    InputError as `call_without` does."""
    found: dict[PathIntoHead, Tensor] = {}
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
    component_pass = ComponentPass(model)

    def heard(call: Call) -> Call:
        look(call.kind, call.layer, partial(component_pass.reading, call))
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


def _parts(reading: Reading, paths: Iterable[PathIntoHead]) -> list[Component]:
    """The components of paths into the head that reads. Raises InputError for one that it doesn't read."""
    known = _known(reading)
    for path in paths:
        if path.component not in known:
            raise not_read(path)
    return [known[path.component] for path in paths]


def _taken(reading: Reading, cuts: Mapping[PathIntoHead, Cut], elsewhere: Mapping[PathIntoHead, Tensor]) -> Tensor:
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
        # What is more than in the other text; 0 for tokens that have come since.
        there = torch.stack([elsewhere[path] for path, cut in cuts.items() if cut == "patch"]).sum(dim=0)
        tokens = min(vectors["patch"].shape[-2], there.shape[-2])
        vectors["patch"][..., :tokens, :] -= there[..., :tokens, :]
        vectors["patch"][..., tokens:, :] = 0
    return torch.stack([*vectors.values()]).sum(dim=0)


def _without(stream: Tensor, taken: Tensor) -> Tensor:
    """The difference of both, 0 for tokens of which rounding errors alone are left."""
    left, rounding = wide(stream) - taken, OF_SUMS[stream.dtype] * rounding_error(stream.dtype)
    largest = torch.maximum(wide(stream).abs(), taken.abs()).amax(dim=-1, keepdim=True)
    is_nothing = left.abs().amax(dim=-1, keepdim=True) <= SUMMED * rounding * largest
    return left.masked_fill(is_nothing, 0).to(stream.dtype)
