"""A head compared with another head, with itself on another text, or with a head of another model."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import InputError, Model
from core.attention.rowwise import Overview
from core.figures.heatmaps.heatmap import Axis
from core.figures.heatmaps.views import PARTS, compared_heatmaps, strongest_colours
from core.heads.comparing import Alignment, HeadPair, Labels, align, compare, mean_divergence, worst_divergence
from core.heads.likeness import PAIRS
from ui import presenting, shown, state
from ui.allowed import model_help, offered
from ui.calls import call, expression, result_of
from ui.components import pin
from ui.controls.fields import head_picker, menu, suggested, text_area
from ui.controls.pinned import pinned_among
from ui.markdown import plain, quoted, show_error
from ui.progress import run
from ui.requests import GeneratedTarget, Target
from ui.views.charts import show_chart, show_magnified
from ui.views.grid_of_heads import show_list_of_heads
from ui.views.numbers import of_pair
from ui.views.sources import passes
from ui.views.sources.heads import ChosenHead, RealHead, opening_head
from ui.views.sources.models import QUERIES_AND_KEYS, TEXTS, missing
from ui.views.sources.reading import run_pass, show_notes
from ui.views.sources.text_fields import read_model, say_checked
from ui.views.what_if import results

OTHER_SENTENCE = "The animal didn't cross the street because it was too wide."
WIDTH, HEIGHT = 290, 380  # pixels of one of three pictures in a window 1024 wide
MAGNIFIED = 24  # tokens a side of the exact part of a long text
LISTED = 10  # heads like this one
DIVERGENCE = "The Jensen-Shannon divergence of rows of weights, in nats (Lin 1991): 0 for the same, "
DIVERGENCE += "ln 2 = 0.693 for no key in common."


@dataclass(frozen=True, eq=False)
class TwoHeads:
    """Two heads on common axes, what they are called, and what their difference is called."""

    first: RealHead
    second: RealHead
    queries: Alignment
    keys: Alignment
    names: tuple[str, str]
    difference: str = "Second − first"

    @cached_property
    def pair(self) -> HeadPair:
        first, second = passes.head(self.first.of), passes.head(self.second.of)
        return HeadPair.of(first, second, queries=self.queries, keys=self.keys)

    @cached_property
    def labels(self) -> list[Labels]:
        axes = zip((self.queries, self.keys), self.first.tokens, self.second.tokens, strict=True)
        return [axis.labels(tokens, others) for axis, tokens, others in axes]

    def record(self, **axes: Alignment) -> None:
        """Record the comparison for "As Python". axes: how queries and keys belong together, if that is not one by one"""
        heads = (self.first, self.second)
        traces = [expression(one.capture.trace, layer=one.layer, head=one.head, kind=one.kind) for one in heads]
        result_of(compare, *traces, **axes)

    @staticmethod
    def is_same(drawn: Overview) -> bool:
        return not np.nan_to_num(drawn.matrices["difference"].values).any()

    def overview(self) -> Overview | None:
        """Return None where the computation was stopped."""
        task = passes.overview.task(self.first.of, self.second.of, matrix=self.pair)
        return run(task, "Comparing two heads", self.pair.shape[0], unit="query")


def show_comparison(real: RealHead) -> None:
    pin.listen()  # before the pictures: whoever sees one may click at once
    controls = st.container(horizontal=True, vertical_alignment="bottom")
    problem = st.container()  # below the field that it is about
    try:
        with controls:
            model = real.capture.model
            ways = {word: name for word, (name, _, needs) in WAYS.items() if missing(model, *needs) is None}
            way = menu("Compare with", state.COMPARE_WITH, ways, look="buttons")
            other = WAYS[way][1](real, problem)
        if other is None:
            return
        two = _on_common_axes(real, other, loosely=way == "model")
        shown.now().beside[two.names[1]] = other.of
        two.record(queries=two.queries, keys=two.keys)
    except InputError as error:
        with problem:
            show_error(error)
        return
    with problem:
        whole = two.overview()
    if whole is None:
        return
    is_one_text = way == "head"
    how_far = st.container()
    show_pictures(two, whole, is_one_text=is_one_text)
    with how_far, presenting.told():  # once the pictures are there, which need not wait for what is said beside it
        _say_how_far(two, whole)
    if not is_one_text:
        st.caption(_what_aligns(two.keys))
    if not presenting.is_on():
        _show_heads_like(real, other if way == "text" else None)


# --- what the head is compared with


def _other_text(real: RealHead, problem: DeltaGenerator) -> RealHead | None:
    text = text_area("Other text", state.OTHER_TEXT, OTHER_SENTENCE, height=68)
    request = replace(real.request, text=text)
    with problem:
        capture = run_pass(request, real.capture.model)
        show_notes(real.capture.model, () if capture is None else capture.notes, {state.OTHER_TEXT: text})
    return None if capture is None else replace(real, request=request)


def _other_model(real: RealHead, problem: DeltaGenerator) -> RealHead | None:
    others = [name for name in offered() if name != real.request.model.name]
    name = suggested("Other model", state.OTHER_MODEL, others, others[0], width=240, help=model_help())
    chosen = replace(real.request.model, name=name)
    if (model := read_model(chosen, problem.empty(), problem, problem, QUERIES_AND_KEYS, TEXTS)) is None:
        return None
    say_checked(chosen, model, f"{plain(model.name)}.", problem)
    pair, target = real.request.pair if model.takes_pairs else None, _target_for(model, real.request.target)
    request = replace(real.request, model=chosen, pair=pair, target=target)
    with problem:
        capture = run_pass(request, model)
    if capture is None:
        return None
    kind = real.kind if real.kind in capture.kinds else capture.kinds[0]
    return _pick_head(ChosenHead(request, kind, 0, 0), opening_head(name))


WAYS = {
    "head": ("Another head", lambda real, _: _pick_head(real, (real.layer, (real.head + 1) % real.grid[1])), ()),
    "text": ("Another text", _other_text, (TEXTS,)),
    "model": ("Another model", _other_model, (TEXTS,)),
}


def _target_for(model: Model, target: Target) -> Target:
    """For another model: numbers are tokens of the one that they were given for, so it writes for itself where it can."""
    if not model.is_encoder_decoder or isinstance(target, str):
        return target if model.is_encoder_decoder else None
    generated = target if isinstance(target, GeneratedTarget) else GeneratedTarget()
    return generated if model.has_language_model_head else None


def _pick_head(real: RealHead, opening: tuple[int, int]) -> RealHead:
    names = state.OTHER_LAYER, state.OTHER_HEAD
    layer, head = head_picker(state.OTHER_HEAD_BOX, names, real.grid, opening, width=125)
    return replace(real, layer=layer, head=head)


def _on_common_axes(real: RealHead, other: RealHead, *, loosely: bool) -> TwoHeads:
    """Raises InputError if the texts have nothing in common."""
    tokens = (call(head.capture.tokens, head.kind) for head in (real, other))
    queries, keys = zip(*tokens, strict=True)  # each of both texts
    on_queries = call(align, *queries, loosely=loosely)
    on_keys = on_queries if queries == keys else call(align, *keys, loosely=loosely)
    names = f"Head {real}", f"Head {other}"
    if real.request.model != other.request.model:
        names = f"{real} of {real.request.model}", f"{other} of {other.request.model}"
    elif real.request != other.request:
        names = "This text", "Other text"
    return TwoHeads(real, other, on_queries, on_keys, names)


# --- the pictures


def show_pictures(two: TwoHeads, whole: Overview, *, is_one_text: bool) -> tuple[int, int]:
    """Show both heads and their difference, or one picture if there is none. Return the cell that is chosen in the boxes."""
    pictures, boxes_place = st.columns([7, 5], gap="medium") if two.is_same(whole) else (st.container(), st.container())
    with boxes_place:
        boxes = (state.QUERY, state.KEY) if is_one_text else (state.PLACE_OF_QUERY, state.PLACE_OF_KEY)
        queries, keys = two.labels
        cell = pinned_among((queries.both, keys.both), two.pair.strongest(whole), two.pair.exact, boxes)
        _say_cell(two, cell, is_one=two.is_same(whole))
    limits = strongest_colours(whole.matrices)
    with pictures:
        _draw(two, whole, cell, limits)
        if not whole.matrices["difference"].exact:
            show_magnified(two.pair, cell, lambda window: _draw(two, window, cell, limits, " near"), side=MAGNIFIED)
    return cell


def _draw(two: TwoHeads, drawn: Overview, cell: tuple[int, int], limits: tuple[float, float], where: str = "") -> None:
    """Draw the whole of both heads, or a window of them. where: "" or " near\""""
    sides = [_side(*axis) for axis in zip(("query", "key"), (two.queries, two.keys), two.labels, cell, strict=True)]
    size = {"height": presenting.height(HEIGHT, 0.7), "width": presenting.width(WIDTH, 0.3)}
    divergence = drawn.row_numbers["divergence"]
    charts = compared_heatmaps(drawn.matrices, *sides, divergence=divergence, limits=limits, **size)
    titles = (*two.names, two.difference)
    labels = zip(*two.labels, strict=True)  # of each text its own in its picture, of both beside their difference
    columns = st.columns(1 if two.is_same(drawn) and not where else 3)
    for column, title, (part, chart), axes in zip(columns, titles, charts.items(), labels, strict=False):
        with column:
            presenting.tell(f"**{plain(title)}**")
            presenting.lit(chart)
            alt, near = f"{title}: heatmap of queries by keys.", f"{where} the chosen pair" if where else ""
            numbers = None if where else of_pair(two.pair, part, title, *axes)
            beside = f"compared first{where}" if part == "second" else ""
            named = {"title": f"Weights, {title}{near}", "numbers": numbers, "beside": beside}
            show_chart(chart, f"compared {part}{where}", alt, **named)


