"""The choice of a mask: by name, as rows of 0 and 1, or by clicks on a picture; and the two switches that change a head, its
scaling and its mask. Widgets hold them, and so the address."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray
from streamlit.delta_generator import DeltaGenerator

from core import InputError
from core.attention import masks as m
from core.attention.head import Head
from core.attention.masks import Predicate
from core.attention.matrix_files import read_mask, to_csv
from core.capturing.calls.head_places import Place
from core.capturing.edits.kinds import Mask, Scale, Softmax
from core.models.modules import Kind
from ui import state
from ui.calls import call
from ui.components import pin
from ui.controls.fields import menu, slider, switch, text_area, text_line, whole_number
from ui.markdown import errors_shown
from ui.shown import is_quiet

CUSTOM = "own"
CHOICES = {word: named.name for word, named in m.MASKS.items()} | {CUSTOM: "My own"}


def pick_mask(queries: int, keys: int) -> NDArray[np.bool_]:
    """Return the chosen mask [queries, keys]. A click on any picture of queries and keys flips its cell."""
    empties = {"on_change": st.session_state.update, "args": ({state.CELLS: ""},)}
    name = menu("Mask", state.PATTERN, CHOICES, opening="causal", **empties)
    named = m.MASKS["none" if name == CUSTOM else name]
    size = 0
    if named.number is not None:
        size = slider(named.number.capitalize(), state.SPAN, 4, 1, 12, 1)
    drawn = call(named.grid, size, queries, keys)
    text = text_line(
        "Or rows of 1 (may attend) and 0", state.CELLS, placeholder=m.to_rows(drawn), max_chars=200, on_change=_by_cells
    )
    mask = call(m.from_rows, text, queries, keys) if text.strip() else drawn
    if not is_quiet():
        pin.listen(lambda cell: turn_over(mask, cell))
    return mask


def turn_over(mask: NDArray[np.bool_], cell: pin.Cell) -> None:
    """Flip the clicked cell of the mask, which makes it a mask of one's own."""
    pair = pin.place_in(cell, "query", "key", mask.shape)
    if pair is None:
        return  # a click on another picture, or on that of a sentence that has changed since
    rows = st.session_state.get(state.CELLS, "")  # an earlier click can have changed them since the mask was drawn
    try:
        changed = m.from_rows(rows, *mask.shape) if rows.strip() else mask.copy()
    except InputError:
        return  # said beside the field, whose text stays as it is
    changed[pair] = not changed[pair]
    st.session_state[state.CELLS] = m.to_rows(changed)
    _by_cells()


def _by_cells() -> None:
    st.session_state[state.PATTERN] = CUSTOM


# --- changing a head

AS_GIVEN = "given"
MAX_TYPED = 64  # queries or keys: beyond that nobody types a mask
# Beside "Mask as given" some masks need a longer name.
LONGER = {"none": "No mask", "prefix": "Causal, open prefix", "padding": "Padded end"}
SWITCHED = {
    AS_GIVEN: "Mask as given",
    **{word: LONGER.get(word, named.name) for word, named in m.MASKS.items()},
    CUSTOM: "My own mask",
}


@dataclass(frozen=True)
class Change:
    """A head's scaling and mask, as the switches have them.

    mask    one of SWITCHED
    number  the number of the mask, if it has one
    rows    the rows of one's own mask, as typed and without blanks around them
    times   what the scale is multiplied by
    """

    scaling: bool
    mask: str
    number: int
    rows: str = ""
    times: float = 1.0

    @property
    def is_none(self) -> bool:
        return self in (Change(True, AS_GIVEN, 0), Change(True, CUSTOM, 0))

    def of(self, head: Head) -> Head:
        """The changed head. Raises InputError for a mask that does not fit it."""
        mask: Predicate | NDArray[np.bool_] | None = None
        if self.mask in m.MASKS:
            mask = call(Mask.predicate, self._mask_in_words, head.shape[1])
        elif self.mask == CUSTOM and self.rows:
            mask = call(read_mask, self.rows)
        own = head.scale if self.scaling else 1.0
        return call(head.changed, scale=None if self.scaling and self.times == 1 else own * self.times, mask=mask)

    def lines(self, layer: int, head: int, kind: Kind | None) -> list[str] | None:
        """The lines of the same edits (`core.capturing.edits.lines`); None for a typed mask, which has no line."""
        if self.mask == CUSTOM and self.rows:
            return None
        at = Place(layer, head, kind)
        scaling = [] if self.scaling else [Softmax.line_of("unscaled", at)]
        scaling += [] if self.times == 1 else [Scale.line_of(f"{self.times:g}", at)]
        return scaling + ([Mask.line_of(self._mask_in_words, at)] if self.mask in m.MASKS else [])

    @property
    def _mask_in_words(self) -> str:
        """The named mask as in a line, such as "window 4"."""
        return self.mask if m.MASKS[self.mask].number is None else f"{self.mask} {self.number}"


def change_in(fields: Mapping[str, Any]) -> Change:
    """Return the change that the fields of a page hold (`ui.shown`): that of `choose_change` if these are its own."""
    name = fields[state.MASK]
    number = fields[state.MASK_SIZE] if name in m.MASKS and m.MASKS[name].number else 0
    rows = fields[state.MASK_GRID].strip() if name == CUSTOM else ""
    return Change(fields[state.SCALING], name, number, rows, fields[state.SCALE_TIMES])


def choose_change(head: Head, problem: DeltaGenerator) -> tuple[Change, Head] | None:
    """Show the switches; return their change and the changed head, or None if nothing changes or the mask does not fit.

    problem  where to say what is wrong: in sight, also while the switches are in a closed popover
    """
    scaling = switch("Scaling", state.SCALING, True, help="Off: the raw scores go into the softmax as they are.")
    times = slider("Scale, times", state.SCALE_TIMES, 1.0, 0.0, 2.0, 0.1)
    name, number, rows = menu("Mask", state.MASK, SWITCHED, width=240), 0, ""
    if name in m.MASKS and (label := m.MASKS[name].number):
        number = whole_number(label, state.MASK_SIZE, 3, 1, 4096, width=240)
    if name == CUSTOM:
        label = "A row for each query: 1 where it may attend, 0 where not. Empty: as given."
        example = to_csv(np.tri(*head.shape)) if max(head.shape) <= MAX_TYPED else ""
        rows = text_area(label, state.MASK_GRID, placeholder=example).strip()
    change = Change(scaling, name, number, rows, times)
    if change.is_none:
        return None
    with errors_shown(problem):
        return change, change.of(head)
    return None
