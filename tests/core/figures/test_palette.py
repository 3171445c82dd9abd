"""Text and lines can be told from the page in either theme (WCAG 2.2, AA)."""

import numpy as np
import pytest

from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.palette import (
    ABOVE,
    ALLOWED,
    BELOW,
    DIVERGING,
    DIVERGING_ON_DARK,
    INK,
    PIN,
    SERIES,
    TEXT,
    TEXT_ON_DARK,
    TOTAL,
    colours_of,
    set_signed_colours,
    text_on,
)
from tests.contrast import BACKGROUNDS, THEME, contrast, hexadecimal, mixed

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


@pytest.mark.parametrize(("mode", "scale"), [("light", DIVERGING), ("dark", DIVERGING_ON_DARK)])
def test_signed_numbers_stand_out_the_more_the_farther_they_are_from_zero(mode, scale):
    colours = [hexadecimal(colour) for colour in colours_of(np.linspace(0, 1, 41), scale)]
    stands_out = [contrast(colour, colours[20]) for colour in colours]
    assert contrast(colours[20], BACKGROUNDS[mode]) < 1.15
    assert (np.diff(stands_out[20:]) > 0).all()
    assert (np.diff(stands_out[:21]) < 0).all()
    masked = mixed(GREY[0], BACKGROUNDS[mode], GREY[1])
    assert contrast(masked, colours[20]) > 1.25


def test_numbers_in_cells_are_legible_on_either_background():
    values = np.array([[-1.0, -0.5, 0.0], [0.02, 0.5, 1.0]])
    chart = heatmap(values, Axis("query"), Axis("column"), name="n")
    before = chart.figure.to_json()
    for scale in (DIVERGING_ON_DARK, DIVERGING):
        set_signed_colours(chart.traces, chart.layout, scale)
        cells, printed = chart.figure.data[:2]
        assert cells.colorscale == tuple(map(tuple, scale))
        for value, text in zip(values.ravel(), printed.textfont.color, strict=True):
            under = hexadecimal(colours_of(np.array((value + 1) / 2), scale)[0])
            assert contrast({"black": "#000000", "white": "#ffffff"}[text], under) >= 4.5
    assert chart.figure.to_json() == before
