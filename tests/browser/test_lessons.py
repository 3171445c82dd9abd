"""Lessons in a real browser: Next, Back, knobs above their pictures on a phone, and a first query that can be turned."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import numpy as np

from core.lessons.query_key_value import ANGLE, TOKENS
from tests.core.lessons.test_query_key_value import weights_at
from tests.pages.lessons import LESSONS, parts
from ui import lessons, state


def part_of(app):
    return parse_qs(urlsplit(app.address).query).get(state.PART)


def test_next_leads_through_a_lesson_and_on_and_back_goes_back(visit):
    """Only this test finds an experiment that the address does not say, or a next lesson that opens in its middle."""
    app = visit("/query_key_value")
    for word in list(parts("query_key_value"))[1:]:
        app.widget(state.NEXT_PART).get_by_role("button").click()
        app.until(lambda word=word: part_of(app) == [word], lambda: f"the address is {app.address}")
        app.idle()
    app.page.get_by_role("link", name="Next: Softmax").click()
    app.until(lambda: urlsplit(app.address).path == "/softmax", "the next lesson does not open")
    assert app.idle().widget(state.PART).get_by_role("radio").first.get_attribute("aria-checked") == "true"
    assert part_of(app) is None
    app.page.go_back()
    app.until(lambda: app.address.startswith("/query_key_value?part=model"), lambda: f"the address is {app.address}")
    app.idle().page.go_back()
    app.until(lambda: part_of(app) == ["values"], lambda: f"the address is {app.address}")


def test_the_query_is_turned_by_its_slider(go):
    app = go("/query_key_value")
    app.shows({"weights": np.array(weights_at(ANGLE))})
    app.widget(state.ANGLE).get_by_role("slider").press("ArrowRight")
    app.shows({"weights": np.array(weights_at(ANGLE + 5))}).idle()
    assert parse_qs(urlsplit(app.address).query) == {state.ANGLE: [str(ANGLE + 5)]}
    app.go(f"/query_key_value?{state.ANGLE}=250").shows({"weights": np.array(weights_at(250))})
    best = TOKENS[int(np.argmax(weights_at(250)))]
    assert app.page.get_by_role("heading", name=f"fits the key of “{best}” best").count() == 1


def tops(app):
    """Where the knobs, the picture and the words of an experiment begin, if it has them."""
    boxes = [app.widget(key) for key in (state.KNOBS, state.EXPERIMENT_PICTURE, state.EXPERIMENT_WORDS)]
    return [box.bounding_box()["y"] for box in boxes if box.count()]


def test_on_a_phone_knobs_stand_above_their_picture_and_nothing_scrolls_sideways(visit):
    app = visit("/query_key_value", width=390, height=844)
    assert len(tops(app)) == 3
    for lesson in lessons.LESSONS:
        app.go(f"/{lesson}")
        found = tops(app)
        assert found == sorted(found), lesson
        assert app.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), lesson
        assert app.page.evaluate("document.querySelector('.stMain').scrollWidth <= window.innerWidth"), lesson
    assert sorted(lessons.LESSONS) == LESSONS
    app.page.set_viewport_size({"width": 1280, "height": 720})
    app.go("/query_key_value")
    knobs, picture, words = tops(app)
    assert abs(knobs - picture) < 2  # side by side
    assert words > knobs


def test_the_zoom_bar_never_covers_a_colour_scale(go):
    app = go(f"/word_order?{state.PART}=sinusoids")
    chart = app.widget(state.picture("sinusoids"))
    chart.locator(".nsewdrag").hover()
    bar, scale = chart.locator(".modebar").bounding_box(), chart.locator(".colorbar").bounding_box()
    edge, cells = chart.bounding_box(), chart.locator(".nsewdrag").bounding_box()
    assert bar["width"] > 20
    for other in (scale, cells):
        assert bar["y"] >= other["y"] + other["height"]
    assert bar["x"] + bar["width"] <= edge["x"] + edge["width"] + 1
    assert bar["y"] + bar["height"] <= edge["y"] + edge["height"] + 1
