"""Reading a picture cell by cell with the keyboard: each cell is framed and read out; Enter chooses it, as a click does.

The same component hides labels for which a picture is too narrow (fitting.js), and reports a change of the theme, after which
pictures need another colour for their text.
"""

from __future__ import annotations

import streamlit as st

from ui import state
from ui.in_browser import component_beside

_READER = component_beside(__file__, "figure_cells", "fitting")


def read_cells() -> None:
    """Put the reader on the page. Call it once, anywhere: it finds the pictures by itself."""
    _READER(key=state.CELL_READER, data={"theme": st.context.theme.type}, on_theme_change=lambda: None)
