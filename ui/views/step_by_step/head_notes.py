"""Notes about a head beside its pictures."""

from __future__ import annotations

import streamlit as st

from core.capturing.capture import Capture
from core.capturing.layers import layer_labels
from core.models.modules import Kind
from ui import shown
from ui.markdown import quoted
from ui.views.numbers import of_tokens
from ui.views.sources.heads import RealHead

TAKEN_AWAY = 50  # of the next tokens, by those who share the page


def show_notes(head: RealHead) -> None:
    """Beside the stages of a real head: where its layer is, and what it shares."""
    show_layer_number(head.capture, head.layer, head.kind)
    show_key_sharing(head.capture, head.layer, head.head, head.kind)


def show_layer_number(capture: Capture, layer: int, kind: Kind) -> None:
    """Say the layer's number in the model, if the model also has layers without attention."""
    number = layer_labels(capture, kind)[layer].number
    if number != layer:
        st.caption(f"Layer {layer} of those with softmax attention is layer {number} of the model.")


def show_key_sharing(capture: Capture, layer: int, head: int, kind: Kind) -> None:
    """Say which key/value head a query head reads, if several share one."""
    key_head, key_heads = capture.key_head(layer, head, kind)
    heads = capture.heads(kind)
    if key_heads == heads:
        return
    group = heads // key_heads
    others = [str(other) for other in range(key_head * group, (key_head + 1) * group) if other != head]
    st.caption(
        f"Grouped-query attention: {heads} query heads share {key_heads} key/value heads. Head {head} reads key/value head "
        f"{key_head}, together with {'heads' if len(others) > 1 else 'head'} {' and '.join(others)}."
    )


def show_next_tokens(capture: Capture, *, of_original: bool = False) -> None:
    """Show the most probable next tokens, if the model predicts any.

    of_original: whether something is changed on the page, which the model knows nothing of
    """
    if capture.logits is None:
        return
    st.subheader("What the model would write next", anchor=False)
    best = capture.next_tokens(5)
    likely = capture.next_tokens(TAKEN_AWAY)
    shown.now().lists["Next tokens"] = of_tokens(
        [token for token, _ in likely], {"probability": [p for _, p in likely]}
    )
    for column, (token, probability) in zip(st.columns(len(best), wrap=False), best, strict=True):
        with column:
            st.markdown(f"{quoted(token)}  \n**{probability:.1%}**")
    if of_original:
        st.caption("Of the original: the change above does not reach the rest of the model.")
