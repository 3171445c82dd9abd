"""Presenting: nothing but pictures and what is said of them, in one screen; worked with keys; a talk, and the theme."""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

from tests.browser.driver import App

SIZES = {(1280, 720): 18, (1920, 1080): 20}  # the window -> pixels of the smallest letters
VIEWS = (
    "step_by_step",
    "heads",
    "what_if?edit=mute+5.11",
    "softmax",
    "masking",
    "self_and_cross?part=model",
    "generation?model=written-dates&rows=steps",
)

# What is wrong on the screen: controls, scroll bars, letters that are small, cut, or on other letters.
WRONG = """
(least) => {
    const wrong = [];
    const isSeen = (node) => node.checkVisibility({ visibilityProperty: true }) && node.getBoundingClientRect().width > 0;
    const named = (node) => (node.textContent || node.className || node.tagName).toString().trim().slice(0, 30);
    const controls = ".stAppHeader, .stMain input, .stMain textarea, .stMain button:not(.st-key-stage_place *), "
        + ".stMain [role=radiogroup], .stMain .stCaptionContainer, .stMain summary, .stMain a[href]";
    for (const node of document.querySelectorAll(controls)) if (isSeen(node)) wrong.push(`a control: ${named(node)}`);
    for (const node of [document.scrollingElement, document.querySelector(".stMain")]) {
        if (node.scrollHeight > node.clientHeight || node.scrollWidth > node.clientWidth) wrong.push("it scrolls");
    }
    const words = [...document.querySelectorAll("[class*=st-key-told] p, [class*=st-key-told] h3")].filter(isSeen);
    const letters = [...document.querySelectorAll(".main-svg text, .infolayer text")].filter(isSeen);
    const boxes = [];
    for (const node of new Set([...words, ...letters])) {
        if (!node.textContent.trim()) continue;
        const box = node.getBoundingClientRect();
        const size = parseFloat(getComputedStyle(node).fontSize);
        if (size < least - 0.01) wrong.push(`${size} px: ${named(node)}`);
        if (box.left < -1 || box.top < -1 || box.right > innerWidth + 1 || box.bottom > innerHeight + 1) {
            wrong.push(`cut: ${named(node)}`);
        }
        // Turned letters have boxes that overlap where they do not: their axes are looked at by themselves.
        if (!node.getAttribute("transform")?.includes("rotate(-")) boxes.push([box, node]);
    }
    boxes.forEach(([one, node], place) => boxes.slice(place + 1).forEach(([other, second]) => {
        const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
        const down = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
        const overlaps = across > 2 && down > 0.35 * Math.min(one.height, other.height);
        if (overlaps && !node.contains(second)) wrong.push(`${named(node)} lies on ${named(second)}`);
    }));
    if (!document.querySelector(".js-plotly-plot")) wrong.push("there is no picture");
    return [...new Set(wrong)];
}
"""


def with_presenting(view: str) -> str:
    return f"/{view}{'&' if '?' in view else '?'}present=true"


def test_in_one_screen_with_large_letters(visit: Callable[..., App]) -> None:
    app, wrong = visit(with_presenting(VIEWS[0])), {}
    sizes = [*SIZES.items()]
    for view in VIEWS:
        app.go(with_presenting(view))
        sizes.reverse()  # each view begins as large as the last one ended: that is drawn already
        for (width, height), least in sizes:
            app.page.set_viewport_size({"width": width, "height": height})
            app.idle(0.8)  # the page draws again once it knows the new size
            if found := app.page.evaluate(WRONG, least):
                wrong[f"{view} at {width} x {height}"] = found
    assert not wrong, json.dumps(wrong, ensure_ascii=False, indent=1)


