"""Work that takes longer than a moment: said beforehand, followed layer by layer, and stopped with a button.

Streamlit ends a page's run at the next thing it draws once a visitor has touched a widget. The work tells how far it is
after each layer, so drawing that is also the moment at which the Stop button takes effect.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Literal, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import InputError
from ui import state

Result = TypeVar("Result")
OnProgress = Callable[[int], None]

PATIENCE = 0.4  # seconds: what takes less shows no progress
ASKS = 10.0  # seconds: what takes longer is not begun without asking


def run(
    work: Callable[[OnProgress], Result],
    job: Hashable,
    what: str,
    total: int,
    *,
    unit: str = "layer",
    announce: Callable[[], tuple[float, str]] | None = None,
) -> Result | None:
    """The work's result, or None while it is not wanted: stopped, or long and not yet begun.

    work      called with what it has to call after each step, with how many are done
    job       names the work; the same name is the same work
    what      is said while it runs, such as "Reading the text"
    total     how many steps there are, each of them a `unit`
    announce  gives the seconds that it will take at least, and a sentence about what it takes; asked before longer work

    Each job is stopped and wanted for itself, whatever becomes of other work.
    """
    wish = st.session_state.get(state.WISHES, {}).get(hash(job))
    if wish == "stop":
        st.info(f"{what} was stopped.", icon=":material/stop_circle:")
        st.button("Start again", key=state.button("again", hash(job)), on_click=_want, args=(job,))
        return None
    if announce is not None and wish != "run":
        seconds, sentence = announce()
        if seconds > ASKS:
            st.info(sentence, icon=":material/schedule:")
            st.button("Run", key=state.button("begin", hash(job)), type="primary", on_click=_want, args=(job,))
            return None
    place = st.empty()
    try:
        result = work(_Progress(place, job, what, total, unit).tell)
    except InputError:
        place.empty()
        raise
    place.empty()
    return result


class _Progress:
    """A bar, a sentence and a Stop button, once the work has taken a while."""

    def __init__(self, place: DeltaGenerator, job: Hashable, what: str, total: int, unit: str) -> None:
        self._place, self._job, self._what, self._total, self._unit = place, job, what, total, unit
        self._started = time.monotonic()
        self._bar: DeltaGenerator | None = None

    def tell(self, done: int) -> None:
        if self._bar is None:
            if time.monotonic() - self._started < PATIENCE:
                return
            with self._place.container(horizontal=True, vertical_alignment="bottom"):
                self._bar = st.empty()
                key = state.button("stop", hash(self._job))
                st.button("Stop", key=key, icon=":material/stop:", on_click=_stop, args=(self._job,))
        elapsed = time.monotonic() - self._started
        left = elapsed / done * (self._total - done)
        remains = f", about {left:.0f} s left" if left >= 1 else ""
        words = f"{self._what}: {self._unit} {done} of {self._total}{remains}"
        self._bar.progress(min(done / self._total, 1.0), text=words)


def _stop(job: Hashable) -> None:
    _wish(job, "stop")


def _want(job: Hashable) -> None:
    _wish(job, "run")


def _wish(job: Hashable, wish: Literal["stop", "run"]) -> None:
    st.session_state.setdefault(state.WISHES, {})[hash(job)] = wish
