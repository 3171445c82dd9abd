"""Heavy work of several sessions, each a thread as Streamlit's are."""

import ctypes
import gc
import subprocess
import sys
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from types import SimpleNamespace

import psutil
import pytest
from streamlit.runtime.scriptrunner import RerunException, StopException

from core import InputError
from tests.conftest import PATIENCE
from tests.source_files import ROOT
from ui import freed, turns
from ui.cache import Memory
from ui.turns import Turns


@pytest.fixture(autouse=True)
def looks_often(monkeypatch):
    monkeypatch.setattr(turns, "LOOK", 0.01)


class Sessions:
    """Threads that want a turn, one after the other; what each has been told, and who had one, in that order."""

    def __init__(self, memory=100):
        self.memory = Memory(memory)
        self.turns = Turns(self.memory)
        self.had = []
        self.told = {}
        self._threads = ThreadPoolExecutor(max_workers=20)

    def want(self, name, work=lambda: None, *, needs=0, told=None):
        """Another session, which is in the queue, or has its turn, when this returns."""

        def waiting(others):
            self.told.setdefault(name, []).append(others)
            if told is not None:
                told()

        def run():
            with self.turns.turn(needs, waiting):
                self.had.append(name)
                work()

        future = self._threads.submit(run)
        while name not in self.told and name not in self.had and not future.done():
            time.sleep(0.001)
        return future


def test_first_come_first_served_and_each_is_told_how_many_are_before():
    sessions, over = Sessions(), Event()
    wanted = [sessions.want("a", lambda: over.wait(PATIENCE))] + [sessions.want(name) for name in "bcdef"]
    while len(sessions.told) < 5:
        time.sleep(0.01)
    over.set()
    for one in wanted:
        one.result(PATIENCE)
    assert sessions.had == list("abcdef")
    assert [sessions.told[name][0] for name in "bcdef"] == [1, 2, 3, 4, 5]
    assert not sessions.turns._queue


@pytest.mark.thorough
@pytest.mark.parametrize("end", [StopException(), RerunException(None), InputError("bad", field="text")])  # pyright: ignore
def test_a_turn_ends_however_the_page_ends(end):
    sessions = Sessions()

    def fail():
        raise end

    failed = sessions.want("a", fail)
    with pytest.raises(type(end)):
        failed.result(PATIENCE)
    sessions.want("b").result(PATIENCE)
    assert sessions.memory.reserved == 0


def test_who_leaves_while_waiting_gives_up_the_place():
    sessions, over = Sessions(), Event()

    def gone():
        raise StopException

    first = sessions.want("a", lambda: over.wait(PATIENCE))
    left = sessions.want("b", told=gone)
    last = sessions.want("c")
    with pytest.raises(StopException):
        left.result(PATIENCE)
    sessions.told.clear()
    while sessions.told.get("c", [2])[-1] != 1:
        time.sleep(0.01)
    over.set()
    last.result(PATIENCE)
    first.result(PATIENCE)
    assert sessions.had == ["a", "c"]


def test_whoever_has_the_turn_goes_on_in_nested_work_and_what_can_never_fit_does_not_wait():
    sessions = Sessions()

    def nested():
        with sessions.turns.turn(50, lambda _: None), sessions.turns.room(5, lambda _: None):
            sessions.had.append("inside")
        sessions.had.append("after")

    sessions.want("a", nested, needs=60).result(PATIENCE)
    sessions.want("b").result(PATIENCE)
    assert sessions.had == ["a", "inside", "after", "b"]
    assert sessions.memory.reserved == 0
    sessions = Sessions(memory=100)
    for way in (sessions.turns.turn, sessions.turns.room):
        with pytest.raises(InputError, match="this host allows"), way(101, lambda _: None):
            pass
    assert not sessions.turns._queue


