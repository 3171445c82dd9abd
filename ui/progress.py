"""Work that takes longer than a moment: it begins at once, shows how far it is, and is stopped with a button.

All work of `core` passes stop points (`core.progress`), many in a second. There the page looks whether its visitor wants
something else or is gone, as Streamlit tells it, and whether the time is up that this host gives (`watched`). Work that may
take long also says there how far it is, beside a Stop button (`run`). A result that is computed piece by piece is drawn as it
grows, and continues where it was left (`fill`). Work that nobody would stop half-way, such as converting a model, is only
followed: another thread draws it (`following`).

Work takes its turn (`ui.turns`) as soon as it turns out to be heavy. `fill` takes a turn for each piece. Whoever waits reads
how many are before, and can give up with Stop.
"""

import math
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from itertools import count
from threading import Event, Lock, Thread
from typing import Literal, Protocol, TypeVar

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime import exists, get_instance
from streamlit.runtime.scriptrunner import StopException, add_script_run_ctx, get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_run_context import get_run_yield_check

from core import InputError
from core.heads.effects import Piece
from core.progress import held, may_wait, stopped_by
from core.threads import processor_time
from core.units import counted, seconds_in_words
from ui import settings, shown, state
from ui.cache import MEMORY, Task
from ui.markdown import plain
from ui.turns import HEAVY, LARGE, TURNS

Result = TypeVar("Result")
Tell = Callable[[str, float | None], None]

_STRIPS = count()  # no two may have one key

PATIENCE = 0.4  # seconds: shorter work shows no progress
REDRAWN = 0.1  # seconds between two drawings of how far work is
LOOKS = 0.05  # seconds between two looks at whether work goes on
TRIAL = 1.5  # seconds after which the speed of piecewise work is known
LONG = 60.0  # seconds: piecewise work that then needs longer does not continue without asking
FILLED = 0.5  # seconds between two drawings of a growing result


def run(task: Task[Result], what: str, total: int, *, unit: str = "layer", needs: float | None = None) -> Result | None:
    """Return the task's result, at once if it is known, or None if it is not computed now.

    None stands for work that was stopped, or that takes longer than this host allows. Each task is stopped and started for
    itself.

    what      what the page says meanwhile, such as "Reading the text"
    total     number of steps, each of them a `unit`; 1: of work without steps nothing is counted
    needs     bytes that the work takes while it runs, with the result; None: no more than most

    Raises InputError (field "text") if it needs more memory than this host allows.
    """
    if task.is_known:
        st.empty()  # the place of its progress, or what is below would be made anew at the next click
        return task.compute(lambda _: None)
    job = task.name
    wish = _wished(job)
    if not isinstance(wish, _Halt):
        needs = usual_bytes() if needs is None else needs
        MEMORY.check(needs)
        place = st.empty()
        progress = _Progress(place, job, what, total, unit)
        try:
            with progress.turn(needs):
                result = task.compute(progress.tell)
            place.empty()
            return result
        except InputError:
            place.empty()
            raise
        except TimeIsUp:
            place.empty()
            longest = f"{settings.current().seconds} s, the longest that this host computes"
            wish = _Halt(f"was ended after {longest}", _ADVICE)
            _wish(job, wish)
    _offer("Start again", job, f"{what} {wish.how}.{wish.why}", wish.icon)
    return None


def usual_bytes() -> float:
    """Bytes that most work takes beside the passes that it reads: with SmolLM2 and 700 tokens metrics take 45 MB, and what an
    answer owes to each component 66 MB."""
    return min(LARGE, MEMORY.most / 8)


class Pieces(Protocol):
    """A result that is computed piece by piece: `done` of `total` numbers or tokens, and `share` of all the work. Once it
    `may_pause`, what is there is worth looking at without the rest."""

    @property
    def done(self) -> int: ...

    @property
    def total(self) -> int: ...

    @property
    def share(self) -> float: ...

    @property
    def may_pause(self) -> bool: ...

    def go_on(self) -> bool:
        """Compute one more piece; False if there is none left."""
        ...


