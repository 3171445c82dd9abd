"""Text and lines can be told from the page in either theme (WCAG 2.2, AA)."""

import pytest

from core.figures.palette import ABOVE, ALLOWED, BELOW, INK, PIN, SERIES, TEXT, TEXT_ON_DARK, TOTAL, text_on
from tests.contrast import BACKGROUNDS, THEME, contrast, mixed

TEXTS = {"light": TEXT, "dark": TEXT_ON_DARK}
GREY = ("#80848e", 0.28)  # FORBIDDEN


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_of_figures(mode):
    background = BACKGROUNDS[mode]
    assert contrast(TEXTS[mode], background) >= 4.5
    assert contrast(TEXTS[mode], mixed(GREY[0], background, GREY[1])) >= 4.5  # "−∞" on a masked cell


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_lines_and_bars(mode):
    for colour in (ABOVE, BELOW, TOTAL, PIN, INK, ALLOWED, *SERIES):
        assert contrast(colour, BACKGROUNDS[mode]) >= 3, colour


def test_numbers_on_bars_and_on_allowed_cells():
    for colour, text in zip(SERIES, text_on(SERIES), strict=True):
        assert contrast(colour, {"black": "#000000", "white": "#ffffff"}[text]) >= 4.5, colour


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_of_pages(mode):
    """Streamlit writes captions and placeholders with 60 % of the text's colour, and the chosen one of several buttons, while
    the mouse is on it, in the primary colour on 20 % of it."""
    theme = THEME | THEME[mode]
    primary = theme["primaryColor"]
    assert contrast(primary, mixed(primary, theme["backgroundColor"], 0.2)) >= 4.5
    for place in ("backgroundColor", "secondaryBackgroundColor"):
        assert contrast(mixed(theme["textColor"], theme[place], 0.6), theme[place]) >= 4.5, place
        assert contrast(primary, theme[place]) >= 4.5, place
