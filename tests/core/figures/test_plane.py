"""Arrows and points in a plane: where they are, what they are called, and that angles are what they look like."""

import numpy as np
import pytest

from core.figures.plots.plane import plane

KEYS = np.array([[1.0, 0.5], [-2.0, 0.25]])
VALUES = np.array([[3.0, 3.0], [-3.0, 3.0], [3.0, -3.0], [-3.0, -3.0]])


def drawn(**more):
    return plane([0.5, 2.0], KEYS, "<b>", ("the", "the"), np.array([1.5, -0.5]), **more).figure


def traces(figure):
    return {trace.name: trace for trace in figure.data if trace.name}


def test_every_arrow_goes_from_0_to_its_vector():
    arrows = drawn().layout.annotations
    assert [(arrow.ax, arrow.ay) for arrow in arrows] == [(0, 0)] * 3
    assert [(arrow.x, arrow.y) for arrow in arrows] == [(1, 0.5), (-2, 0.25), (0.5, 2)]
    assert drawn().layout.yaxis.scaleanchor == "x"


def test_everything_lies_within_the_axes():
    layout = drawn(values=VALUES).layout
    for axis in (layout.xaxis, layout.yaxis):
        assert axis.range[0] < -3
        assert axis.range[1] > 3


def test_names_are_text_and_only_those_asked_for_are_written():
    names = [trace.text for trace in drawn(labelled=[1]).data if trace.mode == "text"]
    assert names == [("", "<i>k</i> the"), ("<b><i>q</i> &lt;b&gt;</b>",)]


def test_the_area_has_all_values_as_corners_in_one_round():
    area = next(trace for trace in drawn(values=VALUES).data if trace.fill == "toself")
    corners = np.column_stack([area.x, area.y])
    assert {tuple(corner) for corner in corners} == {tuple(value) for value in VALUES}
    sides = np.diff(corners, axis=0)
    assert np.abs(sides).sum(axis=1).tolist() == [6] * 4  # no diagonal
    assert traces(drawn(values=VALUES))["value"].marker.symbol == "square"


def test_of_two_outputs_the_first_is_hollow():
    points = {"output before": np.array([1.0, 2.0]), "output after": np.array([2.0, 1.0])}
    found = traces(drawn(outputs=points))
    assert [found[name].marker.symbol for name in points] == ["diamond-open", "diamond"]
    assert [(found[name].x[0], found[name].y[0]) for name in points] == [(1, 2), (2, 1)]


def test_a_key_without_direction_is_left_out():
    chart = plane([1.0, 0.0], np.array([[np.nan, np.nan], [0.0, 1.0]]), "q", ("a", "b"), np.array([0.0, 0.0]))
    assert len(chart.figure.layout.annotations) == 2
    assert np.isfinite(chart.figure.layout.xaxis.range).all()


@pytest.mark.parametrize("count", [0, 2])
def test_it_is_described_by_its_scores(count):
    chart = plane([1.0, 0.0], KEYS[:count], "q", ("the", "cat")[:count], np.array([1.5, -0.5])[:count])
    said = "Largest: key the: 1.5; smallest: key cat: −0.5." if count else "No numbers."
    assert chart.description == said
