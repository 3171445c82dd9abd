"""The two switches that change a head: its scaling and its mask."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from core import InputError
from core.attention import masks as m
from core.attention.head import Head
from core.attention.masks import Predicate
from core.attention.matrix_files import read_mask, to_csv
from core.capturing.edit_lines import line
from core.capturing.edits import Place
from core.models.modules import Kind
from ui import shown, state
from ui.controls.fields import menu, switch, text_area, whole_number
from ui.markdown import show_error

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
    """What the switches say.

    scaling  whether the raw scores are scaled
    mask     one of CHOICES; `number` belongs to it where the mask has one, `rows` is what was typed as one's own
    """

    scaling: bool
    mask: str
    number: int
    rows: str = ""

    def of(self, head: Head) -> Head:
        """The head so changed. Raises InputError for a mask that does not fit it."""
        mask: Predicate | NDArray[np.bool_] | None = None
        if self.mask in m.MASKS:
            mask = m.MASKS[self.mask].predicate(self.number, head.shape[1])
        elif self.mask == CUSTOM and self.rows.strip():
            mask = read_mask(self.rows)
        return head.changed(scale=None if self.scaling else 1.0, mask=mask)

    def lines(self, layer: int, head: int, kind: Kind | None) -> list[str] | None:
        """The same as lines of `core.capturing.edit_lines`; None for a mask that was typed, which no line says."""
        at, said = Place(layer, head, kind), []
        if not self.scaling:
            said.append(line("softmax", "unscaled", at))
        if self.mask in m.MASKS:
            number = "" if m.MASKS[self.mask].number is None else f" {self.number}"
            said.append(line("mask", f"{self.mask}{number}", at))
        return None if self.mask == CUSTOM and self.rows.strip() else said


def choose_change(head: Head) -> tuple[Change, Head] | None:
    """The change that the switches ask for, and the head so changed; None if they leave it as it is, or after saying beside
    them what is wrong."""
    with st.container(horizontal=True, vertical_alignment="center"):
        scaling = switch("Scaling", state.SCALING, True, help="Off: the raw scores go into the softmax as they are.")
        name = menu("Mask", state.MASK, CHOICES, label_visibility="collapsed", width=200)
        number = 0
        if name in m.MASKS and (label := m.MASKS[name].number):
            number = whole_number(label, state.MASK_SIZE, 3, 1, 4096, width=130)
    rows = _own_mask(head.shape) if name == CUSTOM else ""
    change = Change(scaling, name, number, rows)
    if change in (Change(True, AS_GIVEN, 0), Change(True, CUSTOM, 0)):
        return None
    try:
        changed = change.of(head)
    except InputError as error:
        show_error(error)
        return None
    shown.now().asked.append(change)
    return change, changed


def _own_mask(shape: tuple[int, int]) -> str:
    return text_area(
        "A row for each query: 1 where it may attend, 0 where not. Empty: as given.",
        state.MASK_GRID,
        placeholder=to_csv(np.tri(*shape)) if max(shape) <= MAX_TYPED else "",
    ).strip()
