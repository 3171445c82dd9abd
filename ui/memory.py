"""Memory for large results that are kept and for work that runs: one bound in bytes for both together."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from threading import Lock, local
from typing import Any

from core import InputError
from core.units import bytes_in_words
from ui import settings


class Memory:
    """A number of bytes for kept results and running work. Work comes first; the least recently used result is forgotten first.

    A result larger than the whole memory takes all of it: if it were not kept, every element of a page would compute it again.
    Threads may share a memory.

    most  bytes
    """

    def __init__(self, most: float) -> None:
        self.most = most
        self._kept: OrderedDict[Hashable, tuple[Any, float]] = OrderedDict()
        self._reserved = 0.0
        self._mine = local()  # bytes that this thread has reserved and not yet used for a result
        self._lock = Lock()

    @property
    def kept(self) -> float:
        """Bytes of all kept results."""
        with self._lock:
            return self._size()

    @property
    def reserved(self) -> float:
        """Bytes that running work has reserved and not yet used for a result."""
        return self._reserved

    def __contains__(self, key: Hashable) -> bool:
        with self._lock:
            return key in self._kept

    def get(self, key: Hashable, work: Callable[[], Any], size: Callable[[Any], float] = attrgetter("nbytes")) -> Any:
        """The kept result, or what `work` returns, which is then kept. No lock is held while it works.

        size  gives the bytes of a result
        """
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
        result = work()
        self._keep(key, result, min(size(result), self.most))
        return result

    def check(self, needs: float) -> None:
        """Raise InputError (field "text") if so many bytes are more than the whole memory."""
        if needs > self.most:
            raise InputError(
                f"This needs about {bytes_in_words(needs)}; this host allows {bytes_in_words(self.most)}. Shorten the text.",
                field="text",
            )

    def reserve(self, needs: float) -> bool:
        """Reserve bytes for work and return True, forgetting results where needed; False while other work needs the room."""
        with self._lock:
            if self._reserved + needs > self.most:
                return False
            self._reserved += needs
            self._make_room(0)
            return True

    @contextmanager
    def held(self, needs: float) -> Iterator[None]:
        """Run work of this thread in bytes that it has reserved. Its kept results take some; the rest is freed."""
        before = getattr(self._mine, "left", 0.0)
        self._mine.left = before + needs
        try:
            yield
        finally:
            with self._lock:
                self._reserved -= max(0.0, self._mine.left - before)
                self._mine.left = min(self._mine.left, before)

    def _keep(self, key: Hashable, result: Any, size: float) -> None:
        with self._lock:
            self._kept.pop(key, None)
            left = getattr(self._mine, "left", 0.0)
            mine = min(size, left)  # bytes that the work had reserved for its result
            if mine:
                self._mine.left = left - mine
                self._reserved -= mine
            self._make_room(size)
            self._kept[key] = (result, size)

    def _make_room(self, size: float) -> None:
        kept = self._size()
        while self._kept and kept + self._reserved + size > self.most:
            _, (_, forgotten) = self._kept.popitem(last=False)
            kept -= forgotten

    def _size(self) -> float:
        return sum(size for _, size in self._kept.values())


MEMORY = Memory(settings.current().memory)
