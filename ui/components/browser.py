"""The part of the app that lives in the browser: the theme, the talk and small pictures of its views, and going to a view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import streamlit as st

from ui import state
from ui.in_browser import component_beside, sent, session
from ui.talk import Talk

_BROWSER = component_beside(__file__, "small_pictures", "browser")
_VIEW_ORDER = component_beside(__file__, "small_pictures", "view_order")
LONGEST = 200  # characters of a browser's error message


@dataclass(frozen=True)
class TalkStorage:
    """The talk that the browser should store, and the functions to call with the outcome.

    text        the talk's file; None while the session has no talk
    is_kept     whether the browser has confirmed that it stores just this text
    taken       the number of the last stored talk that the session has taken in; until then the browser stores nothing else
    asks        whether the session waits for the browser to say that it stores none
    on_found    called with (text, base, number): a stored talk that this session has not written, the text of this window from
                which that was changed, if any, and its number
    on_nothing  called when the browser stores none
    on_kept     called with the text that is stored
    on_lost     called with the reason if it cannot be stored
    """

    text: str | None
    is_kept: bool
    taken: int | None
    asks: bool
    on_found: Callable[[str, str | None, int], None]
    on_nothing: Callable[[], None]
    on_kept: Callable[[str], None]
    on_lost: Callable[[str], None]


def browser(page: str, paths: Sequence[str], talk: TalkStorage) -> None:
    """Show the button that switches between the system's, the light and the dark theme, and keep the talk in the browser.

    page, paths  the path of this page, and the paths of all pages, below the app's own address
    """

    def found() -> None:
        match sent(state.BROWSER, "found"):
            case {"text": str(text), "base": (str() | None) as base, "number": int(number)}:
                talk.on_found(text, base, number)

    def nothing() -> None:
        if sent(state.BROWSER, "nothing") == session():
            talk.on_nothing()

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
        "taken": talk.taken,
        "asks": talk.asks,
        "keep": None if talk.text is None or talk.is_kept else {"text": talk.text, "name": _name(talk.text)},
        "going": st.session_state.pop(state.GOING, None),
        "adds": f".st-key-{state.ADD_TO_TALK} button",
        "added": st.session_state.pop(state.ADDED_VIEW, None),
    }
    heard = {"on_found_change": found, "on_nothing_change": nothing, "on_kept_change": kept, "on_lost_change": lost}
    _BROWSER(key=state.BROWSER, data=data, **heard)


def view_order(talk: Talk, on_order: Callable[[list[object]], None]) -> None:
    """Show small pictures of the views of a talk, which are moved by dragging them, by keys, or by buttons.

    on_order  called with the marks of the views, in their new order
    """

    def moved() -> None:
        match sent(state.VIEW_ORDER, "order"):
            case {"marks": list(marks), "presses": int(presses)}:
                st.session_state[state.VIEW_MOVES] = presses
                on_order(marks)

    views = [{"mark": view.mark, "title": view.title, "link": view.link} for view in talk.views]
    data = {"views": views, "presses": st.session_state.get(state.VIEW_MOVES, 0), "session": session()}
    _VIEW_ORDER(key=state.VIEW_ORDER, data=data, on_order_change=moved)


def _name(text: str) -> str:
    """Return a short name that no other text has."""
    return sha256(text.encode()).hexdigest()
