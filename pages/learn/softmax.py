"""Softmax: from a row of scores to weights, other ways to normalise, and where floating point breaks it."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core import AttentionTrace, InputError
from core.attention.matrix_files import read_matrix
from core.figures.chart import Chart
from core.figures.palette import ABOVE, ALLOWED, PIN
from core.figures.plots.bars import Mark, bar_panels, bars, log_bars
from core.lessons import softmax
from core.lessons.softmax import LARGEST_RAW_SCORE, LARGEST_SCALED_SCORE, softmax_steps
from core.units import small_number
from ui import presenting, state
from ui.calls import call, result
from ui.controls.fields import slider, switch, text_line
from ui.shown import columns, say
from ui.views.charts import numbers, show_chart, table
from ui.views.frames import handle
from ui.views.lesson.frame import Experiment, Lesson
from ui.views.sources.heads import RealHead

lesson = Lesson("Softmax", "Softmax turns a row of scores into weights. No weight is negative, and they add up to 1.")

MAX_PRINTED = 8  # bars side by side that have room for their numbers
PULLED = np.arange(-5, 5.25, 0.25)  # scores to which a bar can be pulled


def scores_knob() -> NDArray[np.floating]:
    """Return the row of scores that somebody typed. Raises InputError for anything but one row of at most 16 numbers."""
    typed = text_line("Scores", state.SCORES, "1.0, 0.5, 2.5, -0.1", max_chars=400)
    row = call(read_matrix, typed, field="scores")
    if row.shape[0] != 1 or row.shape[1] > 16:
        raise InputError("Write one row of at most 16 numbers.", field="scores")
    return row[0]


@lesson.experiment(
    "weights",
    "Scores to weights",
    "Raise e to each score, then divide by the sum. The weights are never negative and add up to 1. Their order is that of "
    "the scores. Adding a constant changes nothing: it multiplies every exponential, and their sum, by the same factor.",
)
def scores_to_weights() -> Iterator[None]:
    row = scores_knob()
    names = _names(row)
    limits = min(PULLED[0], row.min()) - 1.2, max(PULLED[-1], row.max()) + 1.2
    scores = bars(names, {"score": row}, y="score", limits=limits, printed=False, height=190)
    show_chart(scores, "scores", "The scores. Each bar can be pulled.")
    for place, score in enumerate(row):
        pulled = {value: {state.SCORES: _typed(row, place, value)} for value in PULLED.tolist()}
        handle(f"score {place}", f"Score {place}", "scores", lambda end, at=place: (at, end), (place, score), pulled)
    temperature = slider("Temperature", state.TEMPERATURE, 1.0, 0.1, 5.0, 0.1)
    shift = slider("Add to every score", state.SHIFT, 0.0, -5.0, 5.0, 0.5)
    steps = result(call(softmax_steps, row, temperature=temperature, shift=shift))
    before = softmax_steps(row, temperature=temperature)
    printed = len(names) <= MAX_PRINTED
    yield
    left, right = columns(2)
    look: dict[str, Any] = {"x": "score", "printed": printed, "height": 270}
    with left:
        exponentials = bars(names, {"e^score": steps.exponentials}, y="e^score", **look)
        show_chart(exponentials, "exponentials", "Exponentials.")
    with right:
        weights = bars(names, {"weight": steps.weights}, y="weight", limits=(0, 1.12), **look)
        show_chart(weights, "weights", "Weights: the exponentials divided by their sum.")
    table(
        ["score", *names, "sum"],
        [
            ["e^score", *numbers(steps.exponentials), f"**{steps.total:,.3f}**"],
            ["weight", *numbers(steps.weights), f"**{steps.weights.sum():.3f}**"],
            ["weight, nothing added", *numbers(before.weights), f"**{before.weights.sum():.3f}**"],
            ["rank of the score", *map(str, softmax.ranks(steps.scores)), ""],
            ["rank of the weight", *map(str, softmax.ranks(steps.weights)), ""],
        ],
    )


@lesson.experiment(
    "others",
    "Not the same",
    "RMS and Euclidean length divide every score by one number. The signs stay, and the results do not add up to 1.",
)
def not_the_same() -> Iterator[None]:
    row = scores_knob()
    ways = result(call(softmax.normalised, row))
    rows = [[way.name, f"**{way.total:.3f}**", *numbers([way.length, way.values.min()])] for way in ways]
    table(["way", "adds up to", "length", "smallest"], rows)
    formulas = {"Softmax": "e^s / Σ e^s", "RMS": "s / √(mean of s²)", "Euclidean": "s / √(Σ s²)"}
    yield
    panels = {f"<b>{way.name}</b>: {formulas[way.name]}, adds up to {way.total:.3f}": way.values for way in ways}
    names = _names(row)
    chart = bar_panels(names, panels, x="score s", printed=len(names) <= MAX_PRINTED)
    show_chart(chart, "norms", "The same scores by softmax, by RMS and by Euclidean length, on one scale.")


@lesson.in_a_model("The softmax of one head in three number formats, compared with float64.")
def in_a_model(experiment: Experiment, _real: RealHead, trace: AttentionTrace) -> None:
    found = result(call(softmax.precisions, trace))
    picture, panel = columns([6, 5], gap="medium")
    errors = {
        "row sum, compared with 1": [one.row_sum_error for one in found],
        "weight, compared with float64": [one.weight_error for one in found],
    }
    with picture:
        chart = log_bars(softmax.DTYPES, errors, x="largest error", limits=(1e-18, 10))
        show_chart(chart, "errors", "The largest errors of row sums and weights in three number formats.")
    with panel:
        rows = [
            [one.dtype, *map(small_number, (one.row_sum_error, one.weight_error)), f"{one.naive_failures:.0%}"]
            for one in found
        ]
        table(["format", "row-sum error", "weight error", "rows NaN if plain"], rows)
        presenting.tell(f"{experiment.words} Largest score after scaling: **{found[0].largest_score:.2f}**.")


@lesson.experiment(
    "overflow",
    "Overflow",
    "e^x soon leaves the range of a number format. Infinity divided by infinity is NaN, not a number. Subtracting the "
    "row's maximum first makes the largest exponential 1 and changes no weight.",
)
def overflow() -> Iterator[None]:
    row = scores_knob()
    factor = slider("Multiply the scores by", state.FACTOR, 40, 1, 320, 1)
    nothing = switch("Every score −∞ (all masked)", state.NOTHING)
    scores = np.full_like(row, -np.inf) if nothing else row * factor
    formats = result(call(softmax.in_formats, scores))
    yield
    show_chart(_reaches(formats, scores.max()), "overflow", "How far e^x reaches in three number formats.")
    rows = [
        [f"{format_.dtype}, {way}", *numbers(weights), *numbers([weights.sum()])]
        for format_ in formats
        for way, weights in (("plain", format_.naive), ("minus maximum", format_.careful))
    ]
    table(["format", *_names(scores), "sum"], rows)
    if nothing:
        say("There is nothing to attend to. Headlight makes every weight 0, so the row adds up to 0, not 1.")


def _reaches(formats: list[softmax.InFormat], largest: float) -> Chart:
    holds = [format_.reach if format_.naive_holds else np.nan for format_ in formats]
    breaks = [np.nan if format_.naive_holds else format_.reach for format_ in formats]
    marks = [
        Mark(f"… after scaling, {LARGEST_SCALED_SCORE:.0f}", LARGEST_SCALED_SCORE),
        Mark(f"SmolLM2's largest score, {LARGEST_RAW_SCORE:.0f}", LARGEST_RAW_SCORE),
    ]
    if largest >= 1:
        marks.append(Mark(f"<b>your largest score, {largest:g}</b>", largest, PIN))
    names, groups = [format_.dtype for format_ in formats], {"plain works": holds, "plain gives NaN": breaks}
    look: dict[str, Any] = {"written": "{:.2f}".format, "marks": marks, "colours": (ALLOWED, ABOVE)}
    return log_bars(names, groups, x="largest x whose e^x is finite", limits=(1, 2000), **look)


def _typed(row: NDArray[np.floating], place: int, score: float) -> str:
    """Return the scores as somebody would type them, with another one at this place."""
    return ", ".join(f"{score if at == place else old:g}" for at, old in enumerate(row.tolist()))


def _names(scores: NDArray[np.floating]) -> list[str]:
    return [f"{score:g}".replace("-", "−").replace("inf", "∞") for score in scores]


lesson.show()
