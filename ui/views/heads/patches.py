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
from ui.markdown import plain
from ui.requests import TextRequest
from ui.views.common.pictures import show_heatmap

WIDEST = 512  # pixels of the image that are sent


def show_patches(
    request: TextRequest, capture: Capture, values: NDArray[np.floating], query: int, quantity: Quantity
) -> None:
    """values [keys] of one query; NaN where one is left out."""
    assert capture.grid is not None
    assert request.image is not None
    rows, columns = capture.grid
    before = capture.prefix_tokens
    image = read_image(request.image)
    step = max(1, -(-max(image.shape[:2]) // WIDEST))
    place = divmod(query - before, columns) if query >= before else None
    chart = on_image(
        image[::step, ::step],
        values[before:].reshape(rows, columns),
        place,
        name="score" if quantity in SCORES else "weight" if quantity == "weights" else "size",
        signed=quantity in SCORES,
    )
    alt = "The image, each patch coloured by how much the chosen token attends to it."
    show_heatmap(chart, "patches", alt, compact=True)
    tokens = capture.tokens()[0]
    looks = plain(tokens[query]) + (" (framed)" if place is not None else ", which is no patch,")
    verb = "scores" if quantity in SCORES else "attends to"
    said = f"How {looks} {verb} each patch. Click a patch to choose it."
    if before and quantity == "weights" and not np.isnan(values[:before]).any():
        aside = "[CLS]" if before == 1 else "tokens that are no patch"
        said += f" {values[:before].sum():.1%} goes to {plain(aside)}."
    st.caption(said)


def choose_patch(capture: Capture, row: int, column: int) -> None:
    """A patch that was clicked becomes the query."""
    assert capture.grid is not None
    st.session_state[state.QUERY] = capture.prefix_tokens + row * capture.grid[1] + column
