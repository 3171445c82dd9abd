"""Work that takes longer than a moment: said beforehand, followed layer by layer, and stopped with a button.

Streamlit ends a page's run at the next thing it draws once a visitor has touched a widget. The work tells how far it is
after each layer, so drawing that is also the moment at which the Stop button takes effect.

Work that gives its result piece by piece is drawn as far as it has come, and gone on with where it was left (`fill`). Only what
a visitor has stopped is called stopped; where the page itself goes no further, the work has paused.

Work that is known to be heavy takes its turn (`ui.turns`), other work as soon as it turns out to be; a result that comes
piece by piece takes one for each. Meanwhile the page says how many are before, and Stop gives up the place. No work goes on for
longer than this host allows.

Work that nobody would stop half-way, such as converting a model, is only followed: another thread draws how far it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import Literal, Protocol, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.scriptrunner import add_script_run_ctx

from core import InputError
from core.units import seconds_in_words
from ui import settings, state
from ui.markdown import plain
from ui.stores import memory, turns
from ui.turns import HEAVY

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
    seconds: float = 0.0,
    needs: float = 0.0,
) -> Result | None:
    """The work's result, or None while it is not wanted: stopped, long and not yet begun, or longer than this host allows.

    work      called with what it has to call after each step, with how many are done
    job       names the work; the same name is the same work
    what      is said while it runs, such as "Reading the text"
    total     how many steps there are, each of them a `unit`
    announce  gives the seconds that it will take at least, and a sentence about what it takes; asked before longer work
    seconds   that it takes about, where nothing is announced
    needs     bytes that it takes while it runs, with what is kept of it

    Each job is stopped and wanted for itself, whatever becomes of other work. Raises InputError (field "text") where it needs
    more memory than this host allows.
    """
    wish = _wish_for(job)
    if wish in ("stop", "over"):
        _say_stopped(what, job, was_long=wish == "over")
        return None
    memory.check(needs)
    if announce is not None:
        seconds, sentence = announce()
        longest = settings.current().seconds
        if longest is not None and seconds > longest:
            st.info(f"{sentence} This host computes for at most {longest} s.{_ADVICE}", icon=":material/schedule:")
            return None
        if seconds > ASKS and wish != "run":
            st.info(sentence, icon=":material/schedule:")
            st.button("Run", key=state.button("begin", hash(job)), on_click=_want, args=(job,))
            return None
    place = st.empty()
    progress = _Progress(place, job, what, total, unit)
    try:
        with ExitStack() as taken:
            enter = turns.turn if seconds > HEAVY else turns.room
            taken.enter_context(enter(needs, progress.wait))
            progress.when_heavy = lambda: taken.enter_context(turns.turn(0, progress.wait))
            result = work(progress.tell)
    except InputError:
        place.empty()
        raise
    except _TimeIsUp:
        place.empty()
        _wish(job, "over")
        _say_stopped(what, job, was_long=True)
        return None
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


def fill(
    pieces: Pieces,
    job: Hashable,
    what: str,
    draw: Callable[[bool], None],
    *,
    unit: str = "layer",
    seconds: float = 0.0,
) -> None:
    """Work out the pieces that are not there yet, and draw what there is meanwhile and in the end.

    draw     called with whether this is the last drawing of this run of the page: only that one may use fixed keys
    seconds  that the first piece takes about

    What has come stays when the work is stopped, and when a visitor touches something else; it goes on from there. It begins
    without asking, and pauses after a moment if by then it is seen to take long, and after as long as this host computes. The
    other arguments are those of `run`.
    """
    place, picture = st.empty(), st.empty()
    wish = _wish_for(job)
    if pieces.done < pieces.total and wish != "stop" and not isinstance(wish, _Paused):
        progress = _Progress(place, job, what, pieces.total, unit, is_heavy=seconds > HEAVY)
        with progress.turn(), progress.spinner():  # before the first piece the text is read
            pieces.go_on()
        progress.measure_from(pieces.share)
        drawn, why = 0.0, ""
        while pieces.done < pieces.total:
            try:
                progress.tell(pieces.done, pieces.share)
            except _TimeIsUp:
                why = f" This host computes for at most {settings.current().seconds} s at a time."
            if wish != "run" and progress.elapsed > TRIAL and progress.left(pieces.share) > LONG:
                why += f" It takes about {seconds_in_words(progress.left(pieces.share))} more."
            if why:
                wish = _Paused(why)
                _wish(job, wish)
                break
            if time.monotonic() - drawn > FILLED:
                with picture.container():
                    draw(False)
                drawn = time.monotonic()
            with progress.turn():
                went_on = pieces.go_on()
            if not went_on:
                break
        place.empty()
    if pieces.done < pieces.total and (wish == "stop" or isinstance(wish, _Paused)):
        at = f"{unit} {pieces.done} of {pieces.total}."
        with place.container():
            if wish == "stop":
                st.info(f"{what} was stopped at {at}", icon=":material/stop_circle:")
            else:
                st.info(f"{what} has paused at {at}{wish.why}", icon=":material/pause_circle:")
            st.button("Continue", key=state.button("again", hash(job)), on_click=_want, args=(job,))
    if pieces.done:
        with picture.container():
            draw(True)


_ADVICE = " Shorten the text, or run Headlight on your own computer."


def _say_stopped(what: str, job: Hashable, *, was_long: bool) -> None:
    words = f"{what} was stopped."
    if was_long:
        words = f"{what} was ended after {settings.current().seconds} s, the longest that this host computes.{_ADVICE}"
    st.info(words, icon=":material/stop_circle:")
    st.button("Start again", key=state.button("again", hash(job)), on_click=_want, args=(job,))


class _TimeIsUp(Exception):
    """Work has taken as long as this host allows."""


class _Progress:
    """A bar, a sentence and a Stop button, once the work has taken a while; and the end of its time.

    when_heavy  called once the work has turned out to be heavy
    """

    def __init__(
        self,
        place: DeltaGenerator,
        job: Hashable,
        what: str,
        total: int,
        unit: str,
        *,
        is_heavy: bool = False,
    ) -> None:
        self._place, self._job, self._what, self._total, self._unit = place, job, what, total, unit
        self._is_heavy = is_heavy
        self._started, self._worked = turns.clock(), time.thread_time()
        self._measured_from = (self._started, 0.0)
        self._bar: DeltaGenerator | None = None
        self._words = f"{what} waits"
        self._share = 0.0
        self.when_heavy: Callable[[], object] = lambda: None

    def tell(self, done: int, share: float | None = None) -> None:
        """share: how much of the work is over; None: as much as of the steps. Raises _TimeIsUp."""
        turns.give_way()
        longest = settings.current().seconds
        if longest is not None and self.elapsed > longest and done < self._total:
            raise _TimeIsUp
        # By what this thread has done: beside heavy work light work takes longer too, and would then have to wait for it.
        if not self._is_heavy and time.thread_time() - self._worked > HEAVY:
            self._is_heavy = True
            self.when_heavy()
        share = done / self._total if share is None else share
        left = self.left(share)
        remains = f", about {seconds_in_words(left)} left" if left >= 1 else ""
        self._words, self._share = f"{self._what}: {self._unit} {done} of {self._total}", min(share, 1.0)
        if self.elapsed >= PATIENCE:
            self._show(self._words + remains)

    def wait(self, before: int) -> None:
        """Say how many are before. Ends the run of the page if its visitor wants something else or is gone."""
        others = "1 other" if before == 1 else f"{before} others"
        self._show(f"{self._words}, {others} before you")

    @contextmanager
    def turn(self) -> Iterator[None]:
        """For one piece of heavy work; light work goes on at once."""
        with ExitStack() as taken:
            if self._is_heavy:
                taken.enter_context(turns.turn(0, self.wait))
            yield

    def measure_from(self, share: float) -> None:
        """What is left is foretold by how fast the work goes on from here, where so much of it is over."""
        self._measured_from = (turns.clock(), share)

    @contextmanager
    def spinner(self) -> Iterator[None]:
        """In the place of the bar, before the first step."""
        self._bar = None
        with self._place, st.spinner(self._what):
            yield

    def _show(self, words: str) -> None:
        if self._bar is None:
            with self._place.container(horizontal=True, vertical_alignment="bottom"):
                self._bar = st.empty()
                key = state.button("stop", hash(self._job))
                st.button("Stop", key=key, icon=":material/stop:", on_click=_stop, args=(self._job,))
        self._bar.progress(self._share, text=words)

    @property
    def elapsed(self) -> float:
        """Seconds, those left out that it has waited for others."""
        return turns.clock() - self._started

    def left(self, share: float) -> float:
        """Seconds until all is over, if this share of it is."""
        start, already = self._measured_from
        return (turns.clock() - start) / (share - already) * (1 - share) if share > already else 0.0


@contextmanager
def in_turn(place: DeltaGenerator, what: str) -> Iterator[None]:
    """Work whose steps nobody hears of, once nobody is before; who is, is said in `place`."""

    def wait(before: int) -> None:
        others = "1 other" if before == 1 else f"{before} others"
        place.status(plain(f"{what} waits, {others} before you"), type="step")

    with turns.turn(0, wait):
        yield


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


@dataclass(frozen=True)
class _Paused:
    """Of work that the page itself has not gone on with. why: a sentence, with a blank before it."""

    why: str


_Wish = Literal["stop", "run", "over"] | _Paused


def _stop(job: Hashable) -> None:
    _wish(job, "stop")


def _want(job: Hashable) -> None:
    _wish(job, "run")


def _wish(job: Hashable, wish: _Wish) -> None:
    st.session_state.setdefault(state.WISHES, {})[hash(job)] = wish


def _wish_for(job: Hashable) -> _Wish | None:
    return st.session_state.get(state.WISHES, {}).get(hash(job))
