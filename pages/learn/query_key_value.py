"""Query, key, value: a query that can be turned, the keys that it meets, and the values that they pass on."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core import AttentionTrace
from core.attention.rowwise import strongest_cell
from core.attention.stages import number
from core.figures.chart import Chart
from core.figures.palette import TOTAL
from core.figures.plots.bars import bars
from core.figures.plots.diagrams import OUTPUT, plane
from core.lessons import query_key_value as qkv
from core.lessons.query_key_value import ANGLE, FARTHEST, QUERY, TOKENS, HeadChange, KeyAngles, alignment
from ui import presenting, state
from ui.calls import call, result
from ui.controls.fields import menu, slider, text_line, token_picker
from ui.markdown import plain, quoted
from ui.shown import columns, say
from ui.views.charts import numbers, show_chart, table
from ui.views.frames import handle
from ui.views.lesson.frame import Experiment, Lesson, picture_and_knobs
from ui.views.sources.heads import RealHead

lesson = Lesson(
    "Query, key, value",
    "A query says what a token looks for, a key what it can be found by, a value what it passes on.",
)

ANIMAL, STREET = 0, 1  # places in TOKENS
HEIGHT, LOW = 400, 330  # pixels; the lower one where all arrows go to one side
NAMED = 4  # keys of a real head that have their names beside their arrows
GRID = range(-FARTHEST, FARTHEST + 1)  # where a value can be put by hand, in each direction


def turned() -> AttentionTrace:
    angle = slider("Angle of the query (degrees)", state.ANGLE, ANGLE, 0, 355, 5)
    handle(state.ANGLE, f"Query of {QUERY}", "plane", qkv.query_at, qkv.query_at(angle))
    return call(qkv.example, angle)


def show(chart: Chart, names: Sequence[str], weights: Mapping[str, ArrayLike], height: int = HEIGHT) -> None:
    """Show the arrows, and the weights that follow from them: those before a change in grey, the others as the output."""
    left, right = columns([4, 3])
    with left:
        show_chart(chart, "plane", "A query and its keys as arrows from one point.", title="Query, keys and values")
    with right:
        printed, colours = len(names) * len(weights) <= len(TOKENS), (TOTAL, OUTPUT)[-len(weights) :]
        shares = bars(names, weights, y="weight", limits=(0, 1.12), printed=printed, height=height, colours=colours)
        show_chart(shares, "weights", "The weight of each key.")


def show_scores(aligned: KeyAngles, names: Sequence[str]) -> None:
    """Show how the weight of each key comes about; `names` are those of all keys."""
    columns = (aligned.places, aligned.lengths, aligned.angles, aligned.scores, aligned.masked, aligned.weights)
    rows = [
        [plain(names[int(place)]), *numbers(length), f"{angle:.1f}°", *numbers([raw, masked]), f"**{weight:.1%}**"]
        for place, length, angle, raw, masked, weight in zip(*columns, strict=True)
    ]
    table(["key", "length of k", "angle to q", "q · k", "into softmax", "weight"], rows)
    of_q = f"the length of q, {number(aligned.length)}"
    say(f"q · k is {of_q}, times the length of k, times the cosine of the angle.", small=True)


@lesson.experiment(
    "turn",
    "Turn the query",
    "A score is a dot product: the length of the query, times the length of the key, times the cosine of the angle between "
    "them. Softmax makes weights of the scores. The output is the mean of the values with these weights, so it stays "
    "among them.",
)
def turn() -> Iterator[None]:
    trace = result(turned())
    best = int(trace.weights[0].argmax())
    yield
    fits = f"The query of {quoted(QUERY)} fits the key of {quoted(TOKENS[best])} best"
    presenting.finding(f"{fits}: weight **{trace.weights[0, best]:.0%}**.", level=4)
    show(plane_of(trace, {"output": trace.output[0]}), TOKENS, {"weight": trace.weights[0]})
    show_scores(alignment(trace), TOKENS)


@lesson.experiment(
    "length",
    "A longer key",
    "A key twice as long has twice the score: more weight if the query points its way, less if it points away.",
)
def lengthen() -> Iterator[None]:
    factor = slider(f"Length of the key of {quoted(TOKENS[STREET])}, times", state.KEY_LENGTH, 2.0, 0.5, 4.0, 0.5)
    change = result(call(qkv.longer_key, turned(), STREET, factor))
    before, after = change.before.weights[0, STREET], change.after.weights[0, STREET]
    yield
    goes = f"the weight of {quoted(TOKENS[STREET])} goes from {before:.0%} to **{after:.0%}**"
    presenting.finding(f"A key {factor:g} times as long: {goes}.", level=4)
    show_change(change)
    show_scores(alignment(change.after), TOKENS)


@lesson.experiment(
    "values",
    "Other values",
    "Weights come from queries and keys alone. A value is what a token passes on: swap two, or drag one elsewhere, and only "
    "the output changes.",
    formerly="Swap two values",
)
def other_values() -> Iterator[None]:
    others = {token: token for place, token in enumerate(TOKENS) if place != ANIMAL}
    words = f"Swap the value of {quoted(TOKENS[ANIMAL])} with that of"
    other = menu(words, state.SWAP, others, opening="tired", look="buttons")
    typed = text_line("Values that were moved", state.MOVED, placeholder="street 1 -2", max_chars=200)
    before, moves = turned(), call(qkv.read_moves, typed)
    swapped = call(qkv.swapped_values, before, ANIMAL, TOKENS.index(other)).after
    after = call(qkv.moved_values, swapped, moves).after
    change = result(call(HeadChange, before, after))
    for token, name in enumerate(TOKENS):
        places = {float(place): point for place, point in enumerate(product(GRID, GRID))}
        holds = {place: {state.MOVED: qkv.write_moves(moves | {token: point})} for place, point in places.items()}
        handle(f"value {token}", f"Value of {name}", "plane", places.__getitem__, after.value[token], holds)
    yield
    moves_by = f"the output moves by **{change.of_output:.2f}**"
    presenting.finding(f"The weights change by {number(change.of_weights)}, {moves_by}.", level=4)
    show_change(change)


def plane_of(trace: AttentionTrace, outputs: Mapping[str, NDArray[np.floating]]) -> Chart:
    return plane(
        trace.query[0], trace.key, QUERY, TOKENS, trace.raw[0], values=trace.value, outputs=outputs, height=HEIGHT
    )


def show_change(change: HeadChange) -> None:
    both = {"before": change.before, "after": change.after}
    chart = plane_of(change.after, {f"output {name}": trace.output[0] for name, trace in both.items()})
    show(chart, TOKENS, {name: trace.weights[0] for name, trace in both.items()})


@lesson.in_a_model(
    "Query and keys have more than two numbers here. Each key has its length and its angle to the query, all on one side.",
)
def in_a_model(experiment: Experiment, real: RealHead, trace: AttentionTrace) -> None:
    query_tokens, key_tokens = real.tokens
    picture, knobs = picture_and_knobs(experiment)
    with knobs:
        query = token_picker("Query", state.QUERY, query_tokens, strongest_cell(trace.weights)[0])
    aligned = result(call(alignment, trace, query))
    token, names = query_tokens[query], [key_tokens[place] for place in aligned.places]
    with picture:
        if not names:
            say(f"{quoted(token)} may look at nothing.")
            return
        (best,) = aligned.strongest(1)
        looks = f"{quoted(token)} looks most at {quoted(names[best])}, {aligned.angles[best]:.0f}° apart"
        presenting.finding(f"{looks}: weight **{aligned.weights[best]:.0%}**.", level=4)
        labelled = aligned.strongest(NAMED)
        query_and_keys = (aligned.length, 0), aligned.turned
        chart = plane(*query_and_keys, token, names, aligned.scores, labelled=labelled, height=LOW)
        show(chart, names, {"weight": aligned.weights}, LOW)
        if len(names) < trace.mask[query].sum():
            say(f"The {len(names)} keys with the largest weights.", small=True)
        show_scores(aligned, key_tokens)


lesson.show()
