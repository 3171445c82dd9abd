"""The keys of a presentation: stages, heads and views, spotlight, notes; they need no focus. And the window's size.

They are listened for on every page: whoever has pressed Present or Start does not wait until the stage is there. What is
pressed before is kept, and done as soon as it can be.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import streamlit as st
from streamlit.components.v2 import component

from ui import presenting, state
from ui.address import session
from ui.components.messages import sent
from ui.links import go_to
from ui.presenting import SPOTS, Stage
from ui.talk import Talk

_HERE = Path(__file__)
_KEYS = component(
    "headlight_stage",
    html='<div class="black" hidden></div>'
    '<div class="curtain" hidden role="status"></div>'
    '<pre class="notes" hidden aria-label="Notes"></pre>'
    '<div class="legend" hidden role="dialog" aria-label="Keys"><dl></dl></div>'
    '<div class="bar" hidden><span class="place"></span><button class="help" title="Keys (?)" aria-label="Keys">?</button>'
    '<button class="leave" title="Leave (Esc)" aria-label="Leave">✕</button></div>',
    css=_HERE.with_suffix(".css").read_text(encoding="utf-8"),
    js=_HERE.with_suffix(".js").read_text(encoding="utf-8"),
)
LARGEST = 20_000  # pixels of a window
_ENTERS = f".st-key-{state.PRESENT_PAGE} button, .st-key-{state.START_TALK} button"


def no_stage() -> None:
    """Nobody presents; the keys wait for somebody who does."""
    _KEYS(key=state.STAGE_KEYS, data=_data("") | {"presenting": False})


def stage_keys(stage: Stage, page: str, talk: Talk, at: int | None, *, rehearsing: bool) -> None:
    """
    page        the path of the page that is shown
    at          which view of the talk it is; None: none
    rehearsing  whether every view is only opened in turn, behind a curtain
    """
    walk, spot = stage.walk, presenting.spot()

    def pressed() -> None:
        """What several presses have come to, of which only the last is told."""
        press = sent(state.STAGE_KEYS, "press")
        if not isinstance(press, Mapping):
            return
        found = None if walk is None else read_step(press, walk.shape)
        if walk is not None and found is not None:
            walk.on_step(*found[:2])
        if press.get("spot") in SPOTS:
            st.session_state[state.SPOT] = press["spot"]
        if press.get("leaves") is True:
            presenting.leave()
        if isinstance(number := press.get("presses"), int):
            st.session_state[state.STAGE_PRESSES] = number

    def rehearsed() -> None:
        views = sent(state.STAGE_KEYS, "rehearsed")
        views = views if isinstance(views, list) else []
        known = [place for place in views if isinstance(place, int) and 0 <= place < len(talk.views)]
        st.session_state[state.REHEARSED] = known
        presenting.leave()
        go_to("talk")

    def measured() -> None:
        match sent(state.STAGE_KEYS, "window"):
            case [int(width), int(height)] if 0 < width < LARGEST and 0 < height < LARGEST:
                st.session_state[state.WINDOW] = (width, height)

    data = _data(page) | {
        "presenting": True,
        "window": list(stage.window),
        "place": None if walk is None else list(walk.place),
        "shape": None if walk is None else list(walk.shape),
        "spots": list(SPOTS),
        "spot": spot,
        "at": at,
        "awaitsTalk": at is None and state.TALK_AT in st.session_state[state.ASKED],
        "links": [] if at is None else [view.presented(place) for place, view in enumerate(talk.views)],
        "notes": "" if at is None else talk.views[at].notes,
        "next": "" if at is None or at + 1 >= len(talk.views) else talk.views[at + 1].title,
        "rehearsing": rehearsing,
    }
    _KEYS(
        key=state.STAGE_KEYS,
        data=data,
        on_press_change=pressed,
        on_rehearsed_change=rehearsed,
        on_window_change=measured,
    )


def _data(page: str) -> dict[str, object]:
    return {
        "session": session(),
        "presses": st.session_state.get(state.STAGE_PRESSES, 0),
        "page": page,
        "enters": _ENTERS,
    }


def read_step(press: object, shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    """(row, column, number of the press), if what came from a browser can be a step in this grid."""
    if isinstance(press, Mapping):
        match press.get("place"), press.get("presses"):
            case [int(row), int(column)], int(presses) if 0 <= row < shape[0] and 0 <= column < shape[1]:
                return row, column, presses
    return None
