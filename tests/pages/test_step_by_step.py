"""The first page without a browser: what a stop of the tour says whose model is not there."""

from importlib.util import find_spec

import pytest
from streamlit.testing.v1 import AppTest

from core.models import loading
from core.models.catalogue import CATALOGUE
from tests.source_files import ROOT
from ui import models, passes, state
from ui.cache import Store
from ui.memory import Memory
from ui.views.step_by_step import tour


@pytest.fixture
def without_decoder(monkeypatch):
    """As if SmolLM2 were not installed, and had not been read before."""
    monkeypatch.setattr(models.loaded, "store", Store(2, waits=True))
    monkeypatch.setattr(passes.captured, "store", Memory(1e9))
    package = next(entry.package for entry in CATALOGUE if entry.name == tour.DECODER)
    monkeypatch.setattr(loading, "find_spec", lambda name: None if name == package else find_spec(name))


def go_to(app, at):
    """As the card does it."""
    app.session_state[state.TOUR] = at
    for key, value in tour.STOPS[at].choices().items():
        app.session_state[key] = value
    return app


@pytest.mark.usefixtures("without_decoder")
def test_a_stop_whose_model_is_not_there_says_which_and_goes_on(monkeypatch):
    said = []
    monkeypatch.setattr(tour, "tour_card", lambda words, *_: said.append(words))
    app = AppTest.from_file(str(ROOT / "pages/step_by_step.py"), default_timeout=60)
    at = next(at for at, stop in enumerate(tour.STOPS) if stop.model == tour.DECODER)
    go_to(app, at).run()
    assert not app.exception
    (error,) = app.error
    assert tour.DECODER.replace("-", "\\-") in error.value
    assert f"This stop shows {tour.DECODER}, which cannot be opened here" in said[-1]
    go_to(app, at + 1).run()
    assert not app.error
    assert "Now try it yourself" in said[-1]
