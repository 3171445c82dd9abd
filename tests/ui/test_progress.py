"""Work that is followed, asked for and stopped, as a page does it."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

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
