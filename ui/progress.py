"""Work that takes longer than a moment: announced beforehand, followed layer by layer, and stopped with a button.

When a visitor has touched a widget, Streamlit ends the page's run at the next element it draws. The work reports its progress
after each layer, and the page draws it: that is also when the Stop button takes effect.

A result that is computed piece by piece is drawn as it grows, and continues where it was left (`fill`). A page says "stopped"
if the visitor stopped the work, and "paused" if the page itself did.

Heavy work takes its turn (`ui.turns`): at once if it is known to be heavy, otherwise as soon as it turns out to be. A result
that is computed piece by piece takes a turn for each piece. Whoever waits reads how many are before, and can give up with Stop.
No work runs for longer than this host allows.

Work that nobody would stop half-way, such as converting a model, is only followed (`following`): another thread draws it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from threading import Event, Thread
from typing import Literal, Protocol, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.scriptrunner import add_script_run_ctx

from core import InputError
from core.units import seconds_in_words
from ui import settings, state
from ui.cache import Task
from ui.markdown import plain
from ui.memory import MEMORY
from ui.turns import HEAVY, TURNS

Result = TypeVar("Result")
Tell = Callable[[str, float | None], None]

PATIENCE = 0.4  # seconds: shorter work shows no progress
ASKS = 10.0  # seconds: longer work does not begin without asking
REDRAWN = 0.1  # seconds between two looks at how far followed work is
TRIAL = 1.5  # seconds after which the speed of piecewise work is known
LONG = 60.0  # seconds: piecewise work that then needs longer does not continue without asking
FILLED = 0.5  # seconds between two drawings of a growing result


def run(
    task: Task[Result],
    what: str,
    total: int,
    *,
    unit: str = "layer",
    announce: Callable[[], tuple[float, str]] | None = None,
    seconds: float = 0.0,
    needs: float = 0.0,
) -> Result | None:
    """Return the task's result, at once if it is known, or None if it is not computed now.

    None stands for work that was stopped, that is long and not yet wanted, or that is longer than this host allows. Each task
    is stopped and started for itself.

    what      what the page says meanwhile, such as "Reading the text"
    total     number of steps, each of them a `unit`
    announce  gives the seconds that the work takes at least, and a sentence about what it takes; called before the work
    seconds   estimated duration, where nothing is announced
    needs     bytes that the work takes while it runs, with the result

    Raises InputError (field "text") if it needs more memory than this host allows.
    """
    if task.is_known:
        st.empty()  # as much room as its progress had, or the page would jump at the next click
        return task.compute(lambda _: None)
    job = task.name
    wish = _wish_for(job)
    if wish in ("stop", "over"):
        _say_stopped(what, job, was_long=wish == "over")
        return None
    MEMORY.check(needs)
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
        with ExitStack() as turns:
            enter = TURNS.turn if seconds > HEAVY else TURNS.room
            turns.enter_context(enter(needs, progress.wait))
            progress.when_heavy = lambda: turns.enter_context(TURNS.turn(0, progress.wait))
            result = task.compute(progress.tell)
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
    """A result in `total` pieces, of which `done` are computed; `share` of all the work is done."""

    @property
    def done(self) -> int: ...

    @property
    def total(self) -> int: ...

    @property
    def share(self) -> float: ...

    def go_on(self) -> bool:
        """Compute one more piece; False if there is none left."""
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
    """Compute the pieces that are not known yet, and draw the result as it grows and in the end.

    job      names the work: the same name is the same work
    draw     called with True for the last drawing in this run of the page, the only one that may use fixed keys
    seconds  estimated duration of the first piece

    Computed pieces stay when the work is stopped and when the visitor touches something else; the work continues from there. It
    begins without asking. It pauses after a moment if it turns out to be long, and when it has run for as long as this host
    allows. The other arguments are those of `run`.
    """
    place, picture = st.empty(), st.empty()
    wish = _wish_for(job)
    if pieces.done < pieces.total and wish != "stop" and not isinstance(wish, _Paused):
        progress = _Progress(place, job, what, pieces.total, unit, is_heavy=seconds > HEAVY)
        with progress.turn(), progress.spinner():  # before the first piece the text is read
            pieces.go_on()
        progress.measure_from(pieces.share)
        drawn_at, why = 0.0, ""
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
            if time.monotonic() - drawn_at > FILLED:
                with picture.container():
                    draw(False)
                drawn_at = time.monotonic()
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
    """The progress of some work: a bar, a sentence and a Stop button once it takes a while. Ends work that takes too long.

    when_heavy  called when the work turns out to be heavy
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
        self._started, self._worked = TURNS.clock(), time.thread_time()
        self._measured_from = (self._started, 0.0)
        self._bar: DeltaGenerator | None = None
        self._words = f"{what} waits"
        self._share = 0.0
        self.when_heavy: Callable[[], object] = lambda: None

    def tell(self, done: int, share: float | None = None) -> None:
        """Report how many steps are done. Raises _TimeIsUp.

        share  the share of the work that is done; None: the share of the steps
        """
        TURNS.give_way()
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
        """Say how many others are before. Ends the page's run if its visitor wants something else or is gone."""
        self._show(f"{self._words}, {_others(before)} before you")

    @contextmanager
    def turn(self) -> Iterator[None]:
        """A turn for one piece of heavy work; light work continues at once."""
        with TURNS.turn(0, self.wait) if self._is_heavy else nullcontext():
            yield

    def measure_from(self, share: float) -> None:
        """Estimate the remaining time from the speed from now on, when this share of the work is done."""
        self._measured_from = (TURNS.clock(), share)

    @contextmanager
    def spinner(self) -> Iterator[None]:
        """A spinner in the place of the bar, before the first step."""
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
        """Seconds of work, without those spent waiting for others."""
        return TURNS.clock() - self._started

    def left(self, share: float) -> float:
        """Estimated seconds until all is done, when this share of it is."""
        start, already = self._measured_from
        return (TURNS.clock() - start) / (share - already) * (1 - share) if share > already else 0.0


@contextmanager
def in_turn(place: DeltaGenerator, what: str) -> Iterator[None]:
    """A turn for work that reports no steps. `place` says how many others are before."""

    def wait(before: int) -> None:
        place.status(plain(f"{what} waits, {_others(before)} before you"), type="step")

    with TURNS.turn(0, wait):
        yield


def _others(count: int) -> str:
    return "1 other" if count == 1 else f"{count} others"


@contextmanager
def following(place: DeltaGenerator, words: str) -> Iterator[Tell]:
    """Say in `place` what is being done and how far it is, unless it takes only a moment.

    words  the first words

    Gives a function that the work calls with further words, and with the share that is done or None. It takes no time, and does
    not end the work when a visitor touches something: nothing is drawn in this thread.
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
    """The state of work that the page itself has paused. why: a sentence, with a blank before it."""

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
