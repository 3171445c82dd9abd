"""The keys of a presentation: for stages, heads and views, spotlight and notes. They need no focus.

Every page listens for them. Keys that are pressed after Present or Start, but before the page is there, are kept and handled
as soon as possible. The component also sends the size of the window.
"""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from ui import presenting, state
from ui.in_browser import component_beside, sent, session
from ui.links import go_to
from ui.presenting import SPOTS, Presentation, Walk
from ui.talk import Talk

_KEYS = component_beside(__file__)
LARGEST = 20_000  # pixels: the largest window
_ENTERS = f".st-key-{state.PRESENT_PAGE} button, .st-key-{state.START_TALK} button"


def await_keys() -> None:
    """Listen for keys on a page that nobody presents: they wait until somebody does."""
    _KEYS(key=state.STAGE_KEYS, data=_data("") | {"presenting": False})


def listen(presentation: Presentation, page: str, talk: Talk, index: int | None, *, rehearsing: bool) -> None:
    """Listen for keys on a page that somebody presents.

    page        the path of the page
    index       the index of the view in the talk; None if the talk does not have it
    rehearsing  whether every view is only opened in turn, behind a curtain
    """
    walk = presentation.walk
    data = _data(page) | {
        "presenting": True,
        "window": presentation.window,
        "place": None if walk is None else walk.place,
        "shape": None if walk is None else walk.shape,
        "spots": list(SPOTS),
        "spot": presenting.spot(),
        "rehearsing": rehearsing,
    }
    _KEYS(
        key=state.STAGE_KEYS,
        data=data | _of_talk(talk, index),
        on_press_change=lambda: _pressed(walk),
        on_rehearsed_change=lambda: _rehearsed(len(talk.views)),
        on_window_change=_measured,
    )


def _of_talk(talk: Talk, index: int | None) -> dict[str, object]:
    """Return what the browser needs to know of the talk, at the view with this index."""
    if index is None:
        awaits_talk = state.TALK_AT in st.session_state[state.ASKED]
        return {"at": None, "awaitsTalk": awaits_talk, "links": [], "notes": "", "next": ""}
    return {
        "at": index,
        "awaitsTalk": False,
        "links": [view.presented(number) for number, view in enumerate(talk.views)],
        "notes": talk.views[index].notes,
        "next": "" if index + 1 >= len(talk.views) else talk.views[index + 1].title,
    }


def _pressed(walk: Walk | None) -> None:
    """Take in a press; of several presses the browser sends only the last, with the outcome of all."""
    press = sent(state.STAGE_KEYS, "press")
    if not isinstance(press, Mapping):
        return
    if walk is not None and (step := read_step(press, walk.shape)) is not None:
        walk.on_step(*step[:2])
    if press.get("spot") in SPOTS:
        st.session_state[state.SPOT] = press["spot"]
    if press.get("leaves") is True:
        presenting.leave()
    if isinstance(number := press.get("presses"), int):
        st.session_state[state.STAGE_PRESSES] = number


def _rehearsed(count: int) -> None:
    """Return to the page Talk once all `count` views have been opened; the browser sends which of them show a message."""
    views = sent(state.STAGE_KEYS, "rehearsed")
    views = views if isinstance(views, list) else []
    st.session_state[state.REHEARSED] = [index for index in views if isinstance(index, int) and 0 <= index < count]
    presenting.leave()
    go_to("talk")


def _measured() -> None:
    """Remember the size of the window."""
    match sent(state.STAGE_KEYS, "window"):
        case [int(width), int(height)] if 0 < width < LARGEST and 0 < height < LARGEST:
            st.session_state[state.WINDOW] = (width, height)


def _data(page: str) -> dict[str, object]:
    """Return what the browser needs to know on any page."""
    return {
        "session": session(),
        "presses": st.session_state.get(state.STAGE_PRESSES, 0),
        "page": page,
        "enters": _ENTERS,
    }


def read_step(press: object, shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Return (row, column, number of the press); None if what the browser sent is not a step in this grid."""
    if isinstance(press, Mapping):
        match press.get("place"), press.get("presses"):
            case [int(row), int(column)], int(presses) if 0 <= row < shape[0] and 0 <= column < shape[1]:
                return row, column, presses
    return None
