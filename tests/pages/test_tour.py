"""The tour without a browser: each stop says the numbers of what it shows, and nothing of what a visitor has changed."""

import re
from importlib.util import find_spec

import pytest
from streamlit.testing.v1 import AppTest

from core import capture, explain
from core.attention.stages import number
from core.models import catalogue
from core.models.catalogue import CATALOGUE
from tests.browser.addresses import SENTENCE
from tests.browser.driver import AS_IT_IS, STAGES, difference
from tests.pages.app import figure, ran
from tests.source_files import ROOT
from ui import state
from ui.cache import Memory, Store
from ui.views.sources import models, passes
from ui.views.step_by_step import tour

CHANGED = "You have changed what this stop shows"


@pytest.fixture
def app():
    return AppTest.from_file(str(ROOT / "pages/step_by_step.py"))


@pytest.fixture
def says(app, monkeypatch):
    """Goes to a stop, or changes fields one after the other, and gives the words on the card."""
    words = []
    monkeypatch.setattr(tour, "tour_card", lambda said, *_: words.append(said))

    def says(stop=None, **changes):
        if stop is not None:
            app.session_state[state.TOUR] = stop - 1
            for key, value in tour.STOPS[stop - 1].choices().items():
                app.session_state[key] = value
        for key, value in changes.items():
            app.get_by_key(key).set_value(value)
        ran(app)
        return re.sub(r"[\\*]", "", words[-1]).replace("\u00a0", " ")

    return says


def test_each_stop_shows_its_picture_and_says_the_numbers_of_it(app, says, minilm, smollm):
    """Only this test finds a stop whose picture is another one."""
    reader, decoder = capture(minilm, SENTENCE).trace(5, 11), capture(smollm, SENTENCE).trace(13, 8)
    cell = explain(reader, 10, 2)
    for stop, (trace, stage, words) in enumerate(
        (
            (reader, "Softmax", f"gives {cell.weight:.1%} of its attention"),
            (reader, "Raw scores", f"32 products add up to {number(cell.raw)}"),
            (reader, "Scaled", f"{number(cell.raw)} becomes {number(cell.scaled)}"),
            (reader, "Softmax", f"becomes a weight of {number(cell.weight)}"),
            (reader, "Output", "the output of “it” is the sum"),
            (decoder, "Mask", f"{int((~decoder.mask).sum())} of {decoder.mask.size} pairs are masked"),
            (reader, "Softmax", "Now try it yourself"),
        ),
        start=1,
    ):
        assert words in says(stop)
        assert difference(figure(app, AS_IT_IS), STAGES[stage](trace)) is None


def test_nothing_is_said_of_what_is_not_shown(says, minilm):
    """Not of other matrices, not of a scale that is switched off, though its own words invite to that."""
    cell = explain(capture(minilm, SENTENCE).trace(5, 11), 4, 3)
    assert "multiplied by 1" in says(3)
    assert CHANGED in says(**{state.SCALING: False})
    assert "multiplied by 1" in says(**{state.SCALING: True})
    assert f"{number(cell.raw)} becomes {number(cell.scaled)}" in says(**{state.QUERY: 4, state.KEY: 3})
    assert CHANGED in says(**{state.SOURCE: "own"})


@pytest.fixture
def without_decoder(monkeypatch):
    """As if SmolLM2 were not installed, and had not been read before."""
    monkeypatch.setattr(models.loaded, "store", Store(2, waits=True))
    monkeypatch.setattr(passes.captured, "store", Memory(1e9))
    package = next(entry.package for entry in CATALOGUE if entry.name == tour.DECODER)
    monkeypatch.setattr(catalogue, "find_spec", lambda name: None if name == package else find_spec(name))


@pytest.mark.thorough
@pytest.mark.usefixtures("without_decoder")
def test_a_stop_whose_model_is_not_there_says_which_and_goes_on(app, says):
    stop = next(at for at, stop in enumerate(tour.STOPS, start=1) if stop.model == tour.DECODER)
    assert f"This stop shows {tour.DECODER}, which cannot be opened here" in says(stop)
    (error,) = app.error
    assert tour.DECODER.replace("-", "\\-") in error.value
    assert "Now try it yourself" in says(stop + 1)
    assert not app.error
