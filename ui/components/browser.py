"""The part of the app that lives in the browser: the theme, the talk and small pictures of its views, and going to a view."""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import streamlit as st

from core import InputError
from ui import state
from ui.in_browser import component_beside, sent, session
from ui.talk import Talk, from_file, to_file

_BROWSER = component_beside(__file__, "small_pictures", "browser")
_VIEW_ORDER = component_beside(__file__, "small_pictures", "view_order")
LONGEST = 200  # characters of a browser's error message


def browser(page: str, paths: Sequence[str], *, asks: bool) -> None:
    """Show the button that switches between the system's, the light and the dark theme, and keep the talk in the browser:
    nothing new while it keeps a talk that cannot be read.

    page, paths  the path of this page, and the paths of all pages, below the app's own address
    asks         whether the page shows the talk, and so waits for what the browser keeps
    """
    text = None if state.TALK_UNREAD in st.session_state else st.session_state.get(state.TALK_TEXT)
    is_kept = text == st.session_state.get(state.TALK_KEPT)

    def kept() -> None:
        if text is not None and sent(state.BROWSER, "kept") == _name(text):
            st.session_state[state.TALK_KEPT], st.session_state[state.TALK_READ] = text, True
            st.session_state.pop(state.TALK_LOST, None)

    data = {
        "session": session(),
        "page": page,
        "paths": list(paths),
        "hasTalk": text is not None,
        "taken": st.session_state.get(state.TALK_TAKEN),
        "asks": asks and not is_read(),
        "keep": None if text is None or is_kept else {"text": text, "name": _name(text)},
        "going": st.session_state.pop(state.GOING, None),
        "adds": f".st-key-{state.ADD_TO_TALK} button",
        "added": st.session_state.pop(state.ADDED_VIEW, None),
    }
    heard = {"on_found_change": _found, "on_nothing_change": _nothing, "on_kept_change": kept, "on_lost_change": _lost}
    _BROWSER(key=state.BROWSER, data=data, **heard)


def _name(text: str) -> str:
    """Return a short name that no other text has."""
    return sha256(text.encode()).hexdigest()


def _nothing() -> None:
    """The browser keeps no talk."""
    if sent(state.BROWSER, "nothing") == session():
        st.session_state[state.TALK_READ] = True


def _lost() -> None:
    """The browser cannot keep the talk."""
    if isinstance(why := sent(state.BROWSER, "lost"), str):
        st.session_state[state.TALK_LOST], st.session_state[state.TALK_READ] = why[:LONGEST], True


def _found() -> None:
    match sent(state.BROWSER, "found"):
        case {"text": str(text), "base": (str() | None) as base, "number": int(number)}:
            take_in(text, base, number)


def take_in(text: str, base: str | None, number: int) -> None:
    """Take over a talk of an earlier session, with what was added here before it was read, or merge that of another window.

    text    a stored talk that this session has not written
    base    the text of this window from which that was changed, if any
    number  that of the message; until it is known to be taken in, the browser stores nothing else
    """
    st.session_state[state.TALK_TAKEN], st.session_state[state.TALK_READ] = number, True
    if text == st.session_state.get(state.TALK_KEPT):
        return  # the browser has sent it twice
    mine = st.session_state.get(state.TALK)
    before = Talk()
    with suppress(InputError):  # the one before may have been damaged
        before = from_file((base or "").encode(errors="replace"))[0]
    try:
        theirs = from_file(text.encode(errors="replace"))[0]
        hold(theirs if mine is None else mine.merged(theirs, before))
    except InputError as error:
        st.session_state[state.TALK_UNREAD] = (text, str(error))
        return
    st.session_state[state.TALK_KEPT] = text
    st.session_state.pop(state.TALK_UNREAD, None)
    if None not in (mine, base) and held() != mine:
        say_of_talk("Another window has changed this talk. The changes of both windows are here.")


# --- the talk of this session


def held() -> Talk:
    """Return the talk of this session."""
    return st.session_state.get(state.TALK, Talk())


def hold(talk: Talk) -> None:
    """Make this the talk of this session, which the browser then keeps."""
    st.session_state[state.TALK] = talk
    st.session_state[state.TALK_TEXT] = to_file(talk).decode()


def is_read() -> bool:
    """Return whether this session knows what the browser keeps."""
    return st.session_state.get(state.TALK_READ, False)


def say_of_talk(words: str) -> None:
    """Show a message on the page Talk until somebody next changes the talk there."""
    st.session_state.setdefault(state.TALK_SAID, []).append(words)


def view_order(talk: Talk, painted: Mapping[str, Path], on_order: Callable[[list[object]], None]) -> None:
    """Show small pictures of the views of a talk, which are moved by dragging them, by keys, or by buttons.

    painted   pictures (PNG) of views that this browser has not drawn yet, by their links
    on_order  called with the marks of the views, in their new order
    """

    def moved() -> None:
        match sent(state.VIEW_ORDER, "order"):
            case {"marks": list(marks), "presses": int(presses)}:
                st.session_state[state.VIEW_MOVES] = presses
                on_order(marks)

    def picture(link: str) -> str | None:
        return f"data:image/png;base64,{b64encode(painted[link].read_bytes()).decode()}" if link in painted else None

    views = [
        {"mark": view.mark, "title": view.title, "link": view.link, "picture": picture(view.link)}
        for view in talk.views
    ]
    data = {"views": views, "presses": st.session_state.get(state.VIEW_MOVES, 0), "session": session()}
    _VIEW_ORDER(key=state.VIEW_ORDER, data=data, on_order_change=moved)
