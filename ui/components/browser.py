"""What lives in the browser: light or dark, the talk that is kept through a reload, and going to a view of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import streamlit as st
from streamlit.components.v2 import component

from ui import state

_HERE = Path(__file__)
_BROWSER = component(
    "headlight_browser",
    html='<button class="theme" type="button" aria-label="Theme"></button>',
    css=_HERE.with_suffix(".css").read_text(encoding="utf-8"),
    js=_HERE.with_suffix(".js").read_text(encoding="utf-8"),
)


def browser(
    page: str, paths: Sequence[str], kept: str | None, on_found: Callable[[str], None], going: tuple[int, str] | None
) -> None:
    """A button that switches between the system's theme, the light and the dark one.

    page, paths  the path of this page and those of all, below the app's own address
    kept         what the browser keeps from now on; None: nothing yet, and on_found is called with what it has kept
    going        (number, link) of a view to go to, once for each number; None: nowhere
    """

    def found() -> None:
        text = st.session_state[state.BROWSER].found
        if isinstance(text, str):
            on_found(text)

    data = {"page": page, "paths": list(paths), "kept": kept, "going": None if going is None else list(going)}
    _BROWSER(key=state.BROWSER, data=data, on_found_change=found)
