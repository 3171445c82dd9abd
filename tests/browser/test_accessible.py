"""For those who cannot see a page, or use no mouse: cells can be read by keyboard, and figures follow the theme."""

from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from core import attend
from core.attention.sources import random_matrices
from core.figures.palette import DIVERGING, DIVERGING_ON_DARK, TEXT, TEXT_ON_DARK
from tests.browser.driver import App
from ui import state

# What Streamlit itself does, and cannot be mended from outside: rule, what its element says of itself, why.
OF_STREAMLIT = (
    # The area that takes a dropped file is decoration by its role, and yet has a name; the button inside it can be reached.
    ("presentation-role-conflict", 'data-testid="stFileUploaderDropzone"'),
)
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


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


def rgb(colour: str) -> str:
    return f"rgb({', '.join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))})"


@pytest.mark.thorough
def test_a_cell_is_read_out_and_chosen_by_keyboard(go):
    app = go("/step_by_step?source=random")
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


@pytest.mark.thorough
def test_the_buttons_of_a_page_are_one_stop_along_which_arrow_keys_move(go):
    app = go("/heads")
    of_page = app.page.get_by_role("toolbar", name="This page")
    found = app.page.get_by_role("toolbar", name="Heads that stand out").get_by_role("button")
    share, help_of_tables = (of_page.get_by_role("button", name=name) for name in ("Share", "Help for Tables"))
    help_of_tables.focus()
    for key, place in (
        ("ArrowRight", "Add to talk"),
        ("ArrowRight", "Share"),
        ("Home", "Theme"),
        ("ArrowLeft", "Share"),
    ):
        app.keys(key)
        expect(of_page.get_by_role("button", name=place)).to_be_focused()
    app.keys("Tab")
    expect(app.widget(state.TEXT).locator("textarea")).to_be_focused()
    app.keys("Shift+Tab")
    expect(share).to_be_focused()
    found.first.focus()
    app.keys("End", "Enter").says_in_address(layer=3, head=11).idle()
    expect(found.last).to_be_focused()


@pytest.mark.thorough
def test_figures_follow_the_theme(go):
    app = go("/step_by_step?source=random")
    label = app.widget(state.picture("equation")).locator(".annotation-text").first
    scales = "[...document.querySelectorAll('.js-plotly-plot')].flatMap((plot) => plot.data.map((trace) => trace.colorscale))"
    for scheme, colour, signed in (("dark", TEXT_ON_DARK, DIVERGING_ON_DARK), ("light", TEXT, DIVERGING)):
        app.in_scheme(scheme)
        expect(label).to_have_css("fill", rgb(colour))
        app.eventually(lambda: app.page.evaluate(scales), lambda scales, signed=signed: signed in scales)
