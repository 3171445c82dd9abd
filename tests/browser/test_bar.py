"""The header: at every width each of its elements has room of its own and takes its click, and every page can be reached."""

import re
from collections.abc import Iterable
from itertools import product

import pytest
from playwright.sync_api import expect

from tests.browser.driver import App
from tests.depth import sampled
from ui import state

HEIGHTS = 768, 390
# A page with all buttons and without pictures, which would be drawn anew at every width.
PAGE = "/heads?model=nothing-of-that-name"

# What is wrong with the header three frames from now: after a change of width Streamlit folds the names that have no room.
_TROUBLES = """
async () => {
    for (let frame = 0; frame < 3; frame += 1) await new Promise(requestAnimationFrame);
    const parts = (whole) =>
        [...whole.querySelectorAll("*")].flatMap((part) => part.shadowRoot ? parts(part.shadowRoot) : part);
    const isSeen = (part) => part.checkVisibility({ opacityProperty: true, visibilityProperty: true });
    const seen = [...document.querySelectorAll(".stAppHeader, .st-key-actions")].flatMap(parts)
        .filter((part) => part.matches("a[href], button, label") && isSeen(part));
    const found = seen.map((part) => {
        const lines = part.innerText.trim().split("\\n"), box = part.getBoundingClientRect();
        return { part, box, name: part.ariaLabel || lines.at(-1) };
    });
    const onTop = (x, y) => {
        let top = document.elementFromPoint(x, y);
        while (top?.shadowRoot) top = top.shadowRoot.elementFromPoint(x, y);
        return top;
    };
    const troubles = found.length < 6 ? [`only ${found.length} elements`] : [];
    found.forEach(({ part, box, name }, place) => {
        const isNamed = part.matches("nav a, nav button:has(svg), label *"); // these are as high as a line
        if (!name) troubles.push("an element has no name");
        if (box.left < 0 || box.right > innerWidth) troubles.push(`${name} is cut off`);
        if (!isNamed && Math.min(box.width, box.height) < 39.5) troubles.push(`${name}: ${box.width} x ${box.height}`);
        const centre = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
        if (!part.contains(onTop(...centre))) troubles.push(`${name} takes no click`);
        for (const other of found.slice(place + 1)) {
            const isBeside = box.right <= other.box.left + .5 || other.box.right <= box.left + .5;
            if (!isBeside && !part.contains(other.part)) troubles.push(`${name} lies on ${other.name}`);
        }
    });
    return troubles;
}
"""


@pytest.fixture
def app(visit) -> App:
    return visit(PAGE)


def has_room(app: App, widths: Iterable[int]) -> None:
    app.page.mouse.move(5, 300)  # help that somebody points at may lie on anything
    for width, height in product(widths, HEIGHTS):
        app.page.set_viewport_size({"width": width, "height": height})
        size = f"{width} x {height}"
        app.eventually(lambda size=size: (size, app.page.evaluate(_TROUBLES)), (size, []))


@pytest.mark.parametrize("step", sampled([160, 20], quick=[160]))
def test_every_element_of_the_header_has_its_room(app, step):
    widths = range(320, 1601, step)
    has_room(app, widths)
    app.click("Add to talk").says("Added to the talk").go(f"{PAGE}&present=true&talk=1").keys("Escape")
    expect(app.button("Back to the talk, 1 of 1")).to_be_visible()
    has_room(app, widths)
    app.in_scheme("dark")
    has_room(app, widths)


def test_the_other_pages_are_in_one_menu(app):
    """On a phone all pages, beside it those whose names have no room. The open menu of a phone covers the buttons."""
    menu = app.page.get_by_role("button", name="Expand sidebar")
    app.page.set_viewport_size({"width": 360, "height": 780})
    menu.click()
    app.page.get_by_test_id("stSidebarCollapseButton").get_by_role("button").click()
    menu.click()
    app.page.get_by_role("link", name="Claims").click()
    app.reaches("/claims").page.set_viewport_size({"width": 844, "height": 390})
    app.page.get_by_role("button", name=re.compile("more$")).click()
    app.page.get_by_role("menuitem", name="What changed").click()
    app.reaches("/what_changed").page.set_viewport_size({"width": 1024, "height": 768})
    app.button("More").click()
    app.page.get_by_role("menuitem", name="Talk").click()
    expect(app.reaches("/talk").widget(state.START_TALK)).to_be_visible()
