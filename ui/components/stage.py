"""The keys of a presentation: stages, heads and views, spotlight, notes; they need no focus. And the window's size."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import streamlit as st
from streamlit.components.v2 import component

from ui import presenting, state
from ui.presenting import SPOTS, Stage
from ui.talk import Talk

_HERE = Path(__file__)
_KEYS = component(
    "headlight_stage",
    html='<div class="black" hidden></div>'
    '<div class="curtain" hidden role="status"></div>'
    '<pre class="notes" hidden aria-label="Notes"></pre>'
    '<div class="legend" hidden role="dialog" aria-label="Keys"><dl></dl></div>'
    '<div class="bar"><span class="place"></span><button class="help" title="Keys (?)" aria-label="Keys">?</button>'
    '<button class="leave" title="Leave (Esc)" aria-label="Leave">✕</button></div>',
    css=_HERE.with_suffix(".css").read_text(encoding="utf-8"),
    js=_HERE.with_suffix(".js").read_text(encoding="utf-8"),
)
LARGEST = 20_000  # pixels of a window


def stage_keys(
    stage: Stage, page: str, talk: Talk, at: int | None, *, rehearsing: bool, on_the_way: bool = False
) -> None:
    """
    page        the path of the page that is shown
    at          which view of the talk it is; None: none
    rehearsing  whether every view is only opened in turn, behind a curtain
    on_the_way  whether nothing is shown yet, and the browser has to go on to the view itself
    """
    walk, spot = stage.walk, presenting.spot()

    def stepped() -> None:
        found = None if walk is None else read_step(_sent("step"), walk.shape)
        if walk is not None and found is not None:
            row, column, st.session_state[state.STAGE_PRESSES] = found
            walk.on_step(row, column)

    def lit() -> None:
        if (word := _sent("spot")) in SPOTS:
            st.session_state[state.SPOT] = word

    def left() -> None:
        presenting.leave()

    def rehearsed() -> None:
        sent = _sent("rehearsed")
        views = sent if isinstance(sent, list) else []
        known = [place for place in views if isinstance(place, int) and 0 <= place < len(talk.views)]
        st.session_state[state.REHEARSED] = known
        left()
        presenting.go_to("talk")

    def measured() -> None:
        match _sent("window"):
            case [int(width), int(height)] if 0 < width < LARGEST and 0 < height < LARGEST:
                st.session_state[state.WINDOW] = (width, height)

    data = {
        "page": page,
        "window": list(stage.window),
        "place": None if walk is None else list(walk.place),
        "shape": None if walk is None else list(walk.shape),
        "presses": st.session_state.get(state.STAGE_PRESSES, 0),
        "spots": list(SPOTS),
        "spot": spot,
        "at": at,
        "links": [] if at is None else [view.presented(place) for place, view in enumerate(talk.views)],
        "notes": "" if at is None else talk.views[at].notes,
        "next": "" if at is None or at + 1 >= len(talk.views) else talk.views[at + 1].title,
        "rehearsing": rehearsing,
        "onTheWay": on_the_way,
    }
    _KEYS(
        key=state.STAGE_KEYS,
        data=data,
        on_step_change=stepped,
        on_spot_change=lit,
        on_leave_change=left,
        on_rehearsed_change=rehearsed,
        on_window_change=measured,
    )


def _sent(name: str) -> object:
    return getattr(st.session_state[state.STAGE_KEYS], name, None)


def read_step(sent: object, shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    """(row, column, number of the press), if what came from a browser can be a step in this grid."""
    if isinstance(sent, Mapping):
        match sent.get("place"), sent.get("presses"):
            case [int(row), int(column)], int(presses) if 0 <= row < shape[0] and 0 <= column < shape[1]:
                return row, column, presses
    return None
