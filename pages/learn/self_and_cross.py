"""Self and cross: the same stages, with queries from one text, and keys and values from the same or another."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from core.figures.heatmaps.frames import with_borders
from core.figures.heatmaps.heatmap import WIDTH, Axis, heatmap
from core.figures.heatmaps.views import metric_grid
from core.figures.labels import all_placed, visible
from core.figures.plots.bars import bars
from core.figures.plots.diagrams import wiring
from core.heads.views import crossing_shares, pair_shares, pair_sides
from core.lessons import self_and_cross
from core.lessons.self_and_cross import ALIGNING_HEAD, BLOCKS, DATE, DATES_MODEL, Crossing, Look, Place
from ui import presenting, shown, state
from ui.calls import attribute, call, expression, result, result_of, written
from ui.controls.fields import head_picker, menu, number_picker, text_line
from ui.markdown import quoted
from ui.requests import GeneratedTarget, HeadRequest, ModelChoice, TextRequest
from ui.shown import columns, say
from ui.views.charts import show_chart
from ui.views.lesson.frame import IN_A_MODEL, Lesson, weights_chart
from ui.views.sources import passes

lesson = Lesson("Self and cross", "In self-attention a text looks at itself, in cross-attention at another text.")

READ, INSTEAD, WRITTEN = "Le chat est sur le tapis.", "Il pleut.", "The cat is on"
FIRST, SECOND = "The cat sat on the mat.", "A kitten is sitting on a rug."
ENCODER, OPENING_HEAD = "all-MiniLM-L6-v2", (1, 1)


def text_read() -> str:
    return text_line("Text read", state.READ, READ, max_chars=400)


def text_written() -> str:
    return text_line("Text written so far", state.WRITTEN, WRITTEN, max_chars=400)


def show_weights(crossed: Crossing, name: str, height: int) -> None:
    axes = Axis("query", crossed.query_tokens), Axis("key", crossed.key_tokens)
    chart = weights_chart(crossed.trace, *axes, limit=1.0, height=height)
    show_chart(with_borders(chart), name, "The weights: rows are queries, columns are keys.")


def size(matrix: NDArray[np.floating]) -> str:
    return f"{matrix.shape[0]} × {matrix.shape[1]}"


@lesson.experiment(
    "three",
    "Three blocks",
    "An encoder reads a text, a decoder writes one. Queries are rows, keys are columns. The output has a row for each "
    "query. Only the decoder's first block may not look ahead. The weights are untrained.",
)
def three_blocks() -> Iterator[None]:
    names: dict[Place, str] = {place: block.name for place, block in BLOCKS.items()}
    place = menu("Block", state.BLOCK, names, opening="cross", look="buttons")
    read, written = text_read(), text_written()
    crossed = result(call(self_and_cross.crossing, place, read, written))
    trace, block = crossed.trace, crossed.block
    yield
    chart = wiring(block.query_text, block.key_text, causal=block.causal)
    alt = f"Queries come from the text {block.query_text}, keys and values from the text {block.key_text}."
    show_chart(chart, "wiring", alt)
    show_weights(crossed, "weights", 330)
    given = f"Q {size(trace.query)}, K {size(trace.key)}, V {size(trace.value)}"
    say(f"{given} give weights **{size(trace.weights)}** and an output of **{size(trace.output)}**.")


@lesson.experiment(
    "keys",
    "Other keys",
    "The queries come from the written text alone. Another text to read changes keys, values and weights, but no query. "
    "The output keeps its number of rows.",
)
def other_texts() -> Iterator[None]:
    read = text_read()
    instead = text_line("Another text to read", state.READ_INSTEAD, INSTEAD, max_chars=400)
    others = result(call(self_and_cross.other_keys, read, instead, text_written()))
    yield
    for column, crossed, name in zip(columns(2), (others.before, others.after), ("before", "after"), strict=True):
        with column:
            say(f"**Weights {name}**")
            show_weights(crossed, name, 360)
            say(f"Weights **{size(crossed.trace.weights)}**, output **{size(crossed.trace.output)}**")
    of_output = f"in the output **{others.output_change:.2f}**"
    say(f"Largest change of any number: in the queries **{others.query_change:g}**, {of_output}.")


@lesson.experiment(
    "date",
    "A date, by hand",
    "A trained model reads a date and writes it as YYYY-MM-DD, character by character. The row before a character "
    "decides it. Nobody told this head where to look.",
)
def a_date() -> Iterator[None]:
    layer, opening = ALIGNING_HEAD
    date = text_line("Date", state.DATE, DATE, max_chars=400)
    say("The model was trained only on dates. It answers any other text with a date as well.", small=True)
    request = TextRequest(ModelChoice(DATES_MODEL), date, target=GeneratedTarget())
    capture = passes.captured(request)
    head = number_picker("Head", state.HEAD, capture.heads("cross"), opening)
    queries, keys = capture.tokens("cross")
    weights = attribute(call(capture.trace, layer=layer, head=head, kind="cross"), "weights")
    looks = self_and_cross.looks(weights, queries, keys)
    place = place_picker(looks)
    shown.now().of = HeadRequest(request, "cross", layer, head)
    result(written(weights).part("[:-1]"))
    tokens = (expression(capture.tokens, "cross").part(f"[{side}]") for side in (0, 1))
    result_of(self_and_cross.looks, weights, *tokens)
    look = looks[place]
    yield
    rows = [f"{query} → {other.writes}" for query, other in zip(queries, looks, strict=False)]
    axes, width = (Axis("query", rows, place), Axis("key", keys, look.key)), presenting.width(WIDTH, 0.9)
    chart = heatmap(weights[: len(looks)], *axes, name="weight", scale="share", limit=1.0, width=width)
    show_chart(chart, "alignment", "The weights: rows are what the model writes, columns are what it reads.")
    writes = quoted(look.writes)
    sentences = f"The model writes {quoted(''.join(queries[1:]))}. The row of {quoted(queries[place])} writes {writes}"
    sentences += f" and looks most at {quoted(keys[look.key])}: **{look.weight:.1%}**."
    if look.origin is not None:
        origin = quoted("".join(keys[slice(*look.origin)]))
        sentences += f" This {writes} comes from {origin}, which gets **{look.share:.1%}**."
    if (mean := self_and_cross.mean_share(looks)) is not None:
        sentences += f" On average, a character's origin gets **{mean:.1%}**."
    say(sentences)


def place_picker(looks: tuple[Look, ...]) -> int:
    """Return the position of the chosen character among those that are written; it opens with the last digit of the year."""
    writes = tuple(look.writes for look in looks)
    places = {str(place): name for place, name in enumerate(all_placed(writes))}
    formerly = {f"{place}: {visible(letter)}": str(place) for place, letter in enumerate(writes)}
    opening = str(min(3, len(writes) - 1))
    return int(menu("Character it writes", state.DIGIT, places, opening=opening, formerly=formerly))


@lesson.experiment(
    "model",
    IN_A_MODEL,
    "An encoder that reads two texts together needs no second block: it crosses in the off-diagonal parts of its weights.",
)
def in_a_model() -> Iterator[None]:
    first = text_line("First text", state.FIRST_TEXT, FIRST, max_chars=400)
    second = text_line("Second text", state.SECOND_TEXT, SECOND, max_chars=400)
    capture = passes.captured(TextRequest(ModelChoice(ENCODER), first, second))
    sides = call(pair_sides, capture)
    shape, names = (capture.layers(), capture.heads()), (state.LAYER, state.HEAD)
    layer, head = head_picker(state.HEAD_BOX, names, shape, OPENING_HEAD)
    weights = result(attribute(call(capture.trace, layer=layer, head=head), "weights"))
    shares = result(call(pair_shares, weights, sides))
    tokens, _ = capture.tokens()
    starts = [place for place in range(1, len(sides)) if sides[place] != sides[place - 1]]
    yield
    say(f"**Head {layer}.{head} of {ENCODER}**")
    axes = Axis("query", tokens), Axis("key", tokens)
    chart = heatmap(weights, *axes, name="weight", scale="share", height=420, width=520)
    show_chart(with_borders(chart, columns=starts, rows=starts), "pair", "The head's weights.")
    yield
    first_share, second_share = ([share.own, share.other, share.special] for share in shares)
    groups, names = {"first": first_share, "second": second_share}, ["own text", "other text", "special tokens"]
    chart = bars(names, groups, y="share of weight", limits=(0, 1), height=210)
    show_chart(chart, "shares", "Where the weight of each text goes.")
    yield
    crosses = crossing_shares(capture, sides)  # [layers, heads]
    say("**Share that crosses, all heads**")
    chart = metric_grid(crosses, "share that crosses", signed=False, chosen=(layer, head), height=230)
    show_chart(chart, "crossing", "The share of weight that crosses: rows are layers, columns are heads.")


lesson.show()
