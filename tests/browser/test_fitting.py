"""What every page is before anybody does anything: its first screen, in a frame and on a phone, and what axe finds on it."""

import re
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.driver import AS_IT_IS, App, eventually, new_page
from tests.browser.test_accessible import RULES, finds_nothing
from tests.depth import sampled
from tests.source_files import ROOT
from ui import state
from ui.lessons import LESSONS

PHONE, LAPTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 720}

# Where the first picture of a page is, and how many words stand before or beside it, without those of the buttons at the top
# right, which are the same on every page.
_FIRST_SCREEN = """
() => {
    const main = document.querySelector("[data-testid=stMain]");
    const box = (element) => {
        const { top, bottom, width, height } = element.getBoundingClientRect();
        return width > 2 && height > 2 && getComputedStyle(element).visibility !== "hidden" ? { top, bottom } : null;
    };
    const pictures = [...main.querySelectorAll(".js-plotly-plot, .st-key-token_view, [data-testid=stImage]")].map(box);
    const [first] = pictures.filter(Boolean).sort((one, other) => one.top - other.top);
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
    return { top: first.top, bottom: first.bottom, words };
}
"""
# Whether the focus has come to the first picture of a page, or beyond it.
_IS_BEYOND = """
() => {
    const pictures = [...document.querySelectorAll(".js-plotly-plot, .st-key-token_view")];
    const first = pictures.find((picture) => picture.getBoundingClientRect().width > 2), at = document.activeElement;
    return first.contains(at) || Boolean(first.compareDocumentPosition(at) & Node.DOCUMENT_POSITION_FOLLOWING);
}
"""
# What each page says first, and the pictures that are whole on a laptop's first screen besides the first one.
OPENS = {
    "step_by_step": ("“it” gives 67.3% of its attention to “animal”", ["equation", AS_IT_IS]),
    "heads": ("previous token: 0.2 (100%)", ["atlas", "head"]),
    "why": ("Head 23.4 adds most: 3.01, read from “·France”", ["path"]),
    "what_if": ("“·Paris” comes next: 77.3% → 14.1%", []),
    "generation": ("“·Paris” is written after “·is”, which gives 90.3% of its attention to “·France”", []),
    "heads?metric=pair": ("3.1 gives most from “it” to “animal” (67.7%)", ["atlas", "head"]),
    "claims": ("Holds: 0.2 gives the previous token 99.", ["claims"]),
    "what_changed": ("Head 4.9 changed most: its attention moved by 0.011 nats", ["changed heads", "changed metrics"]),
    "head": ("Head 5.11 gives 67.3% from “it” to “animal”", ["head"]),
    "corpus": ("Head 0.2 gives 99.9% of its attention to the previous token", ["heads of the corpus"]),
}


PAGES, PAIR = sorted([*(path.stem for path in (ROOT / "pages").glob("*.py")), *LESSONS]), "heads?metric=pair"
# Lessons as in a frame of another site's page, which has neither menu nor buttons: those are the same on all pages.
ADDRESSES = {"gallery": "/"} | {lesson: f"/{lesson}?embed=true" for lesson in LESSONS}
# In them are all kinds of colours: of words, badges, tables, fields, shaded tokens, cards and knobs.
IN_THE_DARK = {"step_by_step", "heads", "what_if", "gallery", sorted(LESSONS)[0]}
# Of the lessons two stand for the others, which are built alike.
QUICK = {*PAGES} - {*LESSONS} | {"query_key_value", "softmax"}


def bottoms(*places) -> list[float]:
    return [box["y"] + box["height"] for box in (place.bounding_box() for place in places)]


def is_at_most(limit: float):
    return lambda found: max(found) <= limit


def tab_stops(app: App) -> int:
    """How often Tab stops on a page, without its menu, before the first picture."""
    app.page.get_by_test_id("stMain").focus()
    for count in range(1, 30):
        app.keys("Tab")
        if app.page.evaluate(_IS_BEYOND):
            return count
    return 30


def unfold_all(app: App, page: str) -> None:
    """What these pages show only where somebody asks for it."""
    if page in ("step_by_step", "heads"):
        app.switch(state.TABLES)
    if page == "heads":
        app.press(state.SHOWN_AS, "Text").unfold("Options")


@pytest.fixture(scope="module")
def schemes(regular: App) -> Iterator[list[str]]:
    """Of the visitor who stays: the one that is on, and the other one."""
    yield ["light", "dark"]
    regular.in_scheme("light")


