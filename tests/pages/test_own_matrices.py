"""Matrices entered on a page: what each of them may be says `core`; here, what they may be together, and files of them."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.app import address, opened, ran
from ui import state

TALL = np.ones((5_000, 1))
NAMES = ("query", "key", "value")


@pytest.fixture
def app() -> AppTest:
    def page() -> None:
        import streamlit as st

        from ui.views.step_by_step.scenes import own_matrices

        trace = own_matrices()
        st.text("nothing" if trace is None else f"{trace.output.shape}")

    return AppTest.from_function(page).run()


def says(app: AppTest) -> str:
    app.run()
    assert not app.exception
    assert [text.value for text in app.text] == ["nothing"]
    (error,) = app.error
    return error.value.replace("\\", "")


def test_more_scores_than_can_be_computed_are_refused_in_files_and_in_fields(app: AppTest) -> None:
    """Each matrix is small. Their 25 million scores would be computed without a question."""
    for name in NAMES:
        app.text_area(state.OWN[name]).set_value("1\n" * len(TALL))
    said = says(app)
    assert "5,000 queries and 5,000 keys make 25,000,000 scores; at most 16,777,216" in said
    file = io.BytesIO()
    np.savez(file, query=TALL, key=TALL, value=TALL)
    for name in NAMES:
        app.text_area(state.OWN[name]).set_value("1")
    app.file_uploader(state.ARCHIVE).set_value(("a.npz", file.getvalue(), "application/zip"))
    assert says(app) == said


def test_a_pickle_is_never_opened(app: AppTest, tmp_path: Path) -> None:
    class Payload:
        def __reduce__(self) -> tuple[object, ...]:
            return (open, (str(tmp_path / "opened"), "w"))

    file = io.BytesIO()
    np.save(file, np.array([[Payload()]], dtype=object), allow_pickle=True)
    app.file_uploader(state.FILES["query"]).set_value(("query.npy", file.getvalue(), "application/octet-stream"))
    assert "ickled" in says(app)
    assert not (tmp_path / "opened").exists()


def test_files_of_an_earlier_visit_are_named_until_there_are_others() -> None:
    app = opened("step_by_step", **{state.SOURCE: "own", state.UPLOADED: "queries.csv"})
    assert [info.value for info in app.info] == ["queries\\.csv was uploaded in an earlier visit\\. Upload it again\\."]
    assert address(app, state.UPLOADED) == ["queries.csv"]
    app.file_uploader(state.FILES["query"]).set_value(("mine.csv", b"1,0\n0,1\n1,1", "text/csv"))
    ran(app)
    assert not app.info
    assert address(app, state.UPLOADED) == ["mine.csv"]
    app.file_uploader(state.FILES["query"]).set_value(None)
    ran(app)
    assert not app.info
    assert address(app, state.UPLOADED) == []