def test_keys_move_and_none_is_lost(visit: Callable[..., App]) -> None:
    app = visit("/step_by_step?stage=query")
    app.page.get_by_role("button", name="Present").click()
    app.idle()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowRight", "PageDown", "PageDown"):
        app.page.keyboard.press(key)  # faster than the page runs
    app.until(lambda: "stage=mask&" in app.address + "&", "six presses are not four stages on")
    app.idle()
    assert "Mask" in app.page.locator("[class*=st-key-told]").all_inner_texts()[1]
    app.page.keyboard.press("s")
    app.until(lambda: "spot=row" in app.address, "the row is not lit")
    app.page.keyboard.press("?")
    assert app.page.get_by_role("dialog", name="Keys").is_visible()
    app.page.keyboard.press("Escape")
    assert "present=true" in app.address
    app.page.keyboard.press("Escape")
    app.until(lambda: "present" not in app.address, "Esc does not leave")
    app.idle()
    assert app.widget("text").get_by_role("textbox").is_visible()
    app.open("/heads?present=true&layer=0&head=0")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "PageDown"):
        app.page.keyboard.press(key)
    app.until(lambda: "layer=2" in app.address and "head=2" in app.address, "four presses are not head 2.2")


def test_ten_views_without_a_network(visit: Callable[..., App]) -> None:
    """A talk is made, prepared, and replayed; every request that leaves is noted as a problem by the driver."""
    app = visit("/talk")
    views = [
        ("step_by_step", {"stage": ["raw"], "layer": ["2"], "head": ["3"]}),
        ("step_by_step", {"layer": ["1"]}),  # head, stage and text as they open
        ("heads", {"layer": ["3"], "head": ["2"]}),
        *(("softmax", {"scores": [f"{place}, 1"]}) for place in range(6)),
        ("step_by_step", {"stage": ["scaled"], "layer": ["4"], "head": ["5"]}),
    ]
    talk = [
        {"title": f"View {place}", "page": page, "parameters": parameters, "notes": f"Say {place}."}
        for place, (page, parameters) in enumerate(views)
    ]
    whole = {"format": "headlight-talk", "version": 1, "views": talk}
    app.page.locator("summary").click()
    app.widget("talk_file").locator("input").set_input_files(
        {"name": "talk.json", "mimeType": "application/json", "buffer": json.dumps(whole).encode()}
    )
    app.idle()
    app.page.get_by_role("button", name="Prepare").click()
    app.page.get_by_text("All 10 views are prepared").wait_for(timeout=60_000)
    app.page.get_by_role("button", name="Start").click()
    bar = app.widget("stage_keys").locator(".place")
    for place, (_, asked) in enumerate(views):
        app.until(lambda place=place: bar.inner_text() == f"{place + 1} / 10", f"view {place + 1} does not open")
        if place in (0, 1, 2, 9):
            said = asked | {"present": ["true"], "talk": [str(place + 1)]}
            app.until(lambda said=said: parse_qs(urlsplit(app.address).query) == said, lambda said=said: f"not {said}")
            told = " ".join(app.page.locator("[class*=st-key-told]").all_inner_texts())
            layer, head = asked["layer"][0], asked.get("head", ["11"])[0]
            assert f"Layer {layer}, head {head}" in told
        if place == 5:
            for key in ("PageDown", "PageDown", "PageUp", "PageUp"):  # faster than the pages open
                app.page.keyboard.press(key)
        app.page.keyboard.press("PageDown")
    app.until(lambda: bar.inner_text() == "10 / 10", "the last view does not open")
    app.idle()
    app.page.keyboard.press("n")
    assert "Say 9." in app.widget("stage_keys").locator(".notes").inner_text()
    app.page.reload()  # the browser keeps the talk
    app.until(lambda: bar.count() == 1 and bar.inner_text() == "10 / 10", "a reload loses the talk")


def test_the_theme_switch(visit: Callable[..., App]) -> None:
    app = visit("/step_by_step?stage=raw")

    def ground() -> str:
        return app.page.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")

    def press(name: str) -> None:
        with app.page.expect_navigation():
            app.page.get_by_role("button", name="Theme").click()
        app.page.get_by_role("button", name=name).wait_for()
        app.idle()

    bright = ground()
    press("Theme: light")
    assert ground() == bright
    press("Theme: dark")
    assert ground() != bright
    assert "stage=raw" in app.address
    app.page.goto(app.server.address + "/heads")
    app.page.get_by_role("button", name="Theme: dark").wait_for()
    app.until(lambda: ground() != bright, "another page has another theme")