def fill(
    pieces: Pieces, job: Hashable, what: str, draw: Callable[[bool], None], *, unit: str, done: str = "measured"
) -> None:
    """Compute the pieces that are not known yet, and draw the result as it grows and in the end.

    job      names the work: the same name is the same work
    draw     called with True for the last drawing in this run of the page, the only one that may use fixed keys
    unit     what the total counts
    done     what has happened to those that are done

    Computed pieces stay when the work is stopped and when the visitor touches something else; the work continues from there. It
    begins without asking. It pauses after a moment if it turns out to be long, and when it has run for as long as this host
    allows. The other arguments are those of `run`.
    """
    place, picture = st.empty(), st.empty()
    wish = _wished(job)
    if pieces.done < pieces.total and not isinstance(wish, _Halt):
        progress = _Progress(place, job, what, pieces.total, unit)
        drawn_at, why = 0.0, ""
        while not why and pieces.done < pieces.total:
            if pieces.done and time.monotonic() - drawn_at > FILLED:
                with picture.container(), shown.recording(pictures={}):  # nobody takes it away
                    draw(False)
                drawn_at = time.monotonic()
            try:
                progress.tell(pieces.done, pieces.share)
                with progress.turn(usual_bytes()):
                    if not pieces.go_on():
                        break
            except TimeIsUp:
                why = f" This host computes for at most {settings.current().seconds} s at a time."
            progress.begin(pieces.share)
            is_tried = progress.clock.elapsed > TRIAL and pieces.may_pause
            if wish != "run" and is_tried and progress.left(pieces.share) > LONG:
                why += f" It takes about {seconds_in_words(progress.left(pieces.share))} more."
        if why and pieces.done < pieces.total:
            wish = _Halt(why=why, icon="pause_circle")
            _wish(job, wish)
        place.empty()
    if pieces.done < pieces.total and isinstance(wish, _Halt):
        with place.container():
            words = f"{pieces.done:,} of {pieces.total:,} {done}. Continue?{wish.why}"
            _offer("Continue", job, words, wish.icon)
    if pieces.done:
        with picture.container():
            draw(True)


@dataclass(frozen=True)
class _Halt:
    """Why work does not continue. how: words after its name; why: a further sentence, with a blank before it."""

    how: str = "was stopped"
    why: str = ""
    icon: str = "stop_circle"


_Wish = Literal["run"] | _Halt


def _wished(job: Hashable) -> _Wish | None:
    """Return what is wished for this work. While a talk is prepared, all work is wanted that nobody has stopped."""
    wish = st.session_state.get(state.WISHES, {}).get(hash(job))
    return "run" if wish is None and st.session_state.get(state.REHEARSING) else wish


_ADVICE = " Shorten the text, or run Headlight on your own computer."


def _offer(label: str, job: Hashable, words: str, icon: str) -> None:
    """Say why the work does not run, above a button with which a visitor asks for it. A page offers it once."""
    st.info(words, icon=f":material/{icon}:")
    offered = set() if (page := _PAGE.get()) is None else page.offered
    if job in offered:
        return
    offered.add(job)
    st.button(label, key=state.button("run", hash(job)), on_click=_wish, args=(job, "run"))


class TimeIsUp(BaseException):
    """Work has taken as long as this host allows.

    It is a BaseException, because work may take an Exception for a fault of what it reads.
    """


class _Clock:
    """Ends work at its stop points: when its visitor wants something else or is gone, and when its time is up."""

    def __init__(self, of_page: Callable[[], object] | None = None) -> None:
        """of_page: ends the work if the page wants so; None: as Streamlit ends the run of a page"""
        self.begin()
        self.offered: set[Hashable] = set()  # work that the page asks about
        self._looked = 0.0
        self._of_page = of_page or get_run_yield_check() or (lambda: None)

    def begin(self) -> None:
        """Count the time from now on."""
        self._started = TURNS.clock()

    @property
    def elapsed(self) -> float:
        """Seconds of work, without those spent waiting for others."""
        return TURNS.clock() - self._started

    def is_due(self) -> bool:
        """Whether it is time for another look. Stop points come faster than anybody could follow."""
        is_due = time.monotonic() - self._looked >= LOOKS
        self._looked = time.monotonic() if is_due else self._looked
        return is_due

    def look(self) -> None:
        """Raises TimeIsUp, or what Streamlit ends the run of a page with."""
        self._of_page()
        longest = settings.current().seconds
        if longest is not None and self.elapsed > longest:
            raise TimeIsUp


_PAGE: ContextVar[_Clock | None] = ContextVar("clock_of_page", default=None)


@contextmanager
def watched() -> Iterator[None]:
    """Let whatever a page computes end at its stop points. Where what no `run` or `fill` says anything of takes too long in one
    stretch, the page says so and ends."""
    clock = _Clock()
    token = _PAGE.set(clock)
    try:
        with stopped_by(lambda _: clock.look() if clock.is_due() else None):
            yield
    except TimeIsUp:
        words = (
            f"The page ends here, after {settings.current().seconds} s, the longest that this host computes.{_ADVICE}"
        )
        st.info(words, icon=":material/stop_circle:")
    finally:
        _PAGE.reset(token)


