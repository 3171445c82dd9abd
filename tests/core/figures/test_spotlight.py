"""The spotlight: a veil on every cell but the lit ones; and letters that are seen from far away."""

from __future__ import annotations

import numpy as np
import pytest

from core.figures.heatmaps.frames import VEIL, with_spotlight
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.theme import smallest_letters
from tests.core.figures.test_theme import CHARTS

ROWS, COLUMNS = 5, 7


@pytest.mark.parametrize("scale", ["share", "signed"])
@pytest.mark.parametrize(("row", "column"), [(2, 3), (0, 0), (4, 6)])
@pytest.mark.parametrize("spot", ["none", "row", "column", "cell"])
def test_all_cells_but_the_lit_ones_are_dimmed_once(spot, row, column, scale):
    chart = heatmap(np.eye(ROWS, COLUMNS), Axis("q", pinned=row), Axis("k", pinned=column), name="x", scale=scale)
    frames = list(chart.figure.layout.shapes)
    dimmed = np.zeros((ROWS, COLUMNS), int)
    with_spotlight(chart, spot, row, column)
    lit = chart.figure
    veils = [shape for shape in lit.layout.shapes if shape.fillcolor == VEIL]
    for veil in veils:
        at = np.s_[int(veil.y0 + 0.5) : int(veil.y1 + 0.5), int(veil.x0 + 0.5) : int(veil.x1 + 0.5)]
        dimmed[at] += 1
    expected = np.full((ROWS, COLUMNS), int(spot != "none"))
    expected[{"none": np.s_[:], "row": np.s_[row], "column": np.s_[:, column], "cell": np.s_[row, column]}[spot]] = 0
    np.testing.assert_array_equal(dimmed, expected)
    assert list(lit.layout.shapes)[len(veils) :] == frames, "the frames are no longer on top"
    assert all(veil.xref == "x" and veil.yref == "y" for veil in veils), "the colour bar is dimmed"


def sizes(found) -> list[float]:
    """Every size of letters that a figure names."""
    if isinstance(found, dict):
        own = [found["size"]] if "size" in found and found.keys() <= {"size", "color", "family"} else []
        return own + [size for part in found.values() for size in sizes(part)]
    return [size for part in found for size in sizes(part)] if isinstance(found, (list, tuple)) else []


@pytest.mark.parametrize("least", [18, 22])
@pytest.mark.parametrize("draw", CHARTS.values(), ids=CHARTS)
def test_no_letter_is_smaller_than_wanted(draw, least):
    token = smallest_letters.set(least)
    try:
        figure = draw().figure.to_plotly_json()
    finally:
        smallest_letters.reset(token)
    found = sizes(figure["layout"])
    for trace in figure["data"]:
        found += [size for key, part in trace.items() if "font" in key or key == "colorbar" for size in sizes(part)]
    assert found
    assert min(found) >= least
    assert min(sizes(draw().figure.to_plotly_json()["layout"])) < least, "nor are they larger at a desk"
