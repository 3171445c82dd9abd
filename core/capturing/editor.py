"""Applies edits to the attention calls of a pass, one after another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from ..errors import InputError, check_index
from ..models.calls import Call
from ..models.modules import Kind
from .edit_kinds import HeadInPass
from .edited import UNEDITED, EditedCall, HeadEdit
from .edits import Edits
from .places import Place
from .rows import edited_output


@dataclass(eq=False)
class Editor:
    """Edits the attention calls of one pass, one after another as they are made.

    kind_of  returns which attention a call is
    others   by the keyword of `Edits` that names another text: (kind, layer) -> the outputs over it, [tokens, heads, d_v]
    """

    edits: Edits
    kind_of: Callable[[Call], Kind]
    others: Mapping[str, Callable[[Kind, int], Tensor]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._shapes: dict[Kind, tuple[int, int]] = {}  # (layers so far, heads), the kind of the first call first
        of_heads = [edit for edit in self.edits.each if isinstance(edit.at, Place)]
        # In the order of application: if two edits change the same, the last one counts.
        self._edits = sorted(of_heads, key=lambda edit: (edit.rank, edit.at.narrowness))
        named = [(edit.at, tuple(zip(*edit.positions, strict=True))) for edit in of_heads]
        self._farthest = [(place, max(both[0]), max(both[1])) for place, both in named if both]

    def edit(self, call: Call) -> Call:
        """The call with its edits, and the output of the edited heads.

        Raises InputError for positions that are not there.
        """
        kind, layer = self.check(call)
        edits = {head: edit for head in range(call.heads) if (edit := self._of_head(call, kind, layer, head)).changes}
        if not edits:
            return call
        edited = EditedCall(**vars(call), edits=edits)
        return replace(edited, output=edited_output(edited))

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
        for place in {edit.at for edit in self._edits}:
            kind = place.kind or next(iter(self._shapes))
            if kind not in self._shapes:
                raise InputError(f"There is no {kind} attention here, only {', '.join(self._shapes)}.", field="kind")
            layers, heads = self._shapes[kind]
            for number, count, name in ((place.layer, layers, "layer"), (place.head, heads, "head")):
                if number is not None:
                    check_index(number, count, name)

    def _covers(self, place: Place, kind: Kind, layer: int, head: int) -> bool:
        return place.covers(kind, layer, head, first=next(iter(self._shapes)))

    def _of_head(self, call: Call, kind: Kind, layer: int, head: int) -> HeadEdit:
        """All changes of a head together."""
        outputs = {keyword: output_of(kind, layer)[:, head] for keyword, output_of in self.others.items()}
        in_pass = HeadInPass(call, UNEDITED, outputs)
        for edit in self._edits:
            if self._covers(edit.at, kind, layer, head):
                in_pass = replace(in_pass, edit=edit.apply(in_pass))
        return in_pass.edit


def unchanged(calls: Sequence[Call], kind_of: Callable[[Call], Kind], before: Edits, after: Edits) -> int:
    """How many attention calls of a pass are the same with other edits: all before the first that an edit of only one covers.
    0 where they replace different tokens.

    calls  of the pass with the edits `before`
    """
    if before.replace_tokens != after.replace_tokens:
        return 0
    places = [edit.at for edit in set(before.each) ^ set(after.each) if isinstance(edit.at, Place)]
    layers: Counter[Kind] = Counter()
    for number, call in enumerate(calls):
        kind = kind_of(call)
        if any(place.covers(kind, layers[kind], place.head or 0, first=kind_of(calls[0])) for place in places):
            return number
        layers[kind] += 1
    return len(calls)
