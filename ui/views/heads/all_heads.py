"""Every head of a pass in a grid, by a number or as small pictures, with a list; both can be filtered."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray
from streamlit.delta_generator import DeltaGenerator

from core import Capture
from core.attention.masks import Predicate
from core.attention.rowwise import Pooled
from core.capturing.layer_labels import layer_labels
from core.claims.known import followed_most, published
from core.claims.verdicts import RULE
from core.figures.heatmaps.views import small_pictures
from core.figures.labels import all_placed, visible
from core.heads import patterns, views
from core.heads.metrics import METRICS, Metric, head_metrics, largest, most_telling, pair_weights, standing_out
from core.heads.probing import SCORES
from core.heads.quantities import text_of
from core.notebook.figures import heads_figure
from ui import links, presenting, shown, state
from ui.cache import OnProgress, Store, cached
from ui.calls import call, result, result_of
from ui.controls.fields import menu, number, text_line, whole_number
from ui.markdown import errors_shown, plain, quoted
from ui.progress import run
from ui.requests import KindRequest
from ui.views import grid_of_heads
from ui.views.charts import show_chart
from ui.views.claims.results import Known, known_address, known_of
from ui.views.numbers import of_heads
from ui.views.sources import passes
from ui.views.sources.heads import AnyHead
from ui.views.sources.models import NEXT_TOKENS, QUERIES_AND_KEYS, TEXTS, missing

PAIR: Final = "pair"  # the chosen one
PATTERN: Final = "pattern"
CONTRIBUTION: Final = "contribution"  # to the logit of the most probable next token
FINDINGS = 3  # heads that are named above the grid
ON = {"text": "This text", "random": "Random tokens, twice"}
DRAWN_AS = {"colours": "Colours", "pictures": "Small pictures"}
PATTERNS = {
    "diagonal": "Diagonal",
    "first": "First token",
    "stripes": "Stripes",
    "blocks": "Blocks",
    "pairs": "Drawn pairs",
}
OF_TWO_TEXTS = {name: words for name, words in PATTERNS.items() if name != "blocks"}  # which are parts of one text
ORDERS = {"highest": "Highest first", "lowest": "Lowest first"}


@dataclass(frozen=True)
class Bounds:
    """Bounds on the heads that are shown; None: no bound."""

    at_least: float | None
    from_layer: int | None
    to_layer: int | None

    def left_out(self, values: NDArray[np.floating]) -> NDArray[np.bool_] | None:
        """[layers, heads] of True where a head does not pass; None if there is no bound."""
        if self == Bounds(None, None, None):
            return None
        layers = np.arange(len(values))[:, None]
        last = len(values) if self.to_layer is None else self.to_layer
        least = -np.inf if self.at_least is None else self.at_least
        is_strong = np.nan_to_num(values, nan=-np.inf) >= least
        return ~(is_strong & (layers >= (self.from_layer or 0)) & (layers <= last))

    @property
    def remarks(self) -> tuple[str, ...]:
        named = {"at least": self.at_least, "from layer": self.from_layer, "to layer": self.to_layer}
        return tuple(f"{name} {bound:g}" for name, bound in named.items() if bound is not None)


def choose_bounds(deepest: int) -> Bounds:
    """Show the fields for bounds. deepest: the last layer"""
    least, first, last = st.columns(3)
    with least:
        at_least = number("At least", state.AT_LEAST, None, step=0.1, placeholder="any")
    with first:
        from_layer = whole_number("From layer", state.FROM_LAYER, None, 0, 999, placeholder="0")
    with last:
        to_layer = whole_number("To layer", state.TO_LAYER, None, 0, 999, placeholder=str(deepest))
    return Bounds(at_least, from_layer, to_layer)


@dataclass(frozen=True, eq=False)
class Ranking:
    """The numbers by which heads are ordered.

    values  [layers, heads], NaN where not known
    notes   column name -> [layers, heads], shown beside the values in the list
    source  the table or matrix that has them, and what they are called there
    pair    of the weight of one pair, "from “it” to “animal”"; "": the numbers are others
    """

    label: str
    values: NDArray[np.floating]
    caption: str
    notes: dict[str, NDArray]
    source: tuple[pd.DataFrame | NDArray, str]
    signed: bool = False
    pair: str = ""


# Gives the numbers, once the chosen (query, key) of tokens is known; None where they cannot be given, which the page then says.
Rank = Callable[[tuple[int, int] | None], Ranking | None]
Remarks = tuple[str, ...]  # what a visitor could not guess from the menu


@dataclass(frozen=True)
class HeadsBy:
    """What the menu and the popover of the grid choose. by: the word of the menu"""

    by: str
    rank: Rank
    bounds: Bounds
    drawn_as: str
    remarks: Remarks


# --- results, each computed once for all sessions


@cached(Store(16))
def metrics(request: KindRequest, *, on_progress: OnProgress | None = None) -> pd.DataFrame:
    return call(head_metrics, passes.captured_or_weights(request.text), request.kind, on_progress=on_progress)


@cached(Store(4))
def thumbnails(request: KindRequest, *, on_progress: OnProgress | None = None) -> Pooled:
    """The weights of every head, small enough to draw all of them."""
    return call(views.thumbnails, passes.captured_or_weights(request.text), request.kind, on_progress=on_progress)


@cached(Store(16))
def of_pair(request: KindRequest, query: int, key: int) -> NDArray[np.floating]:
    """[layers, heads] the weight that a query gives to a key, NaN where the pair is masked."""
    return call(pair_weights, passes.captured_or_weights(request.text), query, key, request.kind)


@cached(Store(16))
def matches(
    of: KindRequest, _pattern: str, _details: str, *, predicate: Predicate, on_progress: OnProgress | None = None
) -> NDArray[np.floating]:
    """[layers, heads] how well every head matches a pattern: `predicate`, which the pattern's name and details describe."""
    return call(patterns.match_heads, passes.captured(of.text), predicate, of.kind, on_progress=on_progress)


