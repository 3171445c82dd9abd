"""Comparing a head on a page: with another one, on another text, in another model."""

import math

import pytest

from core import compare
from core.heads.comparing import align
from core.heads.likeness import heads_like
from tests.pages.app import choose, opened, texts, words
from ui import state
from ui.requests import ModelChoice, TextRequest
from ui.views.sources import passes

TEXT = "The cat sat on the mat."


def compared(**said):
    app = opened("what_if", **{state.VIEW: "compare", state.TEXT: TEXT} | said)
    assert not app.error
    return app


def captured(text):
    return passes.captured(TextRequest(ModelChoice("all-MiniLM-L6-v2"), text))


def lists(app, passes):
    return app.dataframe[0].value.to_numpy().tolist() == heads_like(passes, 5, 11).head(10).to_numpy().tolist()


def test_with_another_head():
    app, taken = compared(), captured(TEXT)
    found = compare(taken.trace(5, 11), taken.trace(5, 0))  # where a model opens, and the next head
    said = f"**{found.mean:.3f}** nats apart on average: 0 is the same, {math.log(2):.3f} nothing in common"
    assert said in words(app)
    assert "Jensen-Shannon" not in words(app)
    assert any(f"differs most, by {found.worst[1]:.3f}" in element.proto.help for element in app.markdown)
    assert len(app.get("plotly_chart")) == 3
    assert lists(app, [taken])
    choose(app, state.OTHER_HEAD_BOX, "2.3")
    found = compare(taken.trace(5, 11), taken.trace(2, 3))
    assert f"**{found.mean:.3f}** nats apart" in words(app)
    assert "Head 2.3" in words(app)


def test_on_another_text():
    other = "The small *cat* sat on the mat."
    app = compared(**{state.COMPARE_WITH: "text", state.OTHER_TEXT: other})
    one, two = captured(TEXT), captured(other)
    axis = align(one.tokens()[0], two.tokens()[0])
    found = compare(one.trace(5, 11), two.trace(5, 11), queries=axis, keys=axis)
    assert f"**{found.mean:.3f}** nats apart" in words(app)
    assert "9 of 12 tokens are in both texts; 3 are in one text only" in words(app)
    assert lists(app, [one, two])
    # Places of two texts are no positions that pages share.
    boxes = {box.key for box in app.selectbox}
    assert boxes >= {state.PLACE_OF_QUERY, state.PLACE_OF_KEY}
    assert not boxes & {state.QUERY, state.KEY}


@pytest.mark.thorough
def test_in_another_model():
    app = compared(**{state.COMPARE_WITH: "model"})
    assert "of SmolLM2" in words(app)
    assert "hatched" in words(app)  # [CLS] and [SEP]
    assert len(app.get("plotly_chart")) == 3


@pytest.mark.thorough
def test_what_is_wrong_with_the_other_text_is_said_and_nothing_lost():
    said = {state.VIEW: "compare", state.COMPARE_WITH: "text", state.OTHER_TEXT: "   "}
    app = opened("what_if", **said)
    assert "blank" in texts(app.error)
    assert app.get_by_key(state.OTHER_TEXT).value == "   "
    # Of a model that puts no tokens of its own around a text.
    said |= {state.MODEL: "SmolLM2-135M-Instruct", state.OTHER_TEXT: "Nothing"}
    assert "no token in common" in texts(opened("what_if", **said).error)
