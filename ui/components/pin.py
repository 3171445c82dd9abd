"""Choosing a cell of any picture, by a click or with the keyboard. Two select boxes hold it: see ui/controls/pinned.py.

Streamlit sends no event for a click on a heatmap, so a small invisible component listens to the page and sends the coordinates
of the clicked cell. The `meta` of each figure names its rows and columns.
"""

from collections.abc import Callable

import streamlit as st

from core.figures.labels import FITTING
from ui import state
from ui.in_browser import clicks_seen, component_beside, new_clicks

FARTHEST = 2**31  # no text has more positions

_LISTENER = component_beside(__file__, "figure_cells", "clicks", "pin")
_READER = component_beside(__file__, "figure_cells", FITTING.with_suffix(""), "toolbars", "cells")

Cell = dict[str, range]  # the name of each axis -> the positions on it that the clicked cell stands for


def pin(cell: Cell) -> None:
    """Remember the clicked cell until the page looks for the strongest pair in it."""
    st.session_state[state.PINNED_BLOCK] = {
        name: positions for name, positions in cell.items() if name in ("query", "key")
    }


def listen(on_cell: Callable[[Cell], object] = pin) -> None:
    """Put the listener on the page, once and anywhere. `on_cell` is called for each clicked cell before the page runs."""

    def clicked() -> None:
        for click in new_clicks(state.PIN):
            if cell := _cell(click):
                on_cell(cell)

    _LISTENER(key=state.PIN, data={"seen": clicks_seen(state.PIN)}, on_clicks_change=clicked)


def read_cells() -> None:
    """Let pictures be read cell by cell with the keyboard: each cell is framed and read out; Enter chooses it, as a click does.

    Call it once, anywhere: it finds the pictures by itself. The same component makes the labels of each picture fit
    (fitting.js) and each line of buttons one stop of the Tab key (toolbars.js), and reports a change of the theme, after which
    pictures need another colour for their text.
    """
    _READER(key=state.CELL_READER, data={"theme": st.context.theme.type}, on_theme_change=lambda: None)


def _cell(click: object) -> Cell | None:
    """Return the cell of a click; None if the browser sent something else."""
    match click:
        case [along_rows, along_columns]:
            rows, columns = _positions(along_rows), _positions(along_columns)
            if rows and columns:
                return dict((rows, columns))
    return None


def place_in(cell: Cell, rows: str, columns: str, shape: tuple[int, ...]) -> tuple[int, int] | None:
    """Return (row, column) of a cell in a table of this shape; None if it is outside or stands for several cells."""
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
