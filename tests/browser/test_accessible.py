"""For those who cannot see a page, or use no mouse: axe-core finds nothing on any page, and cells can be read by keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from core import attend
from core.attention.sources import random_matrices
from core.figures.palette import DIVERGING, DIVERGING_ON_DARK, TEXT, TEXT_ON_DARK
from tests.browser.driver import App, Server
from tests.browser.visits import Visits
from tests.source_files import ROOT
from ui import state

# What Streamlit itself does, and cannot be mended from outside: rule, what its element says of itself, why.
OF_STREAMLIT = (
    # The area that takes a dropped file is decoration by its role, and yet has a name; the button inside it can be reached.
    ("presentation-role-conflict", 'data-testid="stFileUploaderDropzone"'),
)
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
# Pages as they open, apart from these.
ADDRESSES = {"gallery": "/", **{page: f"/{page}?{state.TABLES}=true" for page in ("step_by_step", "heads")}}
LESSONS = sorted(path.stem for path in ROOT.glob("pages/learn/*.py"))
PAGES = sorted([*(path.stem for path in ROOT.glob("pages/*.py")), *LESSONS])
IN_THE_DARK = {*PAGES} - {*LESSONS[1:]}  # lessons have the same colours


@pytest.fixture(scope="module")
def app(visits: Visits, server: Server) -> Iterator[App]:
    """One visitor, who goes from page to page."""
    with visits.to(server) as visit:
        app = visit("/softmax")
        yield app
        app.page.emulate_media(color_scheme="null")


def found(app: App, rules: dict[str, Any]) -> list[str]:
    """What axe-core finds on the page as it is."""
    response = Axe().run(app.page, options={"runOnly": rules, "resultTypes": ["violations"]}).response
    return [
        f"{one['id']}: {node['html']} ({node['failureSummary']})"
        for one in response["violations"]
        for node in one["nodes"]
        if not any(one["id"] == rule and words in node["html"] for rule, words in OF_STREAMLIT)
    ]


@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_nothing(app, page):
    """Only this test finds names, roles and contrasts as the browser works them out from the whole page."""
    app.page.emulate_media(color_scheme="light")
    address = ADDRESSES.get(page, f"/{page}")
    app.idle().go(address)  # pages run again in another theme
    app.page.wait_for_function(
        "[...document.images].every(image => image.complete)"
    )  # a page that is left has none any more
    assert app.address.startswith(address)  # how a page is shown says nothing of what it shows
    if page == "heads":
        app.press(state.SHOWN_AS, "Text").idle()
    assert found(app, {"type": "tag", "values": RULES}) == []
    assert app.page.title()
    if page == PAGES[-1]:
        app.widget(state.SHARE).get_by_role("button").click()
        app.page.get_by_role("dialog").wait_for()
        assert found(app.idle(), {"type": "tag", "values": RULES}) == []
    if page in IN_THE_DARK:
        app.page.emulate_media(color_scheme="dark")
        assert found(app.idle(), {"type": "rule", "values": ["color-contrast"]}) == []


def rgb(colour: str) -> str:
    return f"rgb({', '.join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))})"


def test_a_cell_is_read_out_and_chosen_by_keyboard(app):
    app.page.emulate_media(color_scheme="light")
    app.idle().go("/step_by_step?source=random")
    numbers = random_matrices(6, 8, 4, 4, seed=0)
    weights = attend(numbers.query, numbers.key, numbers.value).weights
    chart = app.widget(state.picture("As it is")).locator(".js-plotly-plot")
    said = app.page.locator("[aria-live=polite].said")
    at = np.array(app.picture("As it is").pinned, dtype=int)  # where it begins

    def reads(row: int, column: int) -> bool:
        number = f"{weights[row, column]:.3g}"
        return (said.text_content() or "").startswith(
            f"query q{row} ({row}), key k{column} ({column}), weight {number}, "
        )

    chart.focus()
    for key, step in (
        ("ArrowUp", (0, 0)),
        ("Home", (0, -8)),
        ("End", (0, 8)),
        ("PageUp", (-10, 0)),
        ("ArrowDown", (1, 0)),
    ):
        app.page.keyboard.press(key)
        at = np.clip(at + step, 0, (5, 7))
        assert reads(*at), f"{key}: {said.text_content()}"
    app.page.keyboard.press("ArrowLeft")
    app.page.keyboard.press("Enter")
    app.until(lambda: app.picture("As it is").pinned == (1, 6), "the cell is not chosen")
    app.idle()
    assert app.address.endswith("query=1&key=6")
    # The picture has been drawn anew, and the focus is still on its cell.
    app.page.keyboard.press("ArrowLeft")
    assert reads(1, 5)
    app.page.keyboard.press("Escape")
    assert said.text_content() == ""


def test_figures_follow_the_theme(app):
    label = app.widget(state.picture("equation")).locator(".annotation-text").first
    scales = "[...document.querySelectorAll('.js-plotly-plot')].flatMap((plot) => plot.data.map((trace) => trace.colorscale))"
    for scheme, colour, signed in (("dark", TEXT_ON_DARK, DIVERGING_ON_DARK), ("light", TEXT, DIVERGING)):
        app.page.emulate_media(color_scheme=scheme)
        expect(label).to_have_css("fill", rgb(colour), timeout=20_000)
        assert signed in app.page.evaluate(scales), f"the signed matrices do not have the colours for {scheme}"
