"""Choosing a cell: a click on any picture, or two select boxes. The choice lives in the boxes, and so in the address.

Streamlit sends no event for a click on a heatmap, so a small component without any looks of its own listens to the page
and reports the coordinates of the clicked cell. Each figure says in its `meta` what its rows and columns are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from core import AttentionTrace
from core.attention.ledger import strongest_pair
from ui import state

_LISTENER = st.components.v2.component(
    "headlight_pin",
    js="""
export default function ({ setTriggerValue }) {
    // The cell under a point, from nothing but the figure's own layout: charts are drawn anew after every change, so
    // nothing is attached to them. The hidden axes know the middles of all drawn cells.
    const cellAt = (chart, event) => {
        const { meta, xaxis, yaxis, xaxis2, yaxis2 } = chart.layout || {};
        const area = chart.querySelector(".nsewdrag");
        if (!meta || !meta.rows || !area) return null;
        const box = area.getBoundingClientRect();
        const place = (share, axis, middles) => {
            const at = axis.range[0] + share * (axis.range[1] - axis.range[0]);
            return middles.reduce((best, middle) => (Math.abs(middle - at) < Math.abs(best - at) ? middle : best));
        };
        return {
            [meta.rows]: place(1 - (event.clientY - box.top) / box.height, yaxis, yaxis2.tickvals) + (meta.row_from || 0),
            [meta.columns]: place((event.clientX - box.left) / box.width, xaxis, xaxis2.tickvals) + (meta.column_from || 0),
            row_block: meta.row_block, column_block: meta.column_block,
        };
    };
    // Pressed and let go at the same place is a click; anything else zooms. (Plotly covers the page in between.)
    let pressed = null;
    const down = (event) => {
        const area = event.isPrimary && event.button === 0 && event.target.closest && event.target.closest(".nsewdrag");
        const chart = area && area.closest(".js-plotly-plot");
        pressed = chart && { x: event.clientX, y: event.clientY, cell: cellAt(chart, event) };
    };
    const up = (event) => {
        const still = pressed && Math.hypot(event.clientX - pressed.x, event.clientY - pressed.y) < 5;
        if (still && pressed.cell) setTriggerValue("cell", pressed.cell);
        pressed = null;
    };
    document.addEventListener("pointerdown", down, true);
    document.addEventListener("pointerup", up, true);
    return () => {
        document.removeEventListener("pointerdown", down, true);
        document.removeEventListener("pointerup", up, true);
    };
}
""",
)


def listen(on_cell: Callable[[], None] | None = None) -> None:
    """Put the listener on the page. Once a page, anywhere. A click pins its cell, or calls `on_cell` before the page runs."""
    _LISTENER(key=state.PIN, on_cell_change=on_cell or pin_clicked)


def clicked() -> Mapping[str, float]:
    """The clicked cell: a coordinate for each of its figure's axes by name, and how many cells a drawn one stands for."""
    return st.session_state[state.PIN].cell


def pin_clicked() -> None:
    """Remember the clicked cell until the page has looked what is in it."""
    cell = clicked()
    block = {}
    for name, size in (("query", "row_block"), ("key", "column_block")):
        if name in cell:
            middle, length = (
                float(cell[name]),
                int(cell[size] if name == "query" or "query" in cell else cell["row_block"]),
            )
            block[name] = (round(middle - (length - 1) / 2), length)
    st.session_state[state.PINNED_BLOCK] = block


def pinned(trace: AttentionTrace) -> tuple[int, int]:
    """The two select boxes, and the cell they choose as (query, key): while they are empty, the strongest pair."""
    return pinned_among(
        trace.shape, strongest_pair(trace), lambda rows, columns: trace.weights[_slice(rows), _slice(columns)]
    )


def pinned_among(
    shape: tuple[int, int], strongest: tuple[int, int], values: Callable[[range, range], NDArray[np.floating]]
) -> tuple[int, int]:
    """The same for any table of this shape, whose numbers `values(rows, columns)` gives; NaN is no number."""
    _settle(shape, strongest, values)
    query_column, key_column = st.columns(2, wrap=False)
    with query_column:
        query = _picker("Query", state.QUERY, shape[0], strongest[0])
    with key_column:
        key = _picker("Key", state.KEY, shape[1], strongest[1])
    return query, key


def _slice(span: range) -> slice:
    return slice(span.start, span.stop)


def _picker(label: str, key: str, count: int, strongest: int) -> int:
    chosen = st.selectbox(
        label, range(count), index=None, placeholder=f"{strongest}, strongest pair", key=key, bind="query-params"
    )
    return strongest if chosen is None else chosen


def _settle(
    shape: tuple[int, int], strongest: tuple[int, int], values: Callable[[range, range], NDArray[np.floating]]
) -> None:
    """Turn a click into a cell: where one drawn cell stands for many, the one with the largest number among them."""
    block = st.session_state.pop(state.PINNED_BLOCK, None)
    if not block:
        return
    ranges = {
        "query": (_or(st.session_state.get(state.QUERY), strongest[0]), 1),
        "key": (_or(st.session_state.get(state.KEY), strongest[1]), 1),
    } | block
    (row, rows), (column, columns) = ranges["query"], ranges["key"]
    if not (0 <= row < shape[0] and 0 <= column < shape[1]):
        return  # a click on a picture of a text that has changed since
    part = values(range(row, min(row + rows, shape[0])), range(column, min(column + columns, shape[1])))
    best_row, best_column = np.unravel_index(np.nan_to_num(part, nan=-np.inf).argmax(), part.shape)
    if "query" in block:
        st.session_state[state.QUERY] = int(row + best_row)
    if "key" in block:
        st.session_state[state.KEY] = int(column + best_column)


def _or(chosen: int | None, otherwise: int) -> int:
    return otherwise if chosen is None else chosen
