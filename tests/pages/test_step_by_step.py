"""Step by step without a browser: what its fields draw, matrices that somebody enters, and a precision."""

import io
import re

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from core import attend, capture
from core.attention.head import Head
from core.attention.masks import causal, grid
from core.attention.sources import random_matrices, toy_sentence
from core.exporting.exhibit import Exhibit, KeptHead, write
from core.models import checkups
from core.models.devices import devices
from core.models.model import Model
from core.units import small_number
from tests.browser.driver import AS_IT_IS, CHANGED, EQUATION, STAGES, Picture, difference
from tests.depth import thorough
from tests.pages.app import address, choose, fields, figure, go, links, new, ran, texts, words
from ui import state
from ui.cache import Store
from ui.requests import ModelChoice
from ui.views.sources import models
from ui.views.sources.text_fields import SENTENCE

TALL = np.ones((5_000, 1))
NAMES = ("query", "key", "value")
MODEL = "all-MiniLM-L6-v2"


def opened(**asked):
    return go(new(), "step_by_step", **asked)


def said(app):
    """The words of the page, without the marks of Markdown."""
    return words(app).replace("*", "").replace("\u00a0", " ")


def shows_trace(app, trace):
    for stage, drawn in zip(EQUATION, figure(app, "equation").data, strict=True):
        numbers = STAGES[stage](trace)
        assert difference(Picture([drawn], {}), numbers.T if stage == "Key" else numbers) is None, stage


@thorough
def test_the_page_says_whether_its_model_was_checked(monkeypatch, tmp_path):
    monkeypatch.setattr(checkups, "cache_folder", lambda: tmp_path)  # nothing is known yet,
    checkups.MADE.clear()  # nor from another test
    monkeypatch.setattr(models.checked, "store", Store(2))
    app = opened(model=MODEL)
    assert "Checked on this machine." in said(app)
    assert list((tmp_path / "checkups").iterdir()), "it is kept"
    assert "The outputs of 36 heads follow from their queries, keys and values" in said(app)
    assert not app.warning
    half = models.load(ModelChoice(MODEL, "float16"))  # which no other test opens here
    monkeypatch.setattr(half.network.encoder.layer[0].attention.self, "scaling", 1.0)
    app = opened(model=MODEL, dtype="float16")
    assert "failed on this machine: own code, scale." in app.warning[0].value.replace("\\", "")
    assert "Checked on this machine." not in said(app)
    (badge,) = [text.value for text in app.markdown if "-badge[" in text.value]
    assert badge.startswith(":red-badge[")
    assert "own code, scale" in badge


@thorough
def test_every_source_and_its_knobs():
    app = opened(source="random")
    matrices = random_matrices(6, 8, 4, 4, seed=0)
    shows_trace(app, attend(matrices.query, matrices.key, matrices.value))
    matrices = random_matrices(6, 5, 4, 4, seed=7)
    shows_trace(fields(app, keys=5, seed=7), attend(matrices.query, matrices.key, matrices.value))
    words = toy_sentence(SENTENCE, d_head=8, seed=7)
    shows_trace(fields(app, source="toy"), attend(words.query, words.key, words.value))
    assert "Untrained" in said(app)
    own = [[2, 1], [0, -1]], [[1, 0], [0, 1], [1, 1], [-1, 1]], [[1, 0], [0, 1], [2, 2], [0, 3]]
    shows_trace(fields(app, **{state.SOURCE: "own", state.OWN["query"]: "2, 1\n0, -1"}), attend(*own))
    for field, text, told in (("value", "1, two", "two"), ("mask", "1, 0", "(1, 2)")):  # typed text stays
        before = app.get_by_key(state.OWN[field]).value
        assert told in said(fields(app, **{state.OWN[field]: text}))
        assert app.get_by_key(state.OWN[field]).value == text
        shows_trace(fields(app, **{state.OWN[field]: before}), attend(*own))
    mask = np.array([[0, 0, 0, 0], [1, 1, 0, 1]], bool)  # a row that may look at nothing
    fields(app, **{state.OWN["mask"]: "0,0,0,0\n1,1,0,1", state.QUERY: 0})
    shows_trace(app, attend(*own, mask=mask))
    assert np.array_equal(figure(app, AS_IT_IS).forbidden, ~mask)
    assert "may not look at" in said(app)
    assert "nan" not in said(app).lower()


