"""Long range: how many steps a recurrent layer and attention need, what it costs, and what arrives."""

import numpy as np
import streamlit as st

from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.palette import INK
from core.figures.plots.lines import Series, lines
from core.lessons.long_range import MAX_QUERIES, costs, even_distance
from ui import state
from ui.controls.fields import menu, numbered, slider, switch, whole_slider
from ui.progress import run
from ui.requests import KindRequest
from ui.views import experiments
from ui.views.common.pictures import show_chart, show_heatmap
from ui.views.lesson import IN_A_MODEL, Part, picture_and_knobs, show_lesson
from ui.views.sources.passes import choose_text

VECTOR_SIZES = numbered((16, 64, 128, 256, 576, 1024, 4096))
LENGTHS = np.unique(np.geomspace(1, 8192, 40).round().astype(int))


def steps_and_operations(part: Part) -> None:
    picture, knobs = picture_and_knobs(part)
    with knobs:
        width = menu("Numbers in a vector (d)", state.VECTOR_SIZE, VECTOR_SIZES, opening=576, look="line")
    found = costs(LENGTHS, width)
    with picture:
        left, right = st.columns(2)
        with left:
            st.markdown("**Steps one after another**")
            curves = [
                Series("recurrent", found.lengths, found.recurrent_sequential),
                Series("attention", found.lengths, found.attention_sequential),
            ]
            chart = lines(curves, x="tokens n", y="steps", log_x=True, log_y=True)
            show_chart(chart, "steps", "Steps one after another, by the length of the text.")
        with right:
            st.markdown("**Multiplications**")
            curves = [
                Series("recurrent nd²", found.lengths, found.recurrent_operations),
                Series("attention n²d", found.lengths, found.attention_operations),
            ]
            chart = lines(curves, x="tokens n", y="multiplications, up to a factor", log_x=True, log_y=True)
            chart.figure.add_vline(x=found.crossing, line={"dash": "dot", "width": 1.5, "color": INK})
            show_chart(chart, "operations", "Multiplications, by the length of the text.")
        st.markdown(f"As many multiplications at n = d = **{found.crossing:,}** tokens.")


def gradients(part: Part) -> None:
    picture, knobs = picture_and_knobs(part)
    with knobs:
        length = whole_slider("Tokens", state.LENGTH, 64, 16, 128, 16)
        gain = slider("RNN: recurrent weights ×", state.GAIN, 1.0, 0.5, 4.0, 0.5)
        forget = slider("LSTM: added to the forget gate", state.FORGET, 0.0, 0.0, 5.0, 0.5)
        measured = experiments.gradient_reach(length, gain, forget)
    with picture:
        curves = [
            Series(name, reach.distances, reach.log10, reach.log10_error, kind="measured")
            for name, reach in measured.items()
        ]
        chart = lines(curves, x="tokens back from the last", y="size of the gradient", powers_of_ten=True, height=400)
        show_chart(chart, "gradients", "Size of the gradient by distance, for an RNN, an LSTM and attention.")
        ends = ", ".join(f"{name} $10^{{{reach.log10[-1]:.1f}}}$" for name, reach in measured.items())
        st.markdown(
            f"{length - 1} tokens back: {ends}. Means of the exponent over 5 seeds, with one standard error. Vectors of 32 "
            f"numbers, one layer each, PyTorch's own initial weights where the knobs change nothing."
        )


def in_a_model(part: Part) -> None:
    passed = choose_text()
    if passed is None:
        return
    request, capture, _ = passed
    kind = capture.kinds[0]
    picture, knobs = picture_and_knobs(part)
    with knobs:
        without_first = switch("Leave out the first token", state.WITHOUT_FIRST)
        distances = run(
            experiments.mean_distances.task(KindRequest(request, kind), without_first),
            "Reading every head of the model",
            capture.layers(kind),
        )
    if distances is None:
        return
    even = even_distance(capture.trace(0, 0, kind), without_first=without_first)
    with picture:
        chart = heatmap(distances, Axis("layer"), Axis("head"), name="tokens", scale="share", height=420)
        show_heatmap(chart, "distances", "How many tokens away each head looks on average.")
        st.markdown(
            f"From **{distances.min():.1f}** to **{distances.max():.1f}** tokens. Looking at all tokens alike would give "
            f"**{even:.1f}**."
        )
        if len(capture.tokens(kind)[0]) > MAX_QUERIES:
            st.caption(f"{MAX_QUERIES} evenly spaced queries stand for all.")


PARTS = (
    Part(
        "steps",
        "Steps and operations",
        "A recurrent layer reads token after token: n steps between the first and the last. Attention joins any two in one "
        "step. It takes n²d multiplications instead of nd²: more, once the text has more tokens than a vector has numbers.",
        steps_and_operations,
    ),
    Part(
        "gradients",
        "Gradients",
        "How strongly the last output depends on each earlier token, in untrained layers. In a recurrent layer the gradient "
        "is multiplied at every step: factors below 1 make it vanish, above 1 explode. Attention needs one step.",
        gradients,
    ),
    Part(
        "model",
        IN_A_MODEL,
        "How far each head looks, averaged with its weights. Many heads rest on the first token: leave it out to see what "
        "else they do.",
        in_a_model,
    ),
)

show_lesson(
    "Long range",
    "Attention joins any two tokens in one step. A recurrent layer takes a step for each token between.",
    PARTS,
)
