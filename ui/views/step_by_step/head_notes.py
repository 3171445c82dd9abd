"""Notes about a head beside its pictures, and its weight matrices."""

from __future__ import annotations

import streamlit as st

from core import HeadWeights, head_weights
from core.figures.heatmaps.heatmap import Axis, heatmap
from ui import links, shown, state
from ui.links import Switch
from ui.markdown import errors_shown, quoted
from ui.views.charts import show_heatmap
from ui.views.head_links import link_to_why_word
from ui.views.numbers import of_tokens
from ui.views.sources import passes
from ui.views.sources.heads import RealHead
from ui.views.sources.models import NEXT_TOKENS, needs

EXPORTED = 50  # next tokens
ONE_OF_FOUR = 190  # pixels: how wide each picture is in a window 1024 wide


def show_layer_number(real: RealHead) -> None:
    """Show the layer's number in the model, if the model also has layers without attention."""
    number = passes.labels(real.of_kind, capture=real.capture)[real.layer].number
    if number != real.layer:
        st.caption(f"Layer {real.layer} of those with softmax attention is layer {number} of the model.")


@needs(NEXT_TOKENS)
def show_next_tokens(real: RealHead, *, of_original: bool) -> None:
    """Show the most probable next tokens. of_original: the page changes something that the model knows nothing of"""
    st.subheader("What the model would write next", anchor=False)
    likely = passes.next_tokens(real.request, EXPORTED, capture=real.capture)
    shown.now().lists["Next tokens"] = of_tokens(
        [token for token, _ in likely], {"probability": [probability for _, probability in likely]}
    )
    for column, (token, probability) in zip(st.columns(5, wrap=False), likely, strict=False):
        column.markdown(f"{quoted(token)}  \n**{probability:.1%}**")
    if not real.request.reads_both:
        link_to_why_word(real.request, real.request.text, likely[0][0])
    if of_original:
        st.caption("Of the original: the change above does not reach the rest of the model.")


def show_head_weights(real: RealHead) -> None:
    """Show W_Q, W_K, W_V and W_O as pictures. They are read only when somebody opens them."""
    words = "The head's own weight matrices"
    links.field(state.WEIGHTS, Switch(), False, words)
    opened = st.expander(words, key=state.WEIGHTS, icon=":material/grid_view:", on_change="rerun")
    if not opened.open:
        return
    with opened, errors_shown():
        _show_matrices(head_weights(real.capture.model, *real.place, real.kind))


def _show_matrices(weights: HeadWeights) -> None:
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
