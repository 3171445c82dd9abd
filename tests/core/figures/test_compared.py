"""Three pictures of two heads: the same axes, the same colours, and gaps that look like nothing else."""

import numpy as np
import pytest

from core.attention.head import Head
from core.attention.masks import causal, grid
from core.attention.trace import attend
from core.figures.heatmaps.compared import ComparedAxis, compared_heatmaps, strongest_colours
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.heads.comparing import HeadPair, align

TOKENS, OTHERS = ("the", "<b>", "$x$", "cat"), ("the", "new", "<b>", "$y$", "cat", "too")


def made(count, seed, sinks=None):
    rng = np.random.default_rng(seed)
    inputs = (rng.normal(size=(count, 4)) for _ in range(3))
    return Head.of(attend(*inputs, mask=grid(causal, count, count), sinks=sinks))


@pytest.fixture
def figures():
    axis = align(TOKENS, OTHERS)
    found = HeadPair.of(made(4, 0), made(6, 1, sinks=2.0), queries=axis, keys=axis).overview()
    pictures = found.matrices
    assert axis.gaps == ([1, 5], [])
    gaps = {"first": [1, 5], "second": [], "difference": [1, 5]}
    labels = axis.labels(TOKENS, OTHERS)
    side = ComparedAxis({"first": labels.first, "second": labels.second, "difference": labels.both}, gaps, 2)
    charts = compared_heatmaps(
        pictures,
        side,
        side,
        divergence=found.row_numbers["divergence"],
        limits=strongest_colours(pictures),
        height=300,
        width=300,
    )
    return found, {part: chart.figure for part, chart in charts.items()}


def hatching(figure):
    return [trace for trace in figure.data if trace.type == "scatter" and trace.fill == "toself"]


def test_both_weights_have_one_scale_and_the_difference_is_around_0(figures):
    found, drawn = figures
    first, second, difference = (drawn[part].data[0] for part in ("first", "second", "difference"))
    each = [np.nanmax(part.values) for part in (found.matrices["first"], found.matrices["second"])]
    assert each[0] > each[1] + 0.1
    assert (first.zmin, second.zmin) == (0, 0)
    assert first.zmax == second.zmax == pytest.approx(each[0])
    assert difference.zmax == -difference.zmin == pytest.approx(np.nanmax(np.abs(found.matrices["difference"].values)))
    np.testing.assert_array_equal(difference.z, found.matrices["difference"].values.astype(np.float32))


def test_cells_are_at_one_place(figures):
    _, drawn = figures
    layouts = [figure.layout for figure in drawn.values()]
    places = [(layout.margin.l, layout.margin.t, layout.margin.b, layout.height) for layout in layouts]
    assert places[0] == places[1] == places[2]


def test_each_picture_has_the_tokens_of_its_own_text(figures):
    _, drawn = figures
    dollars = {"first": "&#36;x&#36;", "second": "&#36;y&#36;", "difference": "&#36;x&#36; / &#36;y&#36;"}
    for part, figure in drawn.items():
        for axis in (figure.layout.xaxis, figure.layout.yaxis):
            assert [text.replace("<b>", "").replace("</b>", "") for text in axis.ticktext] == [
                *("the", "new", "&lt;b&gt;", dollars[part], "cat", "too")
            ]


def test_gaps_are_hatched_where_they_are_and_named(figures):
    _, drawn = figures
    assert not hatching(drawn["second"])
    for part, name in (("first", "not in this text"), ("difference", "in one text only")):
        (hatched,) = hatching(drawn[part])
        assert hatched.name == name
        assert hatched.fillpattern.shape == "/"
        boxes = np.array([place if place is not None else np.nan for place in hatched.y]).reshape(-1, 5)[:, :4]
        assert [(box.min(), box.max()) for box in boxes] == [(0.5, 1.5), (4.5, 5.5), (-0.5, 5.5), (-0.5, 5.5)]
        numbers = drawn[part].data[0].z
        assert np.isnan(numbers[[1, 5]]).all()
        assert np.isnan(numbers[:, [1, 5]]).all()
        grey = next(trace for trace in drawn[part].data[1:] if trace.type == "heatmap").z
        assert np.isnan(grey[[1, 5]]).all()  # not masked


def test_pointing_at_a_row_tells_its_divergence(figures):
    found, drawn = figures
    names = drawn["difference"].layout.yaxis2.ticktext
    assert f"divergence {found.row_numbers['divergence'][2]:.3f} nats" in names[2]
    assert "divergence" not in names[1]
    assert "&lt;b&gt;" in names[2]


def test_neighbouring_gaps_are_one_box():
    figure = heatmap(
        np.zeros((5, 4)), Axis("query", gaps=[0, 1, 2, 4]), Axis("key"), name="weight", scale="share"
    ).figure
    (hatched,) = hatching(figure)
    assert list(hatched.y) == [-0.5, -0.5, 2.5, 2.5, None, 3.5, 3.5, 4.5, 4.5, None]
    assert figure.layout.showlegend
