"""Recorded passes on the pages: Step by step and Heads show them without their model, other pages say that they need it."""

from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from core import InputError, capture
from ui import models, settings
from ui.requests import ModelChoice

TEXT = "The capital of France is"


@pytest.fixture
def file(smollm, tmp_path):
    saved = tmp_path / "pass.safetensors"
    capture(smollm, TEXT).save(saved)
    return saved


def opened(page, file):
    app = AppTest.from_file(f"../../pages/{page}.py", default_timeout=60)
    for name, value in (("model", str(file)), ("layer", "23"), ("head", "4")):
        app.query_params[name] = value
    return app.run()


@pytest.mark.parametrize("page", ["step_by_step", "heads"])
def test_a_recorded_pass_is_shown_with_its_text(page, file):
    app = opened(page, file)
    assert not app.exception
    assert not app.error
    captions = [caption.value for caption in app.caption]
    assert any(
        TEXT in caption and "To read another text or change a head, load the model itself" in caption
        for caption in captions
    )
    assert any("A recorded pass of SmolLM2" in caption for caption in captions)
    assert not app.text_area


@pytest.mark.parametrize("page", ["what_if", "why", "generation"])
def test_a_page_that_needs_the_model_says_so(page, file):
    app = opened(page, file)
    assert not app.exception
    assert ["this file holds one pass of it" in error.value for error in app.error] == [True]


def test_a_damaged_file_is_named_beside_the_model(file):
    file.write_bytes(file.read_bytes()[:-100])
    app = opened("heads", file)
    assert not app.exception
    assert ["it is cut short" in error.value for error in app.error] == [True]


def test_a_path_is_opened_only_where_folders_are_allowed_and_an_uploaded_file_everywhere(file, monkeypatch):
    monkeypatch.setattr(settings, "current", lambda: replace(settings.Settings(), folders=False))
    with pytest.raises(InputError, match=r"does not load|opens no files") as error:
        models.load(ModelChoice(str(file)))
    assert error.value.field == "model"
    contents = file.read_bytes()
    assert models.load(ModelChoice(file.name, contents=contents)).name == "SmolLM2-135M-Instruct"
