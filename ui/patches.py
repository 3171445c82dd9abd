"""The attention of one patch, laid over the picture that the model read."""

from __future__ import annotations

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from core import Capture
from core.figures.patches import on_picture
from core.images import read_image
from ui import pin, state
from ui.cache import TextRequest
from ui.pictures import show_heatmap

WIDEST = 512  # pixels of the picture that are sent


def show_patches(request: TextRequest, capture: Capture, weights: NDArray[np.floating], query: int) -> None:
    """weights [keys] of one query."""
    assert capture.grid is not None
    assert request.image is not None
    rows, columns = capture.grid
    before = len(weights) - rows * columns  # tokens that stand for no patch come first
    image = read_image(request.image)
    step = max(1, -(-max(image.shape[:2]) // WIDEST))
    place = divmod(query - before, columns) if query >= before else None
    figure = on_picture(
        image[::step, ::step], np.nan_to_num(weights[before:]).reshape(rows, columns), place, height=560
    )
    show_heatmap(figure, "patches", "The picture, each patch coloured by how much the chosen patch attends to it.")
    if before:
        st.caption(f"{weights[:before].sum():.1%} of the attention goes to tokens that are no patch, such as [CLS].")


def choose_patch(capture: Capture) -> None:
    """A click on a patch makes it the query."""
    assert capture.grid is not None
    cell = pin.clicked()
    rows, columns = capture.grid
    before = len(capture.tokens()[0]) - rows * columns
    st.session_state[state.QUERY] = before + round(cell["patch_row"]) * columns + round(cell["patch_column"])
