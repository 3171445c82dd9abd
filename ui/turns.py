"""Turns: heavy work runs one after another, in the order in which it was asked for; light work never waits.

A page says that its work waits, and gives up its place when the page's run ends: by Stop, another choice, or a closed tab.
Nobody asks for a turn while holding a lock of a cache, so that no two can wait for each other.
"""

import gc
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, get_ident, local

from ui.cache import MEMORY, Memory

Waiting = Callable[[int], None]

HEAVY = 1.0  # seconds: longer work is heavy
LOOK = 0.2  # seconds between two looks at the queue, and at whether the visitor is still there
GIVES_WAY = 1.0  # seconds at most that a step of heavy work waits for pages that do light work


class Turns:
    """The one turn that all sessions of this process share."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._changed = Condition()
        self._queue: deque[object] = deque()
        self._holder: int | None = None  # the thread whose turn it is
        self._pages: set[int] = set()  # threads that run a page and do nothing heavy
        self._stepped = 0.0
        self._mine = local()

    @contextmanager
    def page(self) -> Iterator[None]:
        """Run a page in this thread. While it does light work, heavy work gives way."""
        self._enter()
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def room(self, needs: float, waiting: Waiting) -> Iterator[None]:
        """Room for light work that needs so many bytes: at once if there is room, otherwise with a turn, as in `turn`."""
        self._memory.check(needs)
        with self._memory.held(needs) if self._memory.reserve(needs) else self.turn(needs, waiting):
            yield

    @contextmanager
    def turn(self, needs: float, waiting: Waiting) -> Iterator[None]:
        """A turn for heavy work: waits until it is next and there is room. Whoever has the turn already continues.

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
                with self._memory.held(needs):
                    yield
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
            self._queue.append(ticket)
        try:
            with self._waited():
                while True:
                    with self._changed:
                        if self._changed.wait_for(lambda: self._begin(ticket, needs), LOOK):
                            return
                        before = max(1, self._queue.index(ticket) + (self._holder is not None))
                    waiting(before)
        except BaseException:
            with self._changed:
                self._queue.remove(ticket)
                self._changed.notify_all()
            raise

    def _begin(self, ticket: object, needs: float) -> bool:
        if self._holder is not None or self._queue[0] is not ticket or not self._memory.reserve(needs):
            return False
        self._queue.popleft()
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
