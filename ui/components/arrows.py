"""Walking through the heads with the arrow keys, while the grid or the line below it has the focus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import streamlit as st
from streamlit.components.v2 import component

from ui import state

_HERE = Path(__file__)
_KEYS = component(
    "headlight_arrows",
    html='<div class="keys" tabindex="0" role="application"></div>',
    css=_HERE.with_suffix(".css").read_text(encoding="utf-8"),
    js=_HERE.with_suffix(".js").read_text(encoding="utf-8"),
)


def arrow_keys(
    picture: str, label: str, place: tuple[int, int], shape: tuple[int, ...], on_step: Callable[[int, int], None]
) -> None:
    """A line that can be focused, also by a click on the picture of that key; arrow keys walk from `place` over a grid of
    this shape and call on_step(row, column)."""

    def stepped() -> None:
        found = _read(st.session_state[state.ARROWS].step, shape)
        if found is not None:
            row, column, st.session_state[state.PRESSES] = found
            on_step(row, column)

    data = {
        "picture": f".st-key-{picture}",
        "text": "← ↑ ↓ → walk through the heads",
        "label": label,
        "place": list(place),
        "shape": list(shape),
        "presses": st.session_state.get(state.PRESSES, 0),
    }
    _KEYS(key=state.ARROWS, data=data, on_step_change=stepped)


def _read(sent: object, shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    """(row, column, number of the press), if what came from a browser can be a step in this grid."""
    if not isinstance(sent, Mapping):
        return None
    match sent.get("place"), sent.get("presses"):
        case [int(row), int(column)], int(presses) if 0 <= row < shape[0] and 0 <= column < shape[1]:
            return row, column, presses
    return None
