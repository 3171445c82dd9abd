"""Many heads: a layer splits its width among several heads and joins them again; its output is a sum over heads."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from core.figures.heatmaps.frames import with_borders
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.heatmaps.side_by_side import side_by_side, small
from core.figures.labels import all_placed, visible
from core.figures.plots.bars import bars
from core.heads.metrics import largest
from core.heads.views import lengths
from core.lessons.many_heads import PAIR, PAIR_WORDS, ManyHeads, fetch, heads_of_a_sentence, strongest_word
from core.units import small_number
from ui import state
from ui.calls import attribute, call, result
from ui.controls.fields import menu, number_picker, numbered, slider, text_line
from ui.markdown import quoted
from ui.progress import run
from ui.shown import say
from ui.views.charts import show_chart, table
from ui.views.lesson import results
from ui.views.lesson.frame import IN_A_MODEL, Experiment, Lesson, picture_and_knobs, show_beside
from ui.views.sources.heads import opening_head
from ui.views.sources.text_fields import SENTENCE, choose_text

lesson = Lesson(
    "Many heads", "A layer attends several times at once, each time with a piece of its queries, keys and values."
)

HEAD_COUNTS = numbered((1, 2, 4, 8, 12))
STRONGEST = "strongest"  # stands for a word in the address
ACROSS = {1: 2, 2: 2, 4: 4, 8: 4, 9: 5, 12: 6}  # small pictures in a line, by the number of heads


def sentence_and_heads() -> tuple[tuple[str, ...], ManyHeads]:
    text = text_line("Sentence", state.TOY_TEXT, SENTENCE)
    count = menu("Heads", state.HEAD_COUNT, HEAD_COUNTS, opening=4, look="buttons")
    return call(heads_of_a_sentence, text, count)


def word_picker(words: tuple[str, ...], strongest: int) -> int:
    """Return the position of the chosen word; unless somebody chooses, that at which a head adds most."""
    places = {str(place): name for place, name in enumerate(all_placed(words))}
    formerly = {f"{place}: {visible(word)}": str(place) for place, word in enumerate(words)}
    choices = {STRONGEST: f"{places[str(strongest)]}, strongest"} | places
    chosen = menu("Word", state.WORD, choices, formerly=formerly)
    return strongest if chosen == STRONGEST else int(chosen)


def names(count: int) -> list[str]:
    """Return the names of the heads: short if there are many, because a phone is narrow."""
    return [f"head {head}" if count <= 4 else str(head) for head in range(count)]


@lesson.experiment(
    "split",
    "Split and join",
    "Queries, keys and values are split into h pieces. Each head attends with its own piece; the outputs are put side by "
    "side and multiplied by W_O. More heads are narrower heads: the number of parameters stays 4 · d_model².",
)
def split_and_join() -> Iterator[None]:
    words, many = sentence_and_heads()
    result(attribute(many, "joined"))
    queries, width = result(attribute(many, "output")).shape
    yield
    say("**Weights of each head**")
    chart = side_by_side(
        [small(trace.weights, trace.mask) for trace in many.traces],
        names(many.heads),
        words,
        words,
        across=ACROSS[many.heads],
        line_height=205 if many.heads <= 4 else 118,
    )
    show_chart(chart, "weights of heads", "The weights of every head.", tools=False)
    show_joined(words, many)
    yield
    of_heads = f"{many.heads} × {queries} × {many.d_head}"
    table(
        ["array", "size"],
        [
            ["words", f"{queries} × {width}"],
            ["Q, K, V", of_heads],
            ["weights", f"{many.heads} × {queries} × {queries}"],
            ["outputs", of_heads],
            ["side by side", f"{queries} × {width}"],
            ["times W_O", f"{queries} × {width}"],
            ["parameters", f"{many.parameters:,}"],
        ],
    )


def show_joined(words: tuple[str, ...], many: ManyHeads) -> None:
    """Show the heads' outputs side by side, and the output of the layer."""
    axes = Axis("query", words), Axis("column")
    joined, output = (
        heatmap(values, *axes, name="output", height=230, compact=True) for values in (many.joined, many.output)
    )
    borders = range(many.d_head, many.joined.shape[1], many.d_head)
    with_borders(joined, columns=borders, names=[str(head) for head in range(many.heads)])
    show_beside(
        ("Outputs side by side", joined, "joined", "The heads' outputs side by side."),
        ("Times W_O", with_borders(output), "output", "The output of the layer."),
        tools=False,
    )


