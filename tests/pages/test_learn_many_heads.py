"""The page "Many heads" without a browser: every part opens, its words are few, its numbers are core's."""

import pytest
from streamlit.testing.v1 import AppTest

from core.heads.contributions import lengths
from core.lessons.many_heads import fetch, heads_of_a_sentence
from tests.pages.lessons import PAGES, parts, word_count
from ui import state
from ui.controls.scene import SENTENCE

PAGE = PAGES / "many_heads.py"


def opened(part: str, **knobs: str) -> AppTest:
    page = AppTest.from_file(str(PAGE), default_timeout=60)
    page.query_params[state.PART] = part
    for name, value in knobs.items():
        page.query_params[name] = value
    return page.run()


@pytest.mark.parametrize("part", parts(PAGE))
def test_every_part_opens_with_a_picture(part):
    page = opened(part)
    assert not page.exception
    assert not page.error
    assert page.get("plotly_chart")


def test_few_words():
    assert word_count(PAGE) <= 120


@pytest.mark.parametrize("heads", [1, 2, 4, 8, 12])
def test_sizes_are_cores(heads):
    page = opened("Split and join", **{state.HEAD_COUNT: str(heads)})
    _, many = heads_of_a_sentence(SENTENCE, heads)
    sizes = page.table[0].value["size"].tolist()
    assert sizes[1] == f"{heads} × 12 × {many.d_head}"
    assert sizes[-1] == f"{many.parameters:,}" == "2,304"


def test_the_sum_is_cores():
    page = opened("A sum of heads", **{state.WORD: "3: cross"})
    _, many = heads_of_a_sentence(SENTENCE, 4)
    length, _ = lengths(many.contributions)
    shown = "".join(one.value for one in page.markdown)
    assert f"head **{length[:, 3].argmax()}** adds most" in shown
    assert "At “cross”" in shown
    assert f"**{many.difference:.1e}**" in shown


def test_leaning_shows_in_the_difference():
    page = opened("Why several", **{state.HEAD_SHARE: "0.8"})
    fetched = fetch(0.8)
    shown = "".join(one.value for one in page.markdown)
    assert f"one head **{fetched.apart(fetched.one_head):.1f}**, two heads **1.0**" in shown


def test_a_blank_sentence_is_no_traceback():
    page = opened("Split and join", **{state.TOY_TEXT: " "})
    assert not page.exception
    assert "blank" in page.error[0].value
