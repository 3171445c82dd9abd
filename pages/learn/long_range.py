"""Long range: the steps and operations that a recurrent layer and attention need, and how far their gradients reach."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.palette import INK
from core.figures.plots.bars import full_height
from core.figures.plots.lines import Series, lines
from core.lessons.long_range import MAX_QUERIES, costs, even_distance
from ui import state
from ui.calls import call, result
from ui.controls.fields import menu, numbered, slider, switch
from ui.progress import run
from ui.shown import say
from ui.views.charts import show_chart
from ui.views.lesson import results
from ui.views.lesson.frame import IN_A_MODEL, Experiment, Lesson, picture_and_knobs, show_beside, two_curves
from ui.views.sources.heads import ChosenHead
from ui.views.sources.reading import again
from ui.views.sources.text_fields import choose_text

lesson = Lesson(
    "Long range",
    "Attention connects any two tokens in one step. A recurrent layer needs a step for each token between them.",
)

VECTOR_SIZES = numbered((16, 64, 128, 256, 576, 1024, 4096))
LENGTHS = np.unique(np.geomspace(1, 8192, 40).round().astype(int))


@lesson.experiment(
    "steps",
    "Steps and operations",
    "A recurrent layer reads one token after another: n steps from the first to the last. Attention connects any two in "
    "one step. It needs n²d multiplications instead of nd²: more if the text has more tokens than a vector has numbers.",
)
def steps_and_operations() -> Iterator[None]:
    width = menu("Numbers in a vector (d)", state.VECTOR_SIZE, VECTOR_SIZES, opening=576, look="line")
    cost = result(call(costs, LENGTHS, width))
    yield
    sequential = {"recurrent": cost.recurrent_sequential, "attention": cost.attention_sequential}
    multiplied = {"recurrent nd²": cost.recurrent_operations, "attention n²d": cost.attention_operations}
    look: dict[str, Any] = {"x": "tokens n", "log_x": True, "log_y": True}
    steps = lines(two_curves(LENGTHS, sequential), y="steps", **look)
    operations = lines(two_curves(LENGTHS, multiplied), y="up to a constant factor", **look)
    crossing = {"dash": "dot", "width": 1.5, "color": INK}
    operations.layout["shapes"] = [full_height(cost.crossing, cost.crossing, line=crossing)]
    show_beside(
        ("Sequential steps", steps, "steps", "Sequential steps, by the length of the text."),
        ("Multiplications", operations, "operations", "Multiplications, by the length of the text."),
    )
    say(f"Both need the same number of multiplications at n = d = **{cost.crossing:,}** tokens.")


@lesson.experiment(
    "gradients",
    "Gradients",
    "How strongly the last output depends on each earlier token, in untrained layers. A recurrent layer multiplies the "
    "gradient at every step: factors below 1 make it vanish, factors above 1 explode. Attention needs one step.",
)
def gradients() -> Iterator[None]:
    length = slider("Tokens", state.LENGTH, 64, 16, 128, 16)
    gain = slider("RNN: recurrent weights ×", state.GAIN, 1.0, 0.5, 4.0, 0.5)
    forget = slider("LSTM: added to the forget gate", state.FORGET, 0.0, 0.0, 5.0, 0.5)
    measured = result(results.gradient_reach(length, gain, forget))
    yield
    curves = [
        Series(name, reach.distances, reach.log10, reach.log10_error, kind="measured")
        for name, reach in measured.items()
    ]
    x, y = "distance to the last token (tokens)", "size of the gradient"
    chart = lines(curves, x=x, y=y, powers_of_ten=True, height=400)
    show_chart(chart, "gradients", "Size of the gradient by distance, for an RNN, an LSTM and attention.")
    ends = ", ".join(f"{name} $10^{{{reach.log10[-1]:.1f}}}$" for name, reach in measured.items())
    say(
        f"{length - 1} tokens back: {ends}. Each point is the mean of the exponent over 5 seeds, with one standard error. "
        f"Each model is one layer with vectors of 32 numbers. The weights start as PyTorch initialises them, unless you "
        f"change them here."
    )


@lesson.free_experiment(
    "model",
    IN_A_MODEL,
    "The distance that each head looks, averaged with its weights. Many heads rest on the first token: leave it out to "
    "see what else they do.",
)
def in_a_model(experiment: Experiment) -> None:
    if (passed := choose_text()) is None:
        return
    request, _ = passed
    head = ChosenHead(request, again(request).kinds[0], 0, 0)
    picture, knobs = picture_and_knobs(experiment)
    with knobs:
        without_first = switch("Leave out the first token", state.WITHOUT_FIRST)
        task = results.mean_distances.task(head.of_kind, without_first)
        distances = run(task, "Measuring every head of the model", head.grid[0])
    if distances is None:
        return
    result(distances)
    even = even_distance(head.capture.trace(*head.place, head.kind), without_first=without_first)
    with picture:
        chart = heatmap(distances, Axis("layer"), Axis("head"), name="tokens", scale="share", height=420)
        show_chart(chart, "distances", "How many tokens away each head looks on average.")
        look = f"The heads look **{distances.min():.1f}** to **{distances.max():.1f}** tokens away on average."
        say(f"{look} Attention spread evenly would look **{even:.1f}** tokens away.")
        if len(head.tokens[0]) > MAX_QUERIES:
            say(f"Measured at {MAX_QUERIES} evenly spaced queries.", small=True)


lesson.show()
