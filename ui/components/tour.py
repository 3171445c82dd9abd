"""The card of a tour: its words, the number of the stop, and Next, Back and Leave, also by the arrow keys and Esc."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import streamlit as st

from ui import state
from ui.in_browser import component_beside, sent, session

_CARD = component_beside(__file__)


def tour_card(words: str, stop: int, count: int, subject: str, on_go: Callable[[int | None], None]) -> None:
    """Show the card with these words at this stop of `count`, beside its subject or, without room for that, above or below it.

    subject  the key of the widget or picture that the words are about: it is outlined, and scrolled into view at every new stop
    on_go    called with the next stop, with `count` after the last one, or with None if somebody leaves
    """

    def moved() -> None:
        message = sent(state.TOUR_CARD, "go")
        if isinstance(message, Mapping):
            match message.get("stop"), message.get("presses"):
                case (None | int()) as target, int(presses) if target is None or 0 <= target <= count:
                    st.session_state[state.TOUR_PRESSES] = presses
                    on_go(target)

    data = {
        "words": words,
        "stop": stop,
        "count": count,
        "presses": st.session_state.get(state.TOUR_PRESSES, 0),
        "session": session(),
        "subject": f".st-key-{subject}",
    }
    _CARD(key=state.TOUR_CARD, data=data, on_go_change=moved)
