"""The attention of one patch, laid over the image that the model read."""

from __future__ import annotations

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from core import Capture
from core.figures.heatmaps.patches import on_image
from core.heads.views import SCORES, Quantity
from core.models.images import read_image
from ui import state
from ui.components import pin
from ui.markdown import plain
from ui.views.common.pictures import show_heatmap
from ui.views.sources.heads import RealHead

WIDEST = 512  # pixels of the image that are sent


def show_patches(real: RealHead, values: NDArray[np.floating], query: int, quantity: Quantity, name: str) -> None:
    """values: [keys] of one query, NaN where one is left out; name: what a value is called"""
    assert real.capture.grid is not None
    assert real.request.image is not None
    rows, columns = real.capture.grid
    before = real.capture.prefix_tokens
    image = read_image(real.request.image)
    step = max(1, -(-max(image.shape[:2]) // WIDEST))
    patch = divmod(query - before, columns) if query >= before else None
    patches = values[before:].reshape(rows, columns)
    chart = on_image(image[::step, ::step], patches, patch, name=name, signed=quantity in SCORES)
    alt = "The image, each patch coloured by how much the chosen token attends to it."
    show_heatmap(chart, "patches", alt, compact=True)
    token = plain(real.tokens[0][query]) + (" (framed)" if patch is not None else ", which is no patch,")
    words = f"How {token} {'scores' if quantity in SCORES else 'attends to'} each patch. Click a patch to choose it."
    if before and quantity == "weights" and not np.isnan(values[:before]).any():
        others = "[CLS]" if before == 1 else "tokens that are no patch"
        words += f" {values[:before].sum():.1%} goes to {plain(others)}."
    st.caption(words)


def choose_clicked_patch(cell: pin.Cell, capture: Capture) -> bool:
    """Make the patch that was clicked the query. Return whether there was one."""
    patch = None if capture.grid is None else pin.place_in(cell, "patch_row", "patch_column", capture.grid)
    if patch is None or capture.grid is None:
        return False
    st.session_state[state.QUERY] = capture.prefix_tokens + patch[0] * capture.grid[1] + patch[1]
    return True
