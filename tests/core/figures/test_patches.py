"""Attention over an image: whose colours, in what place, in what proportions."""

import base64
import io

import numpy as np
import plotly.graph_objects as go
import pytest
from PIL import Image

from core.figures.heatmaps.patches import on_image

WEIGHTS = np.arange(6.0).reshape(2, 3) / 15


def image(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def drawn(**options) -> go.Figure:
    return on_image(options.pop("image", image(40, 90)), options.pop("values", WEIGHTS), (1, 2), **options).figure


def opacity(figure: go.Figure) -> list[float]:
    return [float(colour.rpartition(",")[2].rstrip(")")) for _, colour in figure.data[0].colorscale]


def test_every_patch_has_its_number_and_the_one_that_looks_a_frame():
    figure = drawn()
    np.testing.assert_allclose(figure.data[0].z, WEIGHTS, rtol=1e-6)
    (frame,) = figure.layout.shapes
    assert (frame.y0, frame.y1, frame.x0, frame.x1) == (0.5, 1.5, 1.5, 2.5)
    assert not on_image(image(4, 4), WEIGHTS, None).figure.layout.shapes
    *_, region = drawn(region=(range(2), range(1, 3))).layout.shapes
    assert (region.y0, region.y1, region.x0, region.x1) == (-0.5, 1.5, 0.5, 2.5)


@pytest.mark.parametrize(("height", "width"), [(40, 90), (90, 40), (64, 64)])
def test_the_image_keeps_its_proportions(height, width):
    layout = drawn(image=image(height, width)).layout
    assert 2 * layout.yaxis.scaleratio / 3 == pytest.approx(height / width)  # 2 rows, 3 columns
    assert layout.height <= 576
    (placed,) = layout.images
    assert (placed.x, placed.y, placed.sizex, placed.sizey) == (
        -0.5,
        -0.5,
        3,
        2,
    )  # from the first patch's corner to the last's


def test_colours_hide_more_of_the_image_the_larger_the_number():
    from_zero = opacity(drawn())
    assert from_zero == sorted(from_zero)
    assert 0 < from_zero[0] < 0.1
    assert 0.7 < from_zero[-1] < 0.9
    both_ways = opacity(drawn(signed=True))
    assert both_ways == both_ways[::-1]
    assert min(both_ways) == both_ways[len(both_ways) // 2] < 0.1


def test_the_image_is_grey_so_that_every_colour_is_a_number():
    source = drawn().layout.images[0].source
    shown = Image.open(io.BytesIO(base64.b64decode(source.partition(",")[2])))
    np.testing.assert_array_equal(np.asarray(shown), np.asarray(Image.fromarray(image(40, 90)).convert("L")))


def test_scores_are_drawn_around_zero():
    figure = drawn(values=WEIGHTS - 0.3, signed=True)
    assert figure.data[0].zmin == -figure.data[0].zmax == pytest.approx(-0.3)


def test_a_patch_that_is_left_out_stays_bare():
    values = WEIGHTS.copy()
    values[0, 1] = np.nan
    figure = drawn(values=values)
    assert np.isnan(figure.data[0].z[0, 1])
    assert figure.data[0].zmax == pytest.approx(WEIGHTS.max())
    assert drawn(values=np.full((2, 3), np.nan)).data[0].zmax == 1


def test_the_image_is_larger_than_its_patches_where_its_edges_are_cut_and_smaller_where_it_is_padded():
    """2 rows and 3 columns of patches on the middle half of the width, and on twice the height."""
    layout = on_image(image(40, 90), WEIGHTS, None, area=(0.25, -0.5, 0.75, 1.5)).figure.layout
    (shown,) = layout.images
    assert (shown.x, shown.sizex) == (-0.5 - 1.5, 6)
    assert (shown.y, shown.sizey) == (-0.5 + 0.5, 1)
    assert (layout.xaxis.range, layout.yaxis.range) == ((-2, 4), (1.5, -0.5))
    assert layout.yaxis.scaleratio == pytest.approx(40 / (90 / 6))
