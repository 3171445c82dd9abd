"""Work that is followed, asked for and stopped, as a page does it; and an array that is computed piece by piece."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from threading import Event
from types import SimpleNamespace

import numpy as np
import pytest
import streamlit as st
from streamlit.runtime.scriptrunner import StopException, get_script_run_ctx
from streamlit.testing.v1 import AppTest

from core import InputError
from core.progress import stop_point
from core.threads import side_by_side
from tests.conftest import PATIENCE
from ui import progress, settings
from ui.cache import Task
from ui.progress import Growing
from ui.settings import Settings


def page(works, said=True, **options):
    """Does each of the works, by their names, and shows what comes of it. said: whether the page says something meanwhile"""
    import streamlit as st

    from core import InputError
    from ui.cache import Task
    from ui.progress import run, watched

    try:
        with watched():
            for name, work in works.items():
                st.text(f"{run(Task(name, work), f'The {name}', 10, **options) if said else work()}")
    except InputError as error:
        st.error(str(error))


def shown(work, **options):
    works = work if isinstance(work, dict) else {"job": work}
    return AppTest.from_function(page, args=(works,), kwargs=options).run()


def texts(app):
    assert not app.exception, app.exception
    return [text.value for text in app.text]


def test_the_same_work_may_be_done_or_offered_twice_on_a_page(monkeypatch):
    """Others may have needed the memory of what it gave."""
    monkeypatch.setattr(progress, "PATIENCE", 0.0)

    def twice(stops):
        import streamlit as st

        from ui.cache import Task
        from ui.progress import _Halt, _wish, run, watched

        if stops:
            _wish("job", _Halt())
        with watched():
            for _ in range(2):
                st.text(f"{run(Task('job', lambda tell: tell(1) or 'done'), 'The job', 2)}")

    assert texts(AppTest.from_function(twice, args=(False,)).run()) == ["done", "done"]
    app = AppTest.from_function(twice, args=(True,)).run()
    assert (texts(app), len(app.info), len(app.button)) == (["None", "None"], 2, 1)


def test_work_that_was_stopped_stays_so_whatever_becomes_of_other_work():
    begun, stops = {"first": 0, "second": 0}, ["first", "second"]

    def work(name, on_progress):
        begun[name] += 1
        on_progress(1)
        if name in stops:
            stops.remove(name)
            progress._wish(name, progress._Halt())  # what the Stop button does ...
            st.rerun()  # ... and Streamlit after it
        return "done"

    app = shown({name: partial(work, name) for name in begun})
    assert texts(app) == ["None", "None"]
    assert [info.value for info in app.info] == ["The first was stopped.", "The second was stopped."]
    app.run()
    assert begun == {"first": 1, "second": 1}
    app.button[1].click().run()
    assert texts(app) == ["None", "done"]
    app.button[0].click().run()
    assert texts(app) == ["done", "done"]
    assert begun == {"first": 2, "second": 3}


def test_work_that_does_not_fit_is_refused_and_the_bar_does_not_outlive_work_that_failed(monkeypatch):
    def work(on_progress):
        on_progress(1)
        raise InputError("It cannot be read.", field="text")

    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress.MEMORY, "most", 2e9)
    too_much = "This needs about 3.1 GB; this host allows 2.0 GB. Shorten the text."
    for needs, words in ((0, "It cannot be read."), (3.1e9, too_much)):
        app = shown(work, needs=needs)
        assert [error.value for error in app.error] == [words]
        assert not app.button


class Place:
    """What a place on a page is asked to show."""

    def __init__(self):
        self.shown = []

    def container(self, **_):
        return self

    def status(self, words, **_):
        self.shown.append(words)

    def progress(self, done, text):
        self.shown.append((done, text))

    def empty(self):
        self.shown.append(None)
        return self


def until(place, shown):
    deadline = time.monotonic() + PATIENCE
    while not (place.shown and place.shown[-1] == shown):
        assert time.monotonic() < deadline, f"{place.shown} does not end with {shown}"
        time.sleep(0.01)


def test_what_is_followed_is_said_with_how_far_it_is(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    place = Place()
    with progress.following(place, "Reading *it*") as tell:
        until(place, "Reading \\*it\\*")
        tell("Converting", 0.25)
        until(place, (0.25, "Converting: 25%"))
    assert place.shown[-1] is None


def test_nothing_is_said_of_a_moment_nor_any_more_of_work_that_failed():
    place = Place()
    with progress.following(place, "Reading") as tell:
        tell("Converting", 0.5)
    with pytest.raises(InputError), progress.following(place, "Reading"):
        raise InputError("It cannot be read.", field="model")
    assert place.shown == [None, None]


@pytest.fixture
def looked_at_each_stop_point(monkeypatch):
    """By a clock that goes on with each look at it."""
    ticks = count()
    monkeypatch.setattr(progress, "LOOKS", 0.0)
    monkeypatch.setattr(progress.TURNS, "clock", lambda: next(ticks))


@pytest.mark.usefixtures("looked_at_each_stop_point")
@pytest.mark.parametrize("said", [True, False])
def test_time_is_up_between_the_steps_too(said, monkeypatch):
    passed, most = [], [100]

    def work(*_):
        for step in range(most[-1]):
            passed.append(step)
            stop_point()
        return "done"

    monkeypatch.setattr(settings, "current", lambda: Settings(seconds=9))
    app = shown(work, said=said)
    assert texts(app) == ["None"] * said
    assert 1 < len(passed) < 12
    (words,) = [info.value for info in app.info]
    assert "after 9 s, the longest that this host computes. Shorten the text" in words
    done = len(passed)
    assert app.run().exception == []
    assert (len(passed) == done) == said  # what has a button is not begun again by itself
    most.append(2)  # each stretch has its own time
    assert (app.button[0].click() if said else app).run().text[0].value == "done"


@pytest.mark.usefixtures("looked_at_each_stop_point")
@pytest.mark.parametrize("said", [True, False])
def test_work_ends_at_the_next_stop_point_when_its_visitor_has_gone(said):
    """As Streamlit tells a run whose tab is closed."""
    passed = []

    def work(*_):
        for step in range(9):
            passed.append(step)
            if step == 3:
                get_script_run_ctx().script_requests.request_stop()  # pyright: ignore[reportOptionalMemberAccess]
            stop_point()

    assert not shown(work, said=said).exception
    assert passed == [0, 1, 2, 3]


def test_a_file_ends_when_its_visitor_has_gone_and_when_it_takes_too_long(monkeypatch):
    """Streamlit makes it in another thread."""
    monkeypatch.setattr(progress, "LOOKS", 0.0)
    there = {"somebody": True}
    runtime = SimpleNamespace(is_active_session=there.get, session_id="somebody")
    monkeypatch.setattr(progress, "exists", lambda: True)
    for name in ("get_instance", "get_script_run_ctx"):
        monkeypatch.setattr(progress, name, lambda: runtime)

    def make():
        stop_point()
        return "all"

    made = progress.for_its_visitor(make)
    assert made() == "all"
    there.clear()
    assert made() == b""
    there["somebody"] = True
    ticks = count()
    monkeypatch.setattr(progress.TURNS, "clock", lambda: 9 * next(ticks))
    monkeypatch.setattr(settings, "current", lambda: Settings(seconds=3))
    with pytest.raises(InputError, match="longer than 3 s"):
        made()


def test_pieces_are_counted_from_the_first_one_and_their_pace_is_their_own(monkeypatch):
    """The first piece takes long, as the text is read before it: its time is told, and says nothing of those that follow."""
    said, now = [], [0.0]
    monkeypatch.setattr(progress, "LOOKS", 0.0)
    monkeypatch.setattr(progress.TURNS, "clock", lambda: now[0])
    monkeypatch.setattr(progress._Progress, "_show", lambda _, words: said.append(words))

    def pieces():
        for place in range(10):

            def compute(place=place):
                now[0] += 69 if place == 0 else 2
                stop_point()
                return [1.0]

            yield [place], compute

    growing = Growing((10,), pieces, nbytes=0)
    progress.fill(growing, "pieces", "Muting every head", lambda _: None, unit="head")
    assert said[:3] == [
        "Muting every head: head 0 of 10, 69 s so far",
        "Muting every head: head 1 of 10, 69 s so far",
        "Muting every head: head 1 of 10, 71 s so far",
    ]
    assert said[3] == "Muting every head: head 2 of 10, about 15 s left"


def test_work_of_other_threads_takes_its_turn(monkeypatch):
    """Measured by what the processor did: the thread of the page itself only waits."""
    monkeypatch.setattr(progress, "HEAVY", 0.05)
    monkeypatch.setattr(progress, "LOOKS", 0.0)
    held = []

    def layer(_):
        begun = time.thread_time()
        while time.thread_time() < begun + 0.1:
            stop_point()
        held.append(progress.TURNS._holder is not None)

    def work(on_progress):
        side_by_side(layer, range(8), on_progress)

    progress.run(Task("of threads", work), "Measuring", 8)
    assert held[-1]
    assert progress.TURNS._holder is None


def test_two_who_want_the_same_pieces_do_not_wait_for_each_other(monkeypatch):
    """One begins a piece, which turns out to be heavy; meanwhile the other, whose work is heavy already, wants the next one and
    has the turn."""
    monkeypatch.setattr(progress, "HEAVY", 0.05)
    monkeypatch.setattr(progress, "LOOKS", 0.0)
    begun, has_turn = Event(), Event()

    def heavy():
        begun.set()
        assert has_turn.wait(PATIENCE)
        until = time.thread_time() + 0.2
        while time.thread_time() < until:
            stop_point()
        return [1.0]

    pieces = [([0], heavy), ([1], lambda: [2.0])]
    growing = Growing((2,), lambda: iter(pieces), nbytes=0)

    def want():
        progress.fill(growing, "pieces", "Muting", lambda _: None, unit="head")

    def want_too():
        with progress.TURNS.turn(0, lambda _: None):
            has_turn.set()
            want()

    with ThreadPoolExecutor() as visitors:
        first = visitors.submit(want)
        assert begun.wait(PATIENCE)
        second = visitors.submit(want_too)
        first.result(PATIENCE)
        second.result(PATIENCE)
    assert growing.values.tolist() == [1, 2]


def pieces_page(growing, draw):
    from ui.progress import fill

    fill(growing, "pieces", "Muting", draw, unit="layer")


def test_pieces_that_came_in_time_stay_and_the_rest_can_be_gone_on_with(monkeypatch):
    growing = Growing((10,), lambda: (([place], lambda: [1.0]) for place in range(10)), nbytes=0)
    monkeypatch.setattr(settings, "current", lambda: Settings(seconds=8))
    monkeypatch.setattr(progress, "LONG", 1e9)
    ticks = count()
    monkeypatch.setattr(progress.TURNS, "clock", lambda: next(ticks))
    draw = lambda last: st.text(f"{growing.done}") if last else None  # noqa: E731
    app = AppTest.from_function(pieces_page, args=(growing, draw)).run()
    (some,) = map(int, texts(app))
    assert 0 < some < 10
    (said,) = [info.value for info in app.info]
    assert said == f"{some} of 10 measured. Continue? This host computes for at most 8 s at a time."
    assert [info.value for info in app.run().info] == [said]  # it is not gone on with by itself
    for _ in range(5):
        if app.button:
            assert app.button[0].label == "Continue"
            app.button[0].click().run()
    assert texts(app) == ["10"]
    assert not app.info


@pytest.mark.parametrize("stops", [True, False])
def test_pieces_that_are_interrupted_go_on_by_themselves_unless_somebody_has_stopped_them(stops, monkeypatch):
    """After the second one the page runs again, because of the Stop button or of something else."""
    worked, interruptions = [], ["one"]
    growing = Growing((3,), lambda: (([at], lambda at=at: worked.append(at) or [1.0]) for at in range(3)), nbytes=0)

    def draw(_last):
        st.text(f"{growing.done}")
        if growing.done == 2 and interruptions:
            interruptions.pop()
            if stops:
                progress._wish("pieces", progress._Halt())
            st.rerun()

    monkeypatch.setattr(progress, "FILLED", -1.0)
    app = AppTest.from_function(pieces_page, args=(growing, draw)).run()
    assert [info.value for info in app.info] == ["2 of 3 measured. Continue?"] * stops
    if stops:
        assert texts(app) == ["2"]
        app.button[0].click().run()
    assert texts(app) == ["3"]
    assert worked == [0, 1, 2]


def test_who_waits_reads_how_many_are_before_and_can_stop(monkeypatch):
    monkeypatch.setattr(progress, "HEAVY", -1.0)  # all work turns out to be heavy at its first step
    said, begun, over = [], Event(), Event()

    class Bar:
        def progress(self, _share, text):
            said.append(text)
            raise StopException

    def hold():
        with progress.TURNS.turn(0, lambda _: None):
            begun.set()
            over.wait(PATIENCE)

    with ThreadPoolExecutor() as visitors:
        first = visitors.submit(hold)
        assert begun.wait(PATIENCE)
        waiting = progress._Progress(st.empty(), "job", "Measuring", 3, "layer")
        waiting._bar = Bar()
        with pytest.raises(StopException), waiting.turn():
            waiting.tell(0)
        over.set()
        first.result(PATIENCE)
    assert said == ["Measuring waits, 1 other before you"]
    assert not progress.TURNS._queue


def test_single_numbers_come_before_others_and_before_a_pause():
    numbers = np.arange(6.0).reshape(3, 2)
    places = [([2, 0], [1, 1]), ([1], [0]), 0, 1, 2]
    pieces = [(place, lambda place=place: numbers[place]) for place in places]
    growing = Growing((3, 2), lambda: iter(pieces), nbytes=1, first=2)
    assert growing.go_on()
    assert not growing.may_pause
    np.testing.assert_array_equal(growing.values, [[np.nan, 1], [np.nan, np.nan], [np.nan, 5]])
    np.testing.assert_array_equal(growing.known, np.isfinite(growing.values))
    assert growing.go_on()
    assert growing.may_pause
    assert (growing.done, growing.share) == (3, 0.5)
    while growing.done < growing.total:
        assert growing.go_on()
    np.testing.assert_array_equal(growing.values, numbers)


class Ended(BaseException):
    pass


@pytest.mark.parametrize("where", ["before the first piece", "in a piece"])
def test_what_ends_it_half_way_loses_nothing(where):
    """A page that is stopped, and the next one of somebody else who wants the same."""
    ends, computed = [True], []

    def pieces():
        if ends and where == "before the first piece":
            ends.pop()
            raise Ended
        for place in range(4):

            def compute(place=place):
                if place == 2 and ends:
                    ends.pop()
                    raise Ended
                computed.append(place)
                return [place]

            yield [place], compute

    growing = Growing((4,), pieces, nbytes=1)
    with pytest.raises(Ended):
        all(iter(growing.go_on, False))
    all(iter(growing.go_on, False))
    assert growing.values.tolist() == computed == [0, 1, 2, 3]
