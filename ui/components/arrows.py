"""Arrow keys that walk through a grid while its picture or the line below it has the focus."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from ui import presenting, state
from ui.components.presenting_keys import read_step
from ui.in_browser import component_beside, sent, session

_KEYS = component_beside(__file__)


def arrow_keys(
    picture: str,
    label: str,
    place: tuple[int, int],
    shape: tuple[int, ...],
    on_step: Callable[[int, int], None],
    *,
    words: str = "← ↑ ↓ → walk through the heads",
    line: tuple[str, float] | None = None,
) -> None:
    """Show a line of text that can be focused, also by a click on the picture with the key `picture`.

    Arrow keys then walk from `place` through a grid of this shape, and call on_step(row, column). While presenting, the whole
    page listens for them instead.

    label  the line's name for screen readers
    words  the line's text
    line   the key of a container that scrolls sideways, and the place in it, from 0 to 1, that stays in sight
    """

    if presenting.walk_through(place, shape, on_step):
        return

    def stepped() -> None:
        if (step := read_step(sent(state.ARROWS, "step"), shape)) is not None:
            row, column, st.session_state[state.PRESSES] = step
            on_step(row, column)

    data = {
        "picture": f".st-key-{picture}",
        "text": words,
        "label": label,
        "place": place,
        "shape": shape,
        "line": None if line is None else {"box": f".st-key-{line[0]}", "share": line[1]},
        "presses": st.session_state.get(state.PRESSES, 0),
        "session": session(),
    }
    _KEYS(key=state.ARROWS, data=data, on_step_change=stepped)
