"""A grid of all heads, a number each: a head is chosen by a click, with the arrow keys, or in the list below."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from core.figures.heatmaps.all_heads import metric_grid
from ui import state
from ui.components import pin
from ui.components.arrows import arrow_keys
from ui.views.common.pictures import show_heatmap
from ui.views.numbers import of_grid

NAME = "atlas"  # of the picture
HEIGHT = 400


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
    left_out: NDArray | None = None,
    height: int = HEIGHT,
) -> None:
    """Draw one number for each head, with the chosen (layer, head) framed.

    values    [layers, heads], NaN where not known
    label     name of the numbers, for pointing at them
    name      of the picture, for its key
    title     of the picture where it is taken away; left out: "All heads by" the label
    alt       what the picture is, for a person who cannot see it; left out: the title
    numbers   name of the numbers in a file; left out: the label
    signed    whether the colours are centred on 0
    left_out  [layers, heads] bool, True for heads that are drawn grey; None: none
    """
    title = title or f"All heads by {label}"
    show_heatmap(
        metric_grid(values, label, signed=signed, chosen=chosen, left_out=left_out, height=height),
        name,
        f"{alt or title}: a grid of layers by heads.",
        title=title,
        numbers=of_grid(values.astype(np.float64), numbers or label),
    )


def walk_through_heads(chosen: tuple[int, int], shape: tuple[int, ...], name: str = NAME) -> None:
    """Let the arrow keys choose a head in the picture of that name, whose grid is of this shape (layers, heads)."""
    layer, head = chosen
    label = f"Choose a head with the arrow keys. Chosen: layer {layer}, head {head}."
    arrow_keys(state.picture(name), label, chosen, shape, choose)


def listen_for_heads(shape: tuple[int, ...]) -> None:
    """Put the click listener on the page, before its pictures: whoever sees one may click at once."""
    pin.listen(partial(_clicked, shape))


def _clicked(shape: tuple[int, ...]) -> None:
    choose_clicked(shape)


def choose_clicked(shape: tuple[int, ...]) -> bool:
    """Choose the head that was clicked in a grid of this shape. Return whether there was one."""
    head = pin.clicked_in("layer", "head", shape)
    if head is not None:
        choose(*head)
    return head is not None


def show_list_of_heads(listed: pd.DataFrame, numbers: Iterable[str]) -> None:
    """List heads, one a row. Marking a row chooses its head.

    listed   has the columns layer and head
    numbers  columns that are shown with three decimals
    """
    st.dataframe(
        listed,
        key=state.RANKED,
        hide_index=True,
        height=300,
        on_select=lambda: _choose_row(listed),
        selection_mode="single-row",
        column_config={name: st.column_config.NumberColumn(format="%.3f") for name in numbers},
    )


def _choose_row(listed: pd.DataFrame) -> None:
    rows = st.session_state[state.RANKED].selection.rows
    if rows and rows[0] < len(listed):
        choose(*(int(listed[name].iloc[rows[0]]) for name in ("layer", "head")))


def choose(layer: int, head: int) -> None:
    """Choose a head for the pages, from the next run on."""
    st.session_state[state.LAYER], st.session_state[state.HEAD] = layer, head