@thorough
@pytest.mark.parametrize(
    "choices",
    [
        [(state.HEAD_BOX, "5.3"), (state.MODEL, "SmolLM2-135M-Instruct"), (state.MODEL, MODEL)],
        [(state.SOURCE, "own"), (state.SCALING, False), (state.OWN["value"], "1\n2\n3\n-4.5")],
    ],
)
def test_changing_and_going_back_leaves_a_right_address(choices):
    """Only this test finds an address that still says what a change of model or text has taken away."""
    app = opened()
    for key, value in choices:
        choose(app, key, value)
    copy = opened(**app.session_state[state.ADDRESS])
    shown, again = ([words(one), *(figure(one, name) for name in ("equation", AS_IT_IS))] for one in (app, copy))
    assert again == shown
    for key in dict(choices):
        assert copy.get_by_key(key).value == app.get_by_key(key).value, key


TOO_LONG = "9" * 5000  # digits; Python reads no more than 4,300


@pytest.mark.parametrize(
    ("page", "said", "kept"),
    [
        ("step_by_step", {"queries": "1e999", "seed": "-inf"}, {"source": "random", "keys": "5"}),
        ("step_by_step", {"width": TOO_LONG}, {"source": "toy", "words": "inf"}),
        ("learn/blocks", {"blocksize": "Infinity"}, {"sentence": "inf"}),
        ("step_by_step", {"version": TOO_LONG, "layer": TOO_LONG}, {"head": "3", "text": "inf"}),
    ],
)
def test_a_number_beyond_all_numbers_is_passed_over_and_the_rest_is_shown(page, said, kept):
    assert {name: [word] for name, word in kept.items()} == go(new(), page, **said, **kept).session_state[state.ADDRESS]


def test_a_head_of_another_model_that_a_browser_still_sends_is_passed_over():
    """As in the tour, where keys are faster than its stops come."""
    app = opened()
    app.get_by_key(state.HEAD_BOX).options.append("Head 29.8")
    assert fields(app, **{state.HEAD_BOX: "29.8"}).get_by_key(state.HEAD_BOX).value == "5.11"


def test_mask_and_scaling_with_the_original_beside():
    trace = capture(models.load("all-MiniLM-L6-v2"), SENTENCE).trace(5, 11)
    app = fields(opened(), **{state.SCALING: False})
    unscaled = trace.changed(scale=1.0)
    shows_trace(app, unscaled)
    assert difference(figure(app, AS_IT_IS), trace.weights) is None
    assert difference(figure(app, CHANGED), unscaled.weights) is None
    both = trace.changed(scale=1.0, mask=grid(causal, *trace.shape))
    shows_trace(fields(app, **{state.MASK: "causal"}), both)
    assert difference(figure(app, AS_IT_IS), trace.weights) is None
    assert difference(figure(app, CHANGED), np.where(both.mask, both.weights, np.nan)) is None
    assert np.array_equal(figure(app, CHANGED).forbidden, ~both.mask)
    # Both pictures have one colour range, or they could not be compared.
    ranges = [figure(app, name).data[0]["zmax"] for name in (AS_IT_IS, CHANGED)]
    assert ranges[0] == pytest.approx(ranges[1])
    shows_trace(fields(app, **{state.SCALING: True}), trace.changed(mask=both.mask))


def test_what_is_changed_is_told_from_what_the_model_computed():
    app = opened(model="SmolLM2-135M-Instruct", scaling="false")
    for part in (
        "As it is: scale 0.125",
        "Changed: scale 1",
        "This speaks of the original",
        "Of the original: the change",
    ):
        assert part in said(app)
    assert "the original" not in said(fields(app, **{state.SCALING: True}))


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
    app = fields(opened(), **{state.HEAD_BOX: "0.3"})
    shows_trace(app, capture(read, SENTENCE).trace(0, 3))
    twice = "the cat saw the other cat"
    shows_trace(fields(app, **{state.TEXT: twice}), capture(read, twice).trace(0, 3))
    picture = figure(app, AS_IT_IS)
    assert picture.values.shape == (8, 8)
    for axis in ("xaxis", "yaxis"):  # a word twice has two rows and two columns
        labels = [re.sub("<.*?>", "", label) for label in picture.layout[axis]["ticktext"]]
        assert (labels.count("the"), labels.count("cat")) == (2, 2)
    shows_trace(fields(app, **{state.MODEL: writes.name}), capture(writes, twice).trace(0, 3))
    assert "Writes texts." in said(app)
    france = "The capital of France is"
    fields(app, **{state.TEXT: france, state.HEAD_BOX: "23.4"})  # its last query chooses the next token
    shows_trace(app, capture(writes, france).trace(23, 4))
    boxes = [app.get_by_key(key) for key in (state.QUERY, state.KEY)]
    assert [(box.value, box.placeholder) for box in boxes] == [
        (None, f"{token}, suggested") for token in ("·is (4)", "·France (3)")
    ]