@pytest.mark.parametrize("page", sampled([*PAGES, PAIR], quick=QUICK))
def test_a_page_opens_and_fits(go, page):
    """In a window that becomes smaller, as one that is turned. Only this test finds a page that is wider than its window, and
    knobs of a lesson below their picture."""
    name = page.partition("?")[0]
    app = go(ADDRESSES.get(page, f"/{page}")).finished()
    app.page.set_viewport_size(LAPTOP)
    title = {"gallery": "Headlight"}.get(name) or LESSONS.get(name) or name.replace("_", " ").capitalize()
    expect(app.page.get_by_role("heading", name=title, exact=True)).to_be_visible()
    expect(app.page).to_have_title(re.compile("."))
    finding, pictures = OPENS.get(page, ("", []))
    said = app.page.get_by_text(finding).first

    def tops() -> list[float]:
        """Where the knobs, the picture and the words of an experiment begin, if it has them."""
        boxes = [app.widget(key) for key in (state.KNOBS, state.EXPERIMENT_PICTURE, state.EXPERIMENT_WORDS)]
        return [box.bounding_box()["y"] for box in boxes if box.count()]

    if page in OPENS:
        app.eventually(lambda: bottoms(said, *(app.widget(state.picture(one)) for one in pictures)), is_at_most(720))
        app.eventually(
            lambda: app.page.evaluate(_FIRST_SCREEN),
            lambda seen: seen["bottom"] <= 720 and seen["words"] <= 60,
        )
        app.eventually(lambda: [tab_stops(app)], is_at_most(14))
        app.page.get_by_test_id("stMain").focus()  # the help of the last stop goes
    if page == "query_key_value":  # knobs and picture stand side by side
        app.eventually(tops, lambda tops: len(tops) == 3 and abs(tops[0] - tops[1]) < 2 and tops[2] > tops[0])
    unfold_all(app, page)
    app.fits(800, 600).fits(390).eventually(tops, lambda found: found == sorted(found))
    if page in OPENS:
        app.eventually(lambda: [*bottoms(said), app.page.evaluate(_FIRST_SCREEN)["top"]], is_at_most(844))
    if page == "heads":
        metric = app.widget(state.METRIC).locator("input")
        app.eventually(lambda: metric.evaluate("field => field.scrollWidth <= field.clientWidth"))  # it is not cut
        lines = [app.widget(state.one_of(state.FINDING, place)) for place in (0, 1, 2)]
        app.eventually(lambda: np.diff(bottoms(*lines)), is_at_most(48))
        app.unfold("Options").fits()
        for key, choice in ((state.ATLAS_BY, "Small pictures"), (state.SHOWN_AS, "Lines")):
            app.press(key, choice).fits()


@pytest.mark.parametrize("page", sampled(PAGES, quick=["step_by_step", "softmax"]))
def test_axe_finds_nothing(go, schemes, page):
    """Only this test finds names, roles and contrasts as the browser works them out from the whole page."""
    app = go(ADDRESSES.get(page, f"/{page}")).finished()
    app.page.set_viewport_size(LAPTOP)
    unfold_all(app, page)
    # A page that is left has no images any more. How a page is shown says nothing of what it shows.
    app.idle().page.wait_for_function("[...document.images].every(image => image.complete)")
    finds_nothing(app, {"type": "tag", "values": RULES})
    if page == "what_if":
        app.widget(state.SHARE).get_by_role("button").click()
        expect(app.page.get_by_role("dialog")).to_be_visible()
        finds_nothing(app, {"type": "tag", "values": RULES})
        app.keys("Escape")
        app.page.get_by_test_id("stMain").focus()  # the button, and with it its help, is left
    if page in IN_THE_DARK:
        schemes.reverse()
        finds_nothing(app.in_scheme(schemes[0]), {"type": "rule", "values": ["color-contrast"]})


@pytest.mark.thorough
def test_a_page_in_a_frame_begins_with_its_heading(browser, server, tmp_path):
    """Without names of pages, and in the dark theme, as the address asks for it, on a machine that prefers a light one."""
    page = new_page(browser.new_context(viewport={"width": 860, "height": 660}, color_scheme="light"))
    host = tmp_path / "somebody_elses.html"
    address = f"{server.address}/softmax?embed=true&embed_options=dark_theme&scores=1%2C+2"
    host.write_text(f'<iframe src="{address}" width="800" height="600"></iframe>', encoding="utf-8")
    page.goto(host.as_uri())
    frame = page.frame_locator("iframe")
    expect(frame.get_by_role("heading", name="Softmax")).to_be_visible()
    expect(frame.locator(f".st-key-{state.picture('weights')} .js-plotly-plot")).to_be_visible()
    page.frames[1].wait_for_function(
        "() => [...document.querySelectorAll('h3')].some((h3) => h3.getBoundingClientRect().top < 60)"
    )
    expect(frame.get_by_text("Step by step").filter(visible=True)).to_have_count(0)
    expect(frame.locator(f".st-key-{state.SHARE}")).to_be_hidden()
    expect(frame.locator(f".st-key-{state.SCORES} input")).to_have_value("1, 2")
    expect(frame.locator(".stApp")).to_have_css("background-color", "rgb(20, 23, 28)")
    page.context.close()


