"""Every head is one dot at its own value, the chosen one is marked, and logarithmic axes carry whole numbers."""

import numpy as np
import pytest

from core.figures.plots.dots import dots, dots_against
from core.figures.plots.lines import Series, label_log_axes, lines

GROUPS = {"unscaled": np.arange(6.0).reshape(2, 3) + 8, "scaled": np.arange(6.0).reshape(2, 3)}


def test_every_head_is_a_dot_above_its_layer():
    figure = dots(GROUPS, y="spread", marked=(1, 2)).figure
    for trace, values in zip(figure.data, GROUPS.values(), strict=True):
        assert [values[layer][head] for layer, head in trace.customdata] == list(trace.y)
        np.testing.assert_array_equal(np.round(trace.x), np.array(trace.customdata)[:, 0])
        (marked,) = np.flatnonzero(trace.marker.line.width)
        assert list(trace.customdata[marked]) == [1, 2]
    assert not set(figure.data[0].x) & set(figure.data[1].x)
    assert not any(np.any(trace.marker.line.width) for trace in dots(GROUPS, y="spread").figure.data)


def test_heads_by_two_numbers():
    across, along = GROUPS["scaled"], -(GROUPS["scaled"] ** 2)
    along[0, 1] = np.nan
    chart = dots_against(across, along, names=("direct", "effect"), marked=(0, 2))
    (trace,) = chart.figure.data
    heads = [tuple(head) for head in trace.customdata]
    assert (0, 1) not in heads
    assert len(heads) == 5
    for head, x, y, text in zip(heads, trace.x, trace.y, trace.text, strict=True):
        assert (x, y) == (across[head], along[head])
        assert text == ("{}.{}".format(*head) if x > 2 or head == (0, 2) else "")
    assert [heads[place] for place in np.flatnonzero(trace.marker.line.width)] == [(0, 2)]
    assert chart.layout["meta"]["map"]["places"] == [[*head, across[head], along[head]] for head in heads]
    assert "direct: largest: layer 1, head 2: 5;" in chart.description
    assert "effect: largest: layer 0, head 0: −0; smallest: layer 1, head 2: −25." in chart.description


def test_theory_has_the_colour_of_its_group():
    figure = dots(GROUPS, y="spread", levels={"scaled": 1.0}).figure
    (line,) = (trace for trace in figure.data if trace.mode == "lines")
    assert set(line.y) == {1.0}
    assert line.line.color == figure.data[1].marker.color


@pytest.mark.parametrize(("log_x", "log_y"), [(True, True), (True, False), (False, True)])
def test_only_logarithmic_axes_are_labelled(log_x, log_y):
    chart = lines([Series("a", [1, 4096], [1, 64])], x="d_k", y="spread", log_x=log_x, log_y=log_y)
    label_log_axes(chart.layout, x=(1, 64, 4096))
    layout = chart.figure.layout
    assert layout.xaxis.ticktext == (("1", "64", "4,096") if log_x else None)
    assert (layout.yaxis.ticktext is not None) == log_y
    if log_y:
        assert dict(zip(layout.yaxis.ticktext, layout.yaxis.tickvals, strict=True))["30"] == 30