@contextmanager
def in_turn(needs: float) -> Iterator[None]:
    """Room for work that says nothing of itself, within a page; needs: bytes that it takes, with the result."""
    clock = _PAGE.get()
    with TURNS.room(needs, lambda _: None if clock is None else clock.look()):
        yield


def for_its_visitor(make: Callable[[], str | bytes]) -> Callable[[], str | bytes]:
    """What makes a file of a page, which Streamlit calls in another thread: it ends when the visitor of this page is gone.

    Raises InputError for a file that takes longer than this host computes.
    """
    context = get_script_run_ctx()

    def made() -> str | bytes:
        def of_page() -> None:
            if context is not None and exists() and not get_instance().is_active_session(context.session_id):
                raise StopException

        clock = _Clock(of_page)
        try:
            with stopped_by(lambda _: clock.look() if clock.is_due() else None):
                return make()
        except StopException:
            return b""  # nobody will fetch it
        except TimeIsUp:
            raise InputError(f"This takes longer than {settings.current().seconds} s.{_ADVICE}", field="file") from None

    return made


class _Progress:
    """A bar, a sentence and a Stop button once some work takes a while. Ends work that takes too long."""

    def __init__(self, place: DeltaGenerator, job: Hashable, what: str, total: int, unit: str) -> None:
        self._place, self._job, self._what, self._total, self._unit = place, job, what, total, unit
        self._is_heavy = False
        self.clock, self._worked = _Clock(), processor_time()
        self._measured_from: tuple[float, float] | None = None
        self._bar: DeltaGenerator | None = None
        self._drawn = -math.inf
        self._done, self._share, self._is_even = 0, 0.0, True
        self._take_turn: Callable[[], object] = lambda: None

    def tell(self, done: int, share: float | None = None) -> None:
        """Report how many steps are done, and which share of the work where the steps differ. Raises as `_Clock.look`."""
        self._done, self._is_even = done, share is None
        self._share = done / self._total if share is None else share
        if done < self._total:
            self.clock.look()
        self._go_on()

    def _look(self, part: float | None) -> None:
        """At a stop point. part: how much of the next step is done"""
        if self.clock.is_due():
            self.clock.look()
            if part is not None and self._is_even:
                self._share = (self._done + part) / self._total
            self._go_on()

    def _go_on(self) -> None:
        TURNS.give_way()
        # By what its threads have done: beside heavy work light work takes longer too, and would then have to wait for it.
        # A piece that others wait for comes to its end first: the turn may be theirs.
        if not self._is_heavy and processor_time() - self._worked > HEAVY and may_wait():
            self._is_heavy = True
            self._take_turn()
        if self.clock.elapsed >= PATIENCE and time.monotonic() - self._drawn >= REDRAWN:
            self._show(self._words + self._remains)

    @property
    def _words(self) -> str:
        return f"{self._what}: {self._unit} {self._done:,} of {self._total:,}" if self._total > 1 else self._what

    @property
    def _remains(self) -> str:
        """What remains by the pace of the work itself; as long as that is not known, how long it has taken."""
        left = self.left(self._share)
        if left:
            return f", about {seconds_in_words(left)} left" if left >= 1 else ""
        return f", {self.clock.elapsed:,.0f} s so far" if self.clock.elapsed >= 1 else ""

    def wait(self, before: int) -> None:
        """Say how many others are before. Ends the page's run if its visitor wants something else or is gone."""
        words = self._words if self._done else self._what
        self._show(f"{words} waits, {counted(before, 'other')} before you")

    @contextmanager
    def turn(self, needs: float = 0.0) -> Iterator[None]:
        """Work, or one piece of it: with a turn once it has turned out to be heavy.

        needs  bytes that it takes, with the result
        """
        try:
            with ExitStack() as stack:
                self._take_turn = lambda: stack.enter_context(TURNS.turn(0, self.wait))
                stack.enter_context((TURNS.turn if self._is_heavy else TURNS.room)(needs, self.wait))
                with stopped_by(self._look):
                    yield
        finally:
            self._take_turn = lambda: None
            if (page := _PAGE.get()) is not None:
                page.begin()

    def begin(self, share: float) -> None:
        """The first piece is done, and this share: estimate the remaining time from the speed of those that follow. Before the
        first piece the text is read."""
        self._measured_from = self._measured_from or (TURNS.clock(), share)

    def _show(self, words: str) -> None:
        if self._bar is None:
            with _strip(self._place):
                self._bar = st.empty()
                key = state.button("stop", next(_STRIPS))  # the same work may be done twice in a run of a page
                st.button("Stop", key=key, icon=":material/stop:", on_click=_wish, args=(self._job, _Halt()))
        self._bar.progress(min(self._share, 1.0), text=words)
        self._drawn = time.monotonic()

    def left(self, share: float) -> float:
        """Estimated seconds until all is done, when this share of it is; 0 while that is not known."""
        start, already = self._measured_from or (TURNS.clock() - self.clock.elapsed, 0.0)
        return (TURNS.clock() - start) / (share - already) * (1 - share) if share > already else 0.0