def measure(head: AnyHead) -> pd.DataFrame | None:
    """Return the metrics of every head on this text; None where the computation was stopped."""
    with st.container():  # keeps its place when there is nothing to show in it
        return run(metrics.task(head.of_kind), "Measuring every head", head.grid[0])


def choose_by(head: AnyHead, measured: pd.DataFrame) -> HeadsBy:
    """Show the heading of the grid, its menu and its popover; return what they choose."""
    model, writes_next = head.capture.model, head.kind not in ("encoder", "vision") and not head.request.reads_both
    own = {PAIR: "Your choice: From token to token"}
    if QUERIES_AND_KEYS.is_met(model):  # a match is corrected for chance, which depends on the mask
        own |= {PATTERN: "Your choice: Match with a pattern"}
    if missing(model, QUERIES_AND_KEYS, NEXT_TOKENS) is None and writes_next:
        own |= {CONTRIBUTION: "Answer: Contribution to the next token"}
    offered, opening = _offered(head, measured), most_telling(measured)
    with st.container(gap="xsmall"):
        with st.container(horizontal=True):  # as the heading beside it, at one height
            st.subheader("All heads by", anchor=False, width="content")
        with st.container(horizontal=True, gap="xsmall"):
            name = grid_of_heads.metric_menu("Heads by", offered, opening, own, label_visibility="collapsed")
            popover = st.popover("Options")
        in_sight = st.container()
    with popover:  # its fields are there whether it is open or not, and keep their places in the address
        drawn_as = menu("Drawn as", state.ATLAS_BY, DRAWN_AS, look="buttons")
        bounds = choose_bounds(head.grid[0] - 1)
        with st.container():  # whatever comes and goes in it, nothing else moves: what moves is made anew
            if name in offered:
                rank, remarks = _choose_metric(head, offered[name], measured)
            elif name == PATTERN:
                rank, remarks = _choose_pattern(head, in_sight)
            else:
                by_own = _by_pair if name == PAIR else _by_contribution
                rank, remarks = partial(by_own, head), ()
    return HeadsBy(name, rank, bounds, drawn_as, remarks + bounds.remarks)


