"""Self and cross: the same stages, with queries from one text and keys and values from another."""

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from core.figures.borders import with_borders
from core.figures.charts import bars
from core.figures.heatmap import Axis, heatmap
from core.figures.side_by_side import side_by_side, small
from core.figures.wiring import wiring
from core.heads.pairs import crossing_shares, pair_shares, pair_sides
from core.lessons.self_and_cross import (
    BLOCKS,
    Crossing,
    Place,
    crossing,
    other_keys,
    query_changes,
)
from ui import state, stores
from ui.controls.menu import menu
from ui.views.lesson import IN_A_MODEL, Part, picture_and_knobs, show_lesson
from ui.views.pictures import show_chart, show_heatmap
from ui.views.scene import number_picker

READ, INSTEAD, WRITTEN = "Le chat est sur le tapis.", "Il pleut.", "The cat is on"
FIRST, SECOND = "The cat sat on the mat.", "A kitten is sitting on a rug."
ENCODER, OPENING_HEAD = "all-MiniLM-L6-v2", (1, 1)


def block_picker() -> Place:
    names: dict[Place, str] = {place: block.name for place, block in BLOCKS.items()}
    return menu("Block", state.BLOCK, names, opening="cross", look="buttons")


def text_read() -> str:
    return st.text_input("Text that is read", READ, key=state.READ, bind="query-params", max_chars=400)


def text_instead() -> str:
    return st.text_input("Or this one", INSTEAD, key=state.READ_INSTEAD, bind="query-params", max_chars=400)


def text_written() -> str:
    return st.text_input("Text written so far", WRITTEN, key=state.WRITTEN, bind="query-params", max_chars=400)


def show_weights(one: Crossing, name: str, height: int) -> None:
    figure = heatmap(
        one.trace.weights,
        Axis("query", one.query_tokens),
        Axis("key", one.key_tokens),
        name="weight",
        scale="share",
        limit=1.0,
        forbidden=~one.trace.mask,
        height=height,
    )
    show_heatmap(with_borders(figure), name, "The weights, queries down the side and keys along the bottom.")


def size(matrix: NDArray[np.floating]) -> str:
    return f"{matrix.shape[0]} × {matrix.shape[1]}"


def three_blocks(part: Part) -> None:
    picture, knobs = picture_and_knobs(part)
    with knobs:
        place = block_picker()
        read, written = text_read(), text_written()
        one = crossing(place, read, written)
    trace, block = one.trace, one.block
    with picture:
        show_chart(
            wiring(block.query_text, block.key_text, causal=block.causal),
            "wiring",
            f"Queries come from the text {block.query_text}, keys and values from the text {block.key_text}.",
        )
        show_weights(one, "weights", 330)
        st.markdown(
            f"Q {size(trace.query)}, K {size(trace.key)}, V {size(trace.value)} give weights **{size(trace.weights)}** and "
            f"an output of **{size(trace.output)}**."
        )


def other_texts(part: Part) -> None:
    picture, knobs = picture_and_knobs(part)
    with knobs:
        found = other_keys(text_read(), text_instead(), text_written())
    with picture:
        for column, one, name in zip(st.columns(2), (found.before, found.after), ("before", "after"), strict=True):
            with column:
                show_weights(one, name, 360)
                st.markdown(f"Weights **{size(one.trace.weights)}**, output **{size(one.trace.output)}**")
        st.markdown(
            f"Largest change of a number: in the queries **{found.query_change:g}**, "
            f"in the output **{found.output_change:.2f}**."
        )


