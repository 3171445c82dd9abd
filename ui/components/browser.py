"""What lives in the browser: light or dark, the talk that is kept through a reload, and going to a view of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import streamlit as st
from streamlit.components.v2 import component

from ui import state
from ui.address import session
from ui.components.messages import sent

_HERE = Path(__file__)
_BROWSER = component(
    "headlight_browser",
    html='<button class="theme" type="button" aria-label="Theme"></button>',
    css=_HERE.with_suffix(".css").read_text(encoding="utf-8"),
    js=_HERE.with_suffix(".js").read_text(encoding="utf-8"),
)

LONGEST = 200  # letters of what a browser complains of


@dataclass(frozen=True)
class Keeping:
    """What the browser is to keep of a talk, and who is told what has come of it.

    number    grows with all that the session holds or hears of a talk
    text      None: the session holds no talk yet
    is_kept   whether the browser has said that it keeps just this
    on_found  told (text, base): what the browser keeps, where this session has not written it, and on top of which text of this
              window that was written; None: of none
    on_kept   told the text that is kept
    on_lost   told why it cannot be kept
    """

    number: int
    text: str | None
    is_kept: bool
    on_found: Callable[[str, str | None], None]
    on_kept: Callable[[str], None]
    on_lost: Callable[[str], None]


def browser(page: str, paths: Sequence[str], talk: Keeping) -> None:
    """A button that switches between the system's theme, the light and the dark one; and what the browser keeps.

    page, paths  the path of this page and those of all, below the app's own address
    """

    def found() -> None:
        match sent(state.BROWSER, "found"):
            case {"text": str(text), "base": (str() | None) as base}:
                talk.on_found(text, base)

    def kept() -> None:
        if talk.text is not None and sent(state.BROWSER, "kept") == _name(talk.text):
            talk.on_kept(talk.text)

    def lost() -> None:
        if isinstance(why := sent(state.BROWSER, "lost"), str):
            talk.on_lost(why[:LONGEST])

    data = {
        "session": session(),
        "page": page,
        "paths": list(paths),
        "hasTalk": talk.text is not None,
        "talkNumber": talk.number,
        "keep": None if talk.text is None or talk.is_kept else {"text": talk.text, "name": _name(talk.text)},
        "going": st.session_state.pop(state.GOING, None),
    }
    _BROWSER(key=state.BROWSER, data=data, on_found_change=found, on_kept_change=kept, on_lost_change=lost)


def _name(text: str) -> str:
    """A short name of a text, that no other has."""
    return sha256(text.encode()).hexdigest()
