"""Masks: which keys a query may look at, and what that does to the weights."""

from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from core import AttentionTrace, attend
from core.attention import masks as m
from core.attention.sources import Matrices
from core.figures.chart import Chart
from core.figures.heatmaps.heatmap import Axis
from core.figures.heatmaps.views import additive_mask
from core.figures.plots.bars import bar_panels
from core.figures.theme import enlarged
from core.lessons.masking import fill, lowest_number, weight_on_forbidden, without_care
from core.notebook.figures import stage_figure
from ui import presenting, state
from ui.calls import attribute, call, result, result_of
from ui.controls.fields import menu, slider, token_picker
from ui.controls.masks import pick_mask
from ui.controls.pinned import Tokens
from ui.markdown import plain, quoted
from ui.shown import columns, is_quiet, say
from ui.views.charts import numbers, show_chart, table
from ui.views.frames import follow
from ui.views.lesson.frame import Experiment, Lesson, sentence_knob, walk_through_knob, weights_chart
from ui.views.sources.heads import RealHead

lesson = Lesson("Masks", "A mask says which keys a query may look at. All others get a weight of exactly 0.")

SENTENCE = "The cat sat. A dog ran."
HEIGHT, TOP = 330, 40  # pixels: pictures in one line, and the room above each for a legend
ONE_OF_THREE = 360  # pixels: the width of each
OF_WEIGHTS = "The weights of each query."
# Numbers that Python reads -> how they are shown.
FILLS = {"0": "0", "-1": "−1", "-2": "−2", "-5": "−5", "-10": "−10", "-20": "−20", "-inf": "−∞"}


def toy(words: Matrices, mask: NDArray[np.bool_] | None) -> AttentionTrace:
    return call(attend, words.query, words.key, words.value, mask=mask)


@lesson.free_experiment(
    "patterns",
    "Patterns",
    "M is added to the scores before the softmax: 0 changes nothing, −∞ leaves nothing, because e^−∞ = 0.",
)
def patterns(experiment: Experiment) -> None:
    show_pattern(experiment.words)
    walk_through_knob()
    follow(lambda: show_pattern(experiment.words))


def show_pattern(about: str) -> tuple[()]:
    text, choice = columns([3, 6])
    with text:
        words = sentence_knob(SENTENCE)
    with choice, nullcontext() if is_quiet() else st.container(horizontal=True):
        mask = pick_mask(len(words.query_tokens), len(words.key_tokens))
    trace = toy(words, mask)
    tokens = words.query_tokens, words.key_tokens
    result_of(stage_figure, trace, "weights", tokens=tokens)
    show_three(
        "**M**" if presenting.is_on() else "**M**: click a cell, or paint several",
        trace,
        toy(words, None),
        tokens,
        paints=True,
    )
    say(about)
    nothing = int(trace.empty_rows.sum())
    of_empty = f" Queries that may look at nothing: {nothing}. Their weights are all 0." if nothing else ""
    presenting.tell(f"This mask: **{m.describe(mask)}**, {mask.sum()} of {mask.size} pairs may attend.{of_empty}")
    return ()


@lesson.experiment(
    "zero",
    "Why not 0",
    "0 is a score like any other: e^0 = 1. Forbidden keys with a score of 0 keep a share and take it from the others. "
    "Only −∞ gives a weight of exactly 0.",
)
def why_not_0() -> Iterator[None]:
    words = sentence_knob(SENTENCE)
    count = len(words.query_tokens)
    query = token_picker("Query (causal mask)", state.ROW, words.query_tokens, 2)
    score = menu("Score of forbidden keys", state.FILL, FILLS, look="line")
    trace = toy(words, call(m.grid, m.causal, count, count))
    leak = result(call(fill, trace, float(score)))
    yield
    panels = {
        "Forbidden keys get <b>−∞</b>: the weights": trace.weights[query],
        f"Forbidden keys get <b>{FILLS[score]}</b>: {leak.leaked[query]:.2g} leaks to them": leak.weights[query],
    }
    chart = bar_panels(words.key_tokens, panels, x="key", panel=190)
    show_chart(chart, "leak", "The weights of one query with minus infinity and with another score for forbidden keys.")
    leaks = f"On average over all queries, **{leak.leaked.mean():.2g}** of the weight leaks."
    say(f"Query {query}, {quoted(words.query_tokens[query])}, may look at keys 0 to {query}. {leaks}")


