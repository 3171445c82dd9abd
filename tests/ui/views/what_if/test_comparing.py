"""Comparing a head on a page: with another one, on another text, in another model."""

import json
import math
import re

import pytest
from streamlit.testing.v1 import AppTest

from core import compare
from core.heads.comparing import align
from core.heads.likeness import heads_like
from ui import state
from ui.requests import ModelChoice, TextRequest
from ui.views.sources import passes

TEXT = "The cat sat on the mat."


def a_page():
    import streamlit as st

    from ui import links, state
    from ui.views.sources.heads import choose_head
    from ui.views.sources.text_fields import choose_text
    from ui.views.what_if.comparing import show_comparison

    links.read("a page")
    passed = choose_text(more=True)
    if passed is not None:
        show_comparison(choose_head(*passed))
    st.session_state[state.PAGE] = "a page"


@pytest.fixture
def page():
    app = AppTest.from_function(a_page)
    app.query_params[state.TEXT] = TEXT
    app.query_params[state.MODEL] = "all-MiniLM-L6-v2"
    return app


def ran(app, errors=False):
    app.run()
    assert not app.exception, app.exception
    assert bool(app.error) == errors, app.error
    return app


def said(app):
    return " ".join(element.value for element in [*app.markdown, *app.caption])


def captured(text):
    return passes.captured(TextRequest(ModelChoice("all-MiniLM-L6-v2"), text))


def test_with_another_head(page):
    ran(page)
    taken = captured(TEXT)
    found = compare(taken.trace(5, 11), taken.trace(5, 0))  # where a model opens, and the next head
    assert f"**{found.mean:.3f}** nats apart on average: 0 is the same, {math.log(2):.3f} nothing in common" in said(
        page
    )
    assert "Jensen-Shannon" not in said(page)
    assert any(f"differs most, by {found.worst[1]:.3f}" in element.proto.help for element in page.markdown)
    assert len(page.get("plotly_chart")) == 3
    listed = page.dataframe[0].value
    best = heads_like([taken], 5, 11).head(10)
    assert listed.to_numpy().tolist() == best.to_numpy().tolist()
    page.get_by_key(state.OTHER_HEAD_BOX).set_value("2.3")
    found = compare(taken.trace(5, 11), taken.trace(2, 3))
    assert f"**{found.mean:.3f}** nats apart" in said(ran(page))
    assert "Head 2\\.3" in said(page)


def test_on_another_text(page):
    other = "The small *cat* sat on the mat."
    page.query_params[state.COMPARE_WITH] = "text"
    page.query_params[state.OTHER_TEXT] = other
    ran(page)
    one, two = captured(TEXT), captured(other)
    axis = align(one.tokens()[0], two.tokens()[0])
    found = compare(one.trace(5, 11), two.trace(5, 11), queries=axis, keys=axis)
    assert f"**{found.mean:.3f}** nats apart" in said(page)
    assert "9 of 12 tokens are in both texts; 3 are in one text only" in said(page)
    # The table is about both texts.
    best = heads_like([one, two], 5, 11).head(10)
    assert page.dataframe[0].value.to_numpy().tolist() == best.to_numpy().tolist()


def test_each_text_has_its_own_tokens_beside_its_picture(page):
    page.query_params[state.COMPARE_WITH] = "text"
    page.query_params[state.OTHER_TEXT] = TEXT.replace("cat", "dog")
    ran(page)
    for part, word in {"first": "cat", "second": "dog", "difference": "cat / dog"}.items():
        (chart,) = [one.proto for one in page.get("plotly_chart") if one.proto.id.endswith(f"compared_{part}")]
        axes = json.loads(chart.spec)["layout"]
        below, beside = ([re.sub("</?b>", "", text) for text in axes[axis]["ticktext"]] for axis in ("xaxis", "yaxis"))
        assert beside == ["[CLS]", "the", word, "sat", "on", "the", "mat", ".", "[SEP]"]
        assert word in below  # where only some fit
        assert set(below) <= set(beside)


def test_places_of_two_texts_are_no_positions_that_pages_share(page):
    page.query_params[state.COMPARE_WITH] = "text"
    ran(page)
    assert {box.key for box in page.selectbox} >= {state.PLACE_OF_QUERY, state.PLACE_OF_KEY}
    assert not {box.key for box in page.selectbox} & {state.QUERY, state.KEY}


def test_in_another_model(page):
    page.query_params[state.COMPARE_WITH] = "model"
    ran(page)
    assert "of SmolLM2" in said(page)
    assert "hatched" in said(page)  # [CLS] and [SEP]
    assert len(page.get("plotly_chart")) == 3


def test_what_is_wrong_with_the_other_text_is_said_and_nothing_lost(page):
    page.query_params[state.COMPARE_WITH] = "text"
    page.query_params[state.OTHER_TEXT] = "   "
    ran(page, errors=True)
    assert "blank" in page.error[0].value
    assert page.get_by_key(state.OTHER_TEXT).value == "   "
    page.get_by_key(state.MODEL).set_value("SmolLM2-135M-Instruct")  # which puts no tokens of its own around a text
    page.get_by_key(state.OTHER_TEXT).set_value("Nothing")
    ran(page, errors=True)
    assert "no token in common" in page.error[0].value
