"""The atlas: every head of a pass in a grid, by a number or as small pictures, with a list that can be filtered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from core import Capture, InputError
from core.attention.masks import Predicate
from core.capturing.layers import layer_labels
from core.figures.atlas import metric_grid, small_pictures
from core.heads.metrics import METRICS, Metric, in_words
from core.heads.patterns import blocks, columns, diagonal, pairs, read_keys, read_pairs
from core.heads.probing import SCORES
from ui import links, state, stores
from ui.components.arrows import arrow_keys
from ui.controls.menu import menu
from ui.markdown import plain, show_error
from ui.progress import run
from ui.views.pictures import show_heatmap

PATTERN = "pattern"
ON = {"text": "This text", "random": "Random tokens, twice"}
DRAWN_AS = {"colours": "Colours", "pictures": "Small pictures"}
PATTERNS = {
    "diagonal": "Diagonal",
    "first": "First token",
    "stripes": "Stripes",
    "blocks": "Blocks",
    "pairs": "Drawn pairs",
}
ORDERS = {"highest": "Highest first", "lowest": "Lowest first"}
OPENS_BY = "sink"
HEIGHT = 470


@dataclass(frozen=True, eq=False)
class Ranking:
    """What the heads are ordered by.

    values  [layers, heads], NaN where not known
    notes   column name -> [layers, heads], shown beside the values in the list
    """

    label: str
    values: NDArray[np.floating]
    notes: dict[str, NDArray]
    signed: bool
    caption: str


def show_atlas(request: stores.KindRequest, capture: Capture, chosen: tuple[int, int], measured: pd.DataFrame) -> None:
    """The grid and the list of all heads; measured: their metrics on this text."""
    by, drawn = st.columns([4, 5], vertical_alignment="bottom")
    is_image = capture.model.reads_images  # which has no words, and so no metrics of words
    offered = {metric.name: metric for metric in METRICS if not is_image or np.isfinite(measured[metric.name]).any()}
    with by:
        labels = {name: metric.label for name, metric in offered.items()}
        name = menu("Heads by", state.METRIC, labels | {PATTERN: "Match with a pattern"}, opening=OPENS_BY)
        links.remember(state.METRIC, [name])  # also the one that it opens with, or an old link could not be told apart
    with drawn:
        shown_as = menu("Drawn as", state.ATLAS_BY, DRAWN_AS, look="buttons")
    # A container, whatever comes and goes in it: columns that moved would hold new widgets, and Streamlit now and then forgets
    # that those belong to the address.
    with st.container():
        ranking = (
            _by_pattern(request, capture) if name == PATTERN else _by_metric(request, capture, offered[name], measured)
        )
    if ranking is None:
        return
    left_out = _filter(ranking)
    if shown_as == "pictures":
        _show_pictures(request, capture, chosen, left_out)
    else:
        figure = metric_grid(
            ranking.values, ranking.label, signed=ranking.signed, chosen=chosen, left_out=left_out, height=HEIGHT
        )
        show_heatmap(figure, "atlas", f"All heads by {ranking.label}: a grid of layers by heads.")
    arrow_keys(
        state.picture("atlas"),
        f"Choose a head with the arrow keys. Chosen: layer {chosen[0]}, head {chosen[1]}.",
        chosen,
        ranking.values.shape,
        choose,
    )
    st.caption(ranking.caption)
    _show_list(request, capture, ranking, measured, left_out)


def measure(request: stores.KindRequest, capture: Capture) -> pd.DataFrame | None:
    """The metrics of every head on this text; None while they are not wanted."""
    with st.container():  # keeps its place when there is nothing to show in it
        if request in stores.metrics:
            return stores.measured(request)
        return run(
            lambda on_progress: stores.measured(request, on_progress),
            ("measure", request),
            "Measuring every head",
            capture.layers(request.kind),
        )


def _by_metric(request: stores.KindRequest, capture: Capture, metric: Metric, measured: pd.DataFrame) -> Ranking | None:
    """A metric on this text or on the probe. Induction and duplicates are a matter for the probe, unless one says so."""
    read = "image" if capture.model.reads_images else "text"
    probes = read == "text" and request.kind == "self"
    on = default = "random" if metric.name in SCORES and probes else "text"
    place, about = st.columns([5, 4], vertical_alignment="bottom")
    with place:
        if probes:
            on = menu("Measured on", state.MEASURED_ON, {"usual": f"As usual: {ON[default].lower()}"} | ON)
            on = default if on == "usual" else on
    with about if probes else place:
        _explain(metric)
    shape = (capture.layers(request.kind), capture.heads(request.kind))
    if on == "text":
        notes = {"spread": grid(measured, f"{metric.name}_spread", shape)}
        caption = f"{metric.words} Mean over the queries of this {read}; spread: their standard deviation."
        if read == "image":
            caption += " Its tokens stand in the order of its patches, row by row: so do “previous”, “next” and “near”."
        return Ranking(metric.label, grid(measured, metric.name, shape), notes, False, caption)
    probed = _probe(request)
    if probed is None:
        return None
    notes = {"±": grid(probed, f"{metric.name}_error", shape)}
    caption = (
        f"{metric.words} Measured on {stores.probe_length(request.text.model)} random tokens read twice, with seeds "
        f"{', '.join(map(str, stores.PROBE_SEEDS))}; ± is the standard error of the "
        f"mean over these seeds."
    )
    if metric.name in SCORES:
        notes["null"] = grid(probed, f"{metric.name}_null", shape)
        notes["clear"] = grid(probed, f"is_{metric.name}", shape)
        caption += (
            " Null: the same places after the second half is shuffled. Only a head that stands clear of its null is called "
            f"{'an induction' if metric.name == 'induction' else 'a duplicate-token'} head: "
            f"{np.count_nonzero(probed[f'is_{metric.name}'])} of {len(probed)} do."
        )
    return Ranking(metric.label, grid(probed, metric.name, shape), notes, False, caption)


def grid(table: pd.DataFrame, column: str, shape: tuple[int, int]) -> NDArray:
    return table[column].to_numpy().reshape(shape)


def _explain(metric: Metric) -> None:
    with st.popover("What is this?", icon=":material/info:"):
        st.markdown(f"**{metric.label}** {metric.words}")
        st.latex(metric.formula)
        unit = f" {metric.unit}" if metric.unit else ""
        st.markdown(f"From {metric.low} to {metric.high}{unit}. Source: {plain(metric.source)}.")


def _probe(request: stores.KindRequest) -> pd.DataFrame | None:
    name = request.text.model
    try:
        if name in stores.probes:
            return stores.probed(name)
        probed = run(
            lambda on_progress: stores.probed(name, on_progress),
            ("probe", name),
            "Reading random tokens",
            2 * len(stores.PROBE_SEEDS),
            unit="text",
        )
    except InputError as error:
        show_error(error)
        return None
    if probed is not None:
        st.rerun()  # what has been drawn above does not know yet which heads have a name
    return None


def known_probe(request: stores.KindRequest) -> pd.DataFrame | None:
    """What the probe found, if it has been run for this model."""
    name = request.text.model
    return stores.probed(name) if request.kind == "self" and name in stores.probes else None


def _by_pattern(request: stores.KindRequest, capture: Capture) -> Ranking | None:
    try:
        words, details, pattern = _pick_pattern()
        wanted = stores.MatchRequest(request, words, details)
        if wanted in stores.matches:
            values = stores.matched(wanted, pattern)
        else:
            values = run(
                lambda on_progress: stores.matched(wanted, pattern, on_progress),
                wanted,
                "Comparing every head",
                capture.layers(request.kind),
            )
    except InputError as error:
        show_error(error)
        return None
    if values is None:
        return None
    caption = (
        "Match: the share of each query's attention that lies in the pattern, corrected for chance. 1: all of it; 0: as much "
        "as even attention would put there."
    )
    return Ranking("Match", values, {}, True, caption)


def _pick_pattern() -> tuple[str, str, Predicate]:
    kind, detail = st.columns([5, 4], vertical_alignment="bottom")
    with kind:
        name = menu("Pattern", state.LOOK_FOR, PATTERNS)
    with detail:
        if name == "diagonal":
            back = st.number_input("Positions back", -64, 4096, 1, key=state.BACK, bind="query-params")
            return name, str(back), diagonal(back)
        if name == "first":
            return name, "", columns([0])
        if name == "stripes":
            text = st.text_input("Key positions", "0, 1", key=state.STRIPES, bind="query-params", max_chars=400)
            keys = read_keys(text)
            return name, str(keys), columns(keys)
        if name == "blocks":
            size = st.number_input("Tokens a block", 2, 4096, 4, key=state.BLOCK_LENGTH, bind="query-params")
            return name, str(size), blocks(size)
        text = st.text_input(
            "Pairs, query-key",
            "7-2",
            key=state.PAIRS,
            bind="query-params",
            max_chars=2000,
            help="While this is chosen, a click on the large picture adds its cell or takes it away.",
        )
    cells = read_pairs(text)
    return name, str(sorted(set(cells))), pairs(cells)


def _filter(ranking: Ranking) -> NDArray[np.bool_] | None:
    """[layers, heads] of True where a head does not pass; None where nothing is asked for."""
    least, first, last = st.columns(3)
    deepest = len(ranking.values) - 1
    with least:
        at_least = st.number_input(
            "At least", value=None, step=0.1, placeholder="any", key=state.AT_LEAST, bind="query-params"
        )
    with first:
        from_layer = st.number_input(
            "From layer", 0, 999, None, placeholder="0", key=state.FROM_LAYER, bind="query-params"
        )
    with last:
        to_layer = st.number_input(
            "To layer", 0, 999, None, placeholder=str(deepest), key=state.TO_LAYER, bind="query-params"
        )
    if at_least is None and from_layer is None and to_layer is None:
        return None
    layers = np.arange(len(ranking.values))[:, None]
    passes = (layers >= (from_layer or 0)) & (layers <= (deepest if to_layer is None else to_layer))
    passes = np.broadcast_to(passes, ranking.values.shape)
    if at_least is not None:
        passes = passes & (np.nan_to_num(ranking.values, nan=-np.inf) >= at_least)
    return ~passes


def _show_pictures(
    request: stores.KindRequest, capture: Capture, chosen: tuple[int, int], left_out: NDArray[np.bool_] | None
) -> None:
    small = (
        stores.small_pictures(request)
        if request in stores.thumbnail_grids
        else run(
            lambda on_progress: stores.small_pictures(request, on_progress),
            ("pictures", request),
            "Drawing every head",
            capture.layers(request.kind),
        )
    )
    if small is None:
        return
    height = max(HEIGHT, min(30 * len(small.values), 1000))
    figure = small_pictures(small.values, chosen=chosen, left_out=left_out, height=height)
    show_heatmap(figure, "atlas", "A small picture of the weights of every head, in a grid of layers by heads.")
    if not small.exact:
        st.caption(f"Each cell is the strongest of {small.row_block} × {small.column_block} weights.")


def _show_list(
    request: stores.KindRequest,
    capture: Capture,
    ranking: Ranking,
    measured: pd.DataFrame,
    left_out: NDArray[np.bool_] | None,
) -> None:
    """The heads that pass, strongest first. Choosing a row chooses the head."""
    heads = np.argwhere(np.ones(ranking.values.shape, bool) if left_out is None else ~left_out)
    values = ranking.values[tuple(heads.T)]
    order = menu("Order", state.ORDER, ORDERS, look="buttons", label_visibility="collapsed")
    sign = -1 if order == "highest" else 1
    heads = heads[np.argsort(sign * np.nan_to_num(values, nan=-sign * np.inf), kind="stable")]
    if not len(heads):
        st.info("No head passes. Lower the bound or widen the layers.", icon=":material/filter_alt:")
        return
    labels = layer_labels(capture, request.kind)
    at = tuple(heads.T)
    rows = measured.iloc[at[0] * ranking.values.shape[1] + at[1]]
    known = known_probe(request)
    probes = known.iloc[rows.index].to_dict("records") if known is not None else [None] * len(rows)
    listed = pd.DataFrame(
        {
            # Each in a column of its own: to a spreadsheet heads 1.1 and 1.10 would be the same number.
            "layer": at[0],
            "head": at[1],
            ranking.label: ranking.values[at],
            **{name: note[at] for name, note in ranking.notes.items()},
            "looks like": [in_words(row, probe) for row, probe in zip(rows.to_dict("records"), probes, strict=True)],
        }
    )
    if any(label.number != layer for layer, label in enumerate(labels)):
        listed["layer of the model"] = [labels[layer].number for layer in at[0]]
    if any(label.words for label in labels):
        listed["layer is"] = [labels[layer].words for layer in at[0]]
    st.dataframe(
        listed,
        key=state.RANKED,
        hide_index=True,
        height=300,
        on_select=lambda: _choose_row(heads),
        selection_mode="single-row",
        column_config={
            name: st.column_config.NumberColumn(format="%.3f") for name in (ranking.label, "spread", "±", "null")
        },
    )
    count = f"{len(heads)} of {ranking.values.size} heads" if left_out is not None else f"{len(heads)} heads"
    st.caption(f"{count}. Mark a row to open its head; a click on a heading sorts by it.")


def _choose_row(heads: NDArray[np.integer]) -> None:
    rows = st.session_state[state.RANKED].selection.rows
    if rows and rows[0] < len(heads):
        choose(*map(int, heads[rows[0]]))


def choose(layer: int, head: int) -> None:
    st.session_state[state.LAYER], st.session_state[state.HEAD] = layer, head
