"""Recorded passes on the pages: Step by step and Heads show them without their model, other pages say that they need it."""

import os
from dataclasses import replace

import numpy as np
import pytest

from core import capture, load_model
from tests.core.tiny_models import tiny
from tests.core.tiny_seeing import PLACES, seeing
from tests.pages import app as pages
from tests.pages.app import ran, texts, words
from tests.refusals import refused
from ui import settings, state
from ui.requests import ModelChoice
from ui.views.sources import models

TEXT = "The capital of France is"
SHOW_IT = ("step_by_step", "heads")  # of a pass, without the model


@pytest.fixture
def file(smollm, tmp_path):
    saved = tmp_path / "pass.safetensors"
    capture(smollm, TEXT).save(saved)
    return saved


def opened(page, file, **said):
    return pages.opened(page, **{state.MODEL: file, state.LAYER: "23", state.HEAD: "4"} | said)


@pytest.mark.parametrize(("page", "leads_to"), [("step_by_step", "All heads of this model"), ("heads", "All stages")])
def test_a_recorded_pass_is_shown_with_its_text_and_leads_only_to_pages_that_show_it(page, leads_to, file):
    app = opened(page, file, **{state.QUERY: "4", state.KEY: "3"})
    assert not app.error
    assert f"Text of the file: “{TEXT}”" in words(app)
    assert "To read another text or change a head, load the model itself" in words(app)
    assert "A recorded pass of SmolLM2" in words(app)
    assert not app.text_area
    offered = {link.proto.label for link in app.get("page_link")}
    assert leads_to in offered
    assert not offered & {"What if", "Why this weight?", "What does the model then do?"}
    assert not [label for label in offered if label.startswith("Why ")]


@pytest.mark.parametrize("page", ["what_if", "generation", "why"])
def test_a_page_that_needs_the_model_says_so(page, file):
    (error,) = opened(page, file).error
    assert "this file holds one pass of it" in error.value


def test_heads_are_not_ranked_by_what_only_the_model_tells(file):
    app = opened("heads", file, **{state.METRIC: "contribution"})
    assert "No direct contributions: Attribution needs the model itself" in words(app)


def test_a_damaged_file_is_named_beside_the_model(file):
    file.write_bytes(file.read_bytes()[:-100])
    (error,) = opened("heads", file).error
    assert "it is cut short" in error.value


def test_a_file_that_has_changed_is_read_again_and_one_that_was_refused_only_then(file, smollm, monkeypatch):
    assert f"Text of the file: “{TEXT}”" in words(opened("heads", file))
    other = "The opposite of hot is"
    capture(smollm, other).save(file)
    app = opened("heads", file)
    assert f"Text of the file: “{other}”" in words(app)
    weight = capture(smollm, other).trace(23, 4).weights[1, 0]
    assert f"“·opposite” gives **{weight:.1%}**" in words(opened("heads", file, **{state.QUERY: "1", state.KEY: "0"}))
    file.write_bytes(b"?" * 100)
    (first,) = opened("heads", file).error
    monkeypatch.setattr(models, "open_capture", lambda _: pytest.fail("it was read again"))
    (second,) = opened("heads", file).error
    assert "This file cannot be opened" in second.value == first.value
    os.truncate(file, 2**40)
    (error,) = opened("heads", file).error
    assert "this host allows" in error.value


def test_a_path_is_opened_only_where_folders_are_allowed_and_an_uploaded_file_everywhere(file, monkeypatch):
    monkeypatch.setattr(settings, "current", lambda: replace(settings.Settings(), folders=False))
    with refused("model", "is not a file that can be opened here"):
        models.load(ModelChoice(str(file)))
    contents = file.read_bytes()
    assert models.load(ModelChoice(file.name, contents=contents)).name == "SmolLM2-135M-Instruct"


@pytest.mark.parametrize("page", ["step_by_step", "heads", "what_if"])
def test_attention_weights_take_the_place_of_a_model(page, tmp_path):
    weights = np.random.default_rng(0).dirichlet(np.ones(5), (24, 5, 5)).astype(np.float32)
    weights[23, 4] *= 0.5
    file = tmp_path / "attentions.npz"
    np.savez(file, attentions=weights, tokens=np.array(["<b>", "a", "b", "a", "b"]))
    app = opened(page, file)
    if page == "what_if":
        assert "this file holds one pass of it" in texts(app.error)
        return
    assert not app.error
    said = words(app) + texts(app.warning)
    assert "The file holds only attention weights." in said
    assert "1 of 120 heads: head 23.4 (0.5)" in said
    assert "The rows of this head sum to 0.5, not 1." in said
    assert "24 layers × 5 heads, 5 queries × 5 keys." in said


def test_numbers_that_are_no_weights_are_named_beside_the_model(tmp_path):
    file = tmp_path / "attentions.npz"
    np.savez(file, attentions=np.full((1, 2, 3, 3), np.nan))
    assert "Layer 0, head 0: the weight" in texts(opened("heads", file).error)


@pytest.mark.thorough
@pytest.mark.parametrize("page", ["step_by_step", "heads", "why", "what_if"])
def test_a_file_of_an_earlier_visit_is_asked_for_again(page, file, smollm):
    app = opened(page, "mine.safetensors", **{state.QUERY: "4", state.KEY: "3"})
    (error,) = app.error
    assert "If you uploaded it in an earlier visit" in error.value
    field = app.file_uploader(state.RECORDED)
    assert field.label == "Open a recorded pass, or attention weights"
    field.set_value(("mine.safetensors", file.read_bytes(), "application/octet-stream"))
    ran(app)
    assert "earlier visit" not in texts(app.error)
    weight = capture(smollm, TEXT).trace(23, 4).weights[4, 3]
    assert (f"“·is” gives **{weight:.1%}** of its attention to “·France”" in words(app)) == (page in SHOW_IT)


@pytest.mark.parametrize("page", ["heads", "step_by_step"])
def test_a_recorded_image_lies_under_the_weights(page, tmp_path):
    file = tmp_path / "pass.safetensors"
    for made in (
        capture(seeing("LLaVA"), PLACES["LLaVA"], image=np.zeros((30, 50, 3), np.uint8)),
        capture(load_model(tiny("ViT")), image=np.zeros((12, 12, 3), np.uint8)),
    ):
        made.save(file)
        renamed = file.rename(tmp_path / f"{made.model.name}.safetensors")
        said = {state.SHOWN_AS: "picture", state.STAGE: "weights", state.QUERY: "3", "layer": "", "head": ""}
        app = opened(page, renamed, **said)
        assert not app.error
        assert "lies on what is shown of the image" in words(app)
        assert "Text of the file: “patch" not in words(app)