@lesson.experiment(
    "sum",
    "A sum of heads",
    "W_O can be split by rows, some for each head. So the output is a sum: each head adds its own contribution.",
)
def sum_of_heads() -> Iterator[None]:
    words, many = sentence_and_heads()
    length, along = lengths(result(attribute(many, "contributions")))
    word = word_picker(words, strongest_word(length))
    columns = [str(column) for column in range(many.weights.d_model)]
    yield
    chart = side_by_side(
        [small(contribution) for contribution in (*many.contributions, many.total)],
        [*names(many.heads), "sum"],
        words,
        columns,
        across=min(many.heads + 1, 5) if many.heads <= 4 else 7,
        what="adds",
        scale="signed",
        marked=word,
        line_height=205 if many.heads <= 4 else 118,
    )
    show_chart(chart, "contributions", "What every head adds, and the sum.", tools=False)
    show_lengths(length, along, word, f"At {quoted(words[word])}", many.difference)


def show_lengths(
    length: NDArray[np.floating], along: NDArray[np.floating], word: int, where: str, difference: float
) -> None:
    """Show bars of what each head adds at one word, and how exactly the heads add up; length and along [heads, words]."""
    groups = {"length of its contribution": length[:, word], "length along the sum": along[:, word]}
    printed = len(length) <= 4
    show_chart(
        bars([str(head) for head in range(len(length))], groups, x="head", y="length", printed=printed, height=200),
        "lengths",
        "How much each head adds at the chosen word.",
    )
    most = largest(length[:, word])
    told = "" if most is None else f"{where}, head **{most[0]}** adds most, length {length[most[0], word]:.2f}. "
    say(
        f"{told}Largest difference between the sum of the heads and side by side × W_O: **{small_number(difference)}**."
    )


@lesson.experiment(
    "several",
    "Why several",
    "A row of weights adds up to 1. One head that needs two words gets a blend: at one half, both sentences look the "
    "same. Two heads get both words whole.",
)
def why_several() -> Iterator[None]:
    share = slider("One head: its weight on the left word", state.HEAD_SHARE, 0.5, 0.0, 1.0, 0.1)
    fetched = result(call(fetch, share))
    yield
    for title, brought, borders, heads in (
        ("What **bites** gets from one head", fetched.one_head, (), ()),
        (
            "What it gets from two heads: one looks left, one looks right",
            fetched.two_heads,
            (3,),
            ("head 0", "head 1"),
        ),
    ):
        say(title)
        columns = Axis("word", PAIR_WORDS * (brought.shape[1] // 3))
        chart = heatmap(
            brought, Axis("sentence", PAIR), columns, name="share of the word", scale="share", limit=1.0, height=200
        )
        show_chart(with_borders(chart, columns=borders, names=heads), title, title)
    say(
        f"Largest difference between the two sentences: one head **{fetched.apart(fetched.one_head):.1f}**, "
        f"two heads **{fetched.apart(fetched.two_heads):.1f}**."
    )


@lesson.free_experiment(
    "model",
    IN_A_MODEL,
    "The heads of a layer look at different words. The length of a contribution is how much a head adds; along the sum "
    "it can be negative.",
)
def in_a_model(experiment: Experiment) -> None:
    passed = choose_text()
    if passed is None:
        return
    request, capture, place = passed
    kind = capture.kinds[0]
    tokens, _ = capture.tokens(kind)
    with place:
        opening = opening_head(request.model.name)[0]
        look = {"label_visibility": "collapsed", "format_func": "Layer {}".format, "placeholder": f"Layer {opening}"}
        layer = number_picker("Layer", state.LAYER, capture.layers(kind), opening, **look)
    task = results.layer_heads.task(request, kind, layer)
    layer_heads = run(task, "Adding up the heads", capture.heads(kind), unit="head")
    if layer_heads is None:
        return
    weights, contributions = layer_heads
    result(contributions)
    picture, knobs = picture_and_knobs(experiment)
    with knobs:
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
        show_chart(chart, "weights of heads", "The weights of every head of the layer.", tools=False)


lesson.show()
