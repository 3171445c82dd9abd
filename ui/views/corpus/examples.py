"""Examples of a head from a corpus as shaded text: where a metric is largest, or one from each part of a random sample."""

from __future__ import annotations

from typing import cast

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import InputError
from core.corpus.opened import Example, Run, spread_over_quantiles
from core.heads.metrics import Metric
from core.models.devices import devices
from core.models.modules import Kind
from ui import presenting, state
from ui.allowed import places_of
from ui.calls import call, result_of
from ui.components.token_view import shade_legend, shaded_text
from ui.controls.fields import menu, page_of, part_of
from ui.markdown import plain, show_error
from ui.requests import HeadRequest, ModelChoice, TextRequest
from ui.views.corpus.head import with_unit
from ui.views.head_links import link_to_heads

KEPT = {"strongest": "Strongest", "spread": "From a random sample"}
BATCH = 10
TOKENS = 256  # the maximum shown of a passage: those around the query
TOLD = 1, 40  # examples while presenting, and tokens of each


def show_examples(run: Run, layer: int, head: int, metric: Metric) -> None:
    has_strongest = metric.name in run.about.examples_of
    offered = {word: name for word, name in KEPT.items() if word != "strongest" or has_strongest}
    st.subheader(f"Examples by {metric.label.lower()}", anchor=False)
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        kept = menu("Examples", state.KEPT, offered, look="buttons", label_visibility="collapsed")
        low, high = _quantiles() if kept == "spread" else (0.0, 1.0)
        pages = st.container(width="content")
    try:
        if kept == "strongest":
            count = run.count_strongest(layer, head, metric.name)
            first = _first(count, pages)
            examples = run.strongest(layer, head, metric.name, first, first + BATCH)
            result_of(run.strongest, layer, head, metric.name, first, first + BATCH)
        else:
            sample = call(run.sample, layer, head)
            places = call(spread_over_quantiles, call(sample.ordered, metric.name, low, high))
            count = len(places)
            first = _first(count, pages)
            examples = sample.examples(places[first : first + BATCH], metric.name)
            result_of(sample.examples, places, metric.name)
    except InputError as error:
        show_error(error)
        return
    if not count:
        words = "There are no such queries. Widen the quantiles, or choose another metric."
        st.info(words, icon=":material/filter_alt:")
        return
    ranks = f"{first + 1} to {first + len(examples)} of"
    words = f"{ranks} the {count} queries of the corpus with the largest values of this head."
    if kept == "spread":
        words = (
            f"{ranks} {count}, most first: one from each of as many equal parts of {run.about.sample} queries drawn at "
            "random, the same for all heads."
        )
    st.caption(words if has_strongest else f"{words} Of this metric the run kept no strongest queries.")
    _show(run, layer, head, metric, examples, first)


def _quantiles() -> tuple[float, float]:
    words = "0 to 25: the quarter of the queries that have least of it; 50 is the median."
    low, high = part_of("Quantiles of the sample, in %", state.QUANTILES, 0, 100, width=360, help=words)
    return low / 100, high / 100


def _first(count: int, pages: DeltaGenerator) -> int:
    """The rank of the first example that is shown."""
    batches = max(-(-count // BATCH), 1)
    if batches == 1 or presenting.is_on():
        return 0
    with pages:
        return BATCH * (page_of(state.BATCH, batches, "Which ten examples") - 1)


def _show(run: Run, layer: int, head: int, metric: Metric, examples: list[Example], first: int) -> None:
    limit = max(float(np.max(example.weights, initial=0)) for example in examples)
    about, opens, presents = run.about, _opens(run), presenting.is_on()
    model = ModelChoice(about.model, about.dtype, about.device if about.device in devices() else "cpu")
    with presenting.told():
        shade_legend(limit, key=state.SHADES)
    for number, example in enumerate(examples[: TOLD[0] if presents else None]):
        with presenting.told():
            score = with_unit(example.score, metric)
            with st.container(horizontal=True, vertical_alignment="center"):
                st.markdown(f"**{first + number + 1}. {metric.label} {score}**", width="content")
                st.caption(f"{plain(example.file)}, row {example.row}", width="content")
                if opens and not presents:
                    of = HeadRequest(TextRequest(model, example.text), cast(Kind, about.kind), layer, head)
                    cell = (example.query, int(np.argmax(example.weights)))
                    link_to_heads(of, cell, "Open live", ":material/open_in_new:")
            # The part of a long passage that is around the query.
            most = TOLD[1] if presents else TOKENS
            start = max(0, min(example.query - most // 2, len(example.tokens) - most))
            tokens, weights = example.tokens[start : start + most], example.weights[start : start + most]
            shaded_text(
                tokens, weights, example.query - start, start=start, limit=limit, key=state.one_of(state.SHADED, number)
            )
    if not opens:
        st.caption(f"This host does not load {plain(about.model)}: examples cannot be opened live.")


def _opens(run: Run) -> bool:
    """Return whether this host loads the model of a run."""
    try:
        places_of(run.about.model)
    except InputError:
        return False
    return True
