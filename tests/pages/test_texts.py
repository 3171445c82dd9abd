"""What is said of a text beside its field, on every page that reads one, and the clicks that put it right."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages import app as pages
from ui import state

TYPED = "[CLS] The animal didn't cross the street. [SEP]"
LONG = "Hello world, " * 120


def opened(page: str, **address: str) -> AppTest:
    return pages.opened(page, **{state.MODEL: pages.MINILM} | address)


def said(app: AppTest, words: str) -> list[str]:
    return [caption.value for caption in app.caption if words in caption.value.replace("\\", "")]


@pytest.mark.parametrize("page", ["heads", "why", "learn/many_heads"])
def test_a_second_beginning_is_said_and_taken_out(page):
    app = opened(page, **{state.TEXT: TYPED, state.PART: "model"})
    assert len(said(app, "begins with “[CLS]” twice and ends with “[SEP]” twice")) == 1
    app.button(key=state.one_of(state.TAKE_OUT, state.TEXT)).click().run()
    assert app.text_area(key=state.TEXT).value == "The animal didn't cross the street."
    assert said(app, "begins with") == []
    assert all(not (button.key or "").startswith(state.TAKE_OUT) for button in app.button)


def test_what_is_compared_and_what_is_written_are_looked_at_too():
    app = opened("what_if", **{state.VIEW: "compare", state.COMPARE_WITH: "text", state.OTHER_TEXT: TYPED})
    assert len(said(app, "begins with “[CLS]” twice")) == 1
    app.button(key=state.one_of(state.TAKE_OUT, state.OTHER_TEXT)).click().run()
    assert app.text_area(key=state.OTHER_TEXT).value == "The animal didn't cross the street."
    app = opened(
        "generation",
        **{state.MODEL: "SmolLM2-135M-Instruct", state.TEXT: "<|im_start|><|im_start|>Hi", state.NEW_TOKENS: "1"},
    )
    assert len(said(app, "begins with “<|im_start|>” twice")) == 1
    assert all(not (button.key or "").startswith(state.TAKE_OUT) for button in app.button)  # its tokenizer adds none


def test_a_text_beyond_what_the_model_was_made_for_can_be_cut():
    app = opened("heads", **{state.TEXT: LONG})
    assert len(said(app, "was made for at most 256")) == 1
    (box,) = [box for box in app.checkbox if box.key == state.TRUNCATE]
    assert (box.label, box.value) == ("Keep only the first 256 tokens", False)
    box.check().run()
    assert said(app, "was made for at most 256") == []
    assert not app.error
    longer = opened("heads", **{state.TEXT: LONG * 2, state.TRUNCATE: "true"})
    assert not longer.error
    assert [error.value for error in opened("heads", **{state.TEXT: LONG * 2}).error] != []
