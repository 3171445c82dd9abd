"""Work that is followed, asked for and stopped, as a page does it."""

from __future__ import annotations

import time

import pytest
from streamlit.testing.v1 import AppTest

from core import InputError
from ui import progress


def two_jobs() -> None:
    """Each counts how often it was begun. Those named in `stops` are stopped once while they run."""
    import streamlit as st

    from ui import progress

    begun = st.session_state.setdefault("begun", {"first": 0, "second": 0})
    stops = st.session_state.setdefault("stops", ["first", "second"])
    for name in begun:

        def work(on_progress: progress.OnProgress, name: str = name) -> str:
            begun[name] += 1
            on_progress(1)
            if name in stops:
                stops.remove(name)
                progress._stop(("job", name))  # what the Stop button does ...
                st.rerun()  # ... and Streamlit after it
            return "done"

        st.text(f"{name}: {progress.run(work, ('job', name), f'The {name}', 1)}")


def texts(app: AppTest) -> list[str]:
    assert not app.exception, app.exception
    return [text.value for text in app.text]


def test_work_that_was_stopped_stays_so_whatever_becomes_of_other_work() -> None:
    app = AppTest.from_function(two_jobs).run()
    assert texts(app) == ["first: None", "second: None"]
    assert [info.value for info in app.info] == ["The first was stopped.", "The second was stopped."]
    app.run()
    assert app.session_state.begun == {"first": 1, "second": 1}
    app.button[1].click().run()
    assert texts(app) == ["first: None", "second: done"]
    app.button[0].click().run()
    assert texts(app) == ["first: done", "second: done"]
    assert app.session_state.begun == {"first": 2, "second": 3}


def asking() -> None:
    """Two pieces of work that take a minute each, it is said."""
    import streamlit as st

    from ui.progress import run

    for name in ("first", "second"):
        result = run(lambda _: "done", ("job", name), name, 1, announce=lambda name=name: (60.0, f"{name}: a minute."))
        st.text(f"{name}: {result}")


def test_each_long_work_is_asked_for_and_what_was_wanted_stays_wanted() -> None:
    app = AppTest.from_function(asking).run()
    assert [info.value for info in app.info] == ["first: a minute.", "second: a minute."]
    app.button[0].click().run()
    assert texts(app) == ["first: done", "second: None"]
    app.button[0].click().run()
    assert texts(app) == ["first: done", "second: done"]


def test_the_bar_does_not_outlive_work_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def page() -> None:
        import streamlit as st

        from core import InputError
        from ui.progress import OnProgress, run

        def work(on_progress: OnProgress) -> None:
            on_progress(1)
            raise InputError("It cannot be read.", field="text")

        try:
            run(work, "job", "Reading", 2)
        except InputError as error:
            st.error(str(error))

    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    app = AppTest.from_function(page).run()
    assert [error.value for error in app.error] == ["It cannot be read."]
    assert not app.button


class Place:
    """What a place on a page is asked to show."""

    def __init__(self) -> None:
        self.shown: list = []

    def status(self, words: str, **_) -> None:
        self.shown.append(words)

    def progress(self, done: float, text: str) -> None:
        self.shown.append((done, text))

    def empty(self) -> None:
        self.shown.append(None)


def until(place: Place, shown: object) -> None:
    for _ in range(500):
        if place.shown and place.shown[-1] == shown:
            return
        time.sleep(0.01)
    raise AssertionError(f"{place.shown} does not end with {shown}")


def test_what_is_followed_is_said_with_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    place = Place()
    with progress.following(place, "Reading *it*") as tell:
        until(place, "Reading \\*it\\*")
        tell("Converting", 0.25)
        until(place, (0.25, "Converting: 25%"))
    assert place.shown[-1] is None


def test_nothing_is_said_any_more_of_work_that_failed() -> None:
    place = Place()
    with pytest.raises(InputError), progress.following(place, "Reading"):
        raise InputError("It cannot be read.", field="model")
    assert place.shown == [None]


def test_of_a_moment_nothing_is_said() -> None:
    place = Place()
    with progress.following(place, "Reading") as tell:
        tell("Converting", 0.5)
    assert place.shown == [None]
