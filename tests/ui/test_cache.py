"""What is kept, within which bounds, and what is not computed twice."""

import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from core import Edits
from tests.conftest import PATIENCE
from tests.core.tiny_models import number_words, tiny
from tests.refusals import refused
from ui import cache, leaving, requests, settings
from ui.cache import MEMORY, Cached, Memory, Store, cached
from ui.requests import ModelChoice, TextRequest
from ui.views.generation import page as writing
from ui.views.heads import all_heads
from ui.views.sources import models, passes
from ui.views.what_if import results


def work(size=4):
    """Returns something of so many bytes, and counts how often it was asked to."""
    return Mock(return_value=SimpleNamespace(nbytes=size))


@pytest.mark.parametrize("store", [Store(2), Memory(10)])
def test_functions_that_share_a_store_share_its_bound_and_nothing_else(store):
    """The least recently used is forgotten first, whichever function returned it."""
    of_one, of_other = work(), work()

    @cached(store)
    def one(_name):
        return of_one()

    @cached(store)
    def other(_name):
        return of_other()

    for function, name in ((one, "a"), (other, "a"), (one, "a"), (other, "b")):
        function.task(name).compute(lambda _: None)  # neither tells how far it is
    known = [one.is_known("a"), other.is_known("a"), other.is_known("b"), one.is_known("b")]
    assert known == [True, False, True, False]
    assert (of_one.call_count, of_other.call_count) == (1, 2)
    assert not isinstance(store, Memory) or store.kept == 8
    assert len({one.task("a").name, one.task("b").name, other.task("a").name}) == 3  # by which it is stopped


def test_the_positional_arguments_are_the_key_however_they_are_given():
    calls = []

    @cached(Store(8))
    def scaled(number, factor=2.0, *, on_progress=None):
        calls.append((number, factor))
        if on_progress is not None:
            on_progress(1)
        return number * factor

    assert (scaled(3.0), scaled(3.0, 2.0), scaled(number=3.0, factor=2.0)) == (6.0, 6.0, 6.0)
    assert scaled.task(3.0).is_known
    assert scaled(3.0, factor=4.0) == 12.0
    assert calls == [(3.0, 2.0), (3.0, 4.0)]
    told = []
    assert scaled.task(5.0).compute(told.append) == 10.0
    assert scaled(5.0, on_progress=told.append) == 10.0
    assert told == [1]
    with pytest.raises(TypeError):
        scaled(3.0, another=1)  # pyright: ignore[reportCallIssue]


def test_what_is_larger_than_the_bound_is_kept_alone_until_something_else_comes():
    """Everything on a page that shows a pass asks for it; given but not kept, it would be read over and over."""
    store, large = Memory(10), work(11)
    store.get("small", work())
    assert store.get("large", large) is store.get("large", large)
    assert large.call_count == 1
    assert "small" not in store
    store.get("small", work())
    assert "large" not in store


@pytest.mark.parametrize("store", [Store(10), Store(10, waits=True), Memory(10)])
def test_work_that_failed_leaves_nothing_behind(store):
    with pytest.raises(ValueError, match="no result"):
        store.get("it", Mock(side_effect=ValueError("no result")))
    assert "it" not in store
    assert store.get("it", again := work()) is again.return_value


def test_all_that_is_large_shares_the_memory_of_the_settings():
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


def test_what_is_kept_makes_room_for_what_runs():
    memory = Memory(10)
    memory.get("old", work(4))
    memory.get("new", work(4))
    assert memory.reserve(6)
    assert ("old" in memory, "new" in memory) == (False, True)
    assert not memory.reserve(5)
    with memory.held(6):
        memory.get("meanwhile", work(3))  # of the six, so that nothing else has to go
        assert ("new" in memory, memory.reserved, memory.kept) == (True, 3, 7)
    assert (memory.reserved, memory.kept) == (0, 7)


def test_what_has_grown_is_weighed_again_when_it_is_asked_for():
    memory, text = Memory(10), SimpleNamespace(nbytes=2)
    memory.get("other", work(5))
    memory.get("text", lambda: text)
    text.nbytes = 6
    memory.get("text", work(1))
    assert (memory.kept, "other" in memory, "text" in memory) == (6, False, True)


def test_work_within_work_gives_back_what_is_its_own():
    memory = Memory(10)
    memory.reserve(6)
    with memory.held(6):
        memory.reserve(2)
        with memory.held(2):
            memory.get("result", work(5))
            assert (memory.reserved, memory.kept) == (3, 5)
        assert memory.reserved == 3
    assert (memory.reserved, memory.kept) == (0, 5)


class Large:
    """A result that a page may use."""

    def __init__(self, nbytes):
        self.nbytes = nbytes


