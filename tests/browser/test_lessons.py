"""Lessons in a real browser: Next, Back, what is moved by hand, and clicks on a mask that come faster than it is read."""

from urllib.parse import urlsplit

import numpy as np
import pytest
from playwright.sync_api import expect

from core import attend, softmax
from core.attention import masks as m
from core.attention.sources import random_matrices, toy_sentence
from core.lessons.query_key_value import TOKENS
from tests.browser.driver import AS_IT_IS
from tests.core.lessons.test_query_key_value import weights_at
from tests.depth import thorough
from ui import state


def hold(app, key):
    """Take the thumb of a slider with the mouse. Gives what moves it to a share of its length, and says where it is then."""
    slider = app.idle().widget(key)
    parts = slider.get_by_role("group"), slider.get_by_role("slider")
    box, thumb = (app.settled(part.bounding_box) for part in parts)
    app.page.mouse.move(thumb["x"] + thumb["width"] / 2, box["y"] + box["height"] / 2)
    app.idle().sent.clear()  # coming near, the browser has asked for frames
    app.page.mouse.down()

    def move(share):
        app.page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2, steps=3)
        return float(app.settled(parts[1].input_value))

    return move


def test_pictures_and_words_follow_a_slider_while_it_is_held_without_the_server(go):
    app = go("/query_key_value")
    move = hold(app, state.ANGLE)
    for share in (0.9, 0.3, 0.7):
        weights = weights_at(angle := round(move(share)))
        app.shows({"weights": np.array(weights)})
        words = f"The query of “it” fits the key of “{TOKENS[np.argmax(weights)]}” best: weight {max(weights):.0%}."
        expect(app.page.get_by_role("heading", name=words)).to_be_visible()
    assert app.sent == []
    app.page.mouse.up()
    app.says_in_address(angle=angle).idle().shows({"weights": np.array(weights)})
    expect(app.page.get_by_role("heading", name=words)).to_be_visible()


@pytest.mark.thorough
def test_the_scale_is_followed_from_a_popover(go):
    """Its slider stands outside of the page."""
    app = go("/step_by_step?source=random").unfold("Scale and mask")
    times = hold(app, state.SCALE_TIMES)(0.9)
    numbers = random_matrices(6, 8, 4, 4, seed=0)
    app.shows({AS_IT_IS: attend(numbers.query, numbers.key, numbers.value, scale=times / 2).weights})
    assert app.sent == []
    app.page.mouse.up()
    app.says_in_address(times=times)


@pytest.mark.thorough
def test_things_in_a_picture_are_moved_by_hand_and_by_keys(go):
    app = go("/query_key_value").idle()
    query = app.page.get_by_role("slider", name="Query of it")
    box = app.settled(query.bounding_box)
    app.page.mouse.move(box["x"] + 16, box["y"] + 16)
    app.page.mouse.down()
    app.page.mouse.move(box["x"] - 184, box["y"] + 160, steps=4)
    app.page.mouse.up()
    app.eventually(lambda: 150 < int(app.said.get(state.ANGLE, ["0"])[0]) < 210)
    angle = int(app.settled(lambda: app.said[state.ANGLE][0]))
    app.shows({"weights": np.array(weights_at(angle))})
    query.press("ArrowUp")
    app.says_in_address(angle=angle - 5).shows({"weights": np.array(weights_at(angle - 5))})

    app = go("/softmax").idle()
    app.page.get_by_role("slider", name="Score 0").press("ArrowUp")
    app.has(state.SCORES, "1.25, 0.5, 2.5, -0.1").shows({"weights": softmax(np.array([1.25, 0.5, 2.5, -0.1]))})


# Chooses cells as the keyboard does, all before the page can answer.
_CHOOSE = """
(cells) => cells.forEach((cell) => {
    const detail = ["query", "key"].map((axis, place) => ({ axis, middle: cell[place], cells: 1 }));
    document.dispatchEvent(new CustomEvent("headlight-cell", { detail }));
})
"""


@pytest.mark.thorough
def test_no_click_on_a_mask_is_lost_or_counts_twice(go):
    app = go(f"/masking?{state.SENTENCE}=The+cat+sat")
    words, expected = toy_sentence("The cat sat", d_head=8), m.grid(m.causal, 3, 3)

    def shows_the_mask():
        trace = attend(words.query, words.key, words.value, mask=expected)
        app.shows({"weights with": np.where(expected, trace.weights, np.nan)})

    for cells in ([(0, 1), (0, 2), (1, 2)], [(2, 0)], [(2, 0), (1, 0)]):
        app.page.evaluate(_CHOOSE, cells)
        for cell in cells:
            expected[cell] = not expected[cell]
        shows_the_mask()
    app.click_cell("mask", 0, 1)  # with the mouse, after many runs of the page
    expected[0, 1] = not expected[0, 1]
    shows_the_mask()
    app.has(state.CELLS, m.to_rows(expected))


@thorough
def test_next_leads_on_and_back_goes_back(go):
    """Only this test finds a next lesson that opens in its middle, and an experiment to which nothing goes back."""
    app = go(f"/query_key_value?{state.PART}=values").press_button(state.NEXT_PART)

    def stands_at(path, part):
        app.eventually(lambda: (urlsplit(app.here).path, app.said.get(state.PART)), (path, part and [part]))
        return app.idle()

    stands_at("/query_key_value", "model").follow("Next: Softmax", "/softmax")
    expect(app.widget(state.PART).get_by_role("radio").first).to_have_attribute("aria-checked", "true")
    stands_at("/softmax", None).page.go_back()
    stands_at("/query_key_value", "model").page.go_back()
    stands_at("/query_key_value", "values")
