"""Recorded passes on the pages: Step by step and Heads show them without their model, other pages say that they need it."""

from dataclasses import replace

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from core import InputError, capture, load_model
from tests.core.tiny_models import tiny
from tests.core.tiny_seeing import PLACES, seeing
from tests.pages.app import opened as opened_in_shell
from ui import settings, state
from ui.requests import ModelChoice
from ui.views.sources import models

TEXT = "The capital of France is"


@pytest.fixture
def file(smollm, tmp_path):
    saved = tmp_path / "pass.safetensors"
    capture(smollm, TEXT).save(saved)
    return saved


def words(app):
    return [caption.value for caption in app.caption]


def opened(page, file):
    app = AppTest.from_file(f"../../pages/{page}.py")
    for name, value in (("model", str(file)), ("layer", "23"), ("head", "4")):
        app.query_params[name] = value
    return app.run()


@pytest.mark.parametrize("page", ["step_by_step", "heads"])
def test_a_recorded_pass_is_shown_with_its_text(page, file):
    app = opened(page, file)
    assert not app.exception
    assert not app.error
    captions = words(app)
    assert any(
        TEXT in caption and "To read another text or change a head, load the model itself" in caption
        for caption in captions
    )
    assert any("A recorded pass of SmolLM2" in caption for caption in captions)
    assert not app.text_area


@pytest.mark.parametrize("page", ["what_if", "generation", "why"])
def test_a_page_that_needs_the_model_says_so(page, file):
    app = opened(page, file)
    assert not app.exception
    assert ["this file holds one pass of it" in error.value for error in app.error] == [True]


def test_heads_are_not_ranked_by_what_only_the_model_tells(file):
    app = AppTest.from_file("../../pages/heads.py")
    app.query_params |= {"model": str(file), "metric": "contribution"}
    app.run()
    assert not app.exception
    assert ["Attribution needs the model itself" in said for said in words(app) if "No direct" in said] == [True]


def test_a_damaged_file_is_named_beside_the_model(file):
    file.write_bytes(file.read_bytes()[:-100])
    app = opened("heads", file)
    assert not app.exception
    assert ["it is cut short" in error.value for error in app.error] == [True]


def test_a_path_is_opened_only_where_folders_are_allowed_and_an_uploaded_file_everywhere(file, monkeypatch):
    monkeypatch.setattr(settings, "current", lambda: replace(settings.Settings(), folders=False))
    with pytest.raises(InputError, match=r"is not a file that can be opened here") as error:
        models.load(ModelChoice(str(file)))
    assert error.value.field == "model"
    contents = file.read_bytes()
    assert models.load(ModelChoice(file.name, contents=contents)).name == "SmolLM2-135M-Instruct"


@pytest.mark.parametrize("page", ["step_by_step", "heads", "what_if"])
def test_attention_weights_take_the_place_of_a_model(page, tmp_path):
    weights = np.random.default_rng(0).dirichlet(np.ones(5), (24, 5, 5)).astype(np.float32)
    weights[23, 4] *= 0.5
    file = tmp_path / "attentions.npz"
    np.savez(file, attentions=weights, tokens=np.array(["<b>", "a", "b", "a", "b"]))
    app = opened(page, file)
    assert not app.exception
    if page == "what_if":
        assert ["this file holds one pass of it" in error.value for error in app.error] == [True]
        return
    assert not app.error
    said = " ".join(part.value for part in (*app.info, *app.warning, *app.caption)).replace("\\", "")
    assert "The file holds only attention weights." in said
    assert "1 of 120 heads: head 23.4 (0.5)" in said
    assert "The rows of this head sum to 0.5, not 1." in said
    assert "24 layers × 5 heads, 5 queries × 5 keys." in said


def test_numbers_that_are_no_weights_are_named_beside_the_model(tmp_path):
    file = tmp_path / "attentions.npz"
    np.savez(file, attentions=np.full((1, 2, 3, 3), np.nan))
    app = opened("heads", file)
    assert not app.exception
    assert ["Layer 0, head 0: the weight" in error.value.replace("\\", "") for error in app.error] == [True]


@pytest.mark.parametrize("page", ["step_by_step", "heads", "why", "what_if"])
def test_a_file_of_an_earlier_visit_is_asked_for_again(page):
    app = opened_in_shell(page, model="mine.safetensors", layer="23", query="2")
    assert ["If you uploaded it in an earlier visit" in error.value for error in app.error] == [True]
    assert app.file_uploader(state.RECORDED).label == "Open a recorded pass, or attention weights"


# --- what leads there, and images


def links(page, file):
    found = opened_in_shell(page, model=str(file), layer="23", head="4", query="4", key="3")
    return {link.proto.label for link in found.get("page_link")}


def test_links_lead_only_to_pages_that_show_the_file(file):
    for page, known in (("heads", "All stages"), ("step_by_step", "All heads of this model")):
        offered = links(page, file)
        assert known in offered
        assert not offered & {"What if", "Why this weight?", "What does the model then do?"}
        assert not [label for label in offered if label.startswith("Why ")]


@pytest.mark.parametrize("page", ["heads", "step_by_step"])
def test_a_recorded_image_lies_under_the_weights(page, tmp_path):
    file = tmp_path / "pass.safetensors"
    for made in (
        capture(seeing("LLaVA"), PLACES["LLaVA"], image=np.zeros((30, 50, 3), np.uint8)),
        capture(load_model(tiny("ViT")), image=np.zeros((12, 12, 3), np.uint8)),
    ):
        made.save(file)
        renamed = file.rename(tmp_path / f"{made.model.name}.safetensors")
        app = opened_in_shell(page, model=str(renamed), **{"as": "picture", "stage": "weights", "query": "3"})
        assert not app.error
        assert any("lies on what is shown of the image" in caption.value for caption in app.caption)
        assert not any("Text of the file: “patch" in caption.value for caption in app.caption)
