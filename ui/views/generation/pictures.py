"""The large picture of a step: its text, every step, the heads of the layer, or all heads."""

from __future__ import annotations

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from core.exporting.tables import Side
from core.figures.chart import Chart
from core.figures.heatmaps.heatmap import WIDTH, Axis, heatmap
from core.figures.labels import escaped, visible
from core.models.inputs import image_token
from core.models.words import special_ids
from ui import presenting, state
from ui.components.token_view import IN_TEXT, part_in_text, token_view
from ui.markdown import quoted
from ui.views.charts import show_heatmap
from ui.views.generation.step import Step, go_to_step
from ui.views.grid_of_heads import show_grid_of_heads
from ui.views.numbers import of_weights
from ui.views.patches import show_patches

HEIGHT, LEAST_HEIGHT, PER_ROW, AXIS = 520, 280, 22, 90  # of the large picture in pixels
ENDED = {
    "end": " The model ended its text here.",
    "limit": " The model can read no more: the text is as long as it may be.",
}


def show_text(step: Step) -> None:
    """The text, shaded by where the step's query looks. A click on a token goes to the step in which it is the query.

    An image that was read with it is coloured in the same way.
    """
    generation, whole = step.generation, step.whole
    if generation.tiles is not None:
        show_patches(step.head, step.weights[step.head.place], step.query)
    queries, keys = whole.tokens
    read = len(queries)
    queries = (*queries, generation.tokens[-1])  # not read yet: it looks nowhere, and no token looks at it
    keys = keys if whole.kind == "cross" else queries
    rows = part_in_text(step.query, len(queries))
    columns = part_in_text(step.key, len(keys)) if whole.kind == "cross" else rows
    trace = whole.capture.trace(*whole.place, whole.kind, rows=range(rows.start, min(rows.stop, read)))
    weights = np.full((len(rows), len(keys)), np.nan)
    weights[: trace.shape[0], : trace.shape[1]] = np.where(trace.mask, trace.weights, np.nan)
    begun, ids = len(generation.begun), (*generation.begun, *generation.token_ids)
    special = special_ids(whole.capture.model.tokenizer) - {image_token(whole.capture.model)}
    token_view(
        queries[rows.start : rows.stop],
        keys[columns.start : columns.stop],
        weights[:, columns.start : columns.stop],
        rows_from=rows.start,
        columns_from=columns.start,
        pinned=[step.query],
        written_from=begun,
        special=[position for position in rows if ids[position] in special],
        on_token=lambda position: go_to_step(max(0, min(position - begun + 1, len(generation.steps) - 1))),
        key=state.TOKEN_VIEW,
    )
    longest = max(len(queries), len(keys))
    shortened = f" At most {IN_TEXT} of {longest:,} tokens are shown, around those chosen." if longest > IN_TEXT else ""
    ended = ENDED.get(generation.ended or "", "")
    click = "Click a token to see where it looks while the next one is written."
    st.caption(f"Underlined: written by the model.{ended}{shortened} {click}")


def show_every_step(step: Step) -> None:
    whole, tokens = step.whole, step.generation.tokens
    queries, keys = whole.tokens
    first = len(step.generation.begun) - 1
    trace = whole.capture.trace(*whole.place, whole.kind, rows=range(first, len(queries)))
    notes = [f"<br>query {escaped(token)}" for token in queries[first:]]
    rows = Axis("step", tokens, step.query - first, notes, 1)
    chart = _picture(trace.weights, rows, Axis("key", keys, step.key), ~trace.mask)
    presenting.lit(chart, step.query - first, step.key)
    alt = f"The rows of head {whole}, one for each step by what it writes, by keys."
    numbers = of_weights(trace, Side("step", tokens, start=1), Side("key", keys))
    show_heatmap(chart, "row", alt, title=f"Every step in head {whole}", numbers=numbers)
    st.caption("A row for each step, named after the token that it writes. Its query is the token before.")


def show_heads_of_layer(step: Step) -> None:
    layer, head = step.head.place
    weights = step.weights[layer]
    rows = Axis("head", tuple(f"{layer}.{number}" for number in range(len(weights))), head)
    chart = _picture(weights, rows, Axis("key", step.head.tokens[1], step.key))
    alt = f"The step's row in every head of layer {layer}, by keys."
    show_heatmap(chart, "row", alt, title="This step in every head")


def _picture(
    weights: NDArray[np.floating], rows: Axis, keys: Axis, forbidden: NDArray[np.bool_] | None = None
) -> Chart:
    height = presenting.height(max(LEAST_HEIGHT, min(PER_ROW * len(weights) + AXIS, HEIGHT)), 0.66)
    width = presenting.width(WIDTH, 0.52)
    return heatmap(weights, rows, keys, name="weight", scale="share", forbidden=forbidden, height=height, width=width)


def show_all_heads(step: Step) -> None:
    """How much of the step's attention every head gives to the chosen key."""
    key = step.head.tokens[1][step.key]
    show_grid_of_heads(
        step.weights[:, :, step.key],
        "weight",
        step.head.place,
        name="row",
        title=f"Weight on “{visible(key)}” in every head",
        alt="Every head's weight on the chosen key",
        numbers="weight on the chosen key",
        height=460,
        on_stage=(0.55, 0.7),
    )
    st.caption(f"The share that each head gives to {quoted(key)} in this step.")
