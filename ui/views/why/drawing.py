"""What the page Why draws: contributions, the path, the text and the largest bars."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from core.figures.chart import Chart
from core.figures.heatmaps.heatmap import WIDTH, Axis, Scale, heatmap
from core.figures.labels import escaped, visible
from core.figures.palette import ABOVE, BELOW
from core.figures.plots.bars import bars
from core.figures.plots.path import Node, path_chart
from core.heads.attribution import Grid, as_grid, main_reason, strongest, strongest_pairs
from core.heads.lens import POSITIONS, ranks_first_after
from core.heads.paths import Stop
from core.units import in_rounding_errors
from ui import presenting, state
from ui.components.keys import arrow_keys
from ui.components.token_view import part_in_text, shaded_text
from ui.controls.fields import menu
from ui.markdown import quoted
from ui.progress import run
from ui.views.certificates import verdict
from ui.views.charts import show_chart, show_heatmap
from ui.views.head_links import link_to_effects
from ui.views.numbers import of_table
from ui.views.sources.models import MAX_TOKENS, NEXT_TOKENS
from ui.views.sources.reading import run_pass
from ui.views.why import results
from ui.views.why.view import SIDES, View, attribution_of, go_to, opening_side, pairs_of, signed

BARS = 8  # components
HEIGHT = 290  # pixels of the grid
ANSWER_SHOWS = {"components": "Contributions", "lens": "Logit lens"}


def draw(view: View) -> None:
    large, beside = st.columns([5, 7], gap="medium")
    with large:
        shows = "components"
        if view.stop is not None:
            opening = opening_side(view.path, view.at)
            menu("Side", state.SIDE, SIDES, opening=opening, look="buttons", label_visibility="collapsed")
            shows = "pairs" if view.side == "pairs" else "components"
        elif NEXT_TOKENS.is_met(view.capture.model):
            shows = menu("Shown", state.ANSWER_SHOWS, ANSWER_SHOWS, look="buttons", label_visibility="collapsed")
        {"components": _draw_grid, "lens": _draw_lens, "pairs": _draw_pairs}[shows](view)
    with beside:
        _draw_path(view)
        _draw_text(view)
        _draw_bars(view)


def _chart(
    values: NDArray[np.floating], rows: Axis, columns: Axis, name: str = "contribution", scale: Scale = "signed"
) -> Chart:
    """The large picture at the left."""
    height, width = presenting.height(HEIGHT, 0.7), presenting.width(WIDTH, 0.4)
    return heatmap(values, rows, columns, name=name, scale=scale, height=height, width=width, printed=0)


def _draw_grid(view: View) -> None:
    """The contribution of every head, and of every feed-forward layer in the last column."""
    table, grid = attribution_of(view), as_grid(attribution_of(view))
    rows, columns = grid.names
    pinned = (None, None) if view.after is None else _place(grid, view.after)
    chart = _chart(grid.values, Axis("layer", rows, pinned[0]), Axis("component", columns, pinned[1]))
    alt = "What every head and every feed-forward layer contributed: a grid of layers by heads."
    names, numbers = zip(*strongest(table, len(table)), strict=True)
    values = np.array(numbers, dtype=np.float64)[:, None]
    exact = of_table("components", "Contributions", values, ("component", names), ("number", ["contribution"]))
    show_heatmap(chart, "components", alt, title="Contributions of all components", numbers=exact)
    label = f"Walk along the path with the arrow keys. Chosen: stop {view.at} of {len(view.path.stops)}."
    first = view.path.answer is None
    arrow_keys(
        state.picture("components"),
        label,
        (0, view.at - first),
        (1, len(view.path.stops) + 1 - first),
        lambda _, place: go_to(place + first),
        words="← → walk along the path",
    )


def _draw_pairs(view: View) -> None:
    """The score by pairs of components; the last row and the last column are what all others add."""
    assert view.stop is not None
    table = pairs_of(view, view.stop)
    rows, columns = ([str(name).replace("mlp", "MLP") for name in names] for names in (table.index, table.columns))
    chart = _chart(table.to_numpy(), Axis("of the query", rows), Axis("of the keys", columns))
    alt = "The score by pairs of components, one of the query and one of the keys."
    show_heatmap(chart, "pairs", alt, title="Contributions of pairs of components")
    st.caption(
        "The strongest components of either side; “rest” is what all others add. Bars name that of the query first."
    )


def _draw_lens(view: View) -> None:
    """The probability of the answer after each layer at each position, if the model stopped there."""
    passed = run_pass(view.of.text, view.capture.model, MAX_TOKENS)
    if passed is None or view.of.token is None:
        return
    layers = passed.layers(passed.kinds[0]) + 1
    task = results.lens.task(view.of.text, view.of.token, capture=passed)
    lens = run(task, "Reading after each layer", layers * min(POSITIONS, len(passed.input_ids)), unit="pair")
    if lens is None:
        return
    chosen = lens.chosen.pivot(index="layer", columns="position", values="probability")
    last = lens[(lens["position"] == lens["position"].max()).to_numpy()]
    best = [
        f"<br>first at the end: {escaped(text)} {share:.1%}"
        for text, share in zip(last["text"], last["probability"], strict=True)
    ]
    tokens = passed.tokens("decoder" if passed.target_ids else None)[0][int(chosen.columns[0]) :]
    names = ("input", *map(str, range(len(best) - 1)))
    chart = _chart(chosen.to_numpy(), Axis("layer", names, notes=best), Axis("after", tokens), "probability", "share")
    show_heatmap(chart, "lens", "The probability of the answer after each layer, by position.", title="Logit lens")
    told = f"At the end of the text {quoted(view.texts[0])} {_ranks_first(ranks_first_after(lens), names)}."
    st.caption(f"If the model stopped after a layer. {told} The last norm is trained for the last layer only.")


def _ranks_first(rows: list[int], names: Sequence[str]) -> str:
    """Say in which rows of the lens the answer ranks first. names: of all rows"""
    last = len(names) - 1
    if not rows or rows == [last]:
        return "ranks first only after the last layer" if rows else "does not rank first"
    if rows == list(range(rows[0], len(names))):
        return f"ranks first from {'layer ' if rows[0] else 'the '}{names[rows[0]]} on"
    return f"ranks first in {len(rows)} of {len(names)} rows, {'also' if last in rows else 'not'} in the last one"


def _place(grid: Grid, stop: Stop) -> tuple[int, int]:
    return grid.row_of(stop.hop.kind, stop.hop.layer), stop.hop.head


def _draw_path(view: View) -> None:
    """The whole path: the answer, every head with the token at which it looked, and the component at its end."""
    stops = view.path.stops
    looked = [visible(view.looked_at(stop)) for stop in stops]
    answer = view.path.answer
    before = [0.0 if answer is None else answer.number, *(stop.score for stop in stops)]
    nodes = [
        Node(stop.hop.component, f"→ {at}", stop.gave, stop.gave / number if number else 0.0)
        for stop, at, number in zip(stops, looked, before[:-1], strict=True)
    ]
    if answer is not None:
        nodes.insert(0, Node(visible(view.texts[0])))
    if stops and (reason := main_reason(stops[-1].of_key)) is not None:
        share = reason.gave / before[-1] if before[-1] else 0.0
        nodes.append(Node(reason.component.replace("mlp", "MLP"), f"at {looked[-1]}", reason.gave, share))
    title = "The path from the answer to the text"
    show_chart(
        path_chart(nodes, view.at - (answer is None)), "path", f"{title}, from left to right.", title=title, fills=False
    )


def _draw_text(view: View) -> None:
    """The text, shaded by what the head of this stop passed on from each token; at the answer, that of the next one."""
    stop = view.stop or view.after
    if stop is None:
        return
    queries, tokens = view.capture.tokens(stop.hop.kind)
    part = part_in_text(stop.key, len(tokens))
    added = np.maximum(stop.by_token * (1 if stop.is_weights else np.sign(stop.gave)), 0)
    shares = added / (added.sum() or 1.0)
    query = stop.query if queries == tokens and stop.query in part else stop.key
    key = state.one_of(state.TOKEN_VIEW, stop.hop.component)
    here = slice(part.start, part.stop)
    verb = "attends" if stop.is_weights else "takes"
    shaded_text(tokens[here], shares[here], query - part.start, start=part.start, limit=1.0, verb=verb, key=key)
    shortened = f" Shown are {len(part)} of {len(tokens):,} tokens." if len(part) < len(tokens) else ""
    does = "looks from" if stop.is_weights else "read what it wrote at"
    shaded = f"Shaded: where head {stop.hop.component} {does} the framed token."
    st.caption(f"Numbers: what each stop adds to the one before. {shaded}{shortened}")


def _draw_bars(view: View) -> None:
    """The largest contributions, and whether all of them together are the number."""
    table, listed = attribution_of(view), strongest(attribution_of(view), BARS)
    if view.stop is not None and view.side == "pairs":
        pairs, others = strongest_pairs(pairs_of(view, view.stop), BARS - 2)
        listed = [(f"{of_query} · {of_key}", gave) for of_query, of_key, gave in pairs] + [("rest", others)]
    names, numbers = zip(*listed, strict=True)
    colours = [ABOVE if number >= 0 else BELOW for number in numbers]
    names = [name.replace("mlp", "MLP") for name in names]
    height = presenting.height(210, 0.3)
    chart = bars(names, {"contribution": np.array(numbers)}, y="contribution", colours=[colours], height=height)
    show_chart(chart, "strongest", f"The {len(names)} largest contributions.", title="The largest contributions")
    sums = f"{table.sources:,} contributions add up to {signed(table.total)}, and the number is {signed(table.number)}"
    differ = f"{sums}: they differ by {in_rounding_errors(table.rounding)}"
    verdict(table.holds, differ, f"{differ}, more than rounding explains")
    if view.stop is None:
        st.caption("Contributions are direct. Muting a head also counts what later layers make of it:")
        link_to_effects(view.of.text)
