"""A head compared with another head, with itself on another text, or with a head of another model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import Capture, InputError, Model
from core.attention.pooling import Pooled
from core.attention.rowwise import Overview
from core.figures.heatmaps.compared import Part, Side, compared_heatmaps, strongest_colours
from core.heads.aligning import Alignment, Labels, align
from core.heads.comparing import HeadPair, compare, mean_divergence, worst_divergence
from core.heads.likeness import PAIRS
from core.models.modules import Kind
from core.units import seconds_in_words
from ui import passes, presenting, shown, state
from ui.allowed import model_help, offered
from ui.calls import call, expression, result_of
from ui.components import pin
from ui.controls.fields import menu, number_picker, suggested, text_area
from ui.controls.pinned import pinned_among
from ui.markdown import plain, quoted, show_error
from ui.progress import run
from ui.requests import GeneratedTarget, KindRequest, Target
from ui.views.common.magnified import show_magnified
from ui.views.common.pictures import show_heatmap
from ui.views.numbers import of_pair
from ui.views.sources.heads import RealHead, opening_head
from ui.views.sources.models import read_model
from ui.views.sources.passes import run_pass
from ui.views.what_if import results

WAYS = {"head": "Another head", "text": "Another text", "model": "Another model"}
OTHER_SENTENCE = "The animal didn't cross the street because it was too wide."
WIDTH, HEIGHT = 290, 380  # pixels of one of three pictures in a window 1024 wide
MAGNIFIED = 24  # tokens a side of the exact part of a long text
LISTED = 10  # heads like this one
CELL_SECONDS = 1e-8  # about, to weigh one query and one key in one head against another's


@dataclass(frozen=True, eq=False)
class Paired:
    """Two heads on common axes.

    queries, keys  what is written at each place of the axes
    names          what the two are called
    difference     what their difference is called
    """

    pair: HeadPair
    queries: Labels
    keys: Labels
    names: tuple[str, str]
    difference: str = "Second − first"


def show_comparison(real: RealHead) -> None:
    """The chosen head beside another one, that is chosen here. Puts the click listener on the page."""
    pin.listen()  # before the pictures: whoever sees one may click at once
    controls = st.container(horizontal=True, vertical_alignment="bottom")
    problem = st.container()  # below the field that it is about
    try:
        with controls:
            ways = WAYS if real.capture.input_ids else {"head": WAYS["head"]}
            way = menu("Compare with", state.COMPARE_WITH, ways, look="buttons")
            other = {"head": _other_head, "text": _other_text, "model": _other_model}[way](real, problem)
        if other is None:
            return
        paired = _paired(real, other, loosely=way == "model")
        shown.now().beside[paired.names[1]] = other.of
        record_comparison(real, other, queries=paired.pair.queries, keys=paired.pair.keys)
    except InputError as error:
        with problem:
            show_error(error)
        return
    with problem:
        found = compared_heads(real, other, paired.pair)
    if found is None:
        return
    is_one_text = way == "head"
    how_far = st.container()
    show_pictures(paired, found, is_one_text=is_one_text)
    with how_far, presenting.told():  # once the pictures are there, which need not wait for what is said beside it
        _say_how_far(real, paired, found)
    st.caption(
        "Jensen-Shannon divergence (Lin 1991): 0 for the same weights, ln 2 = 0.693 for no key in common."
        + ("" if is_one_text else _what_aligns(paired.pair))
    )
    if not presenting.is_on():
        _show_heads_like(real, other if way == "text" else None)


def record_comparison(real: RealHead, other: RealHead, **axes: Alignment) -> None:
    """Record the comparison for "As Python". axes: how queries and keys belong together, where that is not one by one."""
    traces = [expression(one.capture.trace, layer=one.layer, head=one.head, kind=one.kind) for one in (real, other)]
    result_of(compare, *traces, **axes)


# --- what the head is compared with


def _other_head(real: RealHead, _: DeltaGenerator) -> RealHead:
    heads = real.capture.heads(real.kind)
    return _pick_head(real, (real.layer, (real.head + 1) % heads))


def _other_text(real: RealHead, problem: DeltaGenerator) -> RealHead | None:
    text = text_area("Other text", state.OTHER_TEXT, OTHER_SENTENCE, height=68)
    with problem:
        passed = run_pass(replace(real.request, text=text), real.capture.model, None, False)
    return None if passed is None else replace(real, request=passed[0], capture=passed[1])


def _other_model(real: RealHead, problem: DeltaGenerator) -> RealHead | None:
    others = [name for name in offered() if name != real.request.model.name]
    name = suggested("Other model", state.OTHER_MODEL, others, others[0], width=240, help=model_help())
    chosen = replace(real.request.model, name=name)
    model = read_model(chosen, problem.empty(), problem)
    if model is None:
        return None
    if not model.captures or model.reads_images:
        what = "reads images" if model.reads_images else "exposes only its weights"
        raise InputError(f"{name} {what}; two heads are compared on texts. Choose another model.", field="model")
    request = replace(
        real.request,
        model=chosen,
        pair=real.request.pair if model.takes_pairs else None,
        target=_target_for(model, real.request.target),
    )
    with problem:
        passed = run_pass(request, model, None, False)
    if passed is None:
        return None
    capture = passed[1]
    kind = real.kind if real.kind in capture.kinds else capture.kinds[0]
    return _pick_head(RealHead(*passed, kind, 0, 0), opening_head(name))


def _target_for(model: Model, target: Target) -> Target:
    """For another model: numbers are tokens of the one that they were given for, so it writes for itself where it can."""
    if not model.is_encoder_decoder or isinstance(target, str):
        return target if model.is_encoder_decoder else None
    return GeneratedTarget() if model.has_language_model_head else None


def _pick_head(real: RealHead, opening: tuple[int, int]) -> RealHead:
    with st.container(width=92):
        layer = number_picker("Other layer", state.OTHER_LAYER, real.capture.layers(real.kind), opening[0])
    with st.container(width=92):
        head = number_picker("Other head", state.OTHER_HEAD, real.capture.heads(real.kind), opening[1])
    return replace(real, layer=layer, head=head)


def _paired(real: RealHead, other: RealHead, *, loosely: bool) -> Paired:
    """Raises InputError where the texts have nothing in common."""
    (queries, keys), (other_queries, other_keys) = (call(one.capture.tokens, one.kind) for one in (real, other))
    on_queries = call(align, queries, other_queries, loosely=loosely)
    is_same = (queries, other_queries) == (keys, other_keys)
    on_keys = on_queries if is_same else call(align, keys, other_keys, loosely=loosely)
    return Paired(
        HeadPair.of(passes.head(real.of), passes.head(other.of), queries=on_queries, keys=on_keys),
        on_queries.labels(queries, other_queries),
        on_keys.labels(keys, other_keys),
        _names(real, other),
    )


def _names(real: RealHead, other: RealHead) -> tuple[str, str]:
    """The one thing by which they differ; markup-free."""
    if real.request.model != other.request.model:
        return (
            f"{real.layer}.{real.head} of {real.request.model}",
            f"{other.layer}.{other.head} of {other.request.model}",
        )
    if real.request != other.request:
        return "This text", "Other text"
    return f"Head {real.layer}.{real.head}", f"Head {other.layer}.{other.head}"


# --- the pictures


def compared_heads(real: RealHead, other: RealHead, pair: HeadPair) -> Overview | None:
    """None while it is not wanted."""
    task = results.comparison.task(real.of, other.of, pair=pair)
    return run(task, "Comparing two heads", pair.shape[0], unit="query")


def show_pictures(paired: Paired, found: Overview, *, is_one_text: bool) -> tuple[int, int]:
    """The three pictures and the boxes of the chosen cell, which is given."""
    pair = paired.pair
    pictures, below = st.container(), st.container()
    with below:
        boxes = (state.QUERY, state.KEY) if is_one_text else (state.PLACE_OF_QUERY, state.PLACE_OF_KEY)
        cell = pinned_among(pair.shape, pair.strongest(found), pair.exact, boxes)
        _say_cell(paired, cell)
    limits = strongest_colours(_parts(found))
    with pictures:
        _draw(paired, found, cell, limits, "")
        if not found.matrices["difference"].exact:
            show_magnified(pair, cell, lambda window: _draw(paired, window, cell, limits, " near"), side=MAGNIFIED)
    return cell


def _parts(found: Overview) -> dict[Part, Pooled]:
    return {part: found.matrices[part] for part in get_args(Part)}


def _draw(paired: Paired, found: Overview, cell: tuple[int, int], limits: tuple[float, float], where: str) -> None:
    pair, at = paired.pair, found.matrices["difference"]
    sides = [
        _side(alignment, labels, pinned, start, length)
        for alignment, labels, pinned, start, length in zip(
            (pair.queries, pair.keys), (paired.queries, paired.keys), cell, at.start, at.shape, strict=True
        )
    ]
    charts = compared_heatmaps(
        _parts(found),
        *sides,
        divergence=found.row_numbers["divergence"],
        limits=limits,
        height=presenting.height(HEIGHT, 0.7),
        width=presenting.width(WIDTH, 0.3),
    )
    titles = (*paired.names, paired.difference)
    for column, title, (part, chart) in zip(st.columns(3), titles, charts.items(), strict=True):
        with column:
            with presenting.told():
                st.markdown(f"**{plain(title)}**")
            presenting.lit(chart.figure, *(cell[axis] - at.start[axis] for axis in (0, 1)))
            show_heatmap(
                chart,
                f"compared {part}{where}",
                f"{title}: heatmap of queries by keys.",
                title=f"Weights, {title}" + (f"{where} the chosen pair" if where else ""),
                numbers=None
                if where
                else of_pair(paired.pair, part, title, _by_part(paired.queries)[part], _by_part(paired.keys)[part]),
            )


def _by_part(labels: Labels) -> dict[Part, tuple[str, ...]]:
    """Each text's own tokens in its picture, those of both beside their difference."""
    return {"first": labels.first, "second": labels.second, "difference": labels.both}


