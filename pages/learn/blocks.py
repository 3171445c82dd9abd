"""In blocks: attention over a few keys at a time gives the same output."""

from collections.abc import Iterator

import numpy as np

from core import AttentionTrace, attend
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.labels import thinned
from core.figures.plots.bars import running
from core.lessons.blocks import Blocks, differences, in_blocks
from core.units import small_number
from ui import state
from ui.calls import call, result
from ui.controls.fields import token_picker, whole_number
from ui.controls.pinned import Tokens
from ui.markdown import quoted
from ui.shown import columns, say
from ui.views.charts import numbers, show_chart, table
from ui.views.lesson.frame import Experiment, Lesson, TracedHead, lay_out, sentence_knob

lesson = Lesson("In blocks", "Attention can read the keys in blocks, a few at a time. The output is the same.")

MAX_STEPS = 10  # in the table
SENTENCE = "Blocks of keys give the very same result as all keys."


@lesson.experiment(
    "sentence",
    "A sentence",
    "A softmax seems to need the whole row of scores. It does not: after each block of keys, keep the largest score m, the "
    "sum of e^(score − m) and the output so far. When m grows, multiply the old sum by e^(old m − new m). Every row of the "
    "lower picture is exact attention over the keys so far. FlashAttention works this way: it never stores all scores.",
)
def a_sentence() -> Iterator[None]:
    words = sentence_knob(SENTENCE, d_head=6)
    trace = call(attend, words.query, words.key, words.value)
    yield from show_blocks(trace, (words.query_tokens, words.key_tokens), opening=6)


@lesson.in_a_model("A head of the model, computed in blocks. Masked keys add nothing.")
def in_a_model(experiment: Experiment, scene: TracedHead) -> None:
    lay_out(experiment, show_blocks(scene.trace, scene.tokens, opening=len(scene.tokens[0]) - 1))


def show_blocks(trace: AttentionTrace, tokens: Tokens, *, opening: int) -> Iterator[None]:
    query_tokens, key_tokens = tokens
    left, right = columns(2, wrap=False, gap="xxsmall")
    with left:
        block_size = whole_number("Keys in a block", state.BLOCK_SIZE, 3, 1, 512)
    with right:
        query = token_picker("Query", state.ROW, query_tokens, opening)
    row = call(trace.rows, range(query, query + 1))
    blocks = result(call(in_blocks, row, block_size))
    show_steps(blocks)
    errors = ", ".join(f"{dtype} **{small_number(error)}**" for dtype, error in differences(row, block_size).items())
    say(f"Query {query}, {quoted(query_tokens[query])}. Largest difference from the direct output: {errors}.")
    yield
    show_chart(
        running(row.masked[0], key_tokens, blocks.ends.tolist(), blocks.maximum[:, 0]),
        "running",
        "The scores of one query, block by block, with the largest so far.",
    )
    show_outputs(blocks, row)


def show_steps(blocks: Blocks) -> None:
    """Show a table of the numbers after each block; of many blocks, at most MAX_STEPS."""
    shown = thinned(len(blocks.ends), len(blocks.ends) - 1, MAX_STEPS)
    table(
        ["keys so far", "largest m", "e^(old m − m)", "sum"],
        [
            [
                f"{blocks.ends[step]}",
                *numbers([blocks.maximum[step, 0], blocks.correction[step, 0]]),
                *numbers(blocks.total[step]),
            ]
            for step in shown
        ],
    )


def show_outputs(blocks: Blocks, row: AttentionTrace) -> None:
    steps = [f"{end} keys" for end in blocks.ends] + ["direct"]
    chart = heatmap(
        np.concatenate([blocks.output[:, 0], row.output]),
        Axis("output after", steps),
        Axis("dimension"),
        name="output",
        height=min(70 + 28 * len(steps), 420),
    )
    show_chart(chart, "steps", "The output after each block. The last row is computed directly.", tools=False)


lesson.show()
