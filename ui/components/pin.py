"""Choosing a cell: a click on any picture, or two select boxes. The choice lives in the boxes, and so in the address.

Streamlit sends no event for a click on a heatmap, so a small component without any looks of its own listens to the page
and reports the coordinates of the clicked cell. Each figure says in its `meta` what its rows and columns are.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import streamlit as st
from streamlit.components.v2 import component

from core import AttentionTrace
from core.attention.ledger import Part, strongest_in, strongest_pair
from ui import links, state

FARTHEST = 2**31  # no text has more positions
LONG = 1_000  # positions: a box with more would be built anew for every head, were the strongest one named in it

_LISTENER = component("headlight_pin", js=Path(__file__).with_suffix(".js").read_text(encoding="utf-8"))


def listen(on_cell: Callable[[], None] | None = None) -> None:
    """Put the listener on the page. Once a page, anywhere. A click pins its cell, or calls `on_cell` before the page runs."""
    _LISTENER(key=state.PIN, on_cell_change=on_cell or pin_clicked)


def clicked() -> dict[str, range]:
    """The clicked cell: for each of its figure's axes by name, the positions it stands for. Empty if no cell was sent."""
    match st.session_state[state.PIN].cell:
        case [sent_rows, sent_columns]:
            rows, columns = _positions(sent_rows), _positions(sent_columns)
            if rows and columns:
                return dict((rows, columns))
    return {}


def clicked_in(rows: str, columns: str, shape: tuple[int, ...]) -> tuple[int, int] | None:
    """(row, column) of the clicked cell in a table of this shape; None if it is not in there, or stands for several."""
    cell = clicked()
    if cell.keys() != {rows, columns} or any(len(positions) > 1 for positions in cell.values()):
        return None
    row, column = cell[rows].start, cell[columns].start
    return (row, column) if row < shape[0] and column < shape[1] else None


def _positions(sent: object) -> tuple[str, range] | None:
    """The name of an axis and where on it the clicked cell lies, if that can be read from what the browser sent."""
    match sent:
        case {"axis": str(name), "middle": int() | float() as middle, "cells": int(cells)}:
            if 0 <= middle < FARTHEST and 1 <= cells < FARTHEST:  # no NaN either
                first = round(middle - (cells - 1) / 2)
                return (name, range(first, first + cells)) if first >= 0 else None
    return None


def pin_clicked() -> None:
    """Remember the clicked cell until the page has looked what is in it."""
    st.session_state[state.PINNED_BLOCK] = {
        name: positions for name, positions in clicked().items() if name in ("query", "key")
    }


def pinned(trace: AttentionTrace) -> tuple[int, int]:
    """The two select boxes, and the cell they choose as (query, key): while they are empty, the strongest pair."""
    return pinned_among(
        trace.shape, strongest_pair(trace), lambda rows, columns: trace.weights[_slice(rows), _slice(columns)]
    )


def pinned_among(
    shape: tuple[int, int],
    strongest: tuple[int, int],
    values: Part,
    boxes: tuple[str, str] = (state.QUERY, state.KEY),
) -> tuple[int, int]:
    """The same for any table of this shape, whose numbers `values(rows, columns)` gives; NaN is no number.

    boxes  the keys of the two select boxes: others where places are no positions in the text that pages share
    """
    _settle(shape, strongest, values, boxes)
    query_column, key_column = st.columns(2, wrap=False)
    with query_column:
        query = _picker("Query", boxes[0], shape[0], strongest[0])
    with key_column:
        key = _picker("Key", boxes[1], shape[1], strongest[1])
    return query, key


def _slice(span: range) -> slice:
    return slice(span.start, span.stop)


def _picker(label: str, key: str, count: int, strongest: int) -> int:
    links.expect_place(key, count, label)
    named = "strongest pair" if count > LONG else f"{strongest}, strongest pair"
    chosen = st.selectbox(label, range(count), index=None, placeholder=named, key=key, bind="query-params")
    return strongest if chosen is None else chosen


def _settle(shape: tuple[int, int], strongest: tuple[int, int], values: Part, boxes: tuple[str, str]) -> None:
    """Turn a click into a cell: where one drawn cell stands for many, the one with the largest number among them."""
    block = st.session_state.pop(state.PINNED_BLOCK, None)
    if not block:
        return
    row, column = (_or(st.session_state.get(box), place) for box, place in zip(boxes, strongest, strict=True))
    rows, columns = block.get("query", range(row, row + 1)), block.get("key", range(column, column + 1))
    if rows.start >= shape[0] or columns.start >= shape[1]:
        return  # a click on a picture of a text that has changed since
    rows, columns = range(rows.start, min(rows.stop, shape[0])), range(columns.start, min(columns.stop, shape[1]))
    best = strongest_in(rows, columns, values)
    for name, key, place in zip(("query", "key"), boxes, best, strict=True):
        if name in block:
            st.session_state[key] = place


def _or(chosen: int | None, otherwise: int) -> int:
    return otherwise if chosen is None else chosen
