"""Word order: attention alone cannot see it; what is added so that it can."""

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.plots.lines import Series, lines
from core.lessons.word_order import (
    alibi_head,
    alibi_slopes,
    bands,
    cosines,
    diagonal_spread,
    learned_positions,
    relative_positions,
    rotary_of,
    rotary_scores,
    shift,
    shuffle,
    sinusoid_scores,
    sinusoidal,
    t5_buckets,
)
from ui import state
from ui.controls.fields import menu, numbered, text_line, whole_number, whole_slider
from ui.controls.pinned import pinned
from ui.markdown import plain, quoted
from ui.views.common.pictures import show_chart, show_heatmap
from ui.views.lesson import IN_A_MODEL, Part, Traced, picture_and_knobs, real_head, show_lesson
from ui.views.sources.heads import RealHead

POSITIONS = 64
SHOWN_TOKENS = 16
FARTHEST_SHOWN = 140
ORDER_FROM = {  # word in the address -> name in core
    "nothing": "Nothing",
    "sinusoids": "Sinusoids",
    "rotary": "Rotary",
    "alibi": "ALiBi",
    "causal": "Causal mask",
}
WIDTHS = numbered((8, 16, 32, 64, 128))
BASES = numbered((100, 1_000, 10_000, 100_000, 1_000_000))
BIASES = {"alibi": "ALiBi", "t5-encoder": "T5, encoder", "t5-decoder": "T5, decoder"}


def shuffled(part: Part) -> None:
    picture, knobs = picture_and_knobs(part)
    with knobs:
        sentence = text_line("Sentence", state.ORDER_TEXT, "the dog bites the man")
        source = menu("What tells the order", state.ORDER_FROM, ORDER_FROM)
        seed = whole_number("Shuffle", state.ORDER_SEED, 29, 0, 9999)
        read = shuffle(sentence, ORDER_FROM[source], seed=seed)
    with picture:
        readings = (("as typed", read.before, read.tokens), ("shuffled", read.after, read.shuffled_tokens))
        for column, (name, trace, tokens) in zip(st.columns(2), readings, strict=True):
            with column:
                st.markdown(f"**Weights, {name}**")
                show_heatmap(
                    heatmap(
                        trace.weights,
                        Axis("query", tokens),
                        Axis("key", tokens),
                        name="weight",
                        scale="share",
                        limit=read.largest_weight,
                        forbidden=~trace.mask,
                        height=340,
                        printed=5,
                    ),
                    f"weights {name}",
                    f"Attention weights of the sentence {name}.",
                )
        st.markdown(f"Largest difference between a word's outputs in the two orders: **{read.difference:.2g}**")


def width_knob() -> int:
    return menu("Dimensions (d)", state.PE_WIDTH, WIDTHS, opening=32, look="line")


def sinusoids(part: Part) -> None:
    picture, knobs = picture_and_knobs(part)
    with knobs:
        width = width_knob()
    scores = sinusoid_scores(POSITIONS, width)
    with picture:
        left, right = st.columns(2)
        with left:
            st.markdown("**What is added**")
            encoding = heatmap(
                sinusoidal(POSITIONS, width), Axis("position"), Axis("dimension"), name="added", limit=1.0, height=380
            )
            show_heatmap(encoding, "sinusoids", "Sines and cosines of 64 positions.")
        with right:
            st.markdown("**Dot products**")
            products = heatmap(scores, Axis("position"), Axis("position"), name="dot product", height=380)
            show_heatmap(products, "products", "Dot products of the rows of every two positions.")
        st.markdown(f"Largest difference between dot products of one distance: **{diagonal_spread(scores):.1e}**")