@contextmanager
def following(place: DeltaGenerator, what: str) -> Iterator[Tell]:
    """A turn for work that reports no steps. Say in `place` what it does and how far it is, unless it takes only a moment.

    what  the first words

    Gives a function that the work calls with further words, and with the share that is done or None. It takes no time, and does
    not end the work when a visitor touches something: nothing is drawn in this thread.
    """
    latest: tuple[str, float | None] = (what, None)
    over = Event()

    def tell(words: str, done: float | None) -> None:
        nonlocal latest
        latest = (words, done)

    line = cache(lambda: _strip(place).empty())

    def draw() -> None:
        drawn, wait = None, PATIENCE
        while not over.wait(wait):
            wait, now = REDRAWN, latest
            if now != drawn:
                _show(line(), *now)
                drawn = now

    with TURNS.turn(0, lambda before: _show(line(), f"{what} waits, {counted(before, 'other')} before you", None)):
        thread = Thread(target=draw, daemon=True)
        add_script_run_ctx(thread)
        thread.start()
        try:
            yield tell
        finally:
            over.set()
            thread.join()
            place.empty()


def _show(line: DeltaGenerator, words: str, done: float | None) -> None:
    if done is None:
        line.status(plain(words), type="step")
    else:
        line.progress(done, text=f"{plain(words)}: {done:.0%}")


def _strip(place: DeltaGenerator) -> DeltaGenerator:
    """Return a line for what comes and goes while something works. It lies over the page, so that nothing moves."""
    return place.container(
        key=state.one_of(state.PROGRESS, next(_STRIPS)), horizontal=True, vertical_alignment="bottom"
    )


def _wish(job: Hashable, wish: _Wish) -> None:
    st.session_state.setdefault(state.WISHES, {})[hash(job)] = wish


# --- a result that grows


class Growing:
    """An array that is computed piece by piece. It is kept as far as it is known; whoever wants more continues from there.

    pieces  begins to give them, in any order: together they fill the array. It is called again where it was ended
    nbytes  bytes held while pieces are computed
    cost    gives the cost of every number at an index of the first axis, in any unit
    first   how many pieces come before the work may pause: those that are worth looking at without the rest
    values  NaN where not known yet
    known   of the same shape, True where a number is known
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        pieces: Callable[[], Iterator[Piece]],
        *,
        nbytes: int,
        cost: Callable[[int], float] = lambda _: 1,
        first: int = 0,
    ) -> None:
        self.values = np.full(shape, np.nan)
        self.known = np.zeros(shape, bool)
        self.nbytes = nbytes
        self._begin = pieces
        self._pieces: Iterator[Piece] | None = None
        self._next: Piece | None = None
        self._to_come = first
        costs = np.array([cost(index) for index in range(shape[0])], dtype=np.float64)
        self._costs = np.broadcast_to(costs.reshape(-1, *[1] * (len(shape) - 1)), shape)
        self._lock = Lock()

    @property
    def done(self) -> int:
        return int(self.known.sum())

    @property
    def total(self) -> int:
        return self.known.size

    @property
    def share(self) -> float:
        """The share of all the work that is done."""
        return float(self._costs[self.known].sum() / self._costs.sum())

    @property
    def may_pause(self) -> bool:
        """Whether enough is known to be looked at without the rest."""
        return self._to_come <= 0

    def go_on(self) -> bool:
        """Compute one more piece; False if there is none left. Sessions that want the same array take turns.

        A piece that is ended half-way is the next one again.
        """
        with held(self._lock):
            if self._next is None:
                self._next = self._piece()
            if self._next is None:
                return False
            places, compute = self._next
            self.values[places], self.known[places] = compute(), True
            self._next = None
            self._to_come -= 1
            if self.known.all():
                self._begin, self._pieces = lambda: iter(()), None  # the old ones go, and with them all that they hold
            return True

    def _piece(self) -> Piece | None:
        """The next piece that is not known; None if there is none left."""
        try:
            self._pieces = self._pieces or self._begin()
            return next((piece for piece in self._pieces if not self.known[piece[0]].all()), None)
        except BaseException:
            self._pieces = None  # an iterator that was ended gives nothing more
            raise
