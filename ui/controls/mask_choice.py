"""The choice of a mask: by name, as rows of 0 and 1, or by clicks on a picture. Widgets hold it, and so the address."""

from __future__ import annotations

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from core import InputError
from core.attention import masks as m
from ui import state
from ui.calls import call
from ui.components import pin
from ui.controls.fields import menu, text_line, whole_number

OPENING, CUSTOM = "causal", "own"
CHOICES = {word: named.name for word, named in m.MASKS.items()} | {CUSTOM: "My own"}


def pick_mask(queries: int, keys: int) -> NDArray[np.bool_]:
    """Return the chosen mask [queries, keys]. A click on any picture of queries and keys flips its cell."""
    name = menu("Mask", state.PATTERN, CHOICES, opening=OPENING, on_change=_by_name)
    named = m.MASKS["none" if name == CUSTOM else name]
    size = 0
    if named.number is not None:
        size = whole_number(named.number.capitalize(), state.SPAN, 4, 1, 12)
    drawn = call(named.grid, size, queries, keys)
    text = text_line(
        "Or rows of 1 (may attend) and 0", state.CELLS, placeholder=m.to_rows(drawn), max_chars=200, on_change=_by_cells
    )
    mask = call(m.from_rows, text, queries, keys) if text.strip() else drawn
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


def _by_name() -> None:
    st.session_state[state.CELLS] = ""


def _by_cells() -> None:
    st.session_state[state.PATTERN] = CUSTOM
