"""The cache: `@cached(store)` beside a function keeps what it returns, for all sessions, within the bounds of the store.

    @cached(Store(16))
    def head_changes(before: KindRequest, after: KindRequest, *, on_progress: OnProgress | None = None) -> ...

The positional arguments are the key: plain names and frozen requests, never arrays or models. Keyword-only arguments are not
part of it: they say how the result is computed, and never change what it is. A store holds a number of results, or a number of
bytes (`MEMORY`).

Unlike Streamlit's own caches this one tells whether a result is known, so that work can show its progress (`ui.progress`).
"""

from collections.abc import Callable, Hashable, Iterator, Set
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import update_wrapper
from inspect import signature
from threading import Lock, local
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import WeakValueDictionary

import streamlit as st
from cachetools import LRUCache
from streamlit.runtime.scriptrunner import get_script_run_ctx

from core import InputError
from core.progress import held
from core.units import bytes_in_words
from ui import calls, settings, shown

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
OnProgress = Callable[[int], None]


class Store:
    """Results by their keys, up to a total size; the least recently used one is forgotten first. Threads may share a store.

    most   the largest total size
    size   gives the size of a result; by default each counts as 1
    waits  True: sessions that ask for the same result at once wait for the one that computes it; where that fails, they try
           one by one. False: they may all compute it, and none waits.
    """

    def __init__(self, most: float, *, waits: bool = False, size: Callable[[Any], float] = lambda _: 1) -> None:
        self._results: LRUCache = _Results(self, most, size)
        self._lock = Lock()
        self._waits = waits
        self._turns: WeakValueDictionary[Hashable, Lock] = WeakValueDictionary()

    @property
    def kept(self) -> float:
        """The total size of all results."""
        return self._results.currsize

    def __contains__(self, key: Hashable) -> bool:
        with self._lock:
            return key in self._results

    def get(self, key: Hashable, work: Callable[[], Any]) -> Any:
        """The kept result, or what `work` returns, which is then kept. The store is free for others while it works."""
        with self._turn(key):
            with self._lock:
                if key in self._results:
                    return self._results[key]
            result = work()
            with self._lock:
                self._keep(key, result)
            return result

    def _turn(self, key: Hashable) -> AbstractContextManager[object]:
        if not self._waits:
            return nullcontext()
        with self._lock:
            return held(self._turns.setdefault(key, Lock()))  # forgotten with the last session that holds it

    def _keep(self, key: Hashable, result: Any) -> None:
        self._results[key] = result

    def forgotten(self, key: Hashable, result: Any) -> None:
        """Called with each result that goes because there is no room for it."""


class _Results(LRUCache):
    """What a store keeps. It tells the store which result had to go."""

    def __init__(self, store: Store, most: float, size: Callable[[Any], float]) -> None:
        super().__init__(most, size)
        self._store = store

    def popitem(self) -> tuple[Hashable, Any]:
        key, result = super().popitem()
        self._store.forgotten(key, result)
        return key, result