def _side(alignment: Alignment, labels: Labels, pinned: int, start: int, length: int) -> Side:
    first, second = ([place - start for place in gaps if start <= place < start + length] for gaps in alignment.gaps)
    return Side(
        {part: texts[start : start + length] for part, texts in _by_part(labels).items()},
        {"first": first, "second": second, "difference": sorted(first + second)},
        pinned - start,
        start,
    )


# --- the sentences


def _say_cell(paired: Paired, cell: tuple[int, int]) -> None:
    exact = paired.pair.window(range(cell[0], cell[0] + 1), range(cell[1], cell[1] + 1)).matrices
    pair = f"{quoted(paired.queries.both[cell[0]])} → {quoted(paired.keys.both[cell[1]])}"
    gaps = [
        cell[0] in queries or cell[1] in keys
        for queries, keys in zip(paired.pair.queries.gaps, paired.pair.keys.gaps, strict=True)
    ]
    said = [
        f"{plain(name)} {'does not have this pair' if gap else _share(float(part.values[0, 0]))}"
        for name, gap, part in zip(paired.names, gaps, (exact["first"], exact["second"]), strict=True)
    ]
    difference = float(exact["difference"].values[0, 0])
    by = "" if np.isnan(difference) else f", a difference of **{100 * difference:+.1f} points**".replace("-", "−")
    with presenting.told():
        st.markdown(f"{pair}: {'; '.join(said)}{by}.")