def _side(name: str, axis: Alignment, labels: Labels, pinned: int) -> dict[str, Axis]:
    """The axis of each picture: its difference lacks what either text lacks."""
    first, second = axis.gaps
    gaps = (first, second, sorted(first + second))
    return {part: Axis(name, of, pinned, gaps=missing) for part, of, missing in zip(PARTS, labels, gaps, strict=True)}


# --- the sentences


def _say_cell(two: TwoHeads, cell: tuple[int, int], *, is_one: bool) -> None:
    """is_one: whether both heads have the same weights everywhere"""
    window = two.pair.window(*(range(place, place + 1) for place in cell)).matrices
    first, second, difference = (float(window[part].values[0, 0]) for part in PARTS)
    queries, keys = two.labels
    query, key = quoted(queries.both[cell[0]]), quoted(keys.both[cell[1]])
    if is_one:
        gives = f"may not look at {key}" if np.isnan(first) else f"gives **{first:.1%}** of its attention to {key}"
        presenting.tell(f"{query} {gives}.")
        return
    gaps_by_text, words = zip(two.queries.gaps, two.keys.gaps, strict=True), []
    for name, weight, gaps in zip(two.names, (first, second), gaps_by_text, strict=True):
        has_pair = not any(place in of_axis for place, of_axis in zip(cell, gaps, strict=True))
        share = "masks it" if np.isnan(weight) else f"**{weight:.1%}**"
        words.append(f"{plain(name)} {share if has_pair else 'does not have this pair'}")
    by = "" if np.isnan(difference) else f", a difference of **{100 * difference:+z.1f} points**".replace("-", "−")
    presenting.tell(f"{query} → {key}: {'; '.join(words)}{by}.")


