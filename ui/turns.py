"""Turns: heavy work runs one after another, in the order in which it was asked for; light work waits only for room.

What takes much memory is heavy from the beginning: half-way through, it would wait for its turn with all that it has read.

A page says that its work waits, and gives up its place when the page's run ends: by Stop, another choice, or a closed tab.
Nobody asks for a turn while holding a lock that whoever has it may wait for: see `core.progress.may_wait`.
"""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, get_ident, local

from ui.cache import MEMORY, Memory
from ui.freed import give_back

Waiting = Callable[[int], None]

HEAVY = 1.0  # seconds: longer work is heavy
LARGE = 64e6  # bytes: work that takes more is heavy
LOOK = 0.2  # seconds between two looks at the queue, and at whether the visitor is still there
GIVES_WAY = 1.0  # seconds at most that a step of heavy work waits for pages that do light work


class Turns:
    """The one turn that all sessions of this process share."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._changed = Condition()
        self._queue: dict[object, float] = {}  # tickets in their order, with the bytes that each needs
        self._holder: int | None = None  # the thread whose turn it is
        self._lacks_room = False  # whether nobody in the queue can begin because others need the room
        self._pages: set[int] = set()  # threads that run a page and do nothing heavy
        self._stepped = 0.0
        self._mine = local()

    @contextmanager
    def page(self) -> Iterator[None]:
        """Run a page in this thread. While it does light work, heavy work gives way, and it holds the results that it shows."""
        self._enter()
        try:
            with self._memory.holds():
                yield
        finally:
            self._leave()

    @contextmanager
    def room(self, needs: float, waiting: Waiting) -> Iterator[None]:
        """Room for light work that needs so many bytes: at once if they are few and there is room, otherwise with a turn, as in
        `turn`."""
        self._memory.check(needs)
        is_small = needs <= LARGE and (not needs or not self._lacks_room)
        with self._memory.held(needs) if is_small and self._memory.reserve(needs) else self.turn(needs, waiting):
            yield

    @contextmanager
    def turn(self, needs: float, waiting: Waiting) -> Iterator[None]:
        """A turn for heavy work: waits until it is next and there is room. Whoever has the turn already continues.

        Those for whom there is room go before those for whom there is none: they may hold what the others wait for.

        waiting  called now and then with how many are before; any exception gives up the place

        Raises InputError (field "text") for more bytes than the whole memory.
        """
        self._memory.check(needs)
        if self._holder == get_ident():
            yield
            return
        is_page = self._leave()
        try:
            self._wait(needs, waiting)
            try:
                with self._waited():
                    gc.collect()  # what stopped work may have left: its tensors, in circles of references
                    give_back()
                with self._memory.held(needs):
                    yield
                give_back()
            finally:
                with self._changed:
                    self._holder = None
                    self._changed.notify_all()
        finally:
            if is_page:
                self._enter()

    def give_way(self) -> None:
        """Let pages with light work go first, for at most as long as the last step took. Heavy work calls it at each step."""
        if self._holder != get_ident():
            return
        with self._changed, self._waited():
            self._changed.wait_for(lambda: not self._pages, min(time.monotonic() - self._stepped, GIVES_WAY))
        self._stepped = time.monotonic()

    def clock(self) -> float:
        """Seconds, without those that this thread has spent waiting for others."""
        return time.monotonic() - getattr(self._mine, "waited", 0.0)

    def _wait(self, needs: float, waiting: Waiting) -> None:
        ticket = object()
        with self._changed:
            self._queue[ticket] = needs
        try:
            with self._waited():
                while True:
                    with self._changed:
                        if self._changed.wait_for(lambda: self._begin(ticket), LOOK):
                            return
                        before = max(1, [*self._queue].index(ticket) + (self._holder is not None))
                    self._memory.let_go()
                    waiting(before)
        except BaseException:
            with self._changed:
                del self._queue[ticket]
                self._lacks_room = False
                self._changed.notify_all()
            raise

    def _begin(self, ticket: object) -> bool:
        """Whether this one is next."""
        if self._holder is not None:
            return False
        fitting = [other for other, needs in self._queue.items() if self._memory.has_room(needs)]
        # Where there is room for nobody, pages hold it, which soon end or wait and let go. Else it is held outside of pages.
        first = next(iter(fitting or sorted(self._queue, key=self._queue.__getitem__)))
        may_begin = first is ticket and (fitting or not self._pages)
        if not may_begin or not self._memory.reserve(self._queue[ticket], first=not fitting):
            self._lacks_room = not fitting
            return False
        del self._queue[ticket]
        self._lacks_room = False
        self._holder, self._stepped = get_ident(), time.monotonic()
        return True

    @contextmanager
    def _waited(self) -> Iterator[None]:
        start = time.monotonic()
        try:
            yield
        finally:
            self._mine.waited = getattr(self._mine, "waited", 0.0) + time.monotonic() - start

    def _enter(self) -> None:
        with self._changed:
            self._pages.add(get_ident())

    def _leave(self) -> bool:
        """Return whether this thread was running a page."""
        with self._changed:
            was_there = get_ident() in self._pages
            self._pages.discard(get_ident())
            if not self._pages:
                self._changed.notify_all()
            return was_there


TURNS = Turns(MEMORY)