def shift_by_k(part: Part) -> None:
    picture, knobs = picture_and_knobs(part)
    with knobs:
        k = whole_slider("Tokens onward (k)", state.ONWARD, 5, 0, 100)
        position = whole_slider("From position p", state.PE_FROM, 10, 0, 100)
        width = width_knob()
    moved = shift(position, k, width)
    with picture:
        left, right = st.columns(2)
        with left:
            st.markdown("**The matrix**")
            matrix = heatmap(
                moved.matrix,
                Axis("to dimension"),
                Axis("from dimension"),
                name="entry",
                limit=1.0,
                height=380,
                printed=8,
            )
            show_heatmap(matrix, "shift matrix", "The matrix that moves every position on by k.")
        with right:
            st.markdown("**Where it takes position p**")
            curves = [
                Series("row of p + k", np.arange(width), moved.target, kind="measured"),
                Series("matrix × row of p", np.arange(width), moved.moved, kind="theory"),
            ]
            show_chart(lines(curves, x="dimension", y="entry"), "moved row", "The moved row and the row of p + k.")
        st.markdown(f"Largest difference over positions 0 to 999, with this one matrix: **{moved.residual:.1e}**")


def rotary(part: Part) -> None:
    picture, knobs = picture_and_knobs(part)
    with knobs:
        both = whole_slider("Move both by (tokens)", state.BOTH_LATER, 500, 0, 2000, 50)
        base = menu("Base", state.ROTARY_BASE, BASES, opening=10_000, look="line")
    found = rotary_scores(width=64, count=POSITIONS, shift=both, base=base)
    with picture:
        curves = [
            Series("where they stand", found.distances, found.here, kind="measured"),
            Series(f"both {both} later", found.distances, found.shifted, kind="theory"),
        ]
        chart = lines(curves, x="distance from query back to key (tokens)", y="raw score", height=420)
        show_chart(chart, "rotary", "A query's score with a similar key at each distance, at two places of a text.")
        st.markdown(f"Largest difference between the curves: **{found.difference:.1e}**")


def biases(part: Part) -> None:
    picture, knobs = picture_and_knobs(part)
    with knobs:
        kind = menu("Bias", state.BIAS_KIND, BIASES, look="buttons")
    if kind == "alibi":
        alibi(picture, knobs)
    else:
        t5(picture, bidirectional=kind == "t5-encoder")


def alibi(picture: DeltaGenerator, knobs: DeltaGenerator) -> None:
    with knobs:
        heads = whole_slider("Heads", state.ALIBI_HEADS, 8, 1, 32)
        head = whole_number("Head", state.ALIBI_HEAD, 1, 0, 31)
        trace = alibi_head(SHOWN_TOKENS, heads, head)
    with picture:
        left, right = st.columns(2)
        query, key, hidden = Axis("query"), Axis("key"), ~trace.mask
        with left:
            st.markdown("**Bias**")
            bias = heatmap(trace.masked, query, key, name="bias", forbidden=hidden, height=380)
            show_heatmap(bias, "bias", "The bias of one ALiBi head.")
        with right:
            st.markdown("**Weights, were all scores 0**")
            weights = heatmap(trace.weights, query, key, name="weight", scale="share", forbidden=hidden, height=380)
            show_heatmap(weights, "bias weights", "The weights that follow from the bias alone.")
        slopes = ", ".join(
            f"**{slope:.4g}**" if at == head else f"{slope:.4g}" for at, slope in enumerate(alibi_slopes(heads))
        )
        st.markdown(f"Slopes of the heads: {slopes}")


def t5(picture: DeltaGenerator, *, bidirectional: bool) -> None:
    buckets = t5_buckets(relative_positions(POSITIONS), bidirectional=bidirectional).astype(float)
    offsets = np.arange(-FARTHEST_SHOWN, FARTHEST_SHOWN + 1)
    with picture:
        left, right = st.columns(2)
        with left:
            st.markdown("**Bucket of each pair**")
            grid = heatmap(buckets, Axis("query"), Axis("key"), name="bucket", scale="share", limit=31.0, height=380)
            show_heatmap(grid, "buckets", "The bucket number of every pair.")
        with right:
            st.markdown("**Bucket by distance**")
            curve = Series("bucket", offsets, t5_buckets(offsets, bidirectional=bidirectional))
            chart = lines([curve], x="key position − query position", y="bucket")
            show_chart(chart, "bucket curve", "The bucket number at each distance.")
        st.markdown("These are numbers of buckets. The bias of each bucket is learned, one for each head.")


