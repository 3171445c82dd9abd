"""A page in a frame on somebody else's page: without the names of the pages, and without the room for them."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser

from tests.browser.driver import Server
from ui import state


def test_a_page_in_a_frame_begins_with_its_heading(browser: Browser, server: Server, tmp_path: Path) -> None:
    """In the dark theme, as the address asks for it, on a machine that prefers a light one."""
    page = browser.new_page(viewport={"width": 860, "height": 660}, color_scheme="light")
    host = tmp_path / "somebody_elses.html"
    address = f"{server.address}/softmax?embed=true&embed_options=dark_theme&scores=1%2C+2"
    host.write_text(f'<iframe src="{address}" width="800" height="600"></iframe>', encoding="utf-8")
    page.goto(host.as_uri())
    frame = page.frame_locator("iframe")
    heading = frame.get_by_role("heading", name="Softmax")
    heading.wait_for()
    frame.locator(f".st-key-{state.picture('weights')} .js-plotly-plot").wait_for()
    assert heading.bounding_box()["y"] - page.locator("iframe").bounding_box()["y"] < 60
    assert frame.get_by_text("Step by step").filter(visible=True).count() == 0
    assert not frame.locator(f".st-key-{state.SHARE}").is_visible()
    assert frame.locator(f".st-key-{state.SCORES} input").input_value() == "1, 2"
    app = frame.locator(".stApp")
    assert app.evaluate("app => getComputedStyle(app).backgroundColor") == "rgb(20, 23, 28)"
    assert app.evaluate("() => document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page.close()
