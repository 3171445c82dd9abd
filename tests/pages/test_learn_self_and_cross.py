"""The page "Self and cross" without a browser: every part opens, its words are few, its numbers are core's."""

import pytest
from streamlit.testing.v1 import AppTest

from core.lessons.self_and_cross import BLOCKS, other_keys
from tests.pages.lessons import PAGES, parts, word_count
from ui import state

PAGE = PAGES / "self_and_cross.py"
READ, INSTEAD, WRITTEN = "Il fait beau .", "Il pleut", "It is"


def opened(part: str, **knobs: str) -> AppTest:
    page = AppTest.from_file(str(PAGE), default_timeout=60)
    page.query_params[state.PART] = part
    for name, value in knobs.items():
        page.query_params[name] = value
    return page.run()


def words_of(page: AppTest) -> str:
    return "".join(one.value for one in page.markdown)


@pytest.mark.parametrize("part", parts(PAGE))
def test_every_part_opens_with_a_picture(part):
    page = opened(part)
    assert not page.exception
    assert not page.error
    assert page.get("plotly_chart")


def test_few_words():
    assert word_count(PAGE) <= 120


@pytest.mark.parametrize(
    ("place", "weights", "output"),
    [("encoder", "4 × 4", "4 × 8"), ("decoder", "2 × 2", "2 × 8"), ("cross", "2 × 4", "2 × 8")],
)
def test_the_weights_are_queries_by_keys(place, weights, output):
    page = opened("Three blocks", **{state.BLOCK: BLOCKS[place].name, state.READ: READ, state.WRITTEN: WRITTEN})
    assert f"weights **{weights}** and an output of **{output}**" in words_of(page)


def test_the_change_is_cores():
    page = opened("Other keys", **{state.READ: READ, state.READ_INSTEAD: INSTEAD, state.WRITTEN: WRITTEN})
    found = other_keys(READ, INSTEAD, WRITTEN)
    assert f"queries **0**, in the output **{found.output_change:.2f}**" in words_of(page)


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ("Three blocks", state.READ),
        ("Other keys", state.READ_INSTEAD),
        ("A whole model", state.WRITTEN),
        ("In a real model", state.SECOND_TEXT),
    ],
)
def test_a_blank_text_is_no_traceback(part, field):
    page = opened(part, **{field: " "})
    assert not page.exception
    assert len(page.error) == 1
