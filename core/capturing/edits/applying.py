"""Applies edits to the attention calls of a pass, one after another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from torch import Tensor

from ...errors import InputError, check_index
from ...models.calls import Call
from ...models.modules import Kind, first_of
from ..calls.edited_call import UNEDITED, EditedCall, HeadEdit
from ..calls.head_places import Path, Place, Side
from ..calls.rows import edited_output
from ..components.running import Reading
from .edits import Edits
from .kinds import HeadInPass
from .path_cuts import call_without


@dataclass(eq=False)
class Editor:
    """Edits the attention calls of one pass, one after another as they are made.

    kind_of  returns which attention a call is
    others   by the keyword of `Edits` that names another text: (kind, layer) -> the outputs over it, [tokens, heads, d_v]
    reading  what a call of the running pass reads (`ComponentPass.reading`); None: no path is cut
    elsewhere  by path: what its component is in another text (`core.capturing.edits.path_cuts.vectors_over`)
    """

    edits: Edits
    kind_of: Callable[[Call], Kind]
    others: Mapping[str, Callable[[Kind, int], Tensor]] = field(default_factory=dict)
    reading: Callable[[Call, Side], Reading] | None = None
    elsewhere: Mapping[Path, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._shapes: dict[Kind, tuple[int, int]] = {}  # (layers so far, heads), the kind of the first call first
        of_heads = [(edit.place, edit) for edit in self.edits.each if edit.place is not None]
        # In the order of application: if two edits change the same, the last one counts.
        self._edits = sorted(of_heads, key=lambda both: (both[1].rank, both[0].narrowness))
        named = [(place, tuple(zip(*edit.positions, strict=True))) for place, edit in of_heads]
        self._farthest = [(place, max(both[0]), max(both[1])) for place, both in named if both]

    def edit(self, call: Call) -> Call:
        """The call with its edits, and the output of the edited heads.

        Raises InputError for positions that are not there.
        """
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
                if cuts := edit.cuts_of(side):
                    anew = getattr(call_without(self.reading(call, side), cuts, self.elsewhere), side)
                    parts[side][0, head] = anew[0, head if side == "query" else head // call.group]
        return replace(call, **parts)

    def changes(self, call: Call) -> dict[int, HeadEdit]:
        """What is changed in each head of the next call, by head. Raises InputError for positions that are not there."""
        kind, layer = self.check(call)
        each = ((head, self._of_head(call, kind, layer, head)) for head in range(call.heads))
        return {head: edit for head, edit in each if edit.changes}

    def check(self, call: Call) -> tuple[Kind, int]:
        """Count the next call, and return its kind and its layer. Raises InputError for positions that are not there."""
        kind = self.kind_of(call)
        layer, _ = self._shapes.get(kind, (0, 0))
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
        outputs = {keyword: output_of(kind, layer)[:, head] for keyword, output_of in self.others.items()}
        in_pass = HeadInPass(call, UNEDITED, outputs)
        for place, edit in self._edits:
            if self._covers(place, kind, layer, head):
                in_pass = replace(in_pass, edit=edit.apply(in_pass))
        return in_pass.edit


def unchanged(calls: Sequence[Call], kind_of: Callable[[Call], Kind], before: Edits, after: Edits) -> int:
    """How many attention calls of a pass are the same with other edits: all before the first that an edit of only one covers.
    0 where they replace different tokens.

    calls  of the pass with the edits `before`
    """
    if before.tokens != after.tokens:
        return 0
    places = [edit.place for edit in set(before.each) ^ set(after.each) if edit.place is not None]
    layers: Counter[Kind] = Counter()
    first = first_of(map(kind_of, calls))
    for number, call in enumerate(calls):
        kind = kind_of(call)
        if any(place.covers(kind, layers[kind], place.head or 0, first=first) for place in places):
            return number
        layers[kind] += 1
    return len(calls)