def _say_how_far(two: TwoHeads, whole: Overview) -> None:
    divergence, real = whole.row_numbers["divergence"], two.first
    row, worst = worst_divergence(divergence)
    mean = mean_divergence(divergence)
    sentence = f"The rows are **{mean:.3f}** nats apart on average: 0 is the same, 0.693 nothing in common."
    more = f"{DIVERGENCE} The row of {quoted(two.labels[0].both[row])} (query {row}) differs most, by {worst:.3f}."
    try:
        beside = run(results.random_pairs.task(real.of_kind), "Comparing random heads", PAIRS, unit="pair")
    except InputError:  # a model with a single head
        beside = None
    if beside is not None:
        queries = real.shape[0]
        on = "" if beside.queries == queries else f", measured on {beside.queries} of {queries:,} queries"
        sentence += f" Random heads of {plain(str(real.request.model))} are **{beside.mean:.3f}** apart on average."
        more += f" Of {beside.pairs} random pairs of heads 90% have {beside.low:.3f} to {beside.high:.3f}{on}."
    shown.say(sentence, help=more)


def _what_aligns(keys: Alignment) -> str:
    """Counted among the keys, because in cross-attention the queries are of another text, which is the same for both."""
    same, gaps = sum(keys.equal), sum(map(len, keys.gaps))
    others = len(keys) - same - gaps
    words = [f"{same} of {len(keys)} tokens are in both texts"]
    if others:
        words.append(f"{others} {'stands' if others == 1 else 'stand'} in the place of another")
    if gaps:
        words.append(f"{gaps} {'is' if gaps == 1 else 'are'} in one text only, and hatched in the other")
    return f"{'; '.join(words)}. What goes to a token that the other text does not have counts in full."


def _show_heads_like(real: RealHead, other: RealHead | None) -> None:
    """List the other heads of the model, most alike first; on the other text as well if there is one."""
    texts = (real.request,) if other is None or other.request == real.request else (real.request, other.request)
    st.markdown(f"**Heads like {real}**")
    table = run(results.heads_like.task(real.of, texts), "Comparing every head", len(texts) * real.grid[0])
    if table is None:
        return
    listed = table.head(LISTED)
    show_list_of_heads(listed, ("divergence",), state.HEADS_LIKE, _compare_with, width="content")
    on = "this text" if len(texts) == 1 else "both texts"
    nearest = f"The {len(listed)} of {len(table)} heads nearest to it on {on}."
    st.caption(f"{nearest} Mark a row to compare.", help=DIVERGENCE)


def _compare_with(layer: int, head: int) -> None:
    st.session_state[state.COMPARE_WITH] = "head"
    st.session_state[state.OTHER_LAYER], st.session_state[state.OTHER_HEAD] = layer, head
