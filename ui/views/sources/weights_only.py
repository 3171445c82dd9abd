"""The weights of a head of which nothing else is known: of a model that exposes no more, or from a file."""

from __future__ import annotations

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.attention.arrays import AttentionArrays
from core.capturing.weights_only import WeightsOnly
from core.figures.heatmaps.heatmap import Axis, heatmap
from ui import state
from ui.calls import call, result
from ui.components import pin
from ui.controls.fields import head_picker
from ui.controls.pinned import pinned
from ui.markdown import plain, quoted
from ui.views.common.pictures import show_heatmap
from ui.views.needs import QUERIES_AND_KEYS


def say_what_is_missing(exposed: WeightsOnly) -> None:
    network = type(exposed.model.network).__name__
    words = f"{network} {QUERIES_AND_KEYS.missing}. The stages before them cannot be shown."
    st.info(plain(words), icon=":material/visibility_off:")


def show_any_head(exposed: WeightsOnly | AttentionArrays, place: DeltaGenerator) -> tuple[int, int]:
    """Show a head that is chosen in `place`, and return it: (layer, head)."""
    with place:
        shape = exposed.layers(), exposed.heads()
        layer, head = head_picker(state.HEAD_BOX, (state.LAYER, state.HEAD), shape, (0, 0))
    pin.listen()
    picture, beside = st.columns([7, 4], gap="medium")
    beside.subheader(f"Layer {layer}, head {head}", anchor=False)
    with beside:
        cell = pinned(exposed.weights(layer, head), exposed.tokens())
    show_weights(exposed, layer, head, cell, picture, beside, 560)
    return layer, head


def show_weights(
    exposed: WeightsOnly | AttentionArrays,
    layer: int,
    head: int,
    cell: tuple[int, int],
    picture: DeltaGenerator,
    beside: DeltaGenerator,
    height: int,
) -> None:
    """Show the weights of one head, and `beside` them what is said of the chosen (query, key)."""
    weights, (query_tokens, key_tokens) = result(call(exposed.weights, layer, head)), exposed.tokens()
    query, key = cell
    with beside:
        share = f"**{weights[query, key]:.1%}** of its attention"
        st.markdown(f"{quoted(query_tokens[query])} gives {share} to {quoted(key_tokens[key])}.")
        if len(weights) > 1 and query_tokens == key_tokens and not np.triu(weights, 1).any():
            st.caption(
                "Nothing goes to later tokens. Which pairs are masked is not exposed: such a weight is drawn as 0, not grey."
            )
        st.caption("No certificate: there is nothing to compare with.")
    rows, columns = Axis("query", query_tokens, query), Axis("key", key_tokens, key)
    with picture:
        chart = heatmap(weights, rows, columns, name="weight", scale="share", height=height, width=520)
        show_heatmap(chart, "exposed weights", "Weights: heatmap of queries by keys.", title="Weights")