def whole_model(part: Part) -> None:
    picture, knobs = picture_and_knobs(part)
    with knobs:
        place = block_picker()
        read, instead, written = text_read(), text_instead(), text_written()
        before, after = (stores.untrained(stores.ReadAndWritten(text, written)) for text in (read, instead))
        layer = st.segmented_control(
            "Layer",
            range(before.layers(place)),
            default=0,
            required=True,
            key=state.LAYER_OF_TWO,
            bind="query-params",
        )
    query_tokens, key_tokens = before.tokens(place)
    heads = range(before.heads(place))
    traces = [before.trace(layer, head, place) for head in heads]
    with picture:
        figure = side_by_side(
            [small(trace.weights, trace.mask) for trace in traces],
            [f"head {head}" for head in heads],
            query_tokens,
            key_tokens,
            across=2,
            line_height=190,
            column_labels=True,
        )
        show_heatmap(figure, "heads", "The weights of every head.", compact=True)
        changes = ", ".join(
            f"layer {which} **{change:.2g}**" for which, change in enumerate(query_changes(before, after))
        )
        st.markdown(
            f"If the other text is read, the queries of the second blocks change by at most: {changes}. "
            f"Largest difference from the network's own attention: **{before.agreement(layer, place):.1e}**."
        )


def in_a_model(part: Part) -> None:
    picture, knobs = picture_and_knobs(part)
    with knobs:
        first = st.text_input("First text", FIRST, key=state.FIRST_TEXT, bind="query-params", max_chars=400)
        second = st.text_input("Second text", SECOND, key=state.SECOND_TEXT, bind="query-params", max_chars=400)
        capture = stores.captured(stores.TextRequest(stores.ModelChoice(ENCODER), first, second))
        sides = pair_sides(capture)
        for_layer, for_head = st.columns(2, wrap=False)
        with for_layer:
            layer = number_picker("Layer", state.LAYER, capture.layers(), OPENING_HEAD[0])
        with for_head:
            head = number_picker("Head", state.HEAD, capture.heads(), OPENING_HEAD[1])
    weights = capture.trace(layer, head).weights
    tokens, _ = capture.tokens()
    starts = [place for place in range(1, len(sides)) if sides[place] != sides[place - 1]]
    with picture:
        st.markdown(f"**Head {layer}.{head} of {ENCODER}**")
        figure = heatmap(
            weights, Axis("query", tokens), Axis("key", tokens), name="weight", scale="share", height=420, width=520
        )
        show_heatmap(with_borders(figure, columns=starts, rows=starts), "pair", "The head's weights.")
    with knobs:
        shares = pair_shares(weights, sides)
        figure = bars(
            ["own text", "other text", "special tokens"],
            {name: [one.own, one.other, one.special] for name, one in zip(("first", "second"), shares, strict=True)},
            y="share of weight",
            limits=(0, 1),
            height=210,
        )
        show_chart(figure, "shares", "Where the weight of each text goes.")
    with picture:
        st.markdown("**Share that crosses, every head**")
        figure = heatmap(
            crossing_shares(capture, sides),
            Axis("layer", pinned=layer),
            Axis("head", pinned=head),
            name="share that crosses",
            scale="share",
            height=230,
            printed=0,
        )
        show_heatmap(
            figure, "crossing", "The share of weight that crosses, layers down the side and heads along the bottom."
        )


PARTS = (
    Part(
        "three",
        "Three blocks",
        "An encoder reads a text, a decoder writes one. Queries are rows, keys columns; the output has one row a query. "
        "Only the decoder's first block may not look ahead. Untrained toy weights.",
        three_blocks,
    ),
    Part(
        "keys",
        "Other keys",
        "The queries come from the written text alone. Another text to read changes keys, values and weights, but no query, "
        "and the output keeps its rows.",
        other_texts,
    ),
    Part(
        "whole",
        "A whole model",
        "BART's architecture, random weights: no trained encoder-decoder is there without a network. The queries of layer 0 "
        "ignore what is read; those of layer 1 carry what layer 0 brought.",
        whole_model,
    ),
    Part(
        "model",
        IN_A_MODEL,
        "An encoder that reads two texts as one crosses without a second block: in the off-diagonal parts of its weights.",
        in_a_model,
    ),
)

show_lesson("Self and cross", "In self-attention a text looks at itself, in cross-attention at another text.", PARTS)
