"""Applies edits to the attention calls of a pass, one after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ..errors import InputError, check_index
from ..models.calls import Call
from ..models.modules import Kind
from .edit_kinds import HeadInPass, Outputs
from .edited import UNEDITED, EditedCall, HeadEdit
from .edits import Edits
from .places import Place
from .rows import edited_output


@dataclass(eq=False)
class Editor:
    """Edits the attention calls of one pass, one after another as they are made.

    kind_of   returns which attention a call is
    others    outputs in passes over other texts: see `HeadInPass`
    """

    edits: Edits
    kind_of: Callable[[Call], Kind]
    others: Mapping[str, Outputs] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._layers: dict[Kind, int] = {}
        self._shapes: dict[Kind, tuple[int, int]] = {}  # heads; the largest layer is not known before the end
        self._first: Kind | None = None
        of_heads = [edit for edit in self.edits.each if isinstance(edit.at, Place)]
        # In the order of application: if two edits change the same, the last one counts.
        self._edits = sorted(of_heads, key=lambda edit: (edit.rank, edit.at.narrowness))
        named = [(edit.at, tuple(zip(*edit.positions, strict=True))) for edit in of_heads]
        self._farthest = [(place, max(both[0]), max(both[1])) for place, both in named if both]

    def edit(self, call: Call) -> Call:
        """The call with its edits, and the output of the edited heads.

        Raises InputError for heads and positions that are not there.
        """
        planned = self.plan(call)
        return planned.giving(edited_output(planned)) if isinstance(planned, EditedCall) else call

    def plan(self, call: Call) -> Call:
        """The call with its edits, before anything is computed."""
        kind, layer, first = self.check(call)
        planned = {
            head: edit
            for head in range(call.heads)
            if (edit := self._of_head(HeadInPass(call, kind, layer, head, UNEDITED, self.others), first)) is not None
        }
        return EditedCall.of(call, planned) if planned else call

    def check(self, call: Call) -> tuple[Kind, int, Kind]:
        """Count the next call, and return its kind, its layer, and the kind of the first call of the pass.

        Raises InputError for positions that are not there.
        """
        kind, heads = self.kind_of(call), call.heads
        first = self._first = self._first or kind
        layer = self._layers.get(kind, 0)
        self._layers[kind], self._shapes[kind] = layer + 1, (heads, layer + 1)
        for place, query, key in self._farthest:
            if place.covers(kind, layer, place.head or 0, first) and (place.head or 0) < heads:
                check_index(key, call.key.shape[2], "key")
                if query >= 0:
                    check_index(query, call.query.shape[2], "query")
        return kind, layer, first

    def finish(self) -> None:
        """Raise InputError after the pass for layers, heads and kinds of attention that it did not have."""
        for place in {edit.at for edit in self._edits}:
            kind = place.kind or self._first
            if kind is None or kind not in self._shapes:
                there = ", ".join(self._shapes)
                raise InputError(f"There is no {kind} attention here, only {there}.", field="kind")
            heads, layers = self._shapes[kind]
            for number, count, name in ((place.layer, layers, "layer"), (place.head, heads, "head")):
                if number is not None:
                    check_index(number, count, name)

    def _of_head(self, head: HeadInPass, first: Kind) -> HeadEdit | None:
        """All changes of a head together; None if there are none."""
        for edit in self._edits:
            if edit.at.covers(head.kind, head.layer, head.head, first):
                head = replace(head, edit=edit.apply(head))
        changes_it = head.edit.changes_weights or head.edit.output is not None
        return head.edit if changes_it else None
