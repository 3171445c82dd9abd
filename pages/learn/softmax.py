"""Softmax: from a row of scores to weights, what it gets confused with, and where floating point breaks it."""

import numpy as np
import streamlit as st

from core import InputError
from core.figures.charts import Series, bars, lines
from core.matrix_files import read_matrix
from core.normalising import (
    DTYPES,
    euclidean_norm,
    naive_softmax,
    overflow_limit,
    precisions,
    rms_norm,
    softmax_steps,
)
from ui import state
from ui.lesson import IN_A_MODEL, Part, choose_part, picture_and_knobs, real_head, show_chart
from ui.words import show_error

PARTS = (
    Part(
        "Scores to weights",
        "Raise e to each score, then divide by the sum. The weights are never negative and add up to 1. Order is kept. Adding "
        "a constant changes nothing: it multiplies every exponential by the same factor.",
    ),
    Part("Not the same", "RMS and Euclidean length rescale a row. They keep signs, and nothing adds up to 1."),
    Part(
        "Overflow",
        "Without subtracting the maximum, e^x leaves the range of the number format and the weights become NaN (no number).",
    ),
    Part(IN_A_MODEL, "One head's softmax in three number formats."),
)


def scores_knob() -> np.ndarray:
    """One row of scores, typed."""
    text = st.text_input("Scores", "1.0, 0.5, 2.5, -0.1", key=state.SCORES, bind="query-params", max_chars=400)
    row = read_matrix(text, field="scores")
    if row.shape[0] != 1 or row.shape[1] > 16:
        raise InputError("Write one row of at most 16 numbers.", field="scores")
    return row[0]


def scores_to_weights(part: Part) -> None:
    picture, knobs = picture_and_knobs(part)
    with knobs:
        row = scores_knob()
        temperature = st.slider("Temperature", 0.1, 5.0, 1.0, 0.1, key=state.TEMPERATURE, bind="query-params")
        shift = st.slider("Add to every score", -5.0, 5.0, 0.0, 0.5, key=state.SHIFT, bind="query-params")
        steps = softmax_steps(row, temperature=temperature, shift=shift)
    names = [f"{score:g}" for score in row]
    with picture:
        left, right = st.columns(2)
        with left:
            show_chart(
                bars(names, {"e^score": steps.exponentials}, x="score", y="e^score"), "exponentials", "Exponentials."
            )
        with right:
            weights = bars(names, {"weight": steps.weights}, x="score", y="weight", limits=(0, 1.08))
            show_chart(weights, "weights", "Weights: the exponentials divided by their sum.")
        st.markdown(
            f"Sum of the exponentials **{steps.total:,.3f}**; sum of the weights **{steps.weights.sum():.3f}**."
        )


def not_the_same(part: Part) -> None:
    picture, knobs = picture_and_knobs(part)
    with knobs:
        row = scores_knob()
        steps = softmax_steps(row)
    groups = {"softmax": steps.weights, "RMS": rms_norm(row), "Euclidean": euclidean_norm(row)}
    with picture:
        show_chart(
            bars([f"{score:g}" for score in row], groups, x="score", y="result"), "norms", "Three normalisations."
        )
        sums = ", ".join(f"{name} {values.sum():.3f}" for name, values in groups.items())
        st.markdown(f"Sums: {sums}.")


def overflow(part: Part) -> None:
    picture, _ = picture_and_knobs(part)
    largest = np.linspace(0, 120, 241)
    rows = np.stack([largest, np.zeros_like(largest)], axis=1)
    curves = [Series(f"{dtype}, naive", largest, naive_softmax(rows, dtype)[:, 0].astype(float)) for dtype in DTYPES]
    with picture:
        figure = lines(curves, x="score x, next to a score of 0", y="weight of x")
        show_chart(figure, "overflow", "The naive softmax in three number formats: each curve ends where it overflows.")
        ends = ", ".join(f"{dtype} above {overflow_limit(dtype):.2f}" for dtype in DTYPES)
        st.markdown(f"Each curve ends where e^x overflows: {ends}.")


def in_a_model(part: Part) -> None:
    chosen = real_head()
    if chosen is None:
        return
    st.markdown(part.words)
    st.table(
        [
            {
                "format": one.dtype,
                "largest score": f"{one.largest_score:.2f}",
                "largest row-sum error": f"{one.row_sum_error:.1e}",
                "largest weight error": f"{one.weight_error:.1e}",
                "rows lost without the maximum": f"{one.naive_failures:.0%}",
            }
            for one in precisions(chosen.scene.trace)
        ],
        hide_index=True,
        border="horizontal",
    )


SHOW = dict(zip((part.name for part in PARTS), (scores_to_weights, not_the_same, overflow, in_a_model), strict=True))

part = choose_part("Softmax", PARTS)
try:
    SHOW[part.name](part)
except InputError as error:
    show_error(error)
