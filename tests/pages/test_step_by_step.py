"""Step by step without a browser: what its fields draw, and what a stop of the tour says whose model is not there."""

import json
import re
from importlib.util import find_spec

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from core import attend, capture
from core.attention.head import Head
from core.attention.masks import causal, grid
from core.attention.sources import random_matrices, toy_sentence
from core.exporting.exhibit import Exhibit, write
from core.exporting.kept_heads import KeptHead
from core.models import loading
from core.models.catalogue import CATALOGUE
from tests.browser.driver import AS_IT_IS, CHANGED, EQUATION, STAGES, Picture, difference
from tests.pages import app as shell
from tests.pages.app import address, ran, words
from tests.source_files import ROOT
from ui import state
from ui.cache import Memory, Store
from ui.views.sources import models, passes
from ui.views.sources.text_fields import SENTENCE
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
    app = AppTest.from_file(str(ROOT / "pages/step_by_step.py"))
    at = next(at for at, stop in enumerate(tour.STOPS) if stop.model == tour.DECODER)
    go_to(app, at).run()
    assert not app.exception
    (error,) = app.error
    assert tour.DECODER.replace("-", "\\-") in error.value
    assert f"This stop shows {tour.DECODER}, which cannot be opened here" in said[-1]
    go_to(app, at + 1).run()
    assert not app.error
    assert "Now try it yourself" in said[-1]


# --- what is drawn


def opened(**said):
    app = AppTest.from_file(str(ROOT / "pages/step_by_step.py"))
    app.query_params.update(said)
    return changed(app)


def changed(app, **values):
    """After one field was changed after the other."""
    for key, value in values.items() or [(None, None)]:
        if key is not None:
            app.get_by_key(key).set_value(value)
        app.run()
        assert not app.exception, app.exception
    return app


def figure(app, name):
    (chart,) = [
        json.loads(one.proto.spec) for one in app.get("plotly_chart") if one.proto.id.endswith(state.picture(name))
    ]
    return Picture(chart["data"], chart["layout"])


def said(app):
    """The words of the page, without the marks of Markdown."""
    every = (*app.markdown, *app.caption, *app.info, *app.error)
    return re.sub(r"[\\*]", "", "\n".join(part.value for part in every)).replace("\u00a0", " ")


def shows_trace(app, trace):
    for stage, drawn in zip(EQUATION, figure(app, "equation").data, strict=True):
        numbers = STAGES[stage](trace)
        assert difference(Picture([drawn], {}), numbers.T if stage == "Key" else numbers) is None, stage


def test_every_source_and_its_knobs():
    app = opened(source="random")
    matrices = random_matrices(6, 8, 4, 4, seed=0)
    shows_trace(app, attend(matrices.query, matrices.key, matrices.value))
    matrices = random_matrices(6, 5, 4, 4, seed=7)
    shows_trace(changed(app, keys=5, seed=7), attend(matrices.query, matrices.key, matrices.value))
    words = toy_sentence(SENTENCE, d_head=8, seed=7)
    shows_trace(changed(app, source="toy"), attend(words.query, words.key, words.value))
    assert any("Untrained" in part.value for part in (*app.markdown, *app.caption, *app.info))
    own = [[2, 1], [0, -1]], [[1, 0], [0, 1], [1, 1], [-1, 1]], [[1, 0], [0, 1], [2, 2], [0, 3]]
    shows_trace(changed(app, **{state.SOURCE: "own", state.OWN["query"]: "2, 1\n0, -1"}), attend(*own))
    mask = np.array([[0, 0, 0, 0], [1, 1, 0, 1]], bool)  # a row that may look at nothing
    changed(app, **{state.OWN["mask"]: "0,0,0,0\n1,1,0,1", state.QUERY: 0})
    shows_trace(app, attend(*own, mask=mask))
    assert np.array_equal(figure(app, AS_IT_IS).forbidden, ~mask)
    assert "may not look at" in said(app)
    assert "nan" not in said(app).lower()


def test_mask_and_scaling_with_the_original_beside():
    trace = capture(models.load("all-MiniLM-L6-v2"), SENTENCE).trace(5, 11)
    app = changed(opened(), **{state.SCALING: False})
    unscaled = trace.changed(scale=1.0)
    shows_trace(app, unscaled)
    assert difference(figure(app, AS_IT_IS), trace.weights) is None
    assert difference(figure(app, CHANGED), unscaled.weights) is None
    both = trace.changed(scale=1.0, mask=grid(causal, *trace.shape))
    shows_trace(changed(app, **{state.MASK: "causal"}), both)
    assert difference(figure(app, AS_IT_IS), trace.weights) is None
    assert difference(figure(app, CHANGED), np.where(both.mask, both.weights, np.nan)) is None
    assert np.array_equal(figure(app, CHANGED).forbidden, ~both.mask)
    # Both pictures have one colour range, or they could not be compared.
    ranges = [figure(app, name).data[0]["zmax"] for name in (AS_IT_IS, CHANGED)]
    assert ranges[0] == pytest.approx(ranges[1])
    shows_trace(changed(app, **{state.SCALING: True}), trace.changed(mask=both.mask))


