"""Many heads: a layer splits its width among several heads, joins them again, and the result is a sum over them."""

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from core.figures.heatmaps.borders import with_borders
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.heatmaps.side_by_side import side_by_side, small
from core.figures.labels import visible
from core.figures.plots.bars import bars
from core.heads.contributions import lengths
from core.lessons.many_heads import PAIR, PAIR_WORDS, ManyHeads, fetch, heads_of_a_sentence, strongest_word
from ui import presenting, state
from ui.controls.fields import menu, number_picker, numbered, slider, text_line
from ui.markdown import quoted
from ui.progress import run
from ui.views import experiments
from ui.views.common.pictures import show_chart, show_heatmap
from ui.views.lesson import IN_A_MODEL, Part, picture_and_knobs, show_lesson
from ui.views.sources.heads import opening_head
from ui.views.sources.passes import SENTENCE, choose_text

HEAD_COUNTS = numbered((1, 2, 4, 8, 12))
STRONGEST = "strongest"  # stands for a word in the address
ACROSS = {1: 2, 2: 2, 4: 4, 8: 4, 9: 5, 12: 6}  # small pictures in a line, by the number of heads


def sentence_and_heads() -> tuple[tuple[str, ...], ManyHeads]:
    text = text_line("Sentence", state.TOY_TEXT, SENTENCE)
    count = menu("Heads", state.HEAD_COUNT, HEAD_COUNTS, opening=4, look="buttons")
    return heads_of_a_sentence(text, count)


def word_picker(words: tuple[str, ...], strongest: int) -> int:
    """One word of the text; as it opens, the one at which a head adds most."""
    places = {str(place): f"{place}: {visible(word)}" for place, word in enumerate(words)}
    chosen = menu("Word", state.WORD, {STRONGEST: f"{places[str(strongest)]}, strongest"} | places)
    return strongest if chosen == STRONGEST else int(chosen)


def names(count: int) -> list[str]:
    """Short where there are many, because a phone is narrow."""
    return [f"head {head}" if count <= 4 else str(head) for head in range(count)]


def split_and_join(part: Part) -> None:
    picture, knobs = picture_and_knobs(part)
    with knobs:
        words, many = sentence_and_heads()
    queries, width = many.output.shape
    with picture:
        st.markdown("**Weights of each head**")
        chart = side_by_side(
            [small(trace.weights, trace.mask) for trace in many.traces],
            names(many.heads),
            words,
            words,
            across=ACROSS[many.heads],
            line_height=205 if many.heads <= 4 else 118,
        )
        show_heatmap(chart, "weights of heads", "The weights of every head.", compact=True)
        joined, output = st.columns(2)
        with joined:
            st.markdown("**Outputs side by side**")
            chart = heatmap(many.joined, Axis("query", words), Axis("column"), name="output", height=230, compact=True)
            borders = range(many.d_head, width, many.d_head)
            heads = [str(head) for head in range(many.heads)]
            show_heatmap(
                with_borders(chart, columns=borders, names=heads),
                "joined",
                "The heads' outputs side by side.",
                compact=True,
            )
        with output:
            st.markdown("**Times W_O**")
            chart = heatmap(many.output, Axis("query", words), Axis("column"), name="output", height=230, compact=True)
            show_heatmap(with_borders(chart), "output", "The output of the layer.", compact=True)
    with knobs:
        st.table(
            {
                "what": ["words", "Q, K, V", "weights", "outputs", "side by side", "times W_O", "parameters"],
                "size": [
                    f"{queries} × {width}",
                    f"{many.heads} × {queries} × {many.d_head}",
                    f"{many.heads} × {queries} × {queries}",
                    f"{many.heads} × {queries} × {many.d_head}",
                    f"{queries} × {width}",
                    f"{queries} × {width}",
                    f"{many.parameters:,}",
                ],
            },
            hide_index=True,
            border="horizontal",
        )


def sum_of_heads(part: Part) -> None:
    picture, knobs = picture_and_knobs(part)
    with knobs:
        words, many = sentence_and_heads()
        length, along = lengths(many.contributions)
        word = word_picker(words, strongest_word(length))
    columns = [str(column) for column in range(many.weights.d_model)]
    with picture:
        chart = side_by_side(
            [small(one) for one in (*many.contributions, many.total)],
            [*names(many.heads), "sum"],
            words,
            columns,
            across=min(many.heads + 1, 5) if many.heads <= 4 else 7,
            what="adds",
            scale="signed",
            marked=word,
            line_height=205 if many.heads <= 4 else 118,
        )
        show_heatmap(chart, "contributions", "What every head adds, and the sum.", compact=True)
        show_lengths(length, along, word, f"At {quoted(words[word])}", many.difference)


