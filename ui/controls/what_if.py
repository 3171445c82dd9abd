"""The two switches that change a head: its scaling and its mask."""

from __future__ import annotations

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from core import AttentionTrace, InputError
from core.attention import masks as m
from core.attention.matrix_files import read_mask, to_csv
from ui import state
from ui.markdown import show_error

AS_GIVEN, PADDING, CUSTOM = "Mask as given", "Padded end", "My own mask"

# What each choice draws from its number, and what that number is called; None where there is no number.
MASKS = {
    AS_GIVEN: (None, None),
    "No mask": (lambda _: m.everything, None),
    "Causal": (lambda _: m.causal, None),
    "Sliding window": (m.sliding_window, "window"),
    "Causal window": (lambda size: m.both(m.causal, m.sliding_window(size)), "window"),
    "Causal, open prefix": (lambda size: m.either(m.causal, m.prefix(size)), "open keys"),
    PADDING: (None, "padded keys"),
    CUSTOM: (None, None),
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
        name = st.selectbox(
            "Mask", list(MASKS), key=state.MASK, bind="query-params", label_visibility="collapsed", width=200
        )
        size, label = 0, MASKS[name][1]
        if label is not None:
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
    predicate = m.padding(np.arange(keys) < keys - size) if name == PADDING else MASKS[name][0](size)
    return m.grid(predicate, queries, keys)
