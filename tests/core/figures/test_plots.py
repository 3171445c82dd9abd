"""Plots: what is drawn, what is written, what is marked, and what stays empty."""

import numpy as np
import pytest

from core import attend, explain
from core.attention.masks import causal, grid
from core.figures.plots.bars import AROUND, NUMBER, Mark, bar_panels, bars, log_bars, passed_on, running, waterfall
from core.figures.plots.diagrams import HEIGHTS, plane, wiring
from core.figures.plots.dots import dots, dots_against
from core.figures.plots.lines import Series, label_log_axes, lines


@pytest.mark.parametrize("values", [[1.0, 2.0], [-1.0, -2.0], [-1.0, 2.0], [0.0, 0.0]])
def test_bars_leave_room_for_their_numbers(values):
    height = 200
    low, high = bars(["a", "b"], {"x": values}, y="y", height=height).layout["yaxis"]["range"]
    pixel = (high - low) / (height - AROUND)
    # Under a bar downwards there has to be as much as above one upwards.
    beyond = [min(values) - low] * (min(values) < 0) + [high - max(values)] * (max(values) > 0)
    assert all(room >= 0.99 * NUMBER * pixel for room in beyond)
    assert low < min(values) if min(values) < 0 else low == 0
    assert high > max(values) if max(values) > 0 or min(values) == 0 else high == 0
    assert np.isfinite([low, high]).all()


def test_panels_share_their_range_and_running_scores_leave_masked_keys_empty():
    layout = bar_panels(["a", "a"], {"one": [1, 2], "two": [-3, 0]}, x="score").figure.layout
    assert layout.yaxis.range == layout.yaxis2.range
    assert [note.text for note in layout.annotations] == ["one", "two"]
    figure = running(np.array([1.0, -np.inf, 2.0]), list("abc"), [2, 3], [1.0, 2.0]).figure
    assert np.isnan(figure.data[0].y[1])
    assert figure.data[1].x.tolist() == [-0.5, 1.5, 2.5]
    assert list(figure.data[1].y) == [1, 2, 2]


def test_logarithmic_bars_write_zero_leave_nan_empty_and_have_marks_at_their_values():
    errors = {"error": [1e-3, 0, np.nan]}
    figure = log_bars(["a", "b", "c"], errors, x="error", limits=(1e-6, 1), marks=[Mark("here", 0.1)]).figure
    assert figure.data[0].text == ("0.001", "0", "")
    assert figure.data[0].x == (1e-3, 1e-6, None)
    assert figure.layout.shapes[0].x0 == 0.1
    assert figure.layout.annotations[0].x == pytest.approx(-1)
    assert figure.layout.annotations[0].xanchor == "right"


@pytest.fixture
def trace():
    rng = np.random.default_rng(0)
    return attend(*(rng.normal(size=(6, 4)) for _ in range(3)), mask=grid(causal, 6, 6))


def test_the_waterfall_ends_where_the_ledger_does_and_that_of_a_forbidden_cell_has_no_infinity(trace):
    cell = explain(trace, 4, 2)
    drawn, share = waterfall(cell).figure.data
    np.testing.assert_array_equal(drawn.y[:4], cell.products)
    named = dict(zip(drawn.customdata, zip(drawn.y, drawn.measure, strict=True), strict=True))
    for name, number in {"q·k": cell.raw, "score": cell.masked, "shifted": cell.shifted}.items():
        assert named[name] == (number, "total")
    # The relative steps between two totals lead from one to the other.
    assert np.sum(drawn.y[:4]) == pytest.approx(cell.raw)
    assert cell.raw + named["× scale"][0] == pytest.approx(cell.masked)
    assert cell.masked + named["− row max"][0] == pytest.approx(cell.shifted)
    assert list(share.y) == [cell.exponential, cell.weight]
    cell = explain(trace, 1, 5)
    drawn, share = waterfall(cell).figure.data
    assert np.isfinite(drawn.y).all()
    assert "shifted" not in drawn.customdata
    assert list(share.y) == [0, 0]
    assert not passed_on(cell).figure.data[1].y.any()


GROUPS = {"unscaled": np.arange(6.0).reshape(2, 3) + 8, "scaled": np.arange(6.0).reshape(2, 3)}


