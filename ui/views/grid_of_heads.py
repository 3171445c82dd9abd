"""A grid of all heads, a number each: a head is chosen by a click, with the arrow keys, or in the list below; and by which."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from core import Capture, InputError
from core.figures.heatmaps.heatmap import WIDTH
from core.figures.heatmaps.views import metric_grid
from core.heads.metrics import GROUPS, Metric
from ui import presenting, state
from ui.components import pin
from ui.components.keys import arrow_keys
from ui.controls.fields import menu
from ui.markdown import plain
from ui.progress import Growing, fill, run
from ui.requests import KindRequest
from ui.views.charts import show_chart
from ui.views.numbers import of_grid
from ui.views.sources import passes
from ui.views.sources.heads import RealHead

NAME = "atlas"  # of the picture
HEIGHT = 370
LISTED = 30  # of the strongest heads
HELD = 4  # times the bytes of a pass: what one takes that notes what each head writes

Grid = NDArray[np.floating]  # [layers, heads], NaN where a number is not known


def show_grid_of_heads(
    values: NDArray,
    label: str,
    chosen: tuple[int, int],
    *,
    name: str = NAME,
    title: str = "",
    alt: str = "",
    numbers: str = "",
    signed: bool = False,
    height: int = HEIGHT,
    on_stage: tuple[float, float] = (0.36, 0.5),
    **look: Any,
) -> None:
    """Draw one number for each head, with the chosen (layer, head) framed; `look` is that of `heatmap`.

    values    [layers, heads], NaN where not known
    label     name of the numbers, for pointing at them
    name      of the picture, for its key
    title     of the picture where it is taken away; left out: "All heads by" the label
    alt       what the picture is, for a person who cannot see it; left out: the title
    numbers   name of the numbers in a file; left out: the label
    signed    whether the colours are centred on 0
    on_stage  its shares of the window's width and height while presenting, which decide how many labels fit
    """
    title = title or f"All heads by {label}"
    width, height = presenting.width(WIDTH, on_stage[0]), presenting.height(height, on_stage[1])
    chart = metric_grid(values, label, signed=signed, chosen=chosen, width=width, height=height, **look)
    exact = of_grid(values.astype(np.float64), numbers or label)
    show_chart(chart, name, f"{alt or title}: a grid of layers by heads.", title=title, numbers=exact)


def walk_through_heads(chosen: tuple[int, int], shape: tuple[int, ...], name: str = NAME) -> None:
    """Let the arrow keys choose a head in the picture of that name, whose grid is of this shape (layers, heads)."""
    label = "Choose a head with the arrow keys. Chosen: layer {}, head {}.".format(*chosen)
    arrow_keys(state.picture(name), label, chosen, shape, choose)


def listen_for_heads(shape: tuple[int, ...]) -> None:
    """Put the click listener on the page, before its pictures: whoever sees one may click at once."""
    pin.listen(lambda cell: choose_clicked(cell, shape))


def choose_clicked(cell: pin.Cell, shape: tuple[int, ...]) -> bool:
    """Choose the head that was clicked in a grid of this shape. Return whether there was one."""
    if (head := pin.place_in(cell, "layer", "head", shape)) is not None:
        choose(*head)
    return head is not None


def choose(layer: int, head: int) -> None:
    """Choose a head for the pages, from the next run on."""
    st.session_state[state.LAYER], st.session_state[state.HEAD] = layer, head


def show_list_of_heads(
    listed: pd.DataFrame,
    numbers: Iterable[str],
    key: str = state.RANKED,
    on_choose: Callable[[int, int], None] = choose,
    form: str = "%.3f",
    **dataframe: Any,
) -> None:
    """List heads, one a row. Marking a row calls on_choose(layer, head).

    listed   has the columns layer and head
    numbers  columns that are shown in this form, with three decimals
    """

    def choose_row() -> None:
        rows = st.session_state[key].selection.rows
        if rows and rows[0] < len(listed):
            on_choose(*(int(listed[name].iloc[rows[0]]) for name in ("layer", "head")))

    dataframe |= {"column_config": {name: st.column_config.NumberColumn(format=form) for name in numbers}}
    st.dataframe(listed, key=key, hide_index=True, on_select=choose_row, selection_mode="single-row", **dataframe)


def metric_menu(
    label: str,
    offered: Mapping[str, Metric],
    opening: str,
    own: Mapping[str, str] = MappingProxyType({}),
    **widget: Any,
) -> str:
    """Show the menu of metrics, in groups; return the name of the chosen one.

    offered  by name, `opening` the one that the page opens with
    own      further choices: word in the address -> group and label
    """
    grouped = sorted(offered.values(), key=lambda metric: GROUPS.index(metric.group))
    choices = {metric.name: f"{metric.group}: {metric.label}" for metric in grouped}
    choices |= own
    formerly = {words.partition(": ")[2]: word for word, words in choices.items()}
    return menu(label, state.METRIC, choices, opening=opening, formerly=formerly, **widget)


# --- numbers that come a few heads at a time


def fill_grid(growing: Growing, job: Hashable, what: str, label: str, real: RealHead, *, signed: bool) -> Grid:
    """Draw the numbers of all heads as they come. Return those that are known in the end: [layers, heads], NaN elsewhere.

    growing  [layers or fewer, heads or fewer]; heads beyond are never measured
    job      what is asked for
    what     is said while they come
    label    what the numbers are
    """
    listen_for_heads(real.grid)
    beyond = [(0, whole - part) for whole, part in zip(real.grid, growing.values.shape, strict=True)]

    def values() -> Grid:
        return np.pad(growing.values, beyond, constant_values=np.nan)

    def draw(last: bool) -> None:
        known = np.pad(growing.known, beyond)
        part = f", {growing.done} of {growing.total} measured" if growing.done < growing.total else ""
        named = {"name": NAME if last else f"{NAME} {growing.done}", "title": f"All heads by {label}{part}"}
        grey = {"forbidden": None if known.all() else ~known, "forbidden_name": "not measured"}
        show_grid_of_heads(values(), label, real.place, signed=signed, on_stage=(0.9, 0.75), **named, **grey)

    fill(growing, job, what, draw, unit="head")
    with st.container():
        if growing.done:
            walk_through_heads(real.place, real.grid)
    return values()


def show_strongest(values: Grid, label: str, notes: Mapping[str, Grid] = MappingProxyType({})) -> None:
    """List the heads whose numbers are farthest from 0. Marking a row chooses the head.

    notes  column name -> further numbers
    """
    heads = np.argwhere(np.isfinite(values))
    if not len(heads):
        return
    order = np.argsort(-np.abs(values[tuple(heads.T)]), kind="stable")[:LISTED]
    layers, numbers = heads[order].T
    columns = {name: grid[layers, numbers] for name, grid in {label: values, **notes}.items()}
    listed = pd.DataFrame({"layer": layers, "head": numbers, **columns})
    show_list_of_heads(listed, columns, height=300)
    among = "" if len(heads) == values.size else f" of the {len(heads)} heads that are measured"
    st.caption(f"The {len(listed)} strongest{among}. Mark a row to choose its head.")


def contributions_of(of: KindRequest, pass_: Capture, token: int | None = None) -> pd.DataFrame | None:
    """Return the direct contributions to a token's logit, a row a head, as in `core.direct_contributions`.

    None where the work was stopped, and where there are none: the page then says why.
    """
    task, calls = passes.contributions.task(of, token), pass_.model.attention_calls or 1
    try:
        return run(task, "Reading what each head writes", calls, unit="attention call", needs=HELD * pass_.nbytes)
    except InputError as error:
        st.caption(f"No direct contributions: {plain(str(error))}")
        return None
