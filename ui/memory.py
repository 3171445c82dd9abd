"""Room for what is kept and for what runs: one bound in bytes for both together."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from threading import Lock, local
from typing import Any

from core import InputError
from core.units import bytes_in_words


class Memory:
    """So many bytes for all that is kept, the least recently used forgotten first, and all that runs, which goes first.

    What is larger than all the room there is takes all of it: to hand it over and forget it would mean to work it out again
    for all that a page shows. Threads may share it.

    most  bytes
    """

    def __init__(self, most: float) -> None:
        self.most = most
        self._kept: OrderedDict[Hashable, tuple[Any, float]] = OrderedDict()
        self._reserved = 0.0
        self._mine = local()  # what the work of this thread has reserved and not yet kept
        self._lock = Lock()

    @property
    def kept(self) -> float:
        """Bytes of all that is kept."""
        with self._lock:
            return self._size()

    @property
    def reserved(self) -> float:
        """Bytes that running work has asked for and not yet kept."""
        return self._reserved

    def __contains__(self, name: Hashable) -> bool:
        with self._lock:
            return name in self._kept

    def get(self, name: Hashable, work: Callable[[], Any], size: Callable[[Any], float]) -> Any:
        """What is kept by that name, or what the work gives, which is kept. Nothing is held while it works."""
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
                return self._kept[name][0]
        found = work()
        self._keep(name, found, min(size(found), self.most))
        return found

    def check(self, needs: float) -> None:
        """Raises InputError (field "text") where so many bytes are more than there is."""
        if needs > self.most:
            raise InputError(
                f"This needs about {bytes_in_words(needs)}; this host allows {bytes_in_words(self.most)}. Shorten the text.",
                field="text",
            )

    def reserve(self, needs: float) -> bool:
        """Whether there is room now for work that needs so many bytes. If so, what is kept has made room for it."""
        with self._lock:
            if self._reserved + needs > self.most:
                return False
            self._reserved += needs
            self._make_room(0)
            return True

    @contextmanager
    def held(self, needs: float) -> Iterator[None]:
        """Of what has been reserved: the work of this thread, which may keep some of it; the rest is given back."""
        before = getattr(self._mine, "left", 0.0)
        self._mine.left = before + needs
        try:
            yield
        finally:
            with self._lock:
                self._reserved -= max(0.0, self._mine.left - before)
                self._mine.left = min(self._mine.left, before)

    def _keep(self, name: Hashable, found: Any, size: float) -> None:
        with self._lock:
            self._kept.pop(name, None)
            left = getattr(self._mine, "left", 0.0)
            mine = min(size, left)  # what the work had reserved for its result
            if mine:
                self._mine.left = left - mine
                self._reserved -= mine
            self._make_room(size)
            self._kept[name] = (found, size)

    def _make_room(self, size: float) -> None:
        kept = self._size()
        while self._kept and kept + self._reserved + size > self.most:
            _, (_, forgotten) = self._kept.popitem(last=False)
            kept -= forgotten

    def _size(self) -> float:
        return sum(size for _, size in self._kept.values())
