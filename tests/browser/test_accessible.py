"""For those who cannot see a page, or use no mouse: axe-core finds nothing on any page, and cells can be read by keyboard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from core import attend
from core.attention.sources import random_matrices
from core.figures.palette import DIVERGING, DIVERGING_ON_DARK, TEXT, TEXT_ON_DARK
from tests.browser.driver import App, Server, Visits
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


def finds_nothing(app: App, rules: dict[str, Any]) -> None:
    """axe-core, on the page once nothing runs."""

    def found() -> list[str]:
        response = Axe().run(app.page, options={"runOnly": rules, "resultTypes": ["violations"]}).response
        return [
            f"{one['id']}: {node['html']} ({node['failureSummary']})"
            for one in response["violations"]
            for node in one["nodes"]
            if not any(one["id"] == rule and words in node["html"] for rule, words in OF_STREAMLIT)
        ]

    app.idle().eventually(found, [])


@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_nothing(app, page):
    """Only this test finds names, roles and contrasts as the browser works them out from the whole page."""
    app.page.emulate_media(color_scheme="light")
    address = ADDRESSES.get(page, f"/{page}")
    app.idle().go(address)  # pages run again in another theme
    # A page that is left has no images any more. How a page is shown says nothing of what it shows.
    app.page.wait_for_function("[...document.images].every(image => image.complete)")
    app.eventually(lambda: app.here.startswith(address))
    if page == "heads":
        app.press(state.SHOWN_AS, "Text")
    finds_nothing(app, {"type": "tag", "values": RULES})
    expect(app.page).to_have_title(re.compile("."))
    if page == PAGES[-1]:
        app.widget(state.SHARE).get_by_role("button").click()
        expect(app.page.get_by_role("dialog")).to_be_visible()
        finds_nothing(app, {"type": "tag", "values": RULES})
    if page in IN_THE_DARK:
        app.page.emulate_media(color_scheme="dark")
        finds_nothing(app, {"type": "rule", "values": ["color-contrast"]})


def rgb(colour: str) -> str:
    return f"rgb({', '.join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))})"


def test_a_cell_is_read_out_and_chosen_by_keyboard(app):
    app.page.emulate_media(color_scheme="light")
    app.idle().go("/step_by_step?source=random")
    numbers = random_matrices(6, 8, 4, 4, seed=0)
    weights = attend(numbers.query, numbers.key, numbers.value).weights
    chart = app.widget(state.picture("As it is")).locator(".js-plotly-plot")
    said = app.page.locator("[aria-live=polite].said")
    at = np.array(app.settled(lambda: app.drawn("As it is").pinned), dtype=int)  # where it begins

    def reads(row: int, column: int) -> None:
        number = f"{weights[row, column]:.3g}"
        expect(said).to_contain_text(f"query q{row} ({row}), key k{column} ({column}), weight {number}, ")

    chart.focus()
    steps = {"ArrowUp": (0, 0), "Home": (0, -8), "End": (0, 8), "PageUp": (-10, 0), "ArrowDown": (1, 0)}
    for key, step in steps.items():
        app.page.keyboard.press(key)
        at = np.clip(at + step, 0, (5, 7))
        reads(*at)
    app.page.keyboard.press("ArrowLeft")
    app.page.keyboard.press("Enter")
    app.pins("As it is", 1, 6).eventually(lambda: app.here.endswith("query=1&key=6"))
    # The picture has been drawn anew, and the focus is still on its cell.
    app.idle().page.keyboard.press("ArrowLeft")
    reads(1, 5)
    app.page.keyboard.press("Escape")
    expect(said).to_be_empty()


def test_figures_follow_the_theme(app):
    label = app.widget(state.picture("equation")).locator(".annotation-text").first
    scales = "[...document.querySelectorAll('.js-plotly-plot')].flatMap((plot) => plot.data.map((trace) => trace.colorscale))"
    for scheme, colour, signed in (("dark", TEXT_ON_DARK, DIVERGING_ON_DARK), ("light", TEXT, DIVERGING)):
        app.page.emulate_media(color_scheme=scheme)
        expect(label).to_have_css("fill", rgb(colour))
        app.eventually(lambda: app.page.evaluate(scales), lambda scales, signed=signed: signed in scales)
