"""The visitors of this host: how many there are, and whether one more can come in."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

import streamlit as st
from streamlit.runtime import exists, get_instance
from streamlit.runtime.scriptrunner import get_script_run_ctx

from ui import settings, state

IDLE = 900.0  # seconds without a click after which a newcomer who finds no place gets this one


class Visitors:
    """The sessions that have a place, as long as each `is_there`, and when it was last seen. Threads may share it."""

    def __init__(self, is_there: Callable[[str], bool], clock: Callable[[], float] = time.monotonic) -> None:
        self._is_there, self._clock = is_there, clock
        self._seen: dict[str, float] = {}
        self._lock = Lock()

    def admit(self, session: str, most: int | None) -> bool:
        """Return whether this session has a place, or gets one of so many; None: of any number."""
        with self._lock:
            self._seen = {name: seen for name, seen in self._seen.items() if name == session or self._is_there(name)}
            if session not in self._seen and most is not None and len(self._seen) >= most:
                idlest = min(self._seen, key=self._seen.__getitem__)
                if self._clock() - self._seen[idlest] < IDLE:
                    return False
                del self._seen[idlest]
            self._seen[session] = self._clock()
            return True


_VISITORS = Visitors(lambda session: exists() and get_instance().is_active_session(session))


def admit() -> None:
    """End the page's run with a few words if there is no place for this visitor."""
    context = get_script_run_ctx()
    if context is None or _VISITORS.admit(context.session_id, settings.current().sessions):
        return
    st.title("Headlight is full")
    st.markdown("As many people as this host can serve are here now. Please come back in a few minutes.")
    st.button("Try again", key=state.TRY_AGAIN)
    st.stop()
