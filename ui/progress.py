"""Work that takes longer than a moment: said beforehand, followed layer by layer, and stopped with a button.

Streamlit ends a page's run at the next thing it draws once a visitor has touched a widget. The work tells how far it is
after each layer, so drawing that is also the moment at which the Stop button takes effect.

Work that gives its result piece by piece is drawn as far as it has come, and gone on with where it was left (`fill`).

Work that nobody would stop half-way, such as converting a model, is only followed: another thread draws how far it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Literal, Protocol, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.scriptrunner import add_script_run_ctx

from core import InputError
from ui import state
from ui.markdown import plain

Result = TypeVar("Result")
OnProgress = Callable[[int], None]
Tell = Callable[[str, float | None], None]

PATIENCE = 0.4  # seconds: what takes less shows no progress
ASKS = 10.0  # seconds: what takes longer is not begun without asking
REDRAWN = 0.1  # seconds between two looks at what has been told
TRIAL = 1.5  # seconds of a result that comes piece by piece, after which it is clear how long all of it takes
LONG = 60.0  # seconds: what then takes longer than this is not gone on with without asking
FILLED = 0.5  # seconds between two drawings of a result that comes piece by piece


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
            st.button("Run", key=state.button("begin", hash(job)), on_click=_want, args=(job,))
            return None
    place = st.empty()
    try:
        result = work(_Progress(place, job, what, total, unit).tell)
    except InputError:
        place.empty()
        raise
    place.empty()
    return result


class Pieces(Protocol):
    """A result that comes in `total` pieces, of which `done` are there; `share` of all the work is over."""

    @property
    def done(self) -> int: ...

    @property
    def total(self) -> int: ...

    @property
    def share(self) -> float: ...

    def go_on(self) -> bool:
        """Work out one more; False if there is none left."""
        ...


def fill(pieces: Pieces, job: Hashable, what: str, draw: Callable[[bool], None], *, unit: str = "layer") -> None:
    """Work out the pieces that are not there yet, and draw what there is meanwhile and in the end.

    draw  called with whether this is the last drawing of this run of the page: only that one may use fixed keys

    What has come stays when the work is stopped, and when a visitor touches something else; it goes on from there. It begins
    without asking, and pauses after a moment if by then it is seen to take long. The other arguments are those of `run`.
    """
    place, picture = st.empty(), st.empty()
    wish, remains = st.session_state.get(state.WISHES, {}).get(hash(job)), ""
    if pieces.done < pieces.total and wish != "stop":
        with place, st.spinner(what):  # before the first piece the text is read
            pieces.go_on()
        progress = _Progress(place, job, what, pieces.total, unit, pieces.share)
        drawn = 0.0
        while pieces.done < pieces.total:
            progress.tell(pieces.done, pieces.share)
            if wish != "run" and progress.elapsed > TRIAL and progress.left(pieces.share) > LONG:
                _stop(job)
                wish, remains = "stop", f" It takes about {progress.left(pieces.share):.0f} s more."
                break
            if time.monotonic() - drawn > FILLED:
                with picture.container():
                    draw(False)
                drawn = time.monotonic()
            if not pieces.go_on():
                break
        place.empty()
    if pieces.done < pieces.total and wish == "stop":
        with place.container():
            words = f"{what} was stopped at {unit} {pieces.done} of {pieces.total}.{remains}"
            st.info(words, icon=":material/stop_circle:")
            st.button("Go on", key=state.button("again", hash(job)), on_click=_want, args=(job,))
    if pieces.done:
        with picture.container():
            draw(True)


class _Progress:
    """A bar, a sentence and a Stop button, once the work has taken a while."""

    def __init__(
        self, place: DeltaGenerator, job: Hashable, what: str, total: int, unit: str, already: float = 0.0
    ) -> None:
        """already: the share of the work that was over before it was begun now"""
        self._place, self._job, self._what, self._total, self._unit = place, job, what, total, unit
        self._already = already
        self._started = time.monotonic()
        self._bar: DeltaGenerator | None = None

    def tell(self, done: int, share: float | None = None) -> None:
        """share: how much of the work is over; None: as much as of the steps"""
        share = done / self._total if share is None else share
        if self._bar is None:
            if time.monotonic() - self._started < PATIENCE:
                return
            with self._place.container(horizontal=True, vertical_alignment="bottom"):
                self._bar = st.empty()
                key = state.button("stop", hash(self._job))
                st.button("Stop", key=key, icon=":material/stop:", on_click=_stop, args=(self._job,))
        left = self.left(share)
        remains = f", about {left:.0f} s left" if left >= 1 else ""
        words = f"{self._what}: {self._unit} {done} of {self._total}{remains}"
        self._bar.progress(min(share, 1.0), text=words)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._started

    def left(self, share: float) -> float:
        """Seconds until all is over, if this share of it is."""
        return self.elapsed / (share - self._already) * (1 - share) if share > self._already else 0.0


@contextmanager
def following(place: DeltaGenerator, words: str) -> Iterator[Tell]:
    """Say in `place` what is being done, and how far it is, for as long as it takes; of a mere moment nothing is said.

    words  what is said first
    Gives what the work calls with further words, and with the share that is done or None. It takes no time, and does not end
    the work where a visitor touches something meanwhile: in this thread nothing is drawn.
    """
    told: tuple[str, float | None] = (words, None)
    over = Event()

    def tell(words: str, done: float | None) -> None:
        nonlocal told
        told = (words, done)

    def draw() -> None:
        drawn, wait = None, PATIENCE
        while not over.wait(wait):
            wait, now = REDRAWN, told
            if now != drawn:
                _show(place, *now)
                drawn = now

    thread = Thread(target=draw, daemon=True)
    add_script_run_ctx(thread)
    thread.start()
    try:
        yield tell
    finally:
        over.set()
        thread.join()
        place.empty()


def _show(place: DeltaGenerator, words: str, done: float | None) -> None:
    if done is None:
        place.status(plain(words), type="step")
    else:
        place.progress(done, text=f"{plain(words)}: {done:.0%}")


def _stop(job: Hashable) -> None:
    _wish(job, "stop")


def _want(job: Hashable) -> None:
    _wish(job, "run")


def _wish(job: Hashable, wish: Literal["stop", "run"]) -> None:
    st.session_state.setdefault(state.WISHES, {})[hash(job)] = wish
