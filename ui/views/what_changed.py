"""What changed in a copy of a model: all heads, one of them in a passage, and what single heads of the base give back."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import Capture, InputError, what_changed
from core.capturing.costs import kept_bytes
from core.corpus.changes import Comparing, swapped_back
from core.figures.plots.bars import bars
from core.heads.comparing import align
from core.heads.metrics import METRICS, Metric
from core.models.rounded import Rounding
from core.units import counted, small_number
from ui import presenting, settings, shown, state
from ui.allowed import model_help, offered
from ui.cache import MEMORY, OnProgress, Store, cached
from ui.calls import call, result_of
from ui.components import pin
from ui.controls.fields import head_picker, menu, suggested, whole_number
from ui.markdown import errors_shown, plain
from ui.progress import fill, run
from ui.requests import ModelChoice, TextRequest
from ui.views.charts import show_chart
from ui.views.grid_of_heads import choose_clicked, show_grid_of_heads, show_list_of_heads, walk_through_heads
from ui.views.numbers import of_heads
from ui.views.sources import models
from ui.views.sources.heads import ChosenHead, RealHead
from ui.views.sources.reading import run_pass
from ui.views.sources.text_fields import choose_model, read_model, typed_passages
from ui.views.what_if.comparing import TwoHeads, show_pictures

OTHER = "model"  # the word for a copy that has a name of its own
ROUNDED: dict[str, tuple[Rounding, str]] = {"q4": ("Q4_0", "4 bits"), "q8": ("Q8_0", "8 bits")}
PICTURE = "changed heads"
SWAPPED = 5  # heads with the largest changes
LISTED = 5  # metrics of the chosen head
PASSAGE_TOKENS = 256
MOST_CHARACTERS = 100_000  # of all texts: minutes for a small model. The command reads any number
DIVERGENCE = (
    "The Jensen-Shannon divergence of each row of weights and the same row in the copy, on average over all queries, "
)
DIVERGENCE += "in nats: 0 is the same, ln 2 = 0.693 no key in common."
NOISE = "Half the difference of this mean over two halves of the passages, every other passage in each."


# --- results


@cached(MEMORY)
def comparing(base: ModelChoice, copy: ModelChoice, texts: tuple[str, ...]) -> Comparing:
    """The comparison of two models over these texts, as far as it has come. Raises InputError as `what_changed` does."""
    if (characters := sum(map(len, texts))) > MOST_CHARACTERS:
        why = f"The texts have {characters:,} characters; this page reads at most {MOST_CHARACTERS:,}."
        raise InputError(f"{why} Shorten them, or use the command “python -m core.corpus changes”.", field="text")
    models.check_characters(*texts, "")
    most = models.longest_text(PASSAGE_TOKENS) or PASSAGE_TOKENS
    return Comparing(models.load(base), models.load(copy), texts, max_tokens=most)


@cached(Store(8))
def losses(
    base: ModelChoice,
    copy: ModelChoice,
    passages: tuple[str, ...],
    heads: tuple[tuple[int, int], ...],
    *,
    on_progress: OnProgress | None = None,
) -> pd.DataFrame:
    """As `swapped_back` measures them."""
    return call(swapped_back, models.load(base), models.load(copy), passages, heads, on_progress=on_progress)


# --- the page


@dataclass(frozen=True, eq=False)
class Copied:
    """A base and its copy, by their choices, and the passages that both read."""

    base: ModelChoice
    copy: ModelChoice
    passages: Sequence[str]


def show_changes() -> None:
    answer, place, problem = st.container(gap=None), st.empty(), st.container(gap="xxsmall")
    with st.container(horizontal=True, vertical_alignment="center"):
        with st.container(width=250):
            base = ModelChoice(choose_model(problem))
        copy = _choose_copy(base)
        head_place = st.container(width=125)
        texts = _choose_texts()
    with errors_shown(problem):
        reading = place, problem, problem, models.QUERIES_AND_KEYS, models.TEXTS
        if (network := read_model(base, *reading)) is None or (other := read_model(copy, *reading)) is None:
            return
        compared = comparing(base, copy, texts)
        MEMORY.check(2 * kept_bytes(network, PASSAGE_TOKENS))
        every, one = st.columns([5, 7], gap="medium")
        with every:
            chosen = _show_all(compared, (base, copy, texts), head_place, answer)
        if chosen is None:
            return
        result_of(what_changed, network, other, list(texts))
        copied = Copied(base, copy, [passage.text for passage in compared.passages])
        table = compared.changes.table()
        with answer:
            _say_finding(table, copied, compared)
        with one:
            _show_one(table, chosen)
            _show_listed(table)
        with presenting.aside():
            _show_in_passage(chosen, copied)
            if compared.changes.loss is not None and compared.changes.aligned < compared.changes.passages:
                _show_swapped(table, copied, compared.changes.loss)


def _choose_copy(base: ModelChoice) -> ModelChoice:
    """Show the menu of copies, and the field for the name of another model."""
    dtypes = settings.current().dtypes[1:]
    choices = {word: f"against itself rounded to {bits}" for word, (_, bits) in ROUNDED.items()}
    choices |= {dtype: f"against itself in {dtype}" for dtype in dtypes} | {OTHER: "against another copy"}
    chosen = menu("Copy", state.COPY, choices, width=290, label_visibility="collapsed")
    if chosen == OTHER:
        look = {"width": 250, "help": model_help(), "label_visibility": "collapsed"}
        return ModelChoice(suggested("Name of the copy", state.COPY_NAME, offered(), base.name, **look))
    return replace(base, dtype=chosen) if chosen in dtypes else replace(base, rounded=ROUNDED[chosen][0])


def _choose_texts() -> tuple[str, ...]:
    with st.popover("Passages", icon=":material/notes:"):
        texts = typed_passages(height=400)
        st.button("Apply", key=state.APPLY_TEXTS)
        st.caption("For a whole corpus: `python -m core.corpus changes`.")
    return texts


def _show_all(
    compared: Comparing, job: tuple, head_place: DeltaGenerator, answer: DeltaGenerator
) -> tuple[int, int] | None:
    """Compare, and draw all heads as they come. Return the chosen one; None while nothing is compared."""
    last_layer, last_head = compared.changes.heads.max(axis=0).tolist()
    shape, chosen = (last_layer + 1, last_head + 1), None
    pin.listen(lambda cell: choose_clicked(cell, shape) or pin.pin(cell))

    def draw(last: bool) -> None:
        nonlocal chosen
        if not compared.changes.passages:
            return
        values = _values(compared.changes.table(), "divergence", shape)
        first = divmod(int(np.nanargmax(values)), shape[1])
        if last:
            with head_place:
                chosen = head_picker(state.HEAD_BOX, (state.LAYER, state.HEAD), shape, first)
        part = "" if compared.done == compared.total else f", {compared.done} of {compared.total} passages"
        name = PICTURE if last else f"{PICTURE} {compared.done}"
        title = f"What changed in every head{part}"
        show_grid_of_heads(values, "Change (nats)", chosen or first, name=name, title=title)

    with answer:
        waits = st.empty()
        waits.markdown("### Comparing every head", anchors=False)
    fill(compared, job, "Comparing both models", draw, unit="passage", done="compared")
    waits.empty()
    if chosen is not None:
        walk_through_heads(chosen, shape, PICTURE)
        st.caption("How far each head’s attention moved. A click opens it.", help=DIVERGENCE)
    elif compared.done == compared.total:
        compared.changes.table()  # says why nothing is compared
    return chosen


def _values(table: pd.DataFrame, name: str, shape: tuple[int, int]) -> np.ndarray:
    """A column as a grid [layers, heads]; NaN where a layer has fewer heads."""
    values = np.full(shape, np.nan)
    values[table["layer"], table["head"]] = table[name]
    return values


def _say_finding(table: pd.DataFrame, copied: Copied, compared: Comparing) -> None:
    row = table.nlargest(1, "divergence").to_dict("records")[0]
    head, said, changes = "Head {layer}.{head}".format(**row), [], compared.changes
    if row["divergence"] == 0:
        presenting.finding("No head changed: **0 nats** in every one.")
    else:
        words = f"its attention moved by **{_nats(row['divergence'])} nats** of at most 0.693"
        presenting.finding(f"{head} changed most: {words}.")
        for metric in _habits(row)[:1]:
            before, after = row[metric.name], row[metric.name] + row[f"{metric.name}_change"]
            said.append(f"Its attention to {metric.keys} goes from {before:.1%} to {after:.1%}.")
    if changes.loss is not None:
        before, after = changes.loss
        said.append(f"The loss goes from {before:.4f} to {after:.4f} nats a token.")
    left_out = f" {counted(changes.unlike, 'passage')} without a common token left out." if changes.unlike else ""
    if changes.aligned:
        where = f"{counted(changes.aligned, 'passage')} with other tokens compared where they agree"
        left_out = f" {where} (not at {counted(changes.apart, 'token')}).{left_out}"
    read = f"{plain(str(copied.copy))}: {counted(changes.passages, 'passage')}"
    said.append(f"{read}, {changes.tokens:,} tokens.{left_out}")
    presenting.tell(" ".join(said))


def _nats(number: float) -> str:
    return f"{number:.3f}" if number >= 0.001 else small_number(number)


def _habits(row: Mapping[Any, float]) -> list[Metric]:
    """The habits of a head that are measured, first those that changed most."""
    measured = [metric for metric in METRICS if metric.keys and not math.isnan(row[f"{metric.name}_change"])]
    return sorted(measured, key=lambda metric: -abs(row[f"{metric.name}_change"]))


def _show_listed(table: pd.DataFrame) -> None:
    shown.now().lists["What changed in every head"] = of_heads(table)
    names = {"divergence": "change", "noise": "noise", "output_change": "output"}
    largest = table.sort_values("divergence", ascending=False)
    listed = pd.DataFrame({"layer": largest["layer"], "head": largest["head"]})
    for column, name in names.items():
        listed[name] = largest[column]
    show_list_of_heads(listed, names.values(), form="%.2g", height=215)
    st.caption(f"Change and noise in nats; output: how far it moved, as a share of its length. Noise: {NOISE}")


def _show_swapped(table: pd.DataFrame, copied: Copied, loss: tuple[float, float]) -> None:
    """Show what the copy loses with single heads of the base."""
    first = table.nlargest(SWAPPED, "divergence")[["layer", "head"]]
    heads = tuple((int(layer), int(head)) for layer, head in first.to_numpy())
    passes = (1 + len(heads)) * len(copied.passages)
    task = losses.task(copied.base, copied.copy, tuple(copied.passages), heads)
    if (swapped := run(task, "Swapping single heads back", passes, unit="pass")) is None:
        return
    names = [f"{layer}.{head}" for layer, head in heads]
    title = "Loss of the copy with one head swapped back"
    label = "Change of the loss (nats a token)"
    chart = bars(names, {label: swapped["change"].to_numpy()}, y=label, x="head of the base", height=260)
    st.markdown("**One head swapped back**")
    show_chart(chart, "swapped back", f"{title}.", title=title)
    whole = f"All heads and everything else together: {loss[0] - loss[1]:+.4f}.".replace("-", "−")
    st.caption(f"One head of the copy gives what it gives in the base; below 0 the copy then predicts better. {whole}")


# --- one head


def _show_one(table: pd.DataFrame, chosen: tuple[int, int]) -> None:
    layer, head = chosen
    rows = table.to_dict("records")
    if (row := next((row for row in rows if (row["layer"], row["head"]) == chosen), None)) is None:
        st.info(f"Layer {layer} has no head {head}.")
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.subheader(f"Layer {layer}, head {head}", anchor=False, width="content")
        noise = "" if math.isnan(row["noise"]) else f" (noise {_nats(row['noise'])})"
        moved = f"Moved {_nats(row['divergence'])} nats{noise}, output {row['output_change']:.1%}"
        st.caption(moved, width="stretch", help=f"{DIVERGENCE} Noise: {NOISE}")
    habits = _habits(row)[:LISTED]
    both = {
        "Base": [row[metric.name] for metric in habits],
        "Copy": [row[metric.name] + row[f"{metric.name}_change"] for metric in habits],
    }
    title = f"What head {layer}.{head} attends to: what changed most"
    names = [metric.label.removesuffix("s").removesuffix(" token") for metric in habits]
    look = {"y": "Share of attention", "x": "token", "limits": (0, 1), "height": presenting.height(250, 0.5)}
    chart = bars(names, both, **look)
    show_chart(chart, "changed metrics", f"{title}.", title=title)


def _show_in_passage(chosen: tuple[int, int], copied: Copied) -> None:
    """Show the weights of the head in one passage, in both models, and their difference."""
    passage = 0
    if len(copied.passages) > 1:
        passage = whole_number("Passage", state.PASSAGE, 1, 1, len(copied.passages), width=140) - 1
    text, problem = copied.passages[passage], st.container()
    with problem:
        both_heads = [_head_in(choice, text, chosen) for choice in (copied.base, copied.copy)]
    if (one := both_heads[0]) is None or (other := both_heads[1]) is None:
        return
    try:
        queries, keys = map(align, one.tokens, other.tokens)
    except InputError as error:
        st.info(f"{error}")
        return
    two = TwoHeads(one, other, queries, keys, ("Base", "Copy"), "Copy − base")
    shown.now().of, shown.now().beside["Copy"] = one.of, other.of
    two.record()
    with problem:
        whole = two.overview()
    if whole is not None:
        show_pictures(two, whole, is_one_text=False)


def _head_in(choice: ModelChoice, text: str, chosen: tuple[int, int]) -> RealHead | None:
    """The head in its pass over a passage; None where that was stopped."""
    request = TextRequest(choice, text)
    passed: Capture | None = run_pass(request, models.load(choice))
    return None if passed is None else ChosenHead(request, passed.kinds[0], *chosen)
