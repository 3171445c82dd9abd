"""The charts of the lessons on softmax, masks and blocks: what is drawn, what is written, and what stays empty."""

import numpy as np
import pytest

from core.attention import masks as m
from core.figures.heatmaps.additive import additive_mask
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.plots.bars import AROUND, NUMBER, Mark, bar_panels, bars, log_bars
from core.figures.plots.running import running


@pytest.mark.parametrize("values", [[1.0, 2.0], [-1.0, -2.0], [-1.0, 2.0], [0.0, 0.0]])
def test_bars_leave_room_for_their_numbers(values):
    height = 200
    low, high = bars(["a", "b"], {"x": values}, y="y", height=height).figure.layout.yaxis.range
    pixel = (high - low) / (height - AROUND)
    # Under a bar downwards there has to be as much as above one upwards.
    beyond = [min(values) - low] * (min(values) < 0) + [high - max(values)] * (max(values) > 0)
    assert all(room >= 0.99 * NUMBER * pixel for room in beyond)
    assert low < min(values) if min(values) < 0 else low == 0
    assert high > max(values) if max(values) > 0 or min(values) == 0 else high == 0
    assert np.isfinite([low, high]).all()


def test_panels_share_their_range():
    figure = bar_panels(["a", "a"], {"one": [1, 2], "two": [-3, 0]}, x="score").figure
    assert figure.layout.yaxis.range == figure.layout.yaxis2.range
    assert [note.text for note in figure.layout.annotations] == ["one", "two"]


def test_logarithmic_bars_write_zero_and_leave_nan_empty():
    figure = log_bars(["a", "b", "c"], {"error": [1e-3, 0, np.nan]}, x="error", limits=(1e-6, 1)).figure
    assert figure.data[0].text == ("0.001", "0", "")
    assert figure.data[0].x == (1e-3, 1e-6, None)


def test_a_mark_stands_at_its_value():
    figure = log_bars(["a"], {"reach": [10.0]}, x="x", limits=(1, 1000), marks=[Mark("here", 100.0)]).figure
    assert figure.layout.shapes[0].x0 == 100
    assert figure.layout.annotations[0].x == pytest.approx(2)
    assert figure.layout.annotations[0].xanchor == "right"


def test_an_additive_mask_prints_what_it_adds():
    figure = additive_mask(m.additive(m.grid(m.causal, 3, 3)), list("abc"), list("abc")).figure
    written = {
        (row, column): text
        for trace in figure.data
        if getattr(trace, "mode", None) == "text"
        for row, column, text in zip(trace.y.tolist(), trace.x.tolist(), trace.text, strict=True)
    }
    assert "−∞" in written[0, 1]
    assert "0" in written[1, 0]
    assert figure.layout.meta["rows"] == "query"
    large = additive_mask(np.zeros((20, 20)), ["a"] * 20, ["a"] * 20).figure
    assert not [trace for trace in large.data if getattr(trace, "mode", None) == "text"]


def test_a_matrix_without_mask_still_shows_its_labels():
    figure = heatmap(np.eye(2), Axis("query", "ab"), Axis("key", "ab"), name="weight").figure
    assert any((trace.xaxis or "x") == "x" for trace in figure.data)


def test_running_scores_leave_masked_keys_empty():
    figure = running(np.array([1.0, -np.inf, 2.0]), list("abc"), [2, 3], [1.0, 2.0]).figure
    assert np.isnan(figure.data[0].y[1])
    assert figure.data[1].x.tolist() == [-0.5, 1.5, 2.5]
    assert list(figure.data[1].y) == [1, 2, 2]