def in_a_model(part: Part) -> None:
    found_head = real_head()
    if found_head is None:
        return
    chosen, scene = found_head
    rotation = rotary_of(chosen.capture, chosen.layer, chosen.kind)
    if rotation is None:
        without_rotation(chosen, scene)
        return
    trace = scene.trace
    picture, knobs = picture_and_knobs(part)
    with knobs:
        query, key = pinned(trace.weights)
    found = bands(trace.query[query], trace.key[key], query - key, rotation)
    distances, scores = found.by_distance(farthest=max(POSITIONS, trace.shape[1]))
    with picture:
        left, right = st.columns(2)
        with left:
            st.markdown("**What each band adds**")
            curves = [
                Series(f"here, at distance {found.distance}", found.wavelengths, found.parts, kind="measured"),
                Series("at distance 0", found.wavelengths, found.at_distance_0, kind="theory"),
            ]
            chart = lines(curves, x="wavelength of the band (tokens)", y="part of the raw score", log_x=True)
            show_chart(chart, "bands", "What each band adds to the score, by wavelength.")
        with right:
            st.markdown("**These two tokens, at other distances**")
            curves = [
                Series("score", distances, scores),
                Series("here", [found.distance], [found.score], kind="measured"),
            ]
            chart = lines(curves, x="distance from query to key (tokens)", y="raw score")
            show_chart(chart, "score by distance", "The score these two tokens would have at other distances.")
        words = scene.query_tokens[query], scene.key_tokens[key]
        st.markdown(
            f"{quoted(words[0])} looks at {quoted(words[1])}: the bands add up to **{found.score:.4f}**; "
            f"the raw score is **{trace.raw[query, key]:.4f}**."
        )


def without_rotation(chosen: RealHead, scene: Traced) -> None:
    """A model without rotary positions has no bands; if it learned a vector for each position, those can be seen."""
    name = plain(str(chosen.request.model))
    learned = learned_positions(chosen.capture.model)
    picture, panel = st.columns([7, 4], gap="medium")
    with panel:
        st.markdown(f"{name} turns no queries and keys here: there are no bands to show.")
        if learned is not None:
            st.markdown(
                "It adds a learned vector to each token, one for each position. The picture: how alike they are."
            )
        elif scene.trace.bias.any():
            st.markdown("It adds a bias to the scores.")
        st.markdown("SmolLM2-135M-Instruct is a rotary model.")
    if learned is not None:
        with picture:
            chart = heatmap(cosines(learned[:POSITIONS]), Axis("position"), Axis("position"), name="cosine", limit=1.0)
            show_heatmap(chart, "learned positions", "Cosines of the learned position vectors.")


PARTS = (
    Part(
        "shuffle",
        "Shuffle",
        "The same words in another order. With nothing that tells positions, each output moves along with its word. Any "
        "of the others makes order count.",
        shuffled,
    ),
    Part(
        "sinusoids",
        "Sinusoids",
        "Each position adds its own row of sines and cosines. The dot product of two rows depends on their distance only.",
        sinusoids,
    ),
    Part(
        "shift", "Shift", "One matrix moves every position k tokens on, by turning each pair of dimensions.", shift_by_k
    ),
    Part(
        "rotary",
        "Rotary",
        "Queries and keys turn with their position. Move both: the score stays. Only their distance counts.",
        rotary,
    ),
    Part(
        "biases",
        "Biases",
        "A number for each distance is added to the score. ALiBi fixes it; T5 learns one for each bucket.",
        biases,
    ),
    Part(
        "model",
        IN_A_MODEL,
        "A rotary head's score is a sum over bands. A slow band hardly turns: it compares content. A fast one tells near "
        "from far.",
        in_a_model,
    ),
)

show_lesson(
    "Word order", "Attention alone cannot tell the order of words: something has to say where each one stands.", PARTS
)
