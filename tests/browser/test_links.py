"""An address shows the same to whoever opens it, and says what the page shows wherever one goes."""

import os
import signal
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from core import capture
from tests.browser.addresses import SENTENCE, drawn_by
from tests.browser.driver import AS_IT_IS, GROUNDS, App, troubles
from tests.depth import thorough
from ui import state


@pytest.mark.thorough
def test_links_from_before_open_what_they_meant(visit, minilm):
    taken = capture(minilm, SENTENCE)
    app = visit("/?layer=1&head=3&stage=raw&embed=true")  # when Step by step was the first page
    app.shows({AS_IT_IS: taken.trace(1, 3).raw}).reaches("/step_by_step").is_well().says_in_address(embed="true")


@pytest.mark.thorough
def test_going_back_takes_a_choice_back_and_the_next_click_does_not_bring_it_again(go):
    """Also the choice of a popover that is closed."""
    app = go("/step_by_step?source=random&stage=masked").choose(state.MASK, "Causal").idle()
    app.page.keyboard.press("Escape")
    expect(app.widget(state.MASK)).to_have_count(0)
    app.page.go_back()
    app.says_in_address(mask=None).idle().click_cell(AS_IT_IS, 1, 3).pins(AS_IT_IS, 1, 3)
    app.says_in_address(key=3, mask=None)
    expect(app.page.get_by_test_id("stPopoverBody")).to_have_count(0)
    app.has(state.MASK, "Mask as given")


# The first message that asks for this page is lost.
LOSE = """
() => {
    const { send } = WebSocket.prototype;
    WebSocket.prototype.send = function (message) {
        if (window.lost || !window.location.pathname.endsWith("/heads")) send.call(this, message);
        else window.lost = true;
    };
}
"""


@pytest.mark.thorough
def test_a_page_is_asked_for_again_where_the_server_has_not_heard_it(go):
    app = go("/softmax")
    app.page.evaluate(LOSE)
    app.page.evaluate("window.headlight.go(new URL('/atlas?layer=3&head=4', location.origin))")
    app.reaches("/heads").has(state.HEAD_BOX, "Head 3.4")
    app.eventually(lambda: app.page.evaluate("window.lost"))


VIEWS = (
    "/heads?metric=previous&layer=3&head=6",
    "/what_if?model=SmolLM2-135M-Instruct&text=The+capital+of+France+is&layer=23&head=4&edit=mute+23.4",
    "/heads?metric=sink&layer=0&head=2",
)


def said_by(address: str) -> dict[str, list[str]]:
    """All but what the page opens with."""
    found = parse_qs(urlsplit(address).query)
    return {name: words for name, words in found.items() if (name, words) != ("metric", ["previous"])}


@thorough
def test_wherever_one_goes_in_the_history_the_page_shows_its_address(visit):
    """Pages share fields, and one visit to a view is one entry. Only the browser has this history."""
    app = visit(VIEWS[0]).shows(drawn_by(VIEWS[0]))
    entries = app.settled(lambda: app.page.evaluate("history.length"))

    def stands_at(address: str, further: int) -> App:
        """The page and its address, after so many entries more."""
        app.eventually(lambda: said_by(app.here), said_by(address))
        app.shows(drawn_by(address)).is_well()
        app.eventually(lambda: app.page.evaluate("history.length"), entries + further)
        return app

    for further, view in enumerate(VIEWS[1:], 1):
        app.go(view)
        stands_at(view, further)
    steps = app.follow("Step by step", "/step_by_step").settled(lambda: app.here)
    for view in reversed(VIEWS):
        app.page.go_back()
        stands_at(view, 3)
    for _ in range(3):
        app.page.go_forward()  # faster than the pages come
    app.eventually(lambda: app.here, steps)
    stands_at(steps, 3)


@pytest.mark.thorough
def test_a_click_beside_going_back_does_not_part_page_and_address(go):
    """Then Streamlit runs the page for the click alone. Only a browser does both at once."""
    app, other = go("/step_by_step?source=random&seed=1"), "/step_by_step?source=random&seed=2&stage=raw"

    def wrong() -> dict[str, str]:
        expected = drawn_by(app.here)
        return troubles(app.pictures(expected), expected)

    app.go(other).shows(drawn_by(other)).idle()
    app.page.evaluate("history.back(); document.querySelector('.st-key-tables input').click()")
    app.eventually(lambda: app.here, lambda here: here != other)
    app.idle().eventually(wrong, {})


# What is done on a page that has just been left. A slider tells what comes of an arrow key 0.2 s later.
LEAVE = """
(keys) => {
    document.querySelector("a[href$=heads]").click();
    keys.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
}
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("page", "keys"),
    [
        ("/step_by_step?source=random&seed=4", f".st-key-{state.ARROWS} .keys"),
        ("/softmax", f".st-key-{state.TEMPERATURE} input"),
        ("/step_by_step?source=random&seed=4", None),  # the machine prefers another colour scheme
    ],
)
def test_what_is_done_on_a_page_that_was_left_does_not_lead_back_to_it(go, server, page, keys):
    app = go(page).idle()
    sent = len(app.sent)
    os.kill(server.process_id, signal.SIGSTOP)  # it hears of both at once
    try:
        if keys is not None:
            app.page.locator(keys).evaluate(LEAVE)
        else:
            app.page.get_by_role("link", name="Heads", exact=True).click()
            app.page.emulate_media(color_scheme="dark")
            expect(app.page.locator(".stApp")).to_have_css("background-color", GROUNDS["dark"])
        app.eventually(lambda: len(app.sent) - sent, lambda count: count >= 2)
    finally:
        os.kill(server.process_id, signal.SIGCONT)
    app.idle().reaches("/heads")
    expect(app.page.get_by_role("heading", name="Heads", exact=True)).to_be_visible()
    app.in_scheme("light")
