"""Word order: attention alone cannot see it, and the ways to add it."""

from collections.abc import Iterator

import numpy as np

from core import AttentionTrace
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.plots.lines import Series, lines
from core.lessons import word_order
from core.lessons.word_order import alibi_slopes, t5_buckets
from core.units import small_number
from ui import state
from ui.calls import call, result
from ui.controls.fields import menu, numbered, slider, text_line, whole_number
from ui.controls.pinned import pinned
from ui.markdown import plain, quoted
from ui.shown import columns, say
from ui.views.charts import show_chart
from ui.views.lesson.frame import Experiment, Lesson, picture_and_knobs, show_beside, two_curves, weights_chart
from ui.views.sources.heads import RealHead

lesson = Lesson(
    "Word order", "Attention alone cannot see the order of words: something must tell it each word's position."
)

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


@lesson.experiment(
    "shuffle",
    "Shuffle",
    "The same words in another order. Without positions, each output moves with its word and does not change. With any "
    "other choice, order matters.",
)
def shuffled() -> Iterator[None]:
    sentence = text_line("Sentence", state.ORDER_TEXT, "the dog bites the man")
    source = menu("Order comes from", state.ORDER_FROM, ORDER_FROM)
    seed = whole_number("Shuffle", state.ORDER_SEED, 29, 0, 9999)
    read = call(word_order.shuffle, sentence, ORDER_FROM[source], seed=seed)
    yield
    before, after = (
        weights_chart(trace, Axis("query", of), Axis("key", of), limit=read.largest_weight, height=340, printed=5)
        for trace, of in ((result(read.before), read.tokens), (result(read.after), read.shuffled_tokens))
    )
    alt = "Attention weights of the sentence"
    show_beside(
        ("Weights, as typed", before, "weights as typed", f"{alt} as typed."),
        ("Weights, shuffled", after, "weights shuffled", f"{alt} shuffled."),
    )
    say(f"Largest difference between a word's outputs in the two orders: **{small_number(read.difference)}**")


def width_knob() -> int:
    return menu("Dimensions (d)", state.PE_WIDTH, WIDTHS, opening=32, look="line")


@lesson.experiment(
    "sinusoids",
    "Sinusoids",
    "Each position adds its own row of sines and cosines. The dot product of two rows depends only on their distance.",
)
def sinusoids() -> Iterator[None]:
    width = width_knob()
    scores = result(call(word_order.sinusoid_scores, POSITIONS, width))
    yield
    rows, position = word_order.sinusoidal(POSITIONS, width), Axis("position")
    added = heatmap(rows, position, Axis("dimension"), name="added", limit=1.0, height=380)
    products = heatmap(scores, position, position, name="dot product", height=380)
    show_beside(
        ("Added to each token", added, "sinusoids", "Sines and cosines of 64 positions."),
        ("Dot products", products, "products", "Dot products of the rows of all pairs of positions."),
    )
    spread = small_number(word_order.diagonal_spread(scores))
    say(f"Largest difference between dot products at the same distance: **{spread}**")


@lesson.experiment(
    "shift", "Shift", "One matrix moves every position forward by k. It rotates each pair of dimensions."
)
def shift_by_k() -> Iterator[None]:
    k = slider("Tokens forward (k)", state.ONWARD, 5, 0, 100, 1)
    position = slider("From position p", state.PE_FROM, 10, 0, 100, 1)
    width = width_knob()
    moved = result(call(word_order.shift, position, k, width))
    yield
    axes = Axis("to dimension"), Axis("from dimension")
    matrix = heatmap(moved.matrix, *axes, name="entry", limit=1.0, height=380, printed=8)
    rows = {"row of p + k": moved.target, "matrix × row of p": moved.moved}
    row = lines(two_curves(np.arange(width), rows, ("measured", "theory")), x="dimension", y="entry")
    show_beside(
        ("The matrix", matrix, "shift matrix", "The matrix that moves every position forward by k."),
        ("Position p, moved", row, "moved row", "The moved row and the row of p + k."),
    )
    say(f"Largest difference over positions 0 to 999, all with this matrix: **{small_number(moved.residual)}**")


@lesson.experiment(
    "rotary",
    "Rotary",
    "Queries and keys rotate with their position. Move both: the score stays. Only their distance matters.",
)
def rotary() -> Iterator[None]:
    both = slider("Move both by (tokens)", state.BOTH_LATER, 500, 0, 2000, 50)
    base = menu("Base", state.ROTARY_BASE, BASES, opening=10_000, look="line")
    scores = result(call(word_order.rotary_scores, width=64, count=POSITIONS, shift=both, base=base))
    yield
    named = {"at their own positions": scores.here, f"both {both} later": scores.shifted}
    curves = two_curves(scores.distances, named, ("measured", "theory"))
    chart = lines(curves, x="tokens from query back to key", y="raw score", height=420)
    show_chart(chart, "rotary", "A query's score with a similar key at each distance, at two positions in a text.")
    say(f"Largest difference between the curves: **{small_number(scores.difference)}**")