def test_an_exhibit_of_an_earlier_visit_is_asked_for_again():
    """As after a reload; then the head in the file is shown, and the pair that the address names."""
    made = toy_sentence("the dog bites the man", d_head=4)
    head = Head.of(attend(made.query, made.key, made.value))
    kept = KeptHead(head=head, query_tokens=made.query_tokens, key_tokens=made.key_tokens, says="A toy")
    file = write(Exhibit(page="step_by_step", title="Steps", address={}, about={}, heads={"head": kept}))
    app = opened(**{state.SOURCE: "file", state.QUERY: "2", state.KEY: "1"})
    assert "The exhibit was opened in an earlier visit" in app.info[0].value
    app.file_uploader(state.EXHIBIT_FILE).set_value(("mine.headlight", file, "application/octet-stream"))
    ran(app)
    assert not app.info
    assert {name: address(app, name) for name in (state.QUERY, state.KEY)} == {state.QUERY: ["2"], state.KEY: ["1"]}
    assert "“bites” gives" in words(app)


@pytest.fixture
def app() -> AppTest:
    def page() -> None:
        import streamlit as st

        from ui.views.step_by_step.scenes import own_matrices

        trace = own_matrices()
        st.text("nothing" if trace is None else f"{trace.output.shape}")

    return AppTest.from_function(page).run()


def says(app):
    assert [text.value for text in ran(app).text] == ["nothing"]
    return texts(app.error)


def test_more_scores_than_can_be_computed_are_refused_in_files_and_in_fields(app):
    """Each matrix is small. Their 25 million scores would be computed without a question."""
    for name in NAMES:
        app.text_area(state.OWN[name]).set_value("1\n" * len(TALL))
    said = says(app)
    assert "5,000 queries and 5,000 keys make 25,000,000 scores; at most 16,777,216" in said
    file = io.BytesIO()
    np.savez(file, **dict.fromkeys(NAMES, TALL))
    for name in NAMES:
        app.text_area(state.OWN[name]).set_value("1")
    app.file_uploader(state.ARCHIVE).set_value(("a.npz", file.getvalue(), "application/zip"))
    assert says(app) == said


def test_a_pickle_is_never_opened(app, tmp_path):
    class Payload:
        def __reduce__(self) -> tuple[object, ...]:
            return (open, (str(tmp_path / "opened"), "w"))

    file = io.BytesIO()
    np.save(file, np.array([[Payload()]], dtype=object), allow_pickle=True)
    app.file_uploader(state.FILES["query"]).set_value(("query.npy", file.getvalue(), "application/octet-stream"))
    assert "ickled" in says(app)
    assert not (tmp_path / "opened").exists()


def test_files_of_an_earlier_visit_are_named_until_there_are_others():
    app = opened(**{state.SOURCE: "own", state.UPLOADED: "queries.csv"})
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


def told(app: AppTest) -> str:
    return words(app) + texts(app.warning)


def weight(model: Model) -> str:
    """From "it" to "animal", as the formula of the softmax ends with it."""
    return f"{capture(model, SENTENCE).trace(5, 11).weights[10, 2]:.4g}"


@thorough
def test_a_link_in_bfloat16_opens_in_bfloat16_and_links_from_there_say_so(minilm, half):
    """A device that is not there is named, and the rest is shown; another precision gives other numbers."""
    app = opened(**{state.SOURCE: "real", state.DTYPE: "bfloat16", state.DEVICE: "cuda:7"})
    text = told(app)
    assert "model in bfloat16, traced in float32" in text
    assert "needs 91 MB of memory in float32, 45 MB in bfloat16 or float16" in text
    assert app.get_by_key(state.DTYPE).value == "bfloat16"
    certificate = capture(half[MODEL], SENTENCE).certificate(5, 11)
    assert certificate.holds
    assert f"largest difference {small_number(certificate.difference)}" in text
    assert small_number(capture(minilm, SENTENCE).certificate(5, 11).difference) not in text

    assert "cuda:7" not in devices()
    assert "The link asks for something that is not available: Device “cuda:7”" in text
    leading = [link for link in links(app) if state.MODEL in link]
    assert leading
    assert all(link[state.DTYPE] == ["bfloat16"] for link in leading)

    whole, rounded = weight(minilm), weight(half[MODEL])
    assert whole != rounded
    assert rounded in text
    text = told(choose(app, state.DTYPE, "float32"))
    assert whole in text
    assert rounded not in text
    assert "model in bfloat16" not in text
