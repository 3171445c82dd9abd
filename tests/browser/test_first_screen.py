"""What somebody sees who opens a page and touches nothing: a finding and its picture, on a laptop and on a phone."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from playwright.sync_api import Locator

from tests.browser.driver import AS_IT_IS, App
from ui import state

# Where the first picture of a page is, which fields stand before it, and how many words before or beside it. A field counts
# once, whatever it is made of; the buttons at the top right, which are the same on every page, don't.
_FIRST_SCREEN = """
() => {
    const main = document.querySelector("[data-testid=stMain]");
    const box = (element) => {
        const { top, bottom, width, height } = element.getBoundingClientRect();
        return width > 2 && height > 2 && getComputedStyle(element).visibility !== "hidden" ? { top, bottom } : null;
    };
    const pictures = [...main.querySelectorAll(".js-plotly-plot, .st-key-token_view, [data-testid=stImage]")].map(box);
    const [first] = pictures.filter(Boolean).sort((one, other) => one.top - other.top);
    const fields = [...main.querySelectorAll(".stElementContainer:not(.st-key-actions *)")].filter((element) =>
        element.querySelector("button:not([data-testid=stTooltipIcon] *), input, textarea, a[href]")
        && !element.querySelector(".js-plotly-plot") && box(element)?.top < first.top);
    const texts = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
    let words = 0;
    while (texts.nextNode()) {
        const range = document.createRange();
        range.selectNodeContents(texts.currentNode);
        const place = range.getBoundingClientRect();
        const isSeen = place.width > 2 && place.bottom > 0 && place.top < first.bottom;
        const isOurs = !texts.currentNode.parentElement.closest(
            ".js-plotly-plot, .katex, .st-key-token_view, .st-key-actions, style, script");
        if (isSeen && isOurs) words += (texts.currentNode.textContent.match(/[\\p{L}\\p{N}]\\S*/gu) || []).length;
    }
    return { top: first.top, bottom: first.bottom, fields: fields.map((field) => field.innerText), words };
}
"""
# What each page says first, and the pictures that are whole on a laptop's first screen besides the first one.
OPENS = {
    "step_by_step": ("“it” gives 67.3% of its attention to “animal”", ["equation", AS_IT_IS]),
    "heads": ("previous token: 0.2 (100%)", ["atlas", "head"]),
    "why": ("Head 23.4 adds most: 3.01, read from “·France”", ["path"]),
    "what_if": ("“·Paris” comes next: 77.3% → 14.1%", []),
    "generation": ("“·Paris” is written after “·is”, which gives 90.3% of its attention to “·France”", []),
    "corpus": ("Head 0.2 gives 99.9% of its attention to the previous token", ["heads of the corpus"]),
}
OF_A_PAIR = {"heads?metric=pair": ("3.1 gives most from “it” to “animal” (67.7%)", ["atlas", "head"])}


def bottom(place: Locator) -> float:
    box = place.bounding_box()
    assert box is not None
    return box["y"] + box["height"]


def shows_all(app: App, height: int, *places: Locator) -> None:
    """Each of them ends above the lower edge of the window."""
    app.eventually(lambda: [bottom(place) for place in places], lambda ends: max(ends) <= height)


@pytest.mark.parametrize(("page", "opens"), (OPENS | OF_A_PAIR).items())
def test_a_page_opens_on_its_finding_and_picture(visit, page, opens):
    finding, pictures = opens
    app = visit(f"/{page}", width=1280, height=720)
    said = app.page.get_by_text(finding).first
    shows_all(app, 720, said, *(app.widget(state.picture(name)) for name in pictures))
    app.eventually(
        lambda: app.page.evaluate(_FIRST_SCREEN),
        lambda seen: seen["bottom"] <= 720 and len(seen["fields"]) <= 12 and seen["words"] <= 60,
    )
    app.page.set_viewport_size({"width": 390, "height": 844})  # a phone
    shows_all(app.idle(), 844, said)
    app.eventually(lambda: app.page.evaluate(_FIRST_SCREEN)["top"], lambda top: top < 844)
    app.eventually(lambda: app.page.evaluate("document.documentElement.scrollWidth"), lambda width: width <= 390)
    if page == "heads":
        metric = app.widget(state.METRIC).locator("input")
        app.eventually(
            lambda: metric.evaluate("field => field.scrollWidth <= field.clientWidth")
        )  # the menu is not cut
        lines = [app.widget(state.one_of(state.FINDING, place)) for place in (0, 1, 2)]
        app.eventually(lambda: max(np.diff([bottom(line) for line in lines])), lambda apart: apart <= 48)


# The labels that a picture shows and the room that each needs: a slanted one its height along the axis, any other its width.
_SHOWN_LABELS = """
(key) => {
    const chart = document.querySelector(`.st-key-${key} .js-plotly-plot`);
    const seen = [...chart.querySelectorAll(".xtick > text")].filter((one) => getComputedStyle(one).visibility === "visible");
    return seen.map((one) => {
        const { left, right } = one.getBoundingClientRect();
        const isSlanted = one.getAttribute("transform").includes("rotate");
        return { text: one.textContent, left: isSlanted ? right - parseFloat(one.style.fontSize) : left, right };
    });
}
"""
_SHOWN_NUMBERS = """
(key) => [...document.querySelectorAll(`.st-key-${key} .textpoint > text`)]
    .filter((one) => getComputedStyle(one).visibility === "visible").map((one) => one.getBoundingClientRect().toJSON())
"""


def test_labels_never_lie_on_each_other(visit):
    phone, desk = {"width": 390, "height": 844}, {"width": 1280, "height": 720}
    app = visit("/step_by_step", **phone)

    def labels() -> list[dict]:
        return app.page.evaluate(_SHOWN_LABELS, state.picture("As it is"))

    def numbers(picture: str) -> list[dict]:
        return app.page.evaluate(_SHOWN_NUMBERS, state.picture(picture))

    def have_room(labels: list[dict]) -> bool:
        is_chosen_shown = "animal" in [label["text"] for label in labels]
        free = [label["right"] <= following["left"] + 1 for label, following in pairwise(labels)]
        return is_chosen_shown and len(labels) >= 5 and all(free)

    app.eventually(labels, have_room)
    app.page.set_viewport_size(desk)
    app.eventually(lambda: len(labels()), 16)
    app.page.set_viewport_size(phone)
    app.go(f"/step_by_step?{state.SOURCE}=random").eventually(lambda: len(numbers("As it is")), 48)

    def lie_on_others() -> list[tuple]:
        pairs = pairwise(numbers("As it is"))
        return [(one, other) for one, other in pairs if one["right"] > other["left"] and one["top"] == other["top"]]

    app.eventually(lie_on_others, [])
    app.page.set_viewport_size(
        {"width": 320, "height": 844}
    )  # in any font, nobody could read numbers of twelve columns
    app.go("/long_range?part=model").eventually(lambda: numbers("distances"), [])
    app.page.set_viewport_size(desk)
    app.eventually(lambda: len(numbers("distances")), 72)
