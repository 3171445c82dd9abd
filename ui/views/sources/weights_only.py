"""The weights of a head whose model exposes nothing else."""

from __future__ import annotations

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from core.capturing.weights_only import WeightsOnly
from core.figures.heatmaps.heatmap import Axis, heatmap
from ui.calls import call, result
from ui.components import pin
from ui.controls.pinned import pinned
from ui.markdown import plain, quoted
from ui.views.common.pictures import show_heatmap


def show_weights(exposed: WeightsOnly, layer: int, head: int, *, in_column: bool = False) -> tuple[int, int]:
    """Show the weights of one head and the chosen pair, and say that nothing more is known. Return the chosen (query, key).

    in_column  show everything in one column, on a page that already has the title and listens to clicks
    """
    picture = st.container() if in_column else None
    network = type(exposed.model.network).__name__
    st.info(
        plain(f"{network} exposes only its attention weights. The stages before them cannot be shown."),
        icon=":material/visibility_off:",
    )
    weights, (tokens, _) = result(call(exposed.weights, layer, head)), exposed.tokens()
    if not in_column:
        pin.listen()
    beside = st.container()
    if picture is None:
        picture, beside = st.columns([7, 4], gap="medium")
    with beside:
        if not in_column:
            st.subheader(f"Layer {layer}, head {head}", anchor=False)
        query, key = pinned(weights)
        share = f"**{weights[query, key]:.1%}** of its attention"
        st.markdown(f"{quoted(tokens[query])} gives {share} to {quoted(tokens[key])}.")
        if _looks_back_only(weights):
            st.caption(
                "Nothing goes to later tokens. Which pairs are masked is not exposed: such a weight is drawn as 0, not grey."
            )
        st.caption("No certificate: there is nothing to compare with.")
    with picture:
        chart = heatmap(
            weights,
            Axis("query", tokens=tokens, pinned=query),
            Axis("key", tokens=tokens, pinned=key),
            name="weight",
            scale="share",
            height=440 if in_column else 560,
            width=520,
        )
        show_heatmap(chart, "exposed weights", "Weights: heatmap of queries by keys.", title="Weights")
    return query, key


def _looks_back_only(weights: NDArray[np.floating]) -> bool:
    return len(weights) > 1 and not np.triu(weights, 1).any()
