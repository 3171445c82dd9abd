"""The page "Masks" without a browser: its numbers are core's, clicks turn cells over."""

from functools import partial

import numpy as np
import pytest

from core import attend
from core.attention import masks as m
from core.attention.sources import toy_sentence
from core.lessons.masking import fill
from tests.pages.lessons import open_lesson, said
from ui import state
from ui.controls import mask_choice
from ui.views.lesson.frame import IN_A_MODEL

opened = partial(open_lesson, "masking")


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("Causal", "causal"),
        ("Padding", "padding"),
        ("Sliding window", "sliding window of 4 to each side"),
        ("Prefix", "causal with an open prefix of 4"),
        ("Packed blocks", "blocks of 4"),
        ("None", "none"),
        ("My own", "none"),
    ],
)
def test_every_pattern(pattern, words):
    page = opened("Patterns", **{state.PATTERN: pattern})
    assert not page.exception
    assert f"This mask: **{words}**" in said(page)


def test_a_mask_from_the_address():
    page = opened("Patterns", **{state.PATTERN: "My own", state.SENTENCE: "a b c", state.CELLS: "101/000/111"})
    assert "**custom**, 5 of 9 pairs" in said(page)
    assert "look at nothing: 1" in said(page)


def test_a_mask_of_another_size_is_named():
    page = opened("Patterns", **{state.PATTERN: "My own", state.CELLS: "101/000/111"})
    assert not page.exception
    assert "needs 8 of 8" in page.error[0].value


def test_a_sentence_that_is_too_long_is_named():
    page = opened("Patterns", **{state.SENTENCE: "word " * 13})
    assert not page.exception
    assert "the maximum here is 12" in page.error[0].value


def test_a_click_turns_a_cell_over(monkeypatch):
    mask = m.grid(m.causal, 3, 3)
    kept = clicked(monkeypatch, mask, query=0, key=2)
    assert kept == {state.CELLS: "101/110/111", state.PATTERN: mask_choice.CUSTOM}
    assert clicked(monkeypatch, m.from_rows(kept[state.CELLS], 3, 3), query=0, key=2)[state.CELLS] == "100/110/111"
    for elsewhere in ({"query": 3, "key": 0}, {"query": 0}, {"dimension": 1, "key": 0}):
        assert not clicked(monkeypatch, mask, **elsewhere)


def test_of_two_clicks_on_one_picture_both_count(monkeypatch):
    mask = m.grid(m.causal, 3, 3)
    kept = clicked(monkeypatch, mask, query=0, key=2)
    assert clicked(monkeypatch, mask, kept, query=1, key=2)[state.CELLS] == "101/111/111"
    unreadable = {state.CELLS: "10/x", state.PATTERN: mask_choice.CUSTOM}
    assert clicked(monkeypatch, mask, unreadable, query=1, key=2)[state.CELLS] == "10/x"


def clicked(monkeypatch, mask, kept=None, **places):
    """What the page keeps after a click on this cell of a picture. kept: what it has kept before"""
    kept = dict(kept or {})
    monkeypatch.setattr(mask_choice.st, "session_state", kept)
    mask_choice.turn_over(mask, {axis: range(place, place + 1) for axis, place in places.items()})
    return kept


@pytest.mark.parametrize(("name", "score"), [("0", 0.0), ("-5", -5.0), ("-inf", -np.inf)])
def test_the_leak_is_cores(name, score):
    page = opened("Why not 0", **{state.FILL: name})
    words = toy_sentence("The cat sat. A dog ran.")
    leak = fill(attend(words.query, words.key, words.value, mask=np.tri(8)), score)
    assert f"**{leak.leaked.mean():.2g}** of the weight leaks" in said(page)


def test_a_row_with_nothing_left():
    page = opened("Nothing left")
    row = said(page)
    assert "| Headlight | " + "0.000 | " * 8 + "0.000 |" in row
    assert row.count("NaN") >= 9
    assert "0.125 | " * 8 + "1.000" in row


def test_everything_padded():
    page = opened("Nothing left", **{state.SENTENCE: "a b", state.PADDED: "8"})
    assert not page.exception


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("all-MiniLM-L6-v2", "This layer has no mask: all **256** pairs may attend"),
        ("SmolLM2-135M-Instruct", "It is **causal**"),
    ],
)
def test_the_mask_of_a_model(model, words):
    page = opened(IN_A_MODEL, **{state.MODEL: model})
    assert not page.exception
    assert words in said(page)
