"""Reading a picture cell by cell with the keyboard: each cell is framed and read out; Enter chooses it, as a click does.

The same component also reports a change of the theme, after which pictures need another colour for their text.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st
from streamlit.components.v2 import component

from ui import state

_HERE = Path(__file__)
_READER = component(
    "headlight_cells",
    html='<div class="ring" hidden></div><div class="said" aria-live="polite"></div>',
    css=_HERE.with_suffix(".css").read_text(encoding="utf-8"),
    js=_HERE.with_suffix(".js").read_text(encoding="utf-8"),
)


def read_cells() -> None:
    """Put the reader on the page. Call it once, anywhere: it finds the pictures by itself."""
    _READER(key=state.CELL_READER, data={"theme": st.context.theme.type}, on_theme_change=lambda: None)
