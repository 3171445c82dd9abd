"""The card of a tour: what there is to see, how far one is, Next and Back, also with the arrow keys and Esc."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import streamlit as st
from streamlit.components.v2 import component

from ui import state
from ui.address import session
from ui.components.messages import sent

_HERE = Path(__file__)
_CARD = component(
    "headlight_tour",
    html='<div class="card" tabindex="-1" role="dialog" aria-label="Tour"><p class="words" aria-live="polite"></p>'
    '<div class="row"><span class="place"></span><button class="leave">Leave (Esc)</button>'
    '<button class="back">← Back</button><button class="next">Next →</button></div></div>',
    css=_HERE.with_suffix(".css").read_text(encoding="utf-8"),
    js=_HERE.with_suffix(".js").read_text(encoding="utf-8"),
)


def tour_card(words: str, stop: int, count: int, scroll_to: str, on_go: Callable[[int | None], None]) -> None:
    """The card over the lower end of the window, with these words at this stop of `count`.

    scroll_to  the key of a container that is brought into sight at every new stop
    on_go      called with another stop, with `count` after the last, or with None by somebody who leaves
    """

    def moved() -> None:
        went = sent(state.TOUR_CARD, "go")
        if isinstance(went, Mapping):
            match went.get("stop"), went.get("presses"):
                case (None | int()) as to, int(presses) if to is None or 0 <= to <= count:
                    st.session_state[state.TOUR_PRESSES] = presses
                    on_go(to)

    data = {
        "words": words,
        "stop": stop,
        "count": count,
        "presses": st.session_state.get(state.TOUR_PRESSES, 0),
        "session": session(),
        "scroll": f".st-key-{scroll_to}",
    }
    _CARD(key=state.TOUR_CARD, data=data, on_go_change=moved)
