"""The weight matrices of one head."""

from __future__ import annotations

import streamlit as st

from core import HeadWeights, InputError, head_weights
from core.figures.heatmaps.heatmap import Axis, heatmap
from ui import links, state
from ui.links import Switch
from ui.markdown import show_error
from ui.views.common.pictures import show_heatmap
from ui.views.sources.heads import RealHead

ONE_OF_FOUR = 190  # pixels: how wide each picture is in a window 1024 wide


def show_head_weights(real: RealHead) -> None:
    """Show W_Q, W_K, W_V and W_O as pictures. They are read only when somebody opens them."""
    words = "The head's own weight matrices"
    links.field(state.WEIGHTS, Switch(), False, words)
    opened = st.expander(words, key=state.WEIGHTS, icon=":material/grid_view:", on_change="rerun")
    if not opened.open:
        return
    with opened:
        try:
            _show(head_weights(real.capture.model, *real.place, real.kind))
        except InputError as error:
            show_error(error)


def _show(weights: HeadWeights) -> None:
    d_model, d_head = weights.W_Q.shape
    st.caption(
        f"A position's {d_model} numbers times W_Q (plus its bias) are its query of {d_head}. W_O turns what the head found "
        f"back into {d_model} numbers."
    )
    into_head = Axis("input dimension"), Axis("head dimension")
    axes = dict.fromkeys(("W_Q", "W_K", "W_V"), into_head) | {"W_O": (into_head[1], Axis("output dimension"))}
    for column, (name, sides) in zip(st.columns(4), axes.items(), strict=True):
        matrix = getattr(weights, name)
        rows, columns = matrix.shape
        with column:
            st.markdown(f"**${name}$**  {rows} × {columns}")
            picture = heatmap(matrix, *sides, name="weight", height=360, width=ONE_OF_FOUR, compact=True)
            show_heatmap(picture, name, f"{name}: heatmap of {rows} by {columns} weights.", compact=True)