def test_what_is_changed_is_told_from_what_the_model_computed():
    app = opened(model="SmolLM2-135M-Instruct", scaling="false")
    for part in (
        "As it is: scale 0.125",
        "Changed: scale 1",
        "This speaks of the original",
        "Of the original: the change above does not reach the rest of the model.",
    ):
        assert part in said(app)
    assert "the original" not in said(changed(app, **{state.SCALING: True}))


def test_a_mask_that_does_not_fit_is_said_also_while_its_field_is_folded_away():
    app = opened(mask="own", grid="1,0")
    shows_trace(app, capture(models.load("all-MiniLM-L6-v2"), SENTENCE).trace(5, 11))
    assert "The mask has the shape (1, 2)" in said(app)


def test_the_output_is_said_to_be_a_sum_over_all_keys():
    trace = capture(models.load("all-MiniLM-L6-v2"), SENTENCE).trace(5, 11)
    app = opened(stage="output", query="6", key="2")
    table = [re.split(r"\s*\|\s*", line.strip("| ")) for line in said(app).splitlines() if line.startswith("|")]
    end = [row[0] for row in table].index("sum") + 1
    rows = table[end - 10 : end]
    weights, terms = trace.weights[6].astype(float), trace.weights[6, :, None].astype(float) * trace.value
    largest = np.argsort(-weights)[:8]
    shown = np.array([[float(cell.replace("−", "-")) for cell in row[1:]] for row in rows])
    rest = np.delete(terms, largest, axis=0).sum(axis=0)
    expected = np.vstack([terms[largest], rest, trace.output[6]])[:, : shown.shape[1] - 1]
    np.testing.assert_allclose(shown[:, 1:], expected, rtol=2e-3, atol=1e-5)
    np.testing.assert_allclose(shown[:, 0], [*weights[largest], np.delete(weights, largest).sum(), 1], rtol=2e-3)
    assert [row[0] for row in rows[-2:]] == ["8 further keys", "sum"]


def test_sentence_layer_head_and_model_change_what_is_drawn():
    read, writes = (models.load(name) for name in ("all-MiniLM-L6-v2", "SmolLM2-135M-Instruct"))
    app = changed(opened(), **{state.HEAD_BOX: "0.3"})
    shows_trace(app, capture(read, SENTENCE).trace(0, 3))
    twice = "the cat saw the other cat"
    shows_trace(changed(app, **{state.TEXT: twice}), capture(read, twice).trace(0, 3))
    picture = figure(app, AS_IT_IS)
    assert picture.values.shape == (8, 8)
    for axis in ("xaxis", "yaxis"):  # a word twice has two rows and two columns
        labels = [re.sub("<.*?>", "", label) for label in picture.layout[axis]["ticktext"]]
        assert (labels.count("the"), labels.count("cat")) == (2, 2)
    shows_trace(changed(app, **{state.MODEL: writes.name}), capture(writes, twice).trace(0, 3))
    assert any("Writes texts." in part.value for part in (*app.markdown, *app.caption))
    france = "The capital of France is"
    changed(app, **{state.TEXT: france, state.HEAD_BOX: "23.4"})  # its last query chooses the next token
    shows_trace(app, capture(writes, france).trace(23, 4))
    boxes = [app.get_by_key(key) for key in (state.QUERY, state.KEY)]
    assert [(box.value, box.placeholder) for box in boxes] == [
        (None, "·is (4), suggested"),
        (None, "·France (3), suggested"),
    ]


def test_an_exhibit_of_an_earlier_visit_is_asked_for_again():
    """As after a reload; then the head in the file is shown, and the pair that the address names."""
    made = toy_sentence("the dog bites the man", d_head=4)
    head = Head.of(attend(made.query, made.key, made.value))
    kept = KeptHead(head=head, query_tokens=made.query_tokens, key_tokens=made.key_tokens, says="A toy")
    file = write(Exhibit(page="step_by_step", title="Steps", address={}, about={}, heads={"head": kept}))
    app = shell.opened("step_by_step", **{state.SOURCE: "file", state.QUERY: "2", state.KEY: "1"})
    assert "The exhibit was opened in an earlier visit" in app.info[0].value
    app.file_uploader(state.EXHIBIT_FILE).set_value(("mine.headlight", file, "application/octet-stream"))
    ran(app)
    assert not app.info
    assert {name: address(app, name) for name in (state.QUERY, state.KEY)} == {state.QUERY: ["2"], state.KEY: ["1"]}
    assert "“bites” gives" in words(app)
