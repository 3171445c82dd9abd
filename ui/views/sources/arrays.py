"""Attention weights from a file, without a model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import streamlit as st

from core.attention.arrays import AttentionArrays, attention_arrays
from core.attention.matrix_files import MAX_FILE_BYTES
from ui import shown
from ui.markdown import plain
from ui.views.sources.weights_only import show_any_head


@dataclass(frozen=True, eq=False)
class OpenArrays:
    """The weights in a file, and its name."""

    name: str
    arrays: AttentionArrays


def read_arrays(name: str, data: bytes) -> OpenArrays:
    """Read a file and check every head. Raises InputError, which names the layer and the head."""
    arrays = attention_arrays(data, max_bytes=MAX_FILE_BYTES)
    for layer, head in np.ndindex(arrays.layers(), arrays.heads()):
        arrays.weights(layer, head)
    return OpenArrays(name, arrays)


def show_arrays(opened: OpenArrays) -> None:
    """Show the weights of a chosen head, and say what a file with nothing else cannot show."""
    arrays, (queries, keys) = opened.arrays, opened.arrays.shape
    said = f"{arrays.layers()} layers × {arrays.heads()} heads, {queries:,} queries × {keys:,} keys"
    shown.now().about = {"weights from": f"{opened.name}: {said}"}
    place = st.container(width=125)
    layer, head = show_any_head(arrays, place)
    sums = arrays.row_sums(layer, arrays.weights(layer, head))
    if sums.is_off:
        st.warning(f"The rows of this head sum to {sums.in_words}, not 1.", icon=":material/functions:")
    words = f"{said}, without the queries, keys and values: the stages before the weights cannot be shown."
    st.info(plain(words), icon=":material/visibility_off:")