def test_light_work_does_not_wait_unless_there_is_no_room():
    sessions, over = Sessions(memory=100), Event()
    heavy = sessions.want("heavy", lambda: over.wait(PATIENCE), needs=60)
    with sessions.turns.room(30, lambda _: pytest.fail("it waits")):
        assert sessions.memory.reserved == 90

    told = Event()

    def light():
        with sessions.turns.room(50, lambda _: told.set()):
            sessions.had.append("light")

    waits = sessions._threads.submit(light)
    assert told.wait(PATIENCE)
    assert sessions.had == ["heavy"]
    over.set()
    heavy.result(PATIENCE)
    waits.result(PATIENCE)
    assert sessions.had == ["heavy", "light"]


def test_large_work_has_its_turn_before_it_begins(monkeypatch):
    """Half-way through it would wait with all that it has read."""
    monkeypatch.setattr(turns, "LARGE", 20)
    sessions, over, begun = Sessions(memory=100), Event(), []

    def read(name, needs):
        with sessions.turns.room(needs, lambda _: sessions.told.setdefault(name, True)):
            begun.append(name)
            over.wait(PATIENCE)

    one = sessions._threads.submit(read, "one", 30)
    while not begun:
        time.sleep(0.001)
    others = [sessions._threads.submit(read, *other) for other in (("two", 30), ("small", 20))]
    while len(sessions.told) + len(begun) < 3:
        time.sleep(0.001)
    assert (begun, [*sessions.told], sessions.memory.reserved) == (["one", "small"], ["two"], 50)
    over.set()
    for reading in (one, *others):
        reading.result(PATIENCE)
    assert sessions.memory.reserved == 0


@pytest.mark.thorough
def test_those_who_hold_what_the_first_waits_for_go_before_it():
    sessions, begun, over = Sessions(memory=100), Event(), Event()

    def grows():
        with sessions.turns.room(60, lambda _: None):
            begun.set()
            over.wait(PATIENCE)
            with sessions.turns.turn(0, lambda _: None):  # it has turned out to be heavy
                sessions.had.append("it")

    holds = sessions._threads.submit(grows)
    begun.wait(PATIENCE)
    first = sessions.want("first", needs=50)
    late = sessions._threads.submit(lambda: sessions.turns.room(30, lambda _: None).__enter__())
    while not late.done() and len(sessions.turns._queue) < 2:
        time.sleep(0.001)
    over.set()
    holds.result(PATIENCE)
    first.result(PATIENCE)
    assert sessions.had == ["it", "first"]


@pytest.mark.thorough
def test_where_pages_hold_all_room_those_that_need_least_go_first():
    """They have read their text and come to their end; who still has to read would take more."""

    class Pass:
        nbytes = 100

    sessions, over = Sessions(memory=100), Event()
    wanted = [sessions.want("runs", lambda: over.wait(PATIENCE))]
    page = sessions.memory.get("pass", Pass)
    sessions.memory.forget(lambda _: True)
    wanted += [sessions.want(name, needs=needs) for name, needs in (("reads", 60), ("draws", 10), ("draws too", 10))]
    over.set()
    for one in wanted:
        one.result(PATIENCE)
    assert sessions.had == ["runs", "draws", "draws too", "reads"]
    assert sessions.memory.used == page.nbytes


def test_pages_that_wait_let_go_of_what_they_hold():
    """Each has read its text, and all together they hold more than there is: they go on one by one, within the memory."""

    class Pass:
        nbytes = 40

    sessions, over, most = Sessions(memory=100), Event(), []

    def page(name):
        with sessions.turns.page():
            sessions.memory.get(name, Pass)
            with sessions.turns.turn(60, lambda _: sessions.told.setdefault(name, True)):
                most.append(sessions.memory.reserved + sessions.memory.used + sessions.memory.kept)
                sessions.memory.get(name, Pass)

    runs = sessions.want("runs", lambda: over.wait(PATIENCE))
    pages = [sessions._threads.submit(page, name) for name in "abc"]
    while len(sessions.told) < len(pages):
        time.sleep(0.001)
    over.set()
    for one in (runs, *pages):
        one.result(PATIENCE)
    assert max(most) <= 100
    assert (sessions.memory.used, sessions.memory.reserved) == (0, 0)