class Memory(Store):
    """One bound in bytes for kept results, those that a page still uses, and running work. Work comes first: it makes the store
    forget results.

    What a page gets from here stays the same for as long as it `holds` it; what it has to wait for may take that room.

    A result (with `nbytes`) that is larger than the whole memory takes all of it: if it were not kept, every element of a page
    would compute it again. One that is forgotten while a page uses it takes its bytes until that page ends, and is kept again
    if somebody asks for it.

    most      bytes
    reserved  bytes that running work has reserved and not yet used for a result
    """

    def __init__(self, most: float) -> None:
        super().__init__(most, size=lambda result: min(result.nbytes, most))
        self.most = most
        self.reserved = 0.0
        # Of this thread: `left`, bytes that it has reserved and not yet used for a result; `held`, the results that it holds.
        self._mine = local()
        self._used: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()  # forgotten, while somebody has them
        self._users: dict[Hashable, set[str]] = {}  # the sessions that have asked for a result

    @property
    def used(self) -> float:
        """Bytes of results that are forgotten, but that a page still uses."""
        alive = (reference() for reference in self._used.valuerefs())
        return sum(self._results.getsizeof(result) for result in alive if result is not None)

    def get(self, key: Hashable, work: Callable[[], Any]) -> Any:
        result = super().get(key, lambda: work() if (used := self._used.get(key)) is None else used)
        with self._lock:
            if key in self._results:
                self._results[key] = result  # one that is being written has grown
        if (context := get_script_run_ctx(suppress_warning=True)) is not None:
            with self._lock:
                self._users.setdefault(key, set()).add(context.session_id)
        if (held := getattr(self._mine, "held", None)) is not None:
            held[key] = result
        return result

    @contextmanager
    def holds(self) -> Iterator[None]:
        """While this lasts, this thread holds what it gets: nothing of it is forgotten between two uses."""
        self._mine.held = {}
        try:
            yield
        finally:
            self._mine.held = None

    def let_go(self) -> None:
        """Hold nothing of it any longer. Whoever waits lets go, or all would wait for room that all of them hold."""
        if getattr(self._mine, "held", None):
            self._mine.held = {}

    def __contains__(self, key: Hashable) -> bool:
        return super().__contains__(key) or key in self._used

    def forgotten(self, key: Hashable, result: Any) -> None:
        self._users.pop(key, None)
        with suppress(TypeError):  # of what has no weak references nobody knows who uses it
            self._used[key] = result

    def forget(self, choose: Callable[[Hashable], object]) -> None:
        """Forget the results with a key that `choose` says yes to."""
        with self._lock:
            for key in [*filter(choose, self._results)]:
                self.forgotten(key, self._results.pop(key))

    def sessions(self) -> set[str]:
        """The sessions that have asked for what is kept."""
        with self._lock:
            return set().union(*self._users.values())

    def leave(self, sessions: Set[str]) -> bool:
        """Forget what nobody but these sessions has asked for, and return whether there was any. What was asked for outside of
        a session stays."""
        gone = {key for key, users in [*self._users.items()] if users <= sessions}
        self.forget(gone.__contains__)
        return bool(gone)

    def check(self, needs: float) -> None:
        """Raise InputError (field "text") if so many bytes are more than the whole memory."""
        if needs > self.most:
            raise InputError(
                f"This needs about {bytes_in_words(needs)}; this host allows {bytes_in_words(self.most)}. Shorten the text.",
                field="text",
            )

    def has_room(self, needs: float) -> bool:
        """Whether work may have so many bytes. One that needs none always may."""
        return not needs or self.reserved + self.used + needs <= self.most

    def reserve(self, needs: float, *, first: bool = False) -> bool:
        """Reserve bytes for work and return True, forgetting results where needed; False while others need the room.

        first  it does not wait for pages that use results, which may wait for it, unless other work runs
        """
        with self._lock:
            may_begin = first and not self.reserved
            if not may_begin and not self.has_room(needs):
                return False
            self._make_room(needs)
            if not may_begin and not self.has_room(needs):  # pages use what was forgotten
                return False
            self.reserved += needs
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
        self._used.pop(key, None)
        size = self._results.getsizeof(result)
        left = getattr(self._mine, "left", 0.0)
        self._mine.left = left - min(size, left)
        self.reserved -= min(size, left)
        self._make_room(size)
        super()._keep(key, result)

    def _make_room(self, size: float) -> None:
        while self._results and self.kept + self.used + self.reserved + size > self.most:
            self._results.popitem()


MEMORY = Memory(settings.current().memory)  # one bound for what all sessions keep and what runs for them


@dataclass(frozen=True)
class Task(Generic[Result]):
    """A result that somebody asks for: known already, or to be computed.

    name      names the work: the same name is the same work
    compute   gives the result; calls its argument after each step with how many steps are done
    is_known  whether the result is there already
    """

    name: Hashable
    compute: Callable[[OnProgress], Result]
    is_known: bool = False


class Cached(Generic[Arguments, Result]):
    """A function whose results are kept in a store. spinner: what the page says while one is computed; "": nothing"""

    def __init__(self, function: Callable[Arguments, Result], store: Store, spinner: str) -> None:
        update_wrapper(self, function)
        self.function, self.store, self.spinner = function, store, spinner
        self._signature = signature(function)

    def __call__(self, *request: Arguments.args, **options: Arguments.kwargs) -> Result:
        key = self.key(*request, **options)
        speaks = bool(self.spinner) and key not in self.store and not shown.is_quiet()
        with calls.recording(), st.spinner(self.spinner, show_time=True) if speaks else nullcontext():
            result = self.store.get(key, lambda: self.function(*request, **options))
            calls.recall(key, result)
        return result

    def is_known(self, *request: Any) -> bool:
        """Whether there is a result for these arguments."""
        return self.key(*request) in self.store

    def key(self, *request: Any, **options: Any) -> Hashable:
        """The key of the result of a call. It begins with the function's name: several functions may share a store."""
        call = self._signature.bind_partial(*request, **options)
        call.apply_defaults()
        return (self.function.__module__, self.function.__qualname__, *call.args)

    def task(self, *request: Arguments.args, **options: Arguments.kwargs) -> Task[Result]:
        """The call as a task for `ui.progress.run`. The function hears of progress if it takes `on_progress`."""

        def compute(on_progress: OnProgress) -> Result:
            call: Any = self
            listens = "on_progress" in self._signature.parameters
            return call(*request, **options, **({"on_progress": on_progress} if listens else {}))

        return Task(self.key(*request, **options), compute, self.is_known(*request))


def cached(store: Store, *, spinner: str = "") -> Callable[[Callable[Arguments, Result]], Cached[Arguments, Result]]:
    """Keep what the decorated function returns in `store`; see the top of this module and `Cached`."""
    return lambda function: Cached(function, store, spinner)
