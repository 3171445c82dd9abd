"""What holds for every lesson: every part opens with a picture, and its words are few."""

import pytest

from tests.pages.lessons import LESSONS, open_lesson, parts
from ui import state


@pytest.mark.parametrize(("lesson", "part"), [(lesson, part) for lesson in LESSONS for part in parts(lesson)])
def test_every_part_opens_with_a_picture(lesson, part):
    page = open_lesson(lesson, part)
    assert not page.exception
    assert not page.error
    assert page.get("plotly_chart")
    assert page.session_state[state.PART] == part


@pytest.mark.parametrize("lesson", LESSONS)
def test_few_words(lesson):
    assert 1 < len(parts(lesson)) <= 6
    assert sum(len(words.split()) for words in parts(lesson).values()) <= 120