# The labels below the columns of each picture that are seen: what they say, from where to where, the sine of their angle, and
# the size of their letters; null while a picture has another size than its place on the page. A slanted one reaches to where
# it is anchored, by its end: its box may hold a letter that hangs over by a pixel.
_LABELS = """
() => [...document.querySelectorAll("[class*=st-key-picture_] .js-plotly-plot")].map((chart) => {
    if (!chart._fullLayout || Math.abs(chart._fullLayout.width - chart.clientWidth) > 1) return null;
    const seen = [...chart.querySelectorAll(".xtick > text")].filter((one) => getComputedStyle(one).visibility === "visible");
    return seen.map((one) => {
        const { left, right } = one.getBoundingClientRect();
        const { x } = new DOMPoint(one.x.baseVal[0].value, one.y.baseVal[0].value).matrixTransform(one.getScreenCTM());
        const angle = (one.getAttribute("transform").match(/rotate.(-?[0-9]+)/) || ["", "0"])[1];
        const slant = Math.abs(Math.sin(angle * Math.PI / 180));
        return { text: one.textContent, left, right: slant ? x : right, slant, size: parseFloat(one.style.fontSize) };
    }).sort((one, other) => one.right - other.right);
})
"""
# The size of the letters beside the rows of the large picture, of which all are there, and how far these are apart.
_ROWS = """
() => {
    const labels = [...document.querySelectorAll(".st-key-picture_as_it_is .ytick > text")];
    const middles = labels.map((label) => label.getBoundingClientRect()).map(({ top, bottom }) => (top + bottom) / 2);
    const room = (Math.max(...middles) - Math.min(...middles)) / 15;
    return [labels.length === 16 ? parseFloat(labels[3].style.fontSize) : NaN, room];
}
"""
_NUMBERS = """
(key) => [...document.querySelectorAll(`.st-key-${key} .textpoint > text`)]
    .filter((one) => getComputedStyle(one).visibility === "visible").map((one) => one.getBoundingClientRect().toJSON())
"""


def room(labels: list[dict]) -> float:
    """How far the labels are apart, at right angles to the way they run, less what a line of their letters needs."""
    apart = [
        (one["right"] - before["right"]) * one["slant"] - 0.95 * one["size"]
        if one["slant"]
        else one["left"] - before["right"]
        for before, one in pairwise(labels)
    ]
    return min(apart, default=0)


@pytest.mark.thorough
def test_labels_and_numbers_never_lie_on_each_other(go):
    app = go("/step_by_step?mask=Causal&query=7&key=11")

    def have_room(pictures: list[list[dict]]) -> bool:
        return min(map(room, pictures)) >= 0 and max(map(len, pictures)) == 16

    for width in (1280, 390):
        app.page.set_viewport_size({"width": width, "height": 720})
        app.idle().eventually(lambda: app.page.evaluate(_LABELS), have_room)
        app.eventually(lambda: app.page.evaluate(_ROWS), lambda size_and_room: size_and_room[0] <= size_and_room[1])
    app.go("/step_by_step").idle()

    def texts() -> list[list[str]]:
        return [[one["text"] for one in labels] for labels in app.page.evaluate(_LABELS)]

    app.eventually(texts, lambda found: any("animal" in one for one in found))  # what is chosen keeps its label
    app.page.set_viewport_size(LAPTOP)
    app.idle().eventually(texts, lambda found: max(map(len, found)) == 16)

    def numbers(picture: str) -> list[dict]:
        return app.page.evaluate(_NUMBERS, state.picture(picture))

    def are_apart(found: list[dict]) -> bool:
        return len(found) == 48 and all(a["right"] <= b["left"] or a["top"] != b["top"] for a, b in pairwise(found))

    app.page.set_viewport_size(PHONE)
    app.go(f"/step_by_step?{state.SOURCE}=random").eventually(lambda: numbers(AS_IT_IS), are_apart)
    app.page.set_viewport_size({"width": 320, "height": 844})
    app.go("/long_range?part=model")
    app.eventually(lambda: numbers("distances"), [])  # nobody could read those of 12 columns
    app.page.set_viewport_size(LAPTOP)
    app.eventually(lambda: len(numbers("distances")), 72)


@pytest.mark.thorough
def test_the_zoom_bar_never_covers_a_colour_scale(go):
    chart = go(f"/word_order?{state.PART}=sinusoids").widget(state.picture("sinusoids"))
    chart.locator(".nsewdrag").hover()

    def boxes() -> list[dict]:
        parts = [chart, *(chart.locator(f".{name}") for name in ("modebar", "colorbar", "nsewdrag"))]
        return [part.bounding_box() for part in parts]

    def stands_below(found: list[dict]) -> bool:
        edge, bar, *others = found
        sides = ("x", "width"), ("y", "height")
        beyond = [bar[side] + bar[length] - edge[side] - edge[length] for side, length in sides]
        return bar["width"] > 20 and max(beyond) <= 1 and all(bar["y"] >= one["y"] + one["height"] for one in others)

    eventually(chart.page, boxes, stands_below)
