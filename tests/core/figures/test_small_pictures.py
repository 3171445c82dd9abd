"""Small pictures: several matrices in one, the equation, borders between parts, and the patches of an image."""

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image
from plotly.colors import sample_colorscale

from core.attention.head import Head
from core.attention.masks import causal
from core.attention.trace import attend
from core.figures.heatmaps.frames import with_borders
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.heatmaps.side_by_side import MAX_CELLS, TERMS, equation, side_by_side, small
from core.figures.heatmaps.views import on_image
from core.figures.palette import DIVERGING, DIVERGING_ON_DARK, FORBIDDEN, SEQUENTIAL
from tests.contrast import BACKGROUNDS, contrast, hexadecimal

TOKENS = ("<b>", "$x$", " the", "the")


def four(count=3):
    rng = np.random.default_rng(0)
    return [rng.uniform(size=(4, 4)) * (which + 1) for which in range(count)]


def drawn(*matrices, across=2, **more):
    names = [str(at) for at in range(len(matrices))]
    return side_by_side([small(one) for one in matrices], names, TOKENS, TOKENS, across=across, **more).figure


def test_one_colour_range_for_all_tokens_are_text_and_masked_cells_are_grey():
    matrices = four()
    figure = drawn(*matrices)
    assert figure.layout.coloraxis.cmax == pytest.approx(max(matrix.max() for matrix in matrices))
    assert {trace.coloraxis for trace in figure.data} == {"coloraxis"}
    for trace, matrix in zip(figure.data, matrices, strict=True):
        np.testing.assert_allclose(trace.z, matrix)
    signed = drawn(*(-one for one in matrices), scale="signed").layout.coloraxis
    assert signed.cmin == -signed.cmax < 0
    figure = drawn(*four())
    assert figure.layout.yaxis.ticktext == ("&lt;b&gt;", "&#36;x&#36;", "·the", "the")
    assert list(figure.layout.yaxis.tickvals) == [0, 1, 2, 3]
    matrix, mask = np.full((4, 4), 0.25), np.tri(4, dtype=bool)
    figure = side_by_side([small(matrix, mask)], ["a"], TOKENS, TOKENS, across=1).figure
    np.testing.assert_array_equal(np.isnan(figure.data[0].z), ~mask)
    assert [trace.name for trace in figure.data if trace.type == "scatter"] == ["masked"]
    assert figure.layout.showlegend
    assert figure.layout.plot_bgcolor == FORBIDDEN
    assert not drawn(matrix).layout.showlegend


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


WEIGHTS = np.arange(6.0).reshape(2, 3) / 15


def image(height, width):
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def patches(**options):
    return on_image(options.pop("image", image(40, 90)), options.pop("values", WEIGHTS), (1, 2), **options).figure


def opacity(figure):
    return [float(colour.rpartition(",")[2].rstrip(")")) for _, colour in figure.data[0].colorscale]


def test_every_patch_has_its_number_unless_it_is_left_out_and_the_one_that_looks_a_frame():
    figure = patches()
    np.testing.assert_allclose(figure.data[0].z, WEIGHTS, rtol=1e-6)
    (frame,) = figure.layout.shapes
    assert (frame.y0, frame.y1, frame.x0, frame.x1) == (0.5, 1.5, 1.5, 2.5)
    assert not on_image(image(4, 4), WEIGHTS, None).figure.layout.shapes
    *_, region = patches(region=(range(2), range(1, 3))).layout.shapes
    assert (region.y0, region.y1, region.x0, region.x1) == (-0.5, 1.5, 0.5, 2.5)
    values = WEIGHTS.copy()
    values[0, 1] = np.nan
    figure = patches(values=values)
    assert np.isnan(figure.data[0].z[0, 1])
    assert figure.data[0].zmax == pytest.approx(WEIGHTS.max())
    assert patches(values=np.full((2, 3), np.nan)).data[0].zmax == 1