def _choose_metric(head: AnyHead, metric: Metric, measured: pd.DataFrame) -> tuple[Rank, Remarks]:
    """Induction and duplicates are a matter for the probe, unless one says so."""
    probes = missing(head.capture.model, QUERIES_AND_KEYS, TEXTS) is None and head.kind == "self"
    on = usual = "random" if metric.name in SCORES and probes else "text"
    if probes:
        choice = menu("Measured on", state.MEASURED_ON, {"usual": f"As usual: {ON[usual].lower()}"} | ON)
        on = usual if choice == "usual" else choice
    unit = f" {metric.unit}" if metric.unit else ""
    st.markdown(f"**{metric.label}** {metric.words}")
    st.markdown(f"${metric.formula}$")
    st.markdown(f"From 0 to {metric.high}{unit}. Source: {plain(metric.source)}.")
    if on == "random":
        return lambda _: _on_random_tokens(head, metric), ("on random tokens, read twice",)
    return lambda _: _on_text(head, metric, measured), ("on this text",) if on != usual else ()


def _choose_pattern(head: AnyHead, in_sight: DeltaGenerator) -> tuple[Rank, Remarks]:
    """in_sight: outside the popover"""
    name = menu("Pattern", state.LOOK_FOR, PATTERNS if text_of(head.capture, head.kind).same else OF_TWO_TEXTS)
    detail, remark = "", "the first token"
    if name == "diagonal":
        detail = str(whole_number("Positions back", state.BACK, 1, -64, 4096))
        remark = f"diagonal, {detail} back"
    elif name == "stripes":
        detail = text_line("Key positions", state.STRIPES, "0, 1", max_chars=400)
        remark = f"stripes at keys {detail}"
    elif name == "blocks":
        detail = str(whole_number("Tokens a block", state.BLOCK_LENGTH, 4, 2, 4096))
        remark = f"blocks of {detail} tokens"
    elif name == "pairs":
        # Clicks write into this field, and a browser does not hear of it while a field is folded up: with the next click it
        # would send back what the field held before.
        help = "While this is chosen, a click on the large picture adds its cell or takes it away."
        with in_sight:
            detail = text_line("Pairs, query-key", state.PAIRS, "7-2", max_chars=2000, help=help)
        remark = "drawn pairs"
    return lambda _: _by_pattern(head, name, detail), (remark,)


def show_findings(head: AnyHead, measured: pd.DataFrame, wanted: HeadsBy, cell: tuple[int, int] | None) -> None:
    """Name the heads with the largest numbers on this text, each as a button that opens the head in the grid of its metric.

    cell  the chosen (query, key) of tokens, if there is one; ranked by it, the head that gives most to the key is named
    """
    if wanted.by == PAIR:
        weights = None if cell is None else of_pair(head.of_kind, *cell)
        if cell is not None and weights is not None and (place := largest(weights)) is not None:
            label = f"**{place[0]}.{place[1]}** gives most {plain(_from_to(head, cell))} ({weights[place]:.1%})"
            _offer(0, label, place[0], place[1], PAIR)
        return
    offered = _offered(head, measured)
    best = [(offered[name], row) for name, row in standing_out(measured).items() if name in offered][:FINDINGS]
    if best:
        st.markdown("Largest mean attention on", width="content")
    for at, (metric, row) in enumerate(best):
        layer, number = divmod(row, head.grid[1])
        label = f"{metric.label.lower()}: **{layer}.{number}** ({measured[metric.name].iloc[row]:.0%})"
        _offer(at, label, layer, number, metric.name)