def _share(weight: float) -> str:
    return "masks it" if np.isnan(weight) else f"**{weight:.1%}**"


def _say_how_far(real: RealHead, paired: Paired, found: Overview) -> None:
    divergence = found.row_numbers["divergence"]
    row, worst = worst_divergence(divergence)
    sentence = (
        f"The rows are **{mean_divergence(divergence):.3f}** nats apart on average and **{worst:.3f}** at most, "
        f"at {quoted(paired.queries.both[row])} (query {row})."
    )
    task = results.random_pairs.task(KindRequest(real.request, real.kind))
    try:
        beside = run(task, "Comparing random heads", PAIRS, unit="pair")
    except InputError:  # a model with a single head
        beside = None
    if beside is not None:
        queries = real.capture.shape(real.kind)[0]
        on = "" if beside.queries == queries else f", measured on {beside.queries} of {queries:,} queries"
        sentence += (
            f" Two random heads of {plain(str(real.request.model))} have **{beside.mean:.3f}** on this text "
            f"({beside.low:.3f} to {beside.high:.3f} in 90% of {beside.pairs} pairs{on})."
        )
    st.markdown(sentence)


def _what_aligns(pair: HeadPair) -> str:
    """Counted among the keys, because in cross-attention the queries are of another text, which is the same for both."""
    axis = pair.keys
    same, gaps = sum(axis.equal), sum(map(len, axis.gaps))
    others = len(axis) - same - gaps
    said = [f"{same} of {len(axis)} tokens are in both texts"]
    if others:
        said.append(f"{others} {'stands' if others == 1 else 'stand'} in the place of another")
    if gaps:
        said.append(f"{gaps} {'is' if gaps == 1 else 'are'} in one text only, and hatched in the other")
    return f" {'; '.join(said)}. What goes to a token that the other text does not have counts in full."


def _show_heads_like(real: RealHead, other: RealHead | None) -> None:
    """All other heads of the model, most alike first; on the other text as well if there is one."""
    texts = (real.request,) if other is None or other.request == real.request else (real.request, other.request)
    st.markdown(f"**Heads like {real.layer}.{real.head}**")
    table = run(
        results.heads_like.task(real.of, texts),
        "Comparing every head",
        len(texts) * real.capture.layers(real.kind),
        announce=lambda: comparing_all(real.capture, real.kind, len(texts)),
    )
    if table is None:
        return
    listed = table.head(LISTED)
    st.dataframe(
        listed,
        key=state.HEADS_LIKE,
        hide_index=True,
        width="content",
        on_select=lambda: _choose_row(listed),
        selection_mode="single-row",
        column_config={"divergence": st.column_config.NumberColumn(format="%.3f")},
    )
    over = "this text" if len(texts) == 1 else "both texts"
    st.caption(
        f"The {len(listed)} of {len(table)} heads nearest to it, by mean divergence on {over}. Mark a row to compare."
    )


def comparing_all(capture: Capture, kind: Kind, times: int = 1) -> tuple[float, str]:
    """The seconds that comparing every head with another takes, so many times over, and a sentence about it."""
    queries, keys = capture.shape(kind)
    heads = capture.layers(kind) * capture.heads(kind)
    seconds = CELL_SECONDS * times * heads * queries * keys
    return seconds, f"Comparing {heads} heads over {queries:,} tokens takes about {seconds_in_words(seconds)}."


def _choose_row(listed: pd.DataFrame) -> None:
    rows = st.session_state[state.HEADS_LIKE].selection.rows
    if rows and rows[0] < len(listed):
        layer, head = (int(listed[name].iloc[rows[0]]) for name in ("layer", "head"))
        st.session_state[state.COMPARE_WITH] = "head"
        st.session_state[state.OTHER_LAYER], st.session_state[state.OTHER_HEAD] = layer, head
