"""The magnified window: every number near the chosen pair, exact, below the picture of a long text."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from core.attention.rowwise import Overview, RowwiseMatrix, around
from ui import presenting

SIDE = 32  # tokens


def show_magnified(
    matrix: RowwiseMatrix,
    cell: tuple[int, int],
    draw: Callable[[Overview], None],
    *,
    unit: str = "token",
    side: int = SIDE,
) -> None:
    """Say which window around the chosen (query, key) follows, and draw it.

    A text of at most `side` tokens, whose every number can be seen already, has no such window; nor has a presentation.

    draw  draws the window; its matrices know where they begin
    unit  what a row or a column is: a token or a word
    """
    if presenting.is_on() or max(matrix.shape) <= side:
        return
    rows, columns = (around(position, length, side) for position, length in zip(cell, matrix.shape, strict=True))
    st.markdown(
        f"**Every {unit} near the chosen pair**: queries {rows.start} to {rows.stop - 1}, "
        f"keys {columns.start} to {columns.stop - 1}"
    )
    draw(matrix.window(rows, columns))
