"""The chosen cell: two select boxes, and so the address, which a click on a picture fills in."""

from __future__ import annotations

import streamlit as st

from core import AttentionTrace
from core.attention.ledger import Part, strongest_in, strongest_pair
from ui import state
from ui.controls.fields import pick_place

LONG = 1_000  # positions: a box with more would be built anew for every head, were the strongest one named in it


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
    chosen = pick_place(label, key, count, "strongest pair" if count > LONG else f"{strongest}, strongest pair")
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
