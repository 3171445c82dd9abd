"""The weight matrices of one head."""

from __future__ import annotations

import streamlit as st

from core import HeadWeights, InputError, head_weights
from core.capturing.capture import Capture
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.models.modules import Kind
from ui import links, state
from ui.links import Switch
from ui.markdown import show_error
from ui.views.common.pictures import show_heatmap

ONE_OF_FOUR = 190  # pixels: how wide each picture is in a window 1024 wide


def show_head_weights(capture: Capture, layer: int, head: int, kind: Kind) -> None:
    """W_Q, W_K, W_V and W_O as pictures; read only when somebody opens them."""
    words = "The head's own weight matrices"
    links.field(state.WEIGHTS, Switch(), False, words)
    opened = st.expander(words, key=state.WEIGHTS, icon=":material/grid_view:", on_change="rerun")
    if not opened.open:
        return
    with opened:
        try:
            weights = head_weights(capture.model, layer, head, kind)
        except InputError as error:
            show_error(error)
            return
        _show(weights)


def _show(weights: HeadWeights) -> None:
    d_model, d_head = weights.W_Q.shape
    st.caption(
        f"A position's {d_model} numbers times W_Q (plus its bias) are its query of {d_head}. W_O turns what the head found "
        f"back into {d_model} numbers."
    )
    model_axis, head_axis = Axis("input dimension"), Axis("head dimension")
    pictures = (
        ("W_Q", weights.W_Q, model_axis, head_axis),
        ("W_K", weights.W_K, model_axis, head_axis),
        ("W_V", weights.W_V, model_axis, head_axis),
        ("W_O", weights.W_O, head_axis, Axis("output dimension")),
    )
    for column, (name, matrix, rows, columns) in zip(st.columns(4), pictures, strict=True):
        with column:
            st.markdown(f"**${name}$**  {matrix.shape[0]} × {matrix.shape[1]}")
            picture = heatmap(matrix, rows, columns, name="weight", height=360, width=ONE_OF_FOUR, compact=True)
            show_heatmap(
                picture, name, f"{name}: heatmap of {matrix.shape[0]} by {matrix.shape[1]} weights.", compact=True
            )
