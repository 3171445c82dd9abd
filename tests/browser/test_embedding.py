"""A page in a frame on somebody else's page: without the names of the pages, and without the room for them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.browser.driver import App, Server, new_page
from tests.source_files import ROOT
from ui import state
from ui.lessons import LESSONS


def test_a_page_in_a_frame_begins_with_its_heading(browser: Browser, server: Server, tmp_path: Path) -> None:
    """In the dark theme, as the address asks for it, on a machine that prefers a light one."""
    page = new_page(browser.new_context(viewport={"width": 860, "height": 660}, color_scheme="light"))
    host = tmp_path / "somebody_elses.html"
    address = f"{server.address}/softmax?embed=true&embed_options=dark_theme&scores=1%2C+2"
    host.write_text(f'<iframe src="{address}" width="800" height="600"></iframe>', encoding="utf-8")
    page.goto(host.as_uri())
    frame = page.frame_locator("iframe")
    expect(frame.get_by_role("heading", name="Softmax")).to_be_visible()
    expect(frame.locator(f".st-key-{state.picture('weights')} .js-plotly-plot")).to_be_visible()
    for holds in ("h3.getBoundingClientRect().top < 60", "html.scrollWidth <= html.clientWidth"):
        page.frames[1].wait_for_function(
            f"() => [...document.querySelectorAll('h3')].some((h3, _, all, html = document.documentElement) => {holds})"
        )
    expect(frame.get_by_text("Step by step").filter(visible=True)).to_have_count(0)
    expect(frame.locator(f".st-key-{state.SHARE}")).to_be_hidden()
    expect(frame.locator(f".st-key-{state.SCORES} input")).to_have_value("1, 2")
    expect(frame.locator(".stApp")).to_have_css("background-color", "rgb(20, 23, 28)")
    page.context.close()


# What is cut off or has to be scrolled sideways: the page itself, a picture beyond its edge, a box whose content is wider. The
# text of a field scrolls as one types, and a table of numbers in its own frame.
_CUT = """() => {
    const room = document.documentElement.clientWidth, cut = [];
    if (document.scrollingElement.scrollWidth > room) cut.push(`the page: ${document.scrollingElement.scrollWidth}`);
    for (const picture of document.querySelectorAll('.js-plotly-plot, .stApp iframe, .stApp canvas, .stApp img')) {
        const right = Math.round(picture.getBoundingClientRect().right);
        if (right > room && !picture.closest('.stDataFrame')) cut.push(`a picture: ${right}`);
    }
    for (const box of document.querySelectorAll('.stApp *:not(input, textarea)')) {
        const holds = getComputedStyle(box).overflowX !== 'visible' && box.clientWidth > 2 && !box.closest('.stDataFrame');
        if (holds && box.scrollWidth > box.clientWidth + 1) cut.push(`${box.className}: ${box.innerText?.slice(0, 60)}`);
    }
    return cut;
}"""


def test_every_page_fits_into_the_frame_that_is_promised(visit: Callable[..., App]) -> None:
    """docs/links.md: 800 pixels suit all pages. The page itself has the width of a frame, which is what a frame comes to.
    Only this test finds a page that is wider than its frame."""
    (promised,) = re.findall(
        r'src="http://localhost:8501(/step_by_step\?[^"]*)"', (ROOT / "docs/links.md").read_text("utf-8")
    )
    app = visit(promised, width=800, height=600)
    paths = sorted(path.stem for path in (ROOT / "pages").rglob("*.py"))
    assert {"heads", "softmax"} < set(paths)
    app.eventually(lambda: app.page.evaluate(_CUT), [])
    for path in paths:
        app.go(f"/{'' if path == 'gallery' else path}?embed=true")
        title = {"gallery": "Headlight"}.get(path) or LESSONS.get(path) or path.replace("_", " ").capitalize()
        expect(app.page.get_by_role("heading", name=title, exact=True)).to_be_visible()
        app.eventually(lambda: app.page.evaluate(_CUT), [])