def test_the_image_is_grey_and_colours_hide_more_of_it_the_larger_the_number():
    from_zero = opacity(patches())
    assert from_zero == sorted(from_zero)
    assert 0 < from_zero[0] < 0.1
    assert 0.7 < from_zero[-1] < 0.9
    both_ways = opacity(patches(signed=True))
    assert both_ways == both_ways[::-1]
    assert min(both_ways) == both_ways[len(both_ways) // 2] < 0.1
    source = patches().layout.images[0].source
    shown = Image.open(io.BytesIO(base64.b64decode(source.partition(",")[2])))
    np.testing.assert_array_equal(np.asarray(shown), np.asarray(Image.fromarray(image(40, 90)).convert("L")))


def test_the_image_is_larger_than_its_patches_where_its_edges_are_cut_and_smaller_where_it_is_padded():
    """2 rows and 3 columns of patches on the middle half of the width, and on twice the height."""
    layout = on_image(image(40, 90), WEIGHTS, None, area=(0.25, -0.5, 0.75, 1.5)).figure.layout
    (shown,) = layout.images
    assert (shown.x, shown.sizex) == (-0.5 - 1.5, 6)
    assert (shown.y, shown.sizey) == (-0.5 + 0.5, 1)
    assert (layout.xaxis.range, layout.yaxis.range) == ((-2, 4), (1.5, -0.5))
    assert layout.yaxis.scaleratio == pytest.approx(40 / (90 / 6))
    for height, width in ((40, 90), (90, 40)):
        layout = patches(image=image(height, width)).layout
        assert 2 * layout.yaxis.scaleratio / 3 == pytest.approx(height / width)  # 2 rows, 3 columns
        assert layout.height <= 576
        (placed,) = layout.images  # from the first patch's corner to the last's
        assert (placed.x, placed.y, placed.sizex, placed.sizey) == (-0.5, -0.5, 3, 2)


QUERY, KEY = 4, 2


def trace_of(queries, keys, **options):
    rng = np.random.default_rng(1)
    shapes = ((queries, 3), (keys, 3), (keys, 5))
    return attend(*(rng.normal(size=shape) for shape in shapes), **options)


def line_of(trace, pin=(QUERY, KEY), **options):
    head = Head.of(trace)
    return equation(head.overview().matrices, pin=pin, scale=head.scale, **({"opened": "weights"} | options)).figure


def test_every_matrix_number_for_number():
    trace = trace_of(6, 7, mask=np.arange(42).reshape(6, 7) % 5 > 0)
    expected = {
        **{key: getattr(trace, key) for key in ("query", "raw", "scaled", "value", "output")},
        "key": trace.key.T,
        "mask": trace.mask.astype(float),
        **{key: np.where(trace.mask, getattr(trace, key), np.nan) for key in ("masked", "weights")},
    }
    shown = {picture.name: picture.z for picture in line_of(trace).data}
    assert list(shown) == list(TERMS)
    for key, values in expected.items():
        np.testing.assert_allclose(shown[key], values, rtol=1e-6, err_msg=key)


def framed(figure, place):
    """(rows, columns) that the frames of one small picture lie around, by their line width."""
    axis = "x" if place == 0 else f"x{place + 1}"
    lines = [shape for shape in figure.layout.shapes if shape.xref == axis and shape.line.color == "#e6007e"]
    rows = {(shape.y0 + shape.y1) / 2 for shape in lines if shape.y1 - shape.y0 == 1}
    columns = {(shape.x0 + shape.x1) / 2 for shape in lines if shape.x1 - shape.x0 == 1}
    return rows, columns


def test_the_pair_runs_through_all_of_them_and_shapes_and_colour_ranges_are_said():
    figure = line_of(trace_of(6, 7))
    expected = {"query": ({QUERY}, set()), "key": (set(), {KEY}), "value": ({KEY}, set()), "output": ({QUERY}, set())}
    for place, key in enumerate(TERMS):
        assert framed(figure, place) == expected.get(key, ({QUERY}, {KEY})), key
    trace = trace_of(6, 7)
    words = [note.text for note in line_of(trace).layout.annotations]
    assert f"6 × 7<br>±{np.abs(trace.raw).max():.3g}" in words
    assert "3 × 7<br>" in "".join(words)  # the key, turned
    assert f"6 × 7<br>0 to {trace.weights.max():.3g}" in words
    assert "6 × 7<br>all 0" in words
    assert "6 × 6<br>grey: −∞" in [note.text for note in line_of(trace_of(6, 6, mask=np.tri(6))).layout.annotations]


def test_a_long_text_is_bounded_and_loses_no_spike():
    head = Head.of(trace_of(1_000, 900)).changed(mask=causal)
    stages = head.overview().matrices
    figure = equation(stages, pin=(700, 30), opened="raw", scale=head.scale).figure
    for picture in figure.data:
        assert max(picture.z.shape) <= MAX_CELLS
        one = stages[picture.name]
        if picture.name != "mask":
            assert np.nanmax(np.abs(picture.z)) == pytest.approx(np.nanmax(np.abs(one.values)))
    assert "1,000<br>× 900<br>" in "".join(note.text for note in figure.layout.annotations)
    raw = list(TERMS).index("raw")
    rows, columns = figure.data[raw].z.shape
    assert framed(figure, raw) == ({700 // (1_000 // rows + 1)}, {30 // (900 // columns + 1)})
    assert len(json.dumps(figure.to_plotly_json(), default=lambda array: array.tolist())) < 500_000