@lesson.experiment(
    "empty",
    "Nothing left",
    "With padding before the text and a causal mask, the first queries may look at nothing. Headlight makes their weights "
    "0. Elsewhere −∞ − (−∞) is NaN, or the lowest number instead of −∞ gives a uniform row: an average of padding.",
)
def nothing_left() -> Iterator[None]:
    words = sentence_knob(SENTENCE)
    count = len(words.key_tokens)
    padded = slider("Padded at the start", state.PADDED, 2, 1, 8, 1)
    kept = call(m.padding, np.arange(count) >= padded)
    mask = call(m.grid, call(m.both, m.causal, kept), count, count)
    trace = result(toy(words, mask))
    tokens = ["[PAD]" if place < padded else word for place, word in enumerate(words.key_tokens)]
    ways = {
        "Headlight": trace.weights,
        "plain −∞": result(call(without_care, attribute(trace, "masked"))),
        "lowest number": result(call(lowest_number, trace)),
    }
    yield
    show(weights_of(trace, (tokens, tokens), height=270), "weights left", OF_WEIGHTS)
    say("The weights of query 0, which may look at nothing:")
    rows = [[way, *numbers(weights[0]), *numbers([weights[0].sum()])] for way, weights in ways.items()]
    table(["way", *map(plain, tokens), "sum"], rows)


@lesson.in_a_model("The mask that the model used in this layer.")
def in_a_model(experiment: Experiment, real: RealHead, trace: AttentionTrace) -> None:
    without = trace.changed(mask=np.ones(trace.shape, dtype=bool))
    result_of(weight_on_forbidden, trace)
    result(attribute(trace, "mask"))
    show_three("**M** of this layer", trace, without, real.tokens)
    if (kind := m.describe(trace.mask)) == "none":
        reads = "An encoder reads in both directions. SmolLM2 is a decoder: choose it to see a mask."
        presenting.tell(f"This layer has no mask: all **{trace.mask.size:,}** pairs may attend. {reads}")
        return
    leaked = weight_on_forbidden(trace).mean()
    pairs = f"{trace.mask.sum():,} of {trace.mask.size:,} pairs may attend"
    leaks = f"Without it, **{leaked:.1%}** of the weight would go to forbidden keys (mean over queries)."
    presenting.tell(f"{experiment.words} It is **{kind}**: {pairs}. {leaks}")


def show_three(
    heading: str, trace: AttentionTrace, without: AttentionTrace, tokens: Tokens, *, paints: bool = False
) -> None:
    """Show the mask, and the weights without it and with it, in one line. paints: whether cells of the mask can be painted"""
    size = {"height": HEIGHT, "width": ONE_OF_THREE}
    mask = additive_mask(m.additive(trace.mask), *tokens, **size)
    mask.layout["meta"]["paints"] = paints
    pictures = (
        (heading, mask, "mask", "Which keys each query may attend to."),
        ("**Weights without it**", weights_of(without, tokens, **size), "weights without", OF_WEIGHTS),
        ("**Weights with it**", weights_of(trace, tokens, **size), "weights with", OF_WEIGHTS),
    )
    is_seen = presenting.is_on() and not is_quiet()
    with st.container(key=presenting.told_key()) if is_seen else nullcontext():
        for column, (words, chart, name, alt) in zip(columns(3), pictures, strict=True):
            with column:
                say(words)
                show(chart, name, alt)


def weights_of(trace: AttentionTrace, tokens: Tokens, **size: int) -> Chart:
    axes = Axis("query", tokens[0]), Axis("key", tokens[1])
    return weights_chart(trace, *axes, limit=1, printed=8, **size)


def show(chart: Chart, name: str, alt: str) -> None:
    """Show a picture with the same room above as the others in its line, and without zooming, which a click could start."""
    chart.layout["dragmode"], chart.layout["margin"]["t"] = False, enlarged(TOP)
    show_chart(chart, name, alt, tools=False)


lesson.show()
