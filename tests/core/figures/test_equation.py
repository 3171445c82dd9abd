"""The equation as a picture: every matrix number for number, the pinned pair running through all of them."""

import json

import numpy as np
import pytest

from core.attention.head import Head
from core.attention.masks import causal
from core.attention.trace import attend
from core.figures.heatmaps.side_by_side import MAX_CELLS, TERMS, equation

QUERY, KEY = 4, 2


def trace_of(queries, keys, **options):
    rng = np.random.default_rng(1)
    shapes = ((queries, 3), (keys, 3), (keys, 5))
    return attend(*(rng.normal(size=shape) for shape in shapes), **options)


def drawn(trace, pin=(QUERY, KEY), **options):
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
    shown = {heatmap.name: heatmap.z for heatmap in drawn(trace).data}
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


def test_the_pair_runs_through_all_of_them():
    figure = drawn(trace_of(6, 7))
    expected = {"query": ({QUERY}, set()), "key": (set(), {KEY}), "value": ({KEY}, set()), "output": ({QUERY}, set())}
    for place, key in enumerate(TERMS):
        assert framed(figure, place) == expected.get(key, ({QUERY}, {KEY})), key


def test_shapes_and_colour_ranges_are_said():
    trace = trace_of(6, 7)
    words = [note.text for note in drawn(trace).layout.annotations]
    assert f"6 × 7<br>±{np.abs(trace.raw).max():.3g}" in words
    assert "3 × 7<br>" in "".join(words)  # the key, turned
    assert f"6 × 7<br>0 to {trace.weights.max():.3g}" in words
    assert "6 × 7<br>all 0" in words
    assert "6 × 6<br>grey: −∞" in [note.text for note in drawn(trace_of(6, 6, mask=np.tri(6))).layout.annotations]


def test_a_long_text_is_bounded_and_loses_no_spike():
    head = Head.of(trace_of(1_000, 900)).changed(mask=causal)
    stages = head.overview().matrices
    figure = equation(stages, pin=(700, 30), opened="raw", scale=head.scale).figure
    for heatmap in figure.data:
        assert max(heatmap.z.shape) <= MAX_CELLS
        one = stages[heatmap.name]
        if heatmap.name != "mask":
            assert np.nanmax(np.abs(heatmap.z)) == pytest.approx(np.nanmax(np.abs(one.values)))
    assert "1,000<br>× 900<br>" in "".join(note.text for note in figure.layout.annotations)
    raw = list(TERMS).index("raw")
    rows, columns = figure.data[raw].z.shape
    assert framed(figure, raw) == ({700 // (1_000 // rows + 1)}, {30 // (900 // columns + 1)})
    assert len(json.dumps(figure.to_plotly_json(), default=lambda array: array.tolist())) < 500_000
