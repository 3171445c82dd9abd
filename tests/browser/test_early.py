"""The page names what is fetched early, which the server has. A page finds its server at once, and nothing pulses meanwhile. No
test looks at it once."""

import os
import signal
from collections.abc import Callable
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from playwright.sync_api import expect

from tests.browser.driver import App, Chromium, Server, eventually, new_page
from ui import state
from ui.serving import early_scripts


def test_the_page_names_what_is_fetched_early_and_finds_its_server_at_once(
    server: Server, visit: Callable[..., App]
) -> None:
    """Streamlit alone would ask for /softmax/_stcore/health first. With a slash at the end, the server is two levels above."""
    with urlopen(f"{server.address}/heads") as answer:
        links = answer.headers["link"]
    for name in early_scripts():
        address = f"/static/js/{name}"
        assert f"<{address}>; rel=modulepreload" in links
    assert urlopen(f"{server.address}{address}").status == 200
    assert urlopen(f"{server.address}/_stcore/health").headers["link"] is None
    app, asked = visit("/exhibit"), []
    app.page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    expect(app.open("/softmax/?scores=2%2C+1").page.locator(".js-plotly-plot").first).to_be_visible()
    assert [path for path in asked if path.endswith("/health")] == ["/_stcore/health"]


# How many bars stand for parts of the page that are still to come, and how many of them move, over all frames of the browser.
_BARS = """
window.bars = [0, 0];
const look = () => {
    const bar = "[data-testid=stSkeleton]";
    window.bars[0] += document.querySelectorAll(bar).length;
    window.bars[1] += document.getAnimations().filter(({ effect }) => effect.target?.closest(bar)).length;
    requestAnimationFrame(look);
};
look();
"""


@pytest.mark.thorough
def test_what_is_still_to_come_does_not_pulse(browser: Chromium, server: Server) -> None:
    """The browser would draw it all the time, on a machine that does not ask for less motion."""
    page = new_page(browser.new_context())
    page.add_init_script(_BARS)
    page.goto(f"{server.address}/step_by_step")
    expect(page.locator(".js-plotly-plot").first).to_be_visible()
    eventually(page, lambda: page.evaluate("window.bars.map(Boolean)"), [True, False])
    page.context.close()


def test_a_page_is_not_looked_at_before_it_is_waited_for(go):
    app = go("/softmax")
    heading = app.page.get_by_role("heading", name="Softmax", exact=True)
    app.eventually(lambda: (app.here, heading.count(), heading.is_visible()), ("/softmax", 1, True))
    for look in (app.page.title, app.alerts, heading.count, lambda: app.here, lambda: app.page.evaluate("1")):
        for use in (bool, str, len, lambda seen: seen == "Softmax", lambda seen: seen[0]):
            with pytest.raises((AssertionError, TypeError)):
                use(look())
    app.page.evaluate("window.isChanged = true")  # something is done


@pytest.mark.thorough
def test_a_page_is_idle_once_the_server_has_answered(go, server):
    app = go("/softmax")
    app.idle().sent.clear()
    os.kill(server.process_id, signal.SIGSTOP)
    try:
        app.widget(state.TEMPERATURE).get_by_role("slider").press("ArrowRight")
        app.eventually(lambda: app.page.evaluate("window.isAnswered()"), False)  # it tells the number 0.2 s later
        app.eventually(lambda: app.sent)
        app.eventually(lambda: app.page.evaluate("window.isAnswered()"), False)
    finally:
        os.kill(server.process_id, signal.SIGCONT)
    app.idle().eventually(lambda: app.page.evaluate("window.isAnswered()"))


@pytest.mark.thorough
@pytest.mark.timeout(30)
def test_what_an_assertion_calls_has_no_more_patience_than_itself(go, monkeypatch):
    app = go("/softmax")
    monkeypatch.setattr("tests.browser.driver.PATIENCE", 1.0)
    with pytest.raises(AssertionError, match="last seen: AssertionError: last seen: TimeoutError"):
        app.eventually(lambda: app.eventually(lambda: app.page.wait_for_function("false")))


def test_what_is_meant_for_another_machine_is_seen_and_stopped(go):
    app = go("/softmax")
    app.eventually(lambda: app.page.evaluate("fetch('http://example.com/').then(() => true, () => false)"), False)
    app.eventually(lambda: any("a request left for http://example.com/" in problem for problem in app.problems))
    app.problems.clear()
