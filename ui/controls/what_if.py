"""The two switches that change a head: its scaling and its mask."""

from __future__ import annotations

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from core import AttentionTrace, InputError
from core.attention import masks as m
from core.attention.matrix_files import read_mask, to_csv
from ui import state
from ui.controls.menu import menu
from ui.markdown import show_error

AS_GIVEN, CUSTOM = "given", "own"
# Beside "Mask as given" some masks need a longer name.
LONGER = {"none": "No mask", "prefix": "Causal, open prefix", "padding": "Padded end"}
CHOICES = {
    AS_GIVEN: "Mask as given",
    **{word: LONGER.get(word, named.name) for word, named in m.MASKS.items()},
    CUSTOM: "My own mask",
}


def changes(trace: AttentionTrace) -> AttentionTrace | None:
    """The head as the switches change it; None if they leave it as it is."""
    with st.container(horizontal=True, vertical_alignment="center"):
        scaling = st.toggle(
            "Scaling",
            True,
            key=state.SCALING,
            bind="query-params",
            help="Off: the raw scores go into the softmax as they are.",
        )
        name = menu("Mask", state.MASK, CHOICES, label_visibility="collapsed", width=200)
        size = 0
        if name in m.MASKS and (label := m.MASKS[name].number):
            size = st.number_input(label, 1, 4096, 3, key=state.MASK_SIZE, bind="query-params", width=130)
    try:
        mask = _mask(name, size, trace)
        if scaling and mask is None:
            return None
        return trace.changed(scale=None if scaling else 1.0, mask=mask)
    except InputError as error:
        show_error(error)
        return None


def _mask(name: str, size: int, trace: AttentionTrace) -> NDArray[np.bool_] | None:
    queries, keys = trace.shape
    if name == AS_GIVEN:
        return None
    if name == CUSTOM:
        text = st.text_area(
            "A row for each query: 1 where it may attend, 0 where not. Empty: as given.",
            placeholder=to_csv(np.tri(queries, keys)),
            key=state.MASK_GRID,
            bind="query-params",
        )
        return read_mask(text) if text.strip() else None
    return m.MASKS[name].grid(size, queries, keys)
