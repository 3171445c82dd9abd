"""In blocks: attention over a few keys at a time gives the same output."""

from collections.abc import Iterator

import numpy as np

from core import AttentionTrace, attend
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.labels import thinned
from core.figures.plots.bars import running
from core.lessons.blocks import differences, in_blocks
from core.units import small_number
from ui import state
from ui.calls import call, result
from ui.controls.fields import token_picker, whole_number
from ui.controls.pinned import Tokens
from ui.markdown import quoted
from ui.shown import columns, say
from ui.views.charts import numbers, show_chart, table
from ui.views.lesson.frame import Experiment, Lesson, lay_out, sentence_knob
from ui.views.sources.heads import RealHead

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
def in_a_model(experiment: Experiment, real: RealHead, trace: AttentionTrace) -> None:
    lay_out(experiment, show_blocks(trace, real.tokens, opening=len(real.tokens[0]) - 1))


def show_blocks(trace: AttentionTrace, tokens: Tokens, *, opening: int) -> Iterator[None]:
    query_tokens, key_tokens = tokens
    left, right = columns(2, wrap=False, gap="xxsmall")
    with left:
        block_size = whole_number("Keys in a block", state.BLOCK_SIZE, 3, 1, 512)
    with right:
        query = token_picker("Query", state.ROW, query_tokens, opening)
    row = call(trace.rows, range(query, query + 1))
    blocks = result(call(in_blocks, row, block_size))
    shown = thinned(len(blocks.ends), len(blocks.ends) - 1, MAX_STEPS)
    found = np.stack([blocks.maximum, blocks.correction, blocks.total])[:, :, 0]
    rows = [[f"{blocks.ends[step]}", *numbers(found[:, step])] for step in shown]
    table(["keys so far", "largest m", "e^(old m − m)", "sum"], rows)
    errors = ", ".join(f"{dtype} **{small_number(error)}**" for dtype, error in differences(row, block_size).items())
    say(f"Query {query}, {quoted(query_tokens[query])}. Largest difference from the direct output: {errors}.")
    yield
    chart = running(row.masked[0], key_tokens, blocks.ends.tolist(), blocks.maximum[:, 0])
    show_chart(chart, "running", "The scores of one query, block by block, with the largest so far.")
    steps = [f"{end} keys" for end in blocks.ends] + ["direct"]
    axes, height = (Axis("output after", steps), Axis("dimension")), min(70 + 28 * len(steps), 420)
    chart = heatmap(np.concatenate([blocks.output[:, 0], row.output]), *axes, name="output", height=height)
    show_chart(chart, "steps", "The output after each block. The last row is computed directly.", tools=False)


lesson.show()