def test_every_head_is_a_dot_above_its_layer():
    figure = dots(GROUPS, y="spread", marked=(1, 2)).figure
    for trace, values in zip(figure.data, GROUPS.values(), strict=True):
        assert [values[layer][head] for layer, head in trace.customdata] == list(trace.y)
        np.testing.assert_array_equal(np.round(trace.x), np.array(trace.customdata)[:, 0])
        (marked,) = np.flatnonzero(trace.marker.line.width)
        assert list(trace.customdata[marked]) == [1, 2]
    assert not set(figure.data[0].x) & set(figure.data[1].x)
    with_theory = dots(GROUPS, y="spread", levels={"scaled": 1.0}).figure.data
    (line,) = (trace for trace in with_theory if trace.mode == "lines")
    assert (set(line.y), line.line.color) == ({1.0}, figure.data[1].marker.color)
    assert not any(np.any(trace.marker.line.width) for trace in with_theory if trace is not line)


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


@pytest.mark.parametrize(("log_x", "log_y"), [(True, True), (True, False), (False, True)])
def test_only_logarithmic_axes_are_labelled(log_x, log_y):
    chart = lines([Series("a", [1, 4096], [1, 64])], x="d_k", y="spread", log_x=log_x, log_y=log_y)
    label_log_axes(chart.layout, x=(1, 64, 4096))
    assert chart.layout["xaxis"].get("ticktext") == (["1", "64", "4,096"] if log_x else None)
    y_axis = chart.layout["yaxis"]
    assert ("ticktext" in y_axis) == log_y
    assert not log_y or dict(zip(y_axis["ticktext"], y_axis["tickvals"], strict=True))["30"] == 30


KEYS = np.array([[1.0, 0.5], [-2.0, 0.25]])
VALUES = np.array([[3.0, 3.0], [-3.0, 3.0], [3.0, -3.0], [-3.0, -3.0]])


def drawn_plane(**more):
    """(layout, traces by name, all traces)"""
    figure = plane([0.5, 2.0], KEYS, "<b>", ("the", "the"), np.array([1.5, -0.5]), **more).figure
    return figure.layout, {trace.name: trace for trace in figure.data if trace.name}, figure.data


def arrows(trace):
    """(start, tip) of each; only tips have a head, and no line joins two arrows."""
    points = [*zip(trace.x, trace.y, strict=True)]
    assert all(np.isnan(points[place]).all() for place in range(2, len(points), 3))
    assert [size > 0 for size in trace.marker.size] == [False, True, False] * (len(points) // 3)
    return [*zip(points[::3], points[1::3], strict=True)]


def test_every_arrow_goes_from_0_to_its_vector_and_the_area_has_all_values_as_corners():
    layout, named, traces = drawn_plane(labelled=[1])
    assert arrows(named["key"]) == [((0, 0), (1, 0.5)), ((0, 0), (-2, 0.25))]
    assert arrows(named["query"]) == [((0, 0), (0.5, 2))]
    assert layout.yaxis.scaleanchor == "x"
    names = [trace.text for trace in traces if trace.mode == "text"]
    assert names == [("", "<i>k</i> the"), ("<b><i>q</i> &lt;b&gt;</b>",)]
    layout, named, traces = drawn_plane(values=VALUES)
    area = next(trace for trace in traces if trace.fill == "toself")
    corners = np.column_stack([area.x, area.y])
    assert {tuple(corner) for corner in corners} == {tuple(value) for value in VALUES}
    assert np.abs(np.diff(corners, axis=0)).sum(axis=1).tolist() == [6] * 4  # no diagonal
    assert named["value"].marker.symbol == "square"
    for axis in (layout.xaxis, layout.yaxis):
        assert axis.range[0] < -3
        assert axis.range[1] > 3
    figure = plane([1.0, 0.0], np.array([[np.nan, np.nan], [0.0, 1.0]]), "q", ("a", "b"), np.zeros(2)).figure
    assert arrows(next(trace for trace in figure.data if trace.name == "key")) == [((0, 0), (0, 1))]
    assert np.isfinite(figure.layout.xaxis.range).all()


@pytest.mark.parametrize(("query", "key"), [("read", "read"), ("written", "written"), ("written", "read")])
def test_arrows_start_at_the_text_that_gives(query, key):
    figure = wiring(query, key, causal=False).figure
    notes = [note.text for note in figure.layout.annotations]
    assert all(f"<b>{letter}</b>" in notes for letter in "QKV")
    heights = {trace.name: arrows(trace)[0][0][1] for trace in figure.data}
    starts = {name: min(HEIGHTS, key=lambda text: abs(HEIGHTS[text] - heights[name])) for name in heights}
    assert starts == {"K": key, "V": key, "Q": query}