def _from_to(head: AnyHead, cell: tuple[int, int]) -> str:
    queries, keys = head.tokens
    return f"from “{visible(queries[cell[0]])}” to “{visible(keys[cell[1]])}”"


def _offer(finding: int, label: str, layer: int, head: int, metric: str) -> None:
    """Show a button that opens a head in the grid of a metric."""

    def open_it() -> None:
        grid_of_heads.choose(layer, head)
        st.session_state[state.METRIC] = metric

    st.button(label, key=state.one_of(state.FINDING, finding), type="tertiary", on_click=open_it)


def show_grid(head: AnyHead, measured: pd.DataFrame, wanted: HeadsBy, cell: tuple[int, int] | None) -> None:
    """Show the grid and the list of all heads, in which this one is chosen.

    measured  their metrics on this text
    wanted    from `choose_by`
    cell      as in `show_findings`
    """
    shown.now().lists["Metrics of all heads"] = of_heads(measured)
    with st.container():  # progress, and what is wrong: outside the popover, where it is seen
        ranking = wanted.rank(cell)
    if ranking is None:
        return
    result_of(heads_figure, *ranking.source, head=head.place)
    left_out = wanted.bounds.left_out(ranking.values)
    as_pictures = wanted.drawn_as == "pictures"
    if presenting.is_on():
        by = plain(ranking.pair) or f"by **{plain(ranking.label.lower())}**"
        presenting.tell("All heads" if as_pictures else f"All heads {by}")
    known = known_of(head)
    with st.container():  # or what is below would move once the pictures are known, and the keys lose their focus
        if as_pictures:
            _show_pictures(head, left_out)
        else:
            _show_numbers(head, ranking, known, left_out)
    with st.container(key=state.BELOW_THE_GRID):
        grid_of_heads.walk_through_heads(head.place, head.grid)
        if wanted.remarks:
            st.caption(f":material/tune: Shown here: {plain(', '.join(wanted.remarks))}.")
        st.caption(ranking.caption)
        _show_known(head, known)
        _show_list(head, ranking, known, left_out)


def _show_known(head: AnyHead, known: Known | None) -> None:
    """Name the head that follows each known claim most, of those for which it holds, or link to the page that tests them; and
    what others have published of these heads."""
    others = published(head.request.model.name)
    if known is not None:
        rows = followed_most(known.table).to_dict("records")
        named = ", ".join("{name} {head} ({share:.0%})".format(**row) for row in rows)
        help = f"Of each claim the head that does it most, on {known.texts}. {others.get('', '')} {RULE}"
        st.caption(plain(f"Known heads: {named or 'no known claim holds'}."), help=help)
    elif missing(head.capture.model, QUERIES_AND_KEYS, TEXTS) is None and not head.request.model.is_recorded:
        address = {state.MODEL: head.request.model.name} | known_address()
        links.link_to("claims", "Test the known claims", ":material/fact_check:", address)
    if "" not in others:
        st.caption(plain(f"Published: {'; '.join(map(' '.join, others.items()))}."))


def _show_numbers(head: AnyHead, ranking: Ranking, known: Known | None, left_out: NDArray[np.bool_] | None) -> None:
    """Draw the grid. Ranked by a pair, heads that mask it are grey, as are those that are left out. Pointing at a head shows
    which known claims hold."""
    names = ["filtered out"] * (left_out is not None)
    if ranking.pair and (may_not := np.isnan(ranking.values)).any():
        left_out, names = (may_not if left_out is None else left_out | may_not), ["masked", *names]
    grey = {"forbidden": left_out, "forbidden_name": " or ".join(names)}
    look: dict[str, Any] = {
        "title": f"All heads: weight {ranking.pair}" if ranking.pair else "",
        "on_stage": (0.36, 0.75),
    }
    look["hover"] = None if known is None else ("", known.in_words(*head.grid))
    grid_of_heads.show_grid_of_heads(ranking.values, ranking.label, head.place, signed=ranking.signed, **look, **grey)


