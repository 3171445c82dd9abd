"""The two switches that change a head: its scaling and its mask."""

from __future__ import annotations

import numpy as np
import streamlit as st

from core import AttentionTrace, InputError
from core import masks as m
from core.matrix_files import read_mask, to_csv
from ui import state
from ui.words import show_error

AS_GIVEN = "As given"

# name: (label of its number, smallest, default, what it draws)
MASKS = {
    AS_GIVEN: None,
    "None": (None, lambda _: m.everything),
    "Causal": (None, lambda _: m.causal),
    "Sliding window": ("Window", lambda size: m.sliding_window(size)),
    "Causal window": ("Window", lambda size: m.both(m.causal, m.sliding_window(size))),
    "Prefix": ("Open keys", lambda size: m.either(m.causal, m.prefix(size))),
    "Padding": ("Padded keys", None),
    "Custom": (None, None),
}


def changes(trace: AttentionTrace) -> AttentionTrace | None:
    """The head as the switches change it; None if they leave it as it is."""
    scaling_column, mask_column, size_column = st.columns([2, 2, 2], vertical_alignment="bottom")
    with scaling_column:
        scaling = st.toggle(
            "Scaling by 1/√d_k" if _usual(trace) else "Scaling", True, key=state.SCALING, bind="query-params"
        )
    with mask_column:
        name = st.selectbox("Mask", list(MASKS), key=state.MASK, bind="query-params")
    try:
        mask = _mask(name, trace, size_column)
        if scaling and mask is None:
            return None
        return trace.changed(scale=None if scaling else 1.0, mask=mask)
    except InputError as error:
        show_error(error)
        return None


def _usual(trace: AttentionTrace) -> bool:
    return bool(np.isclose(trace.scale, trace.query.shape[1] ** -0.5, rtol=1e-6))


def _mask(name: str, trace: AttentionTrace, size_column) -> np.ndarray | None:
    if name == AS_GIVEN:
        return None
    if name == "Custom":
        text = st.text_area(
            "Mask: a row for each query, 1 where it may attend and 0 where not",
            to_csv(trace.mask.astype(int)),
            key=state.MASK_GRID,
            bind="query-params",
        )
        return read_mask(text)
    label, predicate = MASKS[name]
    size = 0
    if label:
        with size_column:
            size = st.number_input(label, 1, 4096, 3, key=state.MASK_SIZE, bind="query-params")
    queries, keys = trace.shape
    if name == "Padding":
        return m.grid(m.padding(np.arange(keys) < keys - size), queries, keys)
    return m.grid(predicate(size), queries, keys)
