"""Pictures of lessons: several matrices in one, borders between parts, and which text gives what."""

import numpy as np
import pytest
from plotly.colors import sample_colorscale

from core.figures.heatmaps.frames import with_borders
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.heatmaps.side_by_side import side_by_side, small
from core.figures.palette import DIVERGING, DIVERGING_ON_DARK, FORBIDDEN, SEQUENTIAL
from core.figures.plots.wiring import HEIGHTS, wiring
from tests.contrast import BACKGROUNDS, contrast, hexadecimal

TOKENS = ("<b>", "$x$", " the", "the")


def four(count: int = 3):
    rng = np.random.default_rng(0)
    return [rng.uniform(size=(4, 4)) * (which + 1) for which in range(count)]


def drawn(*matrices, across=2, **more):
    names = [str(at) for at in range(len(matrices))]
    return side_by_side([small(one) for one in matrices], names, TOKENS, TOKENS, across=across, **more).figure


def test_one_colour_range_for_all():
    matrices = four()
    figure = drawn(*matrices)
    assert figure.layout.coloraxis.cmax == pytest.approx(max(matrix.max() for matrix in matrices))
    assert {trace.coloraxis for trace in figure.data} == {"coloraxis"}
    for trace, matrix in zip(figure.data, matrices, strict=True):
        np.testing.assert_allclose(trace.z, matrix)


def test_signed_pictures_meet_at_zero():
    colours = drawn(*(-one for one in four()), scale="signed").layout.coloraxis
    assert colours.cmin == -colours.cmax < 0


def test_masked_cells_are_grey_and_explained():
    matrix, mask = np.full((4, 4), 0.25), np.tri(4, dtype=bool)
    figure = side_by_side([small(matrix, mask)], ["a"], TOKENS, TOKENS, across=1).figure
    np.testing.assert_array_equal(np.isnan(figure.data[0].z), ~mask)
    assert [trace.name for trace in figure.data if trace.type == "scatter"] == ["masked"]
    assert figure.layout.showlegend
    assert figure.layout.plot_bgcolor == FORBIDDEN
    assert not drawn(matrix).layout.showlegend


def test_tokens_are_text_and_stay_apart():
    figure = drawn(*four())
    assert figure.layout.yaxis.ticktext == ("&lt;b&gt;", "&#36;x&#36;", "·the", "the")
    assert list(figure.layout.yaxis.tickvals) == [0, 1, 2, 3]


@pytest.mark.parametrize(("count", "across"), [(1, 2), (4, 4), (9, 5), (12, 6)])
def test_small_pictures_do_not_overlap(count, across):
    figure = drawn(*four(count), across=across)
    boxes = []
    for place in range(count):
        number = "" if place == 0 else str(place + 1)
        boxes.append((*figure.layout[f"xaxis{number}"].domain, *figure.layout[f"yaxis{number}"].domain))
    assert all(0 <= x0 < x1 <= 1 and 0 <= y0 < y1 <= 1 for x0, x1, y0, y1 in boxes)
    for place, (a0, a1, b0, b1) in enumerate(boxes):
        assert not any(a0 < c1 and c0 < a1 and b0 < d1 and d0 < b1 for c0, c1, d0, d1 in boxes[place + 1 :])


def test_long_texts_are_pooled_and_say_so():
    tokens = [str(place) for place in range(200)]
    figure = side_by_side([small(np.eye(200))], ["a"], tokens, tokens, across=1, marked=150).figure
    assert figure.data[0].z.shape == (50, 50)
    assert (figure.layout.meta["row_block"], figure.layout.meta["column_block"]) == (4, 4)
    assert figure.layout.yaxis.ticktext[0] == "0 … 3"
    assert not figure.layout.yaxis.showticklabels
    assert (figure.layout.shapes[0].y0, figure.layout.shapes[0].y1) == (149.5, 150.5)


@pytest.fixture(scope="module")
def bordered():
    chart = heatmap(np.ones((2, 6)), Axis("query"), Axis("column"), name="n")
    return with_borders(chart, columns=(2, 4), rows=(1,), names="abc").figure


def test_borders_lie_between_the_parts(bordered):
    figure = bordered
    frame, *lines = figure.layout.shapes
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (-0.5, 5.5, -0.5, 1.5)
    between = [(1.5, 1.5, -0.5, 1.5), (3.5, 3.5, -0.5, 1.5), (-0.5, 5.5, 0.5, 0.5)]
    assert list(dict.fromkeys((line.x0, line.x1, line.y0, line.y1) for line in lines)) == between
    assert [(name.text, name.x) for name in figure.layout.annotations] == [("a", 0.5), ("b", 2.5), ("c", 4.5)]


def test_borders_are_seen_on_both_backgrounds_and_on_every_cell(bordered):
    backgrounds = BACKGROUNDS.values()
    cells = [
        hexadecimal(colour)
        for scale in (SEQUENTIAL, DIVERGING, DIVERGING_ON_DARK)
        for colour in sample_colorscale(scale, np.linspace(0, 1, 101))
    ]
    frame, *lines = bordered.layout.shapes
    for ground in backgrounds:
        assert contrast(frame.line.color, ground) >= 3
    drawn = {}
    for line in lines:
        drawn.setdefault((line.x0, line.x1, line.y0, line.y1), set()).add(line.line.color)
    for colours in drawn.values():
        for ground in (*backgrounds, *cells):
            assert max(contrast(colour, ground) for colour in colours) >= 3, ground


@pytest.mark.parametrize(("query", "key"), [("read", "read"), ("written", "written"), ("written", "read")])
def test_arrows_start_at_the_text_that_gives(query, key):
    figure = wiring(query, key, causal=False).figure
    arrows = [note for note in figure.layout.annotations if note.showarrow]
    letters = [note.text for note in figure.layout.annotations if note.text in ("<b>Q</b>", "<b>K</b>", "<b>V</b>")]
    origins = {
        letter: min(HEIGHTS, key=lambda text: abs(HEIGHTS[text] - arrow.ay))
        for letter, arrow in zip(letters, arrows, strict=True)
    }
    assert origins == {"<b>K</b>": key, "<b>V</b>": key, "<b>Q</b>": query}