def _offered(head: AnyHead, measured: pd.DataFrame) -> dict[str, Metric]:
    if not TEXTS.is_met(head.capture.model):
        return {metric.name: metric for metric in METRICS if np.isfinite(measured[metric.name]).any()}
    lacking = {"one text", "mask"} - text_of(head.capture, head.kind).offers
    return {metric.name: metric for metric in METRICS if lacking.isdisjoint(metric.needs)}


def _by_pair(head: AnyHead, cell: tuple[int, int] | None) -> Ranking | None:
    if cell is None:
        if st.session_state.get(state.BY_WORD):
            st.info("All heads are ranked by a pair of tokens. Switch off “Words instead of tokens”.")
        return None
    values = of_pair(head.of_kind, *cell)
    query, key = (f"“{plain(all_placed(tokens)[at])}”" for tokens, at in zip(head.tokens, cell, strict=True))
    if (masked := int(np.isnan(values).sum())) == values.size:
        later = " A query of this model does not look at later tokens." if cell[1] > cell[0] else ""
        st.info(f"{query} may not look at {key} in any head: this pair is masked.{later} Choose another pair.")
    caption = f"The weight that {query} gives to {key} in each head."
    caption += f" In {masked} of {values.size} heads the pair is masked." if masked else ""
    return Ranking("Weight", values, caption, {}, (values, "Weight"), pair=_from_to(head, cell))


def _on_text(head: AnyHead, metric: Metric, measured: pd.DataFrame) -> Ranking:
    read = "text" if head.kind != "vision" and TEXTS.is_met(head.capture.model) else "image"
    caption = f"{metric.words} Mean over the queries of this {read}; spread: their standard deviation."
    if read == "image":
        caption += " Its tokens stand in the order of its patches, row by row: so do “previous”, “next” and “near”."
    notes = {"spread": _grid(head, measured, f"{metric.name}_spread")}
    return Ranking(metric.label, _grid(head, measured, metric.name), caption, notes, (measured, metric.name))


@errors_shown()
def _on_random_tokens(head: AnyHead, metric: Metric) -> Ranking | None:
    task = passes.probe.task(head.request.model)
    if (probed := run(task, "Reading random tokens", 2 * len(passes.PROBE_SEEDS), unit="text")) is None:
        return None
    notes = {"±": _grid(head, probed, f"{metric.name}_error")}
    count, seeds = passes.probe_length(head.request.model), ", ".join(map(str, passes.PROBE_SEEDS))
    caption = f"{metric.words} Measured on {count} random tokens read twice, with seeds {seeds}; "
    caption += "± is the standard error of the mean over these seeds."
    if metric.name in SCORES:
        clear = _grid(head, probed, f"is_{metric.name}")
        notes |= {"null": _grid(head, probed, f"{metric.name}_null"), "clear": clear}
        named = "an induction" if metric.name == "induction" else "a duplicate-token"
        caption += " Null: the same places after the second half is shuffled. Only a head that stands clear of its "
        caption += f"null is called {named} head: {np.count_nonzero(clear)} of {len(probed)} do."
    return Ranking(metric.label, _grid(head, probed, metric.name), caption, notes, (probed, metric.name))


def _by_contribution(head: AnyHead, _cell: tuple[int, int] | None) -> Ranking | None:
    pass_ = head.capture
    if not isinstance(pass_, Capture):
        return None
    if (table := grid_of_heads.contributions_of(head.of_kind, pass_)) is None:
        return None
    ((token, share),) = pass_.next_tokens(1)
    logit = f"the logit of {quoted(token)}, the most probable next token ({share:.1%})"
    later = "What later layers make of it is not in it: *Which heads matter* on What if counts both."
    caption = f"What each head itself adds to {logit}, less what it adds to all logits on average. {later}"
    values = _grid(head, table, "contribution")
    return Ranking("Direct contribution", values, caption, {}, (table, "contribution"), signed=True)