def test_work_beyond_the_memory_waits_for_pages_that_draw():
    class Pass:
        nbytes = 100

    sessions, drawn = Sessions(memory=100), Event()

    def page():
        with sessions.turns.page():
            sessions.memory.get("pass", Pass)
            sessions.told["page"] = True
            drawn.wait(PATIENCE)
            sessions.had.append("page")

    drawing = sessions._threads.submit(page)
    while not sessions.told:
        time.sleep(0.001)
    work = sessions.want("work", needs=10)
    while not sessions.turns._queue:
        time.sleep(0.001)
    drawn.set()
    for one in (drawing, work):
        one.result(PATIENCE)
    assert sessions.had == ["page", "work"]


PLACES = """
import ctypes, threading
from ui.freed import share_freed
{called}
library, all_there, taken = ctypes.CDLL(None), threading.Barrier(12), []
def take():
    all_there.wait()
    taken.append(bytes(100_000))
    all_there.wait()
threads = [threading.Thread(target=take) for _ in range(12)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]

library.fdopen.restype = ctypes.c_void_p
out = ctypes.c_void_p(library.fdopen(1, b"w"))
library.malloc_info(0, out)
library.fflush(out)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="the C library is not glibc")
def test_threads_share_the_place_that_memory_is_taken_from():
    def places(called):
        command = [sys.executable, "-c", PLACES.format(called=called)]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.count("<heap nr=")

    assert places("share_freed()") == 1 < places("")


@pytest.mark.skipif(freed._malloc_trim() is None, reason="the C library keeps nothing, or does not say how to get it")
def test_what_is_freed_in_a_turn_is_given_back_to_the_system():
    def resident():
        return psutil.Process().memory_info().rss

    sessions = Sessions()
    before = resident()
    with sessions.turns.turn(0, lambda _: None):
        blocks = [bytes(50_000) for _ in range(4_000)]
        after = blocks[-1]  # what lies beyond all that is freed
        assert resident() - before > 1.5e8
        del blocks
    assert resident() - before < 0.5e8
    assert after


def test_waiting_does_not_count(monkeypatch):
    sessions, over, now = Sessions(), Event(), [0.0]
    monkeypatch.setattr(turns, "time", SimpleNamespace(monotonic=lambda: now[0]))
    sessions.want("a", lambda: over.wait(PATIENCE))
    began = sessions.turns.clock()

    def wait(_):
        now[0] += 60
        over.set()

    with sessions.turns.turn(0, wait):
        assert sessions.turns.clock() == began
    assert now[0] > 0


def test_heavy_work_gives_way_to_pages(monkeypatch):
    sessions, page_over = Sessions(), Event()
    monkeypatch.setattr(turns, "GIVES_WAY", PATIENCE)
    noted = []

    def page():
        with sessions.turns.page():
            page_over.wait(PATIENCE)
            while not (sessions.turns._changed._waiters or noted):
                time.sleep(0.001)  # until the other one waits, or has not waited
            noted.append("page")

    def heavy():
        with sessions.turns.page(), sessions.turns.turn(0, lambda _: None):
            sessions.turns._stepped = time.monotonic() - PATIENCE  # a long step
            page_over.set()
            sessions.turns.give_way()
            noted.append("heavy")

    light = sessions._threads.submit(page)
    while not sessions.turns._pages:
        time.sleep(0.001)
    sessions._threads.submit(heavy).result(PATIENCE)
    light.result(PATIENCE)
    assert noted == ["page", "heavy"]
    assert not sessions.turns._pages


def test_what_earlier_work_left_in_circles_is_freed_before_a_turn():
    """Streamlit's own search for garbage after each run of a page is switched off."""

    class Tensor:
        def __init__(self):
            self.held_by = self

    gc.disable()  # Python's own search would come sooner or later
    try:
        gone = weakref.ref(Tensor())
        assert gone() is not None
        with Sessions().turns.turn(0, lambda _: None):
            assert gone() is None
    finally:
        gc.enable()
