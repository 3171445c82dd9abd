"""Choosing a cell by a click on any picture. Two select boxes hold the chosen cell: see ui/controls/pinned.py.

Streamlit sends no event for a click on a heatmap, so a small invisible component listens to the page and sends the coordinates
of the clicked cell. The `meta` of each figure names its rows and columns.
"""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from ui import state
from ui.in_browser import component_beside, sent

FARTHEST = 2**31  # no text has more positions

_LISTENER = component_beside(__file__, "figure_cells")


def listen(on_cell: Callable[[], None] | None = None) -> None:
    """Put the listener on the page, once and anywhere. A click pins its cell, or calls `on_cell` before the page runs."""
    _LISTENER(key=state.PIN, on_cell_change=on_cell or pin_clicked)


def clicked() -> dict[str, range]:
    """Return the clicked cell: name of each axis -> the positions that the cell stands for. Empty if no cell was sent."""
    match sent(state.PIN, "cell"):
        case [along_rows, along_columns]:
            rows, columns = _positions(along_rows), _positions(along_columns)
            if rows and columns:
                return dict((rows, columns))
    return {}


def clicked_in(rows: str, columns: str, shape: tuple[int, ...]) -> tuple[int, int] | None:
    """Return (row, column) of the clicked cell in a table of this shape; None if it is outside or stands for several cells."""
    cell = clicked()
    if cell.keys() != {rows, columns} or any(len(positions) > 1 for positions in cell.values()):
        return None
    row, column = cell[rows].start, cell[columns].start
    return (row, column) if row < shape[0] and column < shape[1] else None


def _positions(part: object) -> tuple[str, range] | None:
    """Return the name of an axis and the positions of the clicked cell on it; None if the browser sent something else."""
    match part:
        case {"axis": str(name), "middle": int() | float() as middle, "cells": int(cells)}:
            if 0 <= middle < FARTHEST and 1 <= cells < FARTHEST:  # no NaN either
                first = round(middle - (cells - 1) / 2)
                return (name, range(first, first + cells)) if first >= 0 else None
    return None


def pin_clicked() -> None:
    """Remember the clicked cell until the page looks for the strongest pair in it."""
    st.session_state[state.PINNED_BLOCK] = {
        name: positions for name, positions in clicked().items() if name in ("query", "key")
    }