def test_what_is_forgotten_while_a_page_uses_it_takes_its_room_until_that_page_ends():
    memory = Memory(10)
    page = memory.get("pass", lambda: Large(6))
    assert memory.reserve(4)
    assert not memory.reserve(3)
    with memory.held(4):
        memory.get("another", lambda: Large(4))
    memory.get("a third", lambda: Large(4))
    assert (memory.kept, memory.used) == (4, 6)
    assert memory.get("pass", lambda: pytest.fail("it is computed again")) is page
    assert (memory.kept, memory.used) == (10, 0)
    memory.forget(lambda _: True)
    assert not memory.reserve(5)
    del page
    assert memory.reserve(5)
    assert "pass" not in memory


def test_what_a_page_holds_stays_until_it_ends_or_lets_go():
    memory = Memory(10)
    with memory.holds():
        memory.get("pass", lambda: Large(6))
        memory.forget(lambda _: True)
        assert memory.used == 6
        memory.get("pass", lambda: pytest.fail("it is computed again"))
        memory.let_go()
        memory.forget(lambda _: True)
        assert (memory.used, "pass" in memory) == (0, False)
        memory.get("pass", lambda: Large(6))
        memory.forget(lambda _: True)
        assert memory.used == 6
    assert memory.used == 0


def test_who_is_first_does_not_wait_for_pages_that_wait_for_it():
    memory = Memory(10)
    page = memory.get("pass", lambda: Large(6))
    memory.forget(lambda _: True)
    assert not memory.reserve(5)
    assert memory.reserve(5, first=True)
    assert not memory.reserve(5, first=True)  # but for other work
    assert memory.used == page.nbytes


def test_what_only_those_have_asked_for_who_left_is_forgotten(monkeypatch):
    memory, visitor = Memory(10), SimpleNamespace(session_id="one")
    monkeypatch.setattr(cache, "get_script_run_ctx", lambda **_: visitor)
    memory.get("alone", lambda: Large(1))
    memory.get("together", lambda: Large(1))
    visitor.session_id = "two"
    memory.get("together", lambda: Large(1))
    visitor = None
    memory.get("nobody's", lambda: Large(1))
    there = {"two"}
    missed = leaving.forget(memory, set(), there.__contains__)
    assert (missed, memory.kept) == ({"one"}, 3)  # it may be a page that is loaded again
    leaving.forget(memory, missed, there.__contains__)
    assert ("alone" in memory, "together" in memory, "nobody's" in memory) == (False, True, True)
    leaving.forget(memory, {"one", "two"}, set().__contains__)
    assert ("together" in memory, memory.kept) == (False, 1)


def mapped(folder):
    """How often a file in this folder is part of this process's memory."""
    return Path("/proc/self/maps").read_text().count(f"{folder}/")


@pytest.mark.skipif(sys.platform != "linux", reason="Linux says what a process has mapped")
def test_with_a_model_that_is_forgotten_go_its_passes_and_its_file(monkeypatch, tmp_path):
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        tiny("Llama").save_pretrained(folder)
        number_words().save_pretrained(folder)
    one, two = (ModelChoice(str(folder)) for folder in folders)
    monkeypatch.setattr(models.loaded, "store", type(models.loaded.store)(1))
    passes.captured(TextRequest(one, "3 4 5"))
    assert mapped(folders[0])
    passes.captured(TextRequest(two, "3 4 5"))
    gc.collect()
    assert (mapped(folders[0]), passes.captured.is_known(TextRequest(one, "3 4 5"))) == (0, False)
    assert mapped(folders[1])
    assert passes.captured.is_known(TextRequest(two, "3 4 5"))


def test_what_can_never_fit_is_refused_with_both_figures():
    memory = Memory(2 * 10**9)
    memory.check(2 * 10**9)
    with refused("text", r"needs about 3\.1 GB; this host allows 2\.0 GB"):
        memory.check(3.1 * 10**9)


def test_sessions_that_ask_at_once_wait_for_one_piece_of_work():
    store, begun, done = Store(2, waits=True), Event(), Event()

    def slow():
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


def test_everything_that_is_asked_for_counts():
    """A field left out of the comparison would give a visitor what another one has uploaded or changed."""
    kinds = [kind for kind in vars(requests).values() if is_dataclass(kind) and kind.__module__ == requests.__name__]
    assert {"TextRequest", "HeadRequest", "AnswerRequest"} <= {kind.__name__ for kind in kinds}
    for kind in kinds:
        assert all(field.compare and field.hash is not False for field in fields(kind)), kind
    given = {"pair": "b", "target": "c", "keep": 4, "image": b"0", "edits": Edits(mute_heads={(0, 0)})}
    plain = TextRequest(ModelChoice("m"), "a")
    assert len({plain, *(replace(plain, **{name: value}) for name, value in given.items())}) == 1 + len(given)
    assert replace(plain, image=b"0") != replace(plain, image=b"1")