def show_lengths(
    length: NDArray[np.floating], along: NDArray[np.floating], word: int, where: str, difference: float
) -> None:
    """Bars of what each head adds at one word, and how exactly the heads add up; length and along [heads, words]."""
    groups = {"length of its contribution": length[:, word], "length along the sum": along[:, word]}
    printed = len(length) <= 4
    show_chart(
        bars([str(head) for head in range(len(length))], groups, x="head", y="length", printed=printed, height=200),
        "lengths",
        "How much every head adds at the chosen word.",
    )
    st.markdown(
        f"{where}, head **{length[:, word].argmax()}** adds most. Sum of the heads against side by side × W_O: largest "
        f"difference **{difference:.1e}**."
    )


def why_several(part: Part) -> None:
    picture, knobs = picture_and_knobs(part)
    with knobs:
        share = slider("One head: its weight on the left word", state.HEAD_SHARE, 0.5, 0.0, 1.0, 0.1)
        fetched = fetch(share)
    with picture:
        for title, brought, borders, heads in (
            ("What **bites** gets with one head", fetched.one_head, (), ()),
            ("With two heads: one looks left, one looks right", fetched.two_heads, (3,), ("head 0", "head 1")),
        ):
            st.markdown(title)
            columns = Axis("word", PAIR_WORDS * (brought.shape[1] // 3))
            chart = heatmap(
                brought, Axis("sentence", PAIR), columns, name="how much of it", scale="share", limit=1.0, height=200
            )
            show_heatmap(with_borders(chart, columns=borders, names=heads), title, title)
        st.markdown(
            f"Largest difference between the two sentences: one head **{fetched.apart(fetched.one_head):.1f}**, "
            f"two heads **{fetched.apart(fetched.two_heads):.1f}**."
        )


def in_a_model(part: Part) -> None:
    passed = choose_text()
    if passed is None:
        return
    request, capture, places = passed
    kind = capture.kinds[0]
    tokens, _ = capture.tokens(kind)
    with places[0]:
        layer = number_picker("Layer", state.LAYER, capture.layers(kind), opening_head(request.model.name)[0])
    task = experiments.layer_heads.task(request, kind, layer)
    found = run(task, "Adding up the heads", capture.heads(kind), unit="head")
    if found is None:
        return
    weights, contributions = found
    picture, beside = st.columns([7, 4], gap="medium")
    with beside, presenting.aside():
        st.markdown(part.words)
        word = word_picker(tokens, strongest_word(contributions.lengths))
        show_lengths(
            contributions.lengths, contributions.along, word, f"At {quoted(tokens[word])}", contributions.difference
        )
    with picture:
        chart = side_by_side(
            weights,
            [f"{layer}.{head}" for head in range(len(weights))],
            tokens,
            tokens,
            across=ACROSS.get(len(weights), 6),
            marked=word,
            line_height=216,
        )
        show_heatmap(chart, "weights of heads", "The weights of every head of the layer.", compact=True)


PARTS = (
    Part(
        "split",
        "Split and join",
        "Queries, keys and values are cut into h pieces. Each head attends with its own piece; the outputs are put side by "
        "side and multiplied by W_O. More heads are narrower heads: the parameters stay 4 · d_model².",
        split_and_join,
    ),
    Part(
        "sum",
        "A sum of heads",
        "W_O can be cut by rows, one block a head. So the output is a sum: each head adds its own part.",
        sum_of_heads,
    ),
    Part(
        "several",
        "Why several",
        "A row of weights adds up to 1. One head that needs two words gets a blend: at one half, both sentences look the "
        "same. Two heads bring both words whole.",
        why_several,
    ),
    Part(
        "model",
        IN_A_MODEL,
        "The heads of one layer look at different words. The length of a contribution is how much a head adds; along the sum "
        "it can be negative.",
        in_a_model,
    ),
)

show_lesson(
    "Many heads",
    "A layer attends several times at once, each time with a piece of its queries, keys and values.",
    PARTS,
)
