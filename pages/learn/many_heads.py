"""Many heads: a layer splits its width among several heads and joins them again; its output is a sum over heads."""

from collections.abc import Iterator
from typing import Any

from core.attention.trace import Array
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
from ui.views.sources.heads import ChosenHead, opening_head
from ui.views.sources.reading import again
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


def line_height(heads: int) -> int:
    """Return the height of a line of small pictures, in pixels."""
    return 205 if heads <= 4 else 118


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
    weights = [small(trace.weights, trace.mask) for trace in many.traces]
    look: dict[str, Any] = {"across": ACROSS[many.heads], "line_height": line_height(many.heads)}
    chart = side_by_side(weights, names(many.heads), words, words, **look)
    show_chart(chart, "weights of heads", "The weights of every head.", tools=False)
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
    yield
    of_words, of_heads = f"{queries} × {width}", f"{many.heads} × {queries} × {many.d_head}"
    sizes = {
        "words": of_words,
        "Q, K, V": of_heads,
        "weights": f"{many.heads} × {queries} × {queries}",
        "outputs": of_heads,
        "side by side": of_words,
        "times W_O": of_words,
        "parameters": f"{many.parameters:,}",
    }
    table(["array", "size"], sizes.items())


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
    parts = [small(contribution) for contribution in (*many.contributions, many.total)]
    titles, across = [*names(many.heads), "sum"], min(many.heads + 1, 5) if many.heads <= 4 else 7
    look: dict[str, Any] = {"what": "adds", "scale": "signed", "marked": word, "line_height": line_height(many.heads)}
    chart = side_by_side(parts, titles, words, columns, across=across, **look)
    show_chart(chart, "contributions", "What every head adds, and the sum.", tools=False)
    show_lengths(length, along, word, words, many.difference)


def show_lengths(length: Array, along: Array, word: int, words: tuple[str, ...], difference: float) -> None:
    """Show bars of what each head adds at one word, and how exactly the heads add up; length and along [heads, words]."""
    groups = {"length of its contribution": length[:, word], "length along the sum": along[:, word]}
    heads = [str(head) for head in range(len(length))]
    chart = bars(heads, groups, x="head", y="length", printed=len(length) <= 4, height=200)
    show_chart(chart, "lengths", "How much each head adds at the chosen word.")
    most = largest(length[:, word])
    told = f"Largest difference between the sum of the heads and side by side × W_O: **{small_number(difference)}**."
    if most is not None:
        adds = f"head **{most[0]}** adds most, length {length[most[0], word]:.2f}"
        told = f"At {quoted(words[word])}, {adds}. {told}"
    say(told)


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
    two = "What it gets from two heads: one looks left, one looks right"
    for name, title, brought, borders, heads in (
        ("one head", "What “bites” gets from one head", fetched.one_head, (), ()),
        ("two heads", two, fetched.two_heads, (3,), ("head 0", "head 1")),
    ):
        say(title)
        axes = Axis("sentence", PAIR), Axis("word", PAIR_WORDS * (brought.shape[1] // 3))
        chart = heatmap(brought, *axes, name="share of the word", scale="share", limit=1.0, height=200)
        show_chart(with_borders(chart, columns=borders, names=heads), name, f"{title}.", title=title)
    of_one, of_two = fetched.apart(fetched.one_head), fetched.apart(fetched.two_heads)
    say(f"Largest difference between the two sentences: one head **{of_one:.1f}**, two heads **{of_two:.1f}**.")


@lesson.free_experiment(
    "model",
    IN_A_MODEL,
    "The heads of a layer look at different words. The length of a contribution is how much a head adds; along the sum "
    "it can be negative.",
)
def in_a_model(experiment: Experiment) -> None:
    if (passed := choose_text()) is None:
        return
    request, place = passed
    head = ChosenHead(request, again(request).kinds[0], 0, 0)
    kind, (tokens, _) = head.kind, head.tokens
    with place:
        opening = opening_head(request.model.name)[0]
        look = {"label_visibility": "collapsed", "format_func": "Layer {}".format, "placeholder": f"Layer {opening}"}
        layer = number_picker("Layer", state.LAYER, head.grid[0], opening, **look)
    task = results.layer_heads.task(request, kind, layer)
    if (layer_heads := run(task, "Adding up the heads", head.grid[1], unit="head")) is None:
        return
    weights, contributions = layer_heads
    result(contributions)
    picture, knobs = picture_and_knobs(experiment)
    with knobs:
        word = word_picker(tokens, strongest_word(contributions.lengths))
        show_lengths(contributions.lengths, contributions.along, word, tokens, contributions.difference)
    with picture:
        titles, across = [f"{layer}.{head}" for head in range(len(weights))], ACROSS.get(len(weights), 6)
        chart = side_by_side(weights, titles, tokens, tokens, across=across, marked=word, line_height=216)
        show_chart(chart, "weights of heads", "The weights of every head of the layer.", tools=False)


lesson.show()
