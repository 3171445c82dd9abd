"""The weights of a head whose model exposes nothing else."""

from __future__ import annotations

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.capturing.weights_only import WeightsOnly
from core.figures.heatmaps.heatmap import Axis, heatmap
from ui.calls import call, result
from ui.markdown import plain, quoted
from ui.views.common.pictures import show_heatmap
from ui.views.needs import QUERIES_AND_KEYS


def say_what_is_missing(exposed: WeightsOnly) -> None:
    network = type(exposed.model.network).__name__
    words = f"{network} {QUERIES_AND_KEYS.missing}. The stages before them cannot be shown."
    st.info(plain(words), icon=":material/visibility_off:")


def show_weights(
    exposed: WeightsOnly,
    layer: int,
    head: int,
    cell: tuple[int, int],
    picture: DeltaGenerator,
    beside: DeltaGenerator,
    height: int,
) -> None:
    """Show the weights of one head, and `beside` them what is said of the chosen (query, key)."""
    weights, (tokens, _) = result(call(exposed.weights, layer, head)), exposed.tokens()
    query, key = cell
    with beside:
        share = f"**{weights[query, key]:.1%}** of its attention"
        st.markdown(f"{quoted(tokens[query])} gives {share} to {quoted(tokens[key])}.")
        if len(weights) > 1 and not np.triu(weights, 1).any():
            st.caption(
                "Nothing goes to later tokens. Which pairs are masked is not exposed: such a weight is drawn as 0, not grey."
            )
        st.caption("No certificate: there is nothing to compare with.")
    rows, columns = Axis("query", tokens, query), Axis("key", tokens, key)
    with picture:
        chart = heatmap(weights, rows, columns, name="weight", scale="share", height=height, width=520)
        show_heatmap(chart, "exposed weights", "Weights: heatmap of queries by keys.", title="Weights")
