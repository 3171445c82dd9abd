"""The two switches that change a head: its scaling and its mask."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from streamlit.delta_generator import DeltaGenerator

from core.attention import masks as m
from core.attention.head import Head
from core.attention.masks import Predicate
from core.attention.matrix_files import read_mask, to_csv
from core.capturing.calls.head_places import Place
from core.capturing.edits.kinds import Mask, Softmax
from core.models.modules import Kind
from ui import state
from ui.calls import call
from ui.controls.fields import menu, switch, text_area, whole_number
from ui.markdown import errors_shown

AS_GIVEN, CUSTOM = "given", "own"
MAX_TYPED = 64  # queries or keys: beyond that nobody types a mask
# Beside "Mask as given" some masks need a longer name.
LONGER = {"none": "No mask", "prefix": "Causal, open prefix", "padding": "Padded end"}
CHOICES = {
    AS_GIVEN: "Mask as given",
    **{word: LONGER.get(word, named.name) for word, named in m.MASKS.items()},
    CUSTOM: "My own mask",
}


@dataclass(frozen=True)
class Change:
    """A head's scaling and mask, as the two switches have them.

    mask    one of CHOICES
    number  the number of the mask, if it has one
    rows    the rows of one's own mask, as typed and without blanks around them
    """

    scaling: bool
    mask: str
    number: int
    rows: str = ""

    def of(self, head: Head) -> Head:
        """The changed head. Raises InputError for a mask that does not fit it."""
        mask: Predicate | NDArray[np.bool_] | None = None
        if self.mask in m.MASKS:
            mask = call(Mask.predicate, self._mask_in_words, head.shape[1])
        elif self.mask == CUSTOM and self.rows:
            mask = call(read_mask, self.rows)
        return call(head.changed, scale=None if self.scaling else 1.0, mask=mask)

    def lines(self, layer: int, head: int, kind: Kind | None) -> list[str] | None:
        """The lines of the same edits (`core.capturing.edits.lines`); None for a typed mask, which has no line."""
        if self.mask == CUSTOM and self.rows:
            return None
        at = Place(layer, head, kind)
        scaling = [] if self.scaling else [Softmax.line_of("unscaled", at)]
        return scaling + ([Mask.line_of(self._mask_in_words, at)] if self.mask in m.MASKS else [])

    @property
    def _mask_in_words(self) -> str:
        """The named mask as in a line, such as "window 4"."""
        return self.mask if m.MASKS[self.mask].number is None else f"{self.mask} {self.number}"


def choose_change(head: Head, problem: DeltaGenerator) -> tuple[Change, Head] | None:
    """Show the switches; return their change and the changed head, or None if nothing changes or the mask does not fit.

    problem  where to say what is wrong: in sight, also while the switches are in a closed popover
    """
    scaling = switch("Scaling", state.SCALING, True, help="Off: the raw scores go into the softmax as they are.")
    name, number = menu("Mask", state.MASK, CHOICES, width=240), 0
    if name in m.MASKS and (label := m.MASKS[name].number):
        number = whole_number(label, state.MASK_SIZE, 3, 1, 4096, width=240)
    rows = ""
    if name == CUSTOM:
        label = "A row for each query: 1 where it may attend, 0 where not. Empty: as given."
        example = to_csv(np.tri(*head.shape)) if max(head.shape) <= MAX_TYPED else ""
        rows = text_area(label, state.MASK_GRID, placeholder=example).strip()
    change = Change(scaling, name, number, rows)
    if change in (Change(True, AS_GIVEN, 0), Change(True, CUSTOM, 0)):
        return None
    with errors_shown(problem):
        return change, change.of(head)
    return None
