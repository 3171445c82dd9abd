"""Memory for large results that are kept and for work that runs: one bound in bytes for both together."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from threading import local
from typing import Any

from core import InputError
from core.units import bytes_in_words
from ui import settings
from ui.cache import Store


class Memory(Store):
    """A number of bytes for kept results and running work. Work comes first: it makes a store forget results.

    A result (with `nbytes`) that is larger than the whole memory takes all of it: if it were not kept, every element of a page
    would compute it again.

    most      bytes
    reserved  bytes that running work has reserved and not yet used for a result
    """

    def __init__(self, most: float) -> None:
        super().__init__(most, size=lambda result: min(result.nbytes, most))
        self.most = most
        self.reserved = 0.0
        self._mine = local()  # bytes that this thread has reserved and not yet used for a result

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
            if self.reserved + needs > self.most:
                return False
            self.reserved += needs
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
                self.reserved -= max(0.0, self._mine.left - before)
                self._mine.left = min(self._mine.left, before)

    def _keep(self, key: Hashable, result: Any) -> None:
        """Keep a result in the bytes that its work has reserved for it, and in others where these are too few."""
        self._results.pop(key, None)
        size = self._results.getsizeof(result)
        left = getattr(self._mine, "left", 0.0)
        self._mine.left = left - min(size, left)
        self.reserved -= min(size, left)
        self._make_room(size)
        super()._keep(key, result)

    def _make_room(self, size: float) -> None:
        while self._results and self.kept + self.reserved + size > self.most:
            self._results.popitem()


MEMORY = Memory(settings.current().memory)
