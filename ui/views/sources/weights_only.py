"""The weights of a head of which nothing else is known: of a model that exposes no more, or from a file."""

from __future__ import annotations

from functools import partial

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.attention.arrays import row_notes
from core.attention.rowwise import Overview, Whole
from core.capturing.weights_only import WeightsOnly
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.models.model import RecordedModel
from ui.calls import call, result
from ui.components import pin
from ui.controls.pinned import Tokens, pinned
from ui.markdown import plain, quoted
from ui.views.charts import show_chart, show_magnified
from ui.views.sources.heads import ChosenHead
from ui.views.sources.needs import QUERIES_AND_KEYS


def say_what_is_missing(exposed: WeightsOnly) -> None:
    of_model = f"This model {QUERIES_AND_KEYS.missing}"
    words = "The file holds only attention weights" if isinstance(exposed.model, RecordedModel) else of_model
    st.info(plain(f"{words}. The stages before them cannot be shown."), icon=":material/visibility_off:")
    if notes := row_notes(exposed.row_sums):
        st.warning(plain(" ".join(notes)), icon=":material/functions:")


def show_one_head(head: ChosenHead[WeightsOnly]) -> None:
    """Show the weights of a head, where no stage can be shown."""
    say_what_is_missing(head.capture)
    pin.listen()
    picture, beside = st.columns([7, 4], gap="medium")
    beside.subheader(f"Layer {head.layer}, head {head.head}", anchor=False)
    with beside:
        cell = pinned(head.capture.weights(*head.place), head.tokens)
    show_weights(head, cell, picture, beside, 560)


def show_weights(
    head: ChosenHead[WeightsOnly], cell: tuple[int, int], picture: DeltaGenerator, beside: DeltaGenerator, height: int
) -> None:
    """Show the weights of one head, and `beside` them what is said of the chosen (query, key)."""
    weights, (query_tokens, key_tokens) = result(call(head.capture.weights, *head.place)), head.tokens
    query, key = cell
    with beside:
        share = f"**{weights[query, key]:.1%}** of its attention"
        st.markdown(f"{quoted(query_tokens[query])} gives {share} to {quoted(key_tokens[key])}.")
        if len(weights) > 1 and query_tokens == key_tokens and not np.triu(weights, 1).any():
            st.caption(
                "Nothing goes to later tokens. Which pairs are masked is not exposed: such a weight is drawn as 0, not grey."
            )
        sums = head.capture.row_sums.get(head.place)
        if sums is not None and sums.is_off:
            st.caption(f"The rows of this head sum to {sums.in_words}, not 1.")
        st.caption("No certificate: there is nothing to compare with.")
    matrix, draw = Whole(weights), partial(_draw, head.tokens, cell)
    with picture:
        draw("exposed weights", "Weights", height, matrix.overview())
        show_magnified(matrix, cell, partial(draw, "loupe", "Weights near the chosen pair", 460))


def _draw(tokens: Tokens, cell: tuple[int, int], name: str, title: str, height: int, drawn: Overview) -> None:
    cells = drawn.first
    sides = zip(("query", "key"), tokens, cells.start, cells.shape, cell, strict=True)
    axes = [Axis(side, of[first : first + count], at - first, start=first) for side, of, first, count, at in sides]
    chart = heatmap(cells, *axes, name="weight", scale="share", height=height, width=520)
    show_chart(chart, name, f"{title}: heatmap of queries by keys.", title=title)