def _grid(head: AnyHead, table: pd.DataFrame, column: str) -> NDArray:
    return table[column].to_numpy().reshape(head.grid)


@errors_shown()
def _by_pattern(head: AnyHead, name: str, typed: str) -> Ranking | None:
    """typed: the detail of the pattern, which may be wrong"""
    details, pattern = _read_pattern(name, typed)
    task = matches.task(head.of_kind, name, details, predicate=pattern)
    values = run(task, "Comparing every head", head.grid[0])
    caption = "Match: the share of each query's attention that lies in the pattern, corrected for chance. "
    caption += "1: all of it; 0: as much as even attention would put there."
    return None if values is None else Ranking("Match", values, caption, {}, (values, "Match"), signed=True)


def _read_pattern(name: str, typed: str) -> tuple[str, Predicate]:
    """The detail that distinguishes this pattern from others of its kind, and the pattern. Raises InputError."""
    match name:
        case "diagonal":
            return typed, call(patterns.diagonal, int(typed))
        case "stripes":
            keys = patterns.read_keys(typed)
            return str(keys), call(patterns.columns, keys)
        case "blocks":
            return typed, call(patterns.blocks, int(typed))
        case "pairs":
            cells = patterns.read_pairs(typed)
            return str(sorted(set(cells))), call(patterns.pairs, cells)
    return "", call(patterns.columns, [0])


def _show_pictures(head: AnyHead, left_out: NDArray[np.bool_] | None) -> None:
    if (small := run(thumbnails.task(head.of_kind), "Drawing every head", head.grid[0])) is None:
        return
    result(small)
    height = max(grid_of_heads.HEIGHT, min(30 * len(small.values), 1000))
    chart = small_pictures(small.values, chosen=head.place, left_out=left_out, height=height)
    alt = "A small picture of the weights of every head, in a grid of layers by heads."
    show_chart(chart, grid_of_heads.NAME, alt, title="Small pictures of all heads")
    if not small.exact:
        st.caption(f"Each cell is the strongest of {small.row_block} × {small.column_block} weights.")


def _show_list(head: AnyHead, ranking: Ranking, known: Known | None, left_out: NDArray[np.bool_] | None) -> None:
    """List the heads that pass the filter. Marking a row chooses the head."""
    heads = np.argwhere(np.ones(head.grid, bool) if left_out is None else ~left_out)
    values = ranking.values[tuple(heads.T)]
    order = menu("Order", state.ORDER, ORDERS, look="buttons", label_visibility="collapsed")
    sign = -1 if order == "highest" else 1
    heads = heads[np.argsort(sign * np.nan_to_num(values, nan=-sign * np.inf), kind="stable")]
    if not len(heads):
        st.info("No head passes. Lower the bound or widen the layers.", icon=":material/filter_alt:")
        return
    layers, numbers = at = tuple(heads.T)
    # Each in a column of its own: to a spreadsheet heads 1.1 and 1.10 would be the same number.
    columns: dict[str, Any] = {"layer": layers, "head": numbers, ranking.label: ranking.values[at]}
    columns |= {name: note[at] for name, note in ranking.notes.items()}
    listed = pd.DataFrame(columns if known is None else columns | {"known claims": known.in_words(*head.grid)[at]})
    labels = layer_labels(head.capture, head.kind)
    if any(label.number != layer for layer, label in enumerate(labels)):
        listed["layer of the model"] = [labels[layer].number for layer in layers]
    if any(label.words for label in labels):
        listed["layer is"] = [labels[layer].words for layer in layers]
    grid_of_heads.show_list_of_heads(listed, (ranking.label, "spread", "±", "null"), height=300)
    count = f"{len(heads)} of {ranking.values.size} heads" if left_out is not None else f"{len(heads)} heads"
    st.caption(f"{count}. Mark a row to open its head; a click on a heading sorts by it.")
