"""Lessons in a real browser: Next, Back, knobs above their pictures on a phone, and a first query that can be turned."""

from __future__ import annotations

from urllib.parse import urlsplit

import numpy as np
from playwright.sync_api import expect

from core.lessons.query_key_value import ANGLE, TOKENS
from tests.browser.driver import App, eventually
from tests.core.lessons.test_query_key_value import weights_at
from tests.pages.lessons import LESSONS, parts
from ui import lessons, state


def test_next_leads_through_a_lesson_and_on_and_back_goes_back(visit):
    """Only this test finds an experiment that the address does not say, or a next lesson that opens in its middle."""
    app = visit("/query_key_value")

    def stands_at(path: str, part: str | None) -> App:
        app.eventually(lambda: (urlsplit(app.here).path, app.said.get(state.PART)), (path, part and [part]))
        return app.idle()

    for word in list(parts("query_key_value"))[1:]:
        app.idle().widget(state.NEXT_PART).get_by_role("button").click()
        stands_at("/query_key_value", word)
    app.follow("Next: Softmax", "/softmax")
    expect(app.widget(state.PART).get_by_role("radio").first).to_have_attribute("aria-checked", "true")
    stands_at("/softmax", None).page.go_back()
    stands_at("/query_key_value", "model").page.go_back()
    stands_at("/query_key_value", "values")


def test_the_query_is_turned_by_its_slider(go):
    app = go("/query_key_value")
    app.shows({"weights": np.array(weights_at(ANGLE))}).idle()
    app.widget(state.ANGLE).get_by_role("slider").press("ArrowRight")
    app.shows({"weights": np.array(weights_at(ANGLE + 5))})
    app.eventually(lambda: app.said, {state.ANGLE: [str(ANGLE + 5)]})
    app.go(f"/query_key_value?{state.ANGLE}=250").shows({"weights": np.array(weights_at(250))})
    best = TOKENS[int(np.argmax(weights_at(250)))]
    expect(app.page.get_by_role("heading", name=f"fits the key of “{best}” best")).to_be_visible()


def tops(app: App) -> list[float]:
    """Where the knobs, the picture and the words of an experiment begin, if it has them."""
    boxes = [app.widget(key) for key in (state.KNOBS, state.EXPERIMENT_PICTURE, state.EXPERIMENT_WORDS)]
    return [box.bounding_box()["y"] for box in boxes if box.count()]


def test_on_a_phone_knobs_stand_above_their_picture_and_nothing_scrolls_sideways(visit):
    app = visit("/query_key_value", width=390, height=844)
    app.eventually(lambda: len(tops(app)), 3)
    widths = (
        "() => [document.documentElement, document.querySelector('.stMain')].map(one => one.scrollWidth - innerWidth)"
    )
    for lesson in lessons.LESSONS:
        app.go(f"/{lesson}").eventually(lambda: tops(app), lambda found: found == sorted(found))
        app.eventually(lambda: app.page.evaluate(widths), lambda beyond: max(beyond) <= 0)
    assert sorted(lessons.LESSONS) == LESSONS
    app.page.set_viewport_size({"width": 1280, "height": 720})
    app.go("/query_key_value")  # knobs and picture stand side by side
    app.eventually(lambda: tops(app), lambda tops: abs(tops[0] - tops[1]) < 2 and tops[2] > tops[0])


def test_the_zoom_bar_never_covers_a_colour_scale(go):
    chart = go(f"/word_order?{state.PART}=sinusoids").widget(state.picture("sinusoids"))
    chart.locator(".nsewdrag").hover()

    def boxes() -> list[dict]:
        parts = [chart, *(chart.locator(name) for name in (".modebar", ".colorbar", ".nsewdrag"))]
        return [part.bounding_box() for part in parts]

    def stands_below(found: list[dict]) -> bool:
        edge, bar, *others = found
        ends = [
            edge[side] + edge[length] + 1 - bar[side] - bar[length]
            for side, length in (("x", "width"), ("y", "height"))
        ]
        return bar["width"] > 20 and min(ends) >= 0 and all(bar["y"] >= one["y"] + one["height"] for one in others)

    eventually(chart.page, boxes, stands_below)
