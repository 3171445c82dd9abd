"""What is kept, within which bounds, and what is not computed twice."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from types import SimpleNamespace

import pytest

from tests.conftest import PATIENCE
from tests.refusals import refused
from ui import settings
from ui.cache import MEMORY, Cached, Memory, Store, cached
from ui.views.generation import page as writing
from ui.views.heads import all_heads
from ui.views.sources import passes
from ui.views.what_if import results


class Letters(str):
    """So many bytes."""

    @property
    def nbytes(self) -> int:
        return len(self)


class Work:
    """Gives a text of so many letters, and counts how often it was asked to."""

    def __init__(self, letters: int) -> None:
        self.letters, self.count = letters, 0

    def __call__(self) -> Letters:
        self.count += 1
        return Letters("x" * self.letters)


@pytest.mark.parametrize("store", [Store(2), Memory(10)])
def test_functions_that_share_a_store_share_its_bound_and_nothing_else(store: Store | Memory) -> None:
    """The least recently used is forgotten first, whichever function returned it."""
    work, other_work = Work(4), Work(4)

    @cached(store)
    def one(_name: str) -> Letters:
        return work()

    @cached(store)
    def other(_name: str) -> Letters:
        return other_work()

    one("a")
    other("a")
    one("a")
    other("b")
    known = [one.is_known("a"), other.is_known("a"), other.is_known("b"), one.is_known("b")]
    assert known == [True, False, True, False]
    assert (work.count, other_work.count) == (1, 2)
    assert not isinstance(store, Memory) or store.kept == 8


def test_the_positional_arguments_are_the_key_however_they_are_given() -> None:
    calls = []

    @cached(Store(8))
    def scaled(number: float, factor: float = 2.0, *, on_progress: Callable[[int], None] | None = None) -> float:
        calls.append((number, factor))
        if on_progress is not None:
            on_progress(1)
        return number * factor

    assert (scaled(3.0), scaled(3.0, 2.0), scaled(number=3.0, factor=2.0)) == (6.0, 6.0, 6.0)
    assert scaled.task(3.0).is_known
    assert scaled(3.0, factor=4.0) == 12.0
    assert calls == [(3.0, 2.0), (3.0, 4.0)]
    told: list[int] = []
    assert scaled.task(5.0).compute(told.append) == 10.0
    assert scaled(5.0, on_progress=told.append) == 10.0
    assert told == [1]
    with pytest.raises(TypeError):
        scaled(3.0, another=1)  # pyright: ignore[reportCallIssue]


def test_a_task_is_named_by_the_function_and_its_request() -> None:
    """Its name is what is stopped: another request of the same function is other work."""

    @cached(Store(8))
    def one(name: str) -> str:
        return name

    @cached(Store(8))
    def other(name: str) -> str:
        return name

    assert one.task("a").name == one.task("a").name
    assert len({one.task("a").name, one.task("b").name, other.task("a").name}) == 3
    assert one.task("a").compute(lambda _: None) == "a"  # a function that does not tell how far it is


def test_what_is_larger_than_the_bound_is_kept_alone_until_something_else_comes() -> None:
    """Everything on a page that shows a pass asks for it; given but not kept, it would be read over and over."""
    store = Memory(10)
    large = Work(11)
    store.get("small", Work(4))
    assert len(store.get("large", large)) == len(store.get("large", large)) == 11
    assert large.count == 1
    assert "small" not in store
    store.get("small", Work(4))
    assert "large" not in store


@pytest.mark.parametrize("store", [Store(10), Store(10, waits=True), Memory(10)])
def test_work_that_failed_leaves_nothing_behind(store: Store | Memory) -> None:
    def fail() -> str:
        raise ValueError("no result")

    with pytest.raises(ValueError, match="no result"):
        store.get("it", fail)
    assert "it" not in store
    assert store.get("it", Work(3)) == "xxx"


def test_all_that_is_large_shares_the_memory_of_the_settings() -> None:
    functions = [
        function
        for module in (passes, writing, all_heads, results)
        for function in vars(module).values()
        if isinstance(function, Cached) and function.__module__ == module.__name__
    ]
    large = {function.__name__ for function in functions if function.store is MEMORY}
    assert large == {
        *("captured", "with_components", "weights_only", "written_after"),
        *("effects", "patching", "patch_effects"),
    }
    assert not [
        function for function in functions if isinstance(function.store, Memory) and function.store is not MEMORY
    ]
    assert MEMORY.most == settings.current().memory


# --- one bound for what is kept and what runs


def keep(memory: Memory, name: str, size: int) -> None:
    memory.get(name, lambda: SimpleNamespace(nbytes=size))


def test_what_is_kept_makes_room_for_what_runs() -> None:
    memory = Memory(10)
    keep(memory, "old", 4)
    keep(memory, "new", 4)
    assert memory.reserve(6)
    assert ("old" in memory, "new" in memory) == (False, True)
    with memory.held(6):
        keep(memory, "meanwhile", 3)  # of the six, so that nothing else has to go
        assert ("new" in memory, memory.reserved, memory.kept) == (True, 3, 7)
    assert (memory.reserved, memory.kept) == (0, 7)


def test_what_runs_is_never_more_than_there_is() -> None:
    memory = Memory(10)
    assert memory.reserve(7)
    assert not memory.reserve(4)
    with memory.held(7):
        pass
    assert memory.reserve(4)


def test_work_within_work_gives_back_what_is_its_own() -> None:
    memory = Memory(10)
    memory.reserve(6)
    with memory.held(6):
        memory.reserve(2)
        with memory.held(2):
            keep(memory, "result", 5)
            assert (memory.reserved, memory.kept) == (3, 5)
        assert memory.reserved == 3
    assert (memory.reserved, memory.kept) == (0, 5)


def test_what_can_never_fit_is_refused_with_both_figures() -> None:
    memory = Memory(2 * 10**9)
    memory.check(2 * 10**9)
    with refused("text", r"needs about 3\.1 GB; this host allows 2\.0 GB"):
        memory.check(3.1 * 10**9)


# --- a store that several sessions use at once


def test_sessions_that_ask_at_once_wait_for_one_piece_of_work() -> None:
    store, begun, done = Store(2, waits=True), Event(), Event()

    def slow() -> object:
        begun.set()
        assert done.wait(PATIENCE)
        return object()

    with ThreadPoolExecutor() as sessions:
        try:
            first = sessions.submit(store.get, "model", slow)
            assert begun.wait(PATIENCE)
            second = sessions.submit(store.get, "model", object)
            assert sessions.submit(store.get, "another model", lambda: "at once").result(PATIENCE) == "at once"
            with pytest.raises(TimeoutError):
                second.result(0.2)
        finally:
            done.set()
        assert first.result(PATIENCE) is second.result(PATIENCE) is store.get("model", object)
