"""The chosen cell: two select boxes, and so the address, which a click on a picture fills in."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from core.attention.rowwise import Numbers, Whole, largest_in, strongest_cell
from ui import links, state
from ui.controls.fields import token_picker

SUGGESTED = (
    "Suggested is the largest weight between two different tokens, without the first and the last token, at which many "
    "heads look out of habit. If the model writes texts, the last query counts: there it chooses the next token."
)
NOTE = "suggested"
Tokens = tuple[Sequence[str], Sequence[str]]


def pinned(weights: NDArray[np.floating], tokens: Tokens) -> tuple[int, int]:
    """Show two select boxes for weights [queries, keys]; return the (query, key) they choose: if empty, the suggested pair.

    tokens  (query tokens, key tokens)
    """
    return pinned_among(tokens, strongest_cell(weights), Whole(weights).exact)


def pinned_among(
    tokens: Tokens, strongest: tuple[int, int], exact: Numbers, boxes: tuple[str, str] = (state.QUERY, state.KEY)
) -> tuple[int, int]:
    """Show the two select boxes for a matrix of any size, such as a `RowwiseMatrix`; return the cell that they choose.

    tokens     (query tokens, key tokens), which name the rows and columns
    strongest  the cell that is chosen while the boxes are empty
    exact      gives the numbers of some rows and columns: a click on a cell that stands for several chooses the largest
    boxes      the keys of the two select boxes: others where rows and columns are not positions in the text that pages share
    """
    _settle((len(tokens[0]), len(tokens[1])), strongest, exact, boxes)
    query_column, key_column = st.columns(2, wrap=False)
    with query_column:
        query = token_picker("Query", boxes[0], tokens[0], strongest[0], NOTE, help=SUGGESTED)
    with key_column:
        key = token_picker("Key", boxes[1], tokens[1], strongest[1], NOTE)
    return query, key


def from_to(tokens: Tokens, suggested: tuple[int, int], exact: Numbers) -> tuple[int, int]:
    """Show the two boxes in one line, "From it (10) to animal (2)"; return the (query, key) that they choose.

    Boxes that are empty are filled in: the pair stays while other heads, which suggest others, are opened. The arguments are
    those of `pinned_among`.
    """
    fields = zip(("Query", "Key"), (state.QUERY, state.KEY), tokens, suggested, strict=True)
    for label, box, names, place in fields:
        if links.field(box, links.IndexForm(len(names)), None, label) is None:
            links.put(box, place)
    _settle((len(tokens[0]), len(tokens[1])), suggested, exact, (state.QUERY, state.KEY))
    look: dict[str, Any] = {"label_visibility": "collapsed", "width": 140}
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", width="content"):
        st.markdown("From", width="content")
        query = token_picker("Query", state.QUERY, tokens[0], suggested[0], **look)
        st.markdown("to", width="content")
        key = token_picker("Key", state.KEY, tokens[1], suggested[1], **look)
    return query, key


def _settle(shape: tuple[int, int], strongest: tuple[int, int], exact: Numbers, boxes: tuple[str, str]) -> None:
    """Turn a click into a cell: where a drawn cell stands for several, the one with the largest number."""
    block = st.session_state.pop(state.PINNED_BLOCK, None)
    if not block:
        return
    chosen = zip((st.session_state.get(box) for box in boxes), strongest, strict=True)
    row, column = (place if number is None else number for number, place in chosen)
    rows, columns = block.get("query", range(row, row + 1)), block.get("key", range(column, column + 1))
    if rows.start >= shape[0] or columns.start >= shape[1]:
        return  # a click on a picture of a text that has changed since
    rows, columns = range(rows.start, min(rows.stop, shape[0])), range(columns.start, min(columns.stop, shape[1]))
    best = largest_in(rows, columns, exact)
    for name, key, place in zip(("query", "key"), boxes, best, strict=True):
        if name in block:
            st.session_state[key] = place