@lesson.experiment(
    "biases",
    "Biases",
    "A number per distance is added to the score: fixed in ALiBi, learned for each bucket (range of distances) in T5.",
)
def biases() -> Iterator[None]:
    kind = menu("Bias", state.BIAS_KIND, BIASES, look="buttons")
    yield from alibi() if kind == "alibi" else t5(bidirectional=kind == "t5-encoder")


def alibi() -> Iterator[None]:
    heads = slider("Heads", state.ALIBI_HEADS, 8, 1, 32, 1)
    head = whole_number("Head", state.ALIBI_HEAD, 1, 0, 31)
    trace = result(call(word_order.alibi_head, SHOWN_TOKENS, heads, head))
    yield
    axes = Axis("query"), Axis("key")
    bias = heatmap(trace.masked, *axes, name="bias", forbidden=~trace.mask, height=380)
    weights = weights_chart(trace, *axes, height=380)
    show_beside(
        ("Bias", bias, "bias", "The bias of one ALiBi head."),
        ("Weights if all scores are 0", weights, "bias weights", "The weights that follow from the bias alone."),
    )
    slopes = [f"{slope:.4g}" for slope in alibi_slopes(heads)]
    slopes[head] = f"**{slopes[head]}**"
    say(f"Slopes of the heads: {', '.join(slopes)}")


def t5(*, bidirectional: bool) -> Iterator[None]:
    buckets = result(call(t5_buckets, call(word_order.relative_positions, POSITIONS), bidirectional=bidirectional))
    offsets = np.arange(-FARTHEST_SHOWN, FARTHEST_SHOWN + 1)
    yield
    axes = Axis("query"), Axis("key")
    grid = heatmap(buckets.astype(float), *axes, name="bucket", scale="share", limit=31.0, height=380)
    curve = Series("bucket", offsets, t5_buckets(offsets, bidirectional=bidirectional))
    by_distance = lines([curve], x="key position − query position", y="bucket")
    show_beside(
        ("Bucket of each pair", grid, "buckets", "The bucket number of every pair."),
        ("Bucket by distance", by_distance, "bucket curve", "The bucket number at each distance."),
    )
    say("The numbers name buckets. Each head learns one bias for each bucket.")


@lesson.in_a_model(
    "A rotary head's score is a sum over bands. A slow band hardly rotates: it compares content. A fast band "
    "distinguishes near from far.",
)
def in_a_model(experiment: Experiment, real: RealHead, trace: AttentionTrace) -> None:
    if (rotation := word_order.rotary_of(real.capture, real.layer, real.kind)) is None:
        without_rotation(real, trace)
        return
    picture, knobs = picture_and_knobs(experiment)
    with knobs:
        query, key = pinned(trace.weights, real.tokens)
    result(trace)
    bands = word_order.bands(trace.query[query], trace.key[key], query - key, rotation)
    distances, scores = bands.by_distance(farthest=max(POSITIONS, trace.shape[1]))
    with picture:
        named = {f"here, at distance {bands.distance}": bands.parts, "at distance 0": bands.at_distance_0}
        of_bands = two_curves(bands.wavelengths, named, ("measured", "theory"))
        here = Series("here", [bands.distance], [bands.score], kind="measured")
        by_distance = [Series("score", distances, scores), here]
        parts = lines(of_bands, x="wavelength of the band (tokens)", y="contribution to the raw score", log_x=True)
        elsewhere = lines(by_distance, x="distance from query to key (tokens)", y="raw score")
        of_parts = "The contribution of each band to the score, by wavelength."
        of_distances = "The score these two tokens would have at other distances."
        show_beside(
            ("Contribution of each band", parts, "bands", of_parts),
            ("The same two tokens at other distances", elsewhere, "score by distance", of_distances),
        )
        looks = f"{quoted(real.tokens[0][query])} looks at {quoted(real.tokens[1][key])}"
        say(f"{looks}: the bands add up to **{bands.score:.4f}**; the raw score is **{trace.raw[query, key]:.4f}**.")


def without_rotation(real: RealHead, trace: AttentionTrace) -> None:
    """Say that a model without rotary positions has no bands, and show its learned position vectors, if it has any."""
    result(trace)
    name = plain(str(real.request.model))
    learned = word_order.learned_positions(real.capture.model)
    picture, panel = columns([7, 4], gap="medium")
    with panel:
        say(f"{name} does not rotate queries and keys here, so there are no bands to show.")
        if learned is not None:
            say(
                "It adds a learned vector for each position to the tokens. The picture shows how similar these vectors are."
            )
        elif trace.bias.any():
            say("It adds a bias to the scores.")
        say("SmolLM2-135M-Instruct is a rotary model: choose it to see bands.")
    if learned is not None:
        with picture:
            axes = Axis("position"), Axis("position")
            chart = heatmap(word_order.cosines(learned[:POSITIONS]), *axes, name="cosine", limit=1.0)
            show_chart(chart, "learned positions", "Cosines of the learned position vectors.")


lesson.show()
