"""What a heatmap holds: the very numbers, in their places, with forbidden pairs told apart and markup made harmless."""

import html

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.attention.head import Head
from core.attention.masks import causal, grid
from core.attention.stages import BY_KEY, STAGES
from core.attention.trace import attend
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.heatmaps.views import colour_limit, compared_heatmaps, stage_heatmap, strongest_colours
from core.figures.labels import escaped, thinned, visible
from core.figures.palette import FORBIDDEN
from core.heads.comparing import HeadPair, align

TOKENS = ("the", " cat", "the", "<b>x</b>", "\n", "$x$ & y")


@pytest.fixture
def trace():
    rng = np.random.default_rng(0)
    return attend(*(rng.normal(size=(6, 4)) for _ in range(3)), mask=grid(causal, 6, 6))


def printed(figure):
    return [trace for trace in figure.data if getattr(trace, "mode", None) == "text"]


def drawn_stage(stage, trace, query_tokens, key_tokens, **options):
    return stage_heatmap(stage, Head.of(trace).overview().matrices, query_tokens, key_tokens, **options).figure


@pytest.mark.parametrize("key", [stage.key for stage in STAGES if stage.scale != "permission"])
def test_a_stage_is_drawn_number_for_number(key, trace):
    stage = BY_KEY[key]
    drawn = drawn_stage(stage, trace, TOKENS, TOKENS, pin=(3, 1)).data[0]
    expected = stage.values(trace)
    finite = np.isfinite(expected) & (trace.mask if stage.key in ("masked", "weights") else True)
    np.testing.assert_array_equal(drawn.z[finite], expected[finite])
    assert np.isnan(drawn.z[~finite]).all()
    np.testing.assert_array_equal(drawn.x, np.arange(expected.shape[1]))
    np.testing.assert_array_equal(drawn.y, np.arange(expected.shape[0]))


def test_masked_cells_are_grey_and_in_the_legend_and_a_weight_of_zero_is_a_number(trace):
    figure = drawn_stage(BY_KEY["weights"], trace, TOKENS, TOKENS, pin=(3, 1))
    grey = figure.data[1]
    np.testing.assert_array_equal(grey.z == 0, ~trace.mask)
    assert grey.colorscale[0][1] == FORBIDDEN
    for key, names in (("weights", ["masked"]), ("mask", ["masked", "may attend"])):
        entries = drawn_stage(BY_KEY[key], trace, TOKENS, TOKENS, pin=(3, 1)).data
        assert [entry.name for entry in entries if entry.showlegend is not False and entry.type == "scatter"] == names
    # Before the mask every pair has a score, so nothing is grey.
    cells, _numbers = drawn_stage(BY_KEY["raw"], trace, TOKENS, TOKENS, pin=(3, 1)).data
    assert np.isfinite(cells.z).all()
    trace = attend([[1000.0]], [[1.0], [-1.0]], [[1.0], [1.0]], scale=1.0)
    drawn = drawn_stage(BY_KEY["weights"], trace, ("q",), ("a", "b"), pin=(0, 0)).data[0]
    assert drawn.z.tolist() == [[1.0, 0.0]]


def test_tokens_cannot_be_markup_and_have_rows_and_columns_of_their_own_and_the_pin_is_a_frame(trace):
    figure = drawn_stage(BY_KEY["weights"], trace, TOKENS, TOKENS, pin=(0, 1))
    assert list(figure.layout.xaxis.tickvals) == list(range(6))
    assert figure.layout.yaxis2.ticktext[0:3:2] == ("the (0)", "the (2)")
    texts = list(figure.layout.xaxis.ticktext)
    assert texts == ["the", "<b>·cat</b>", "the", "&lt;b&gt;x&lt;/b&gt;", "⏎", "&#36;x&#36; &amp; y"]
    shapes = drawn_stage(BY_KEY["weights"], trace, TOKENS, TOKENS, pin=(3, 1)).layout.shapes
    thick = max(shapes, key=lambda shape: shape.line.width)
    assert (thick.y0, thick.y1, thick.x0, thick.x1) == (2.5, 3.5, 0.5, 1.5)
    rows_only = drawn_stage(BY_KEY["query"], trace, TOKENS, TOKENS, pin=(3, 1)).layout.shapes
    assert [(shape.y0, shape.y1) for shape in rows_only] == [(2.5, 3.5)]


def test_scales(trace):
    signed = drawn_stage(BY_KEY["raw"], trace, TOKENS, TOKENS, pin=(0, 0)).data[0]
    assert signed.zmin == -signed.zmax
    assert signed.zmax == np.abs(trace.raw).max()
    share = drawn_stage(BY_KEY["weights"], trace, TOKENS, TOKENS, pin=(0, 0)).data[0]
    assert (share.zmin, share.zmax) == (0, trace.weights.max())
    assert signed.showscale is not False
    other = trace.changed(scale=1.0)
    limit = colour_limit(BY_KEY["scaled"], *(Head.of(one).overview().matrices["scaled"] for one in (trace, other)))
    assert limit == np.abs(other.scaled).max()
    assert drawn_stage(BY_KEY["scaled"], trace, TOKENS, TOKENS, pin=(0, 0), limit=limit).data[0].zmax == limit
    nothing = heatmap(np.zeros((2, 2)), Axis("query"), Axis("key"), name="score").figure.data[0]
    assert (nothing.zmin, nothing.zmax) == (-1, 1)
    small = heatmap(trace.weights, Axis("query"), Axis("key"), name="weight", scale="share", compact=True).figure.data[
        0
    ]
    assert small.colorbar.tickvals == (0, small.zmax / 2, small.zmax)


def test_long_texts_are_bounded_and_lose_no_spike():
    n = 2_000
    values = np.full((n, n), 1e-6)
    values[1_234, 567] = 0.9
    sides = Axis("query", ["t"] * n, 1_234), Axis("key", ["t"] * n, 567)
    figure = heatmap(values, *sides, name="weight", scale="share", hover=("x", values)).figure
    drawn = figure.data[0]
    assert max(drawn.z.shape) <= 256
    assert "strongest of 8 × 8 cells" in drawn.hovertemplate
    row, column = np.unravel_index(drawn.z.argmax(), drawn.z.shape)
    assert drawn.z.max() == 0.9
    assert abs(drawn.y[row] - 1_234) < 8
    assert abs(drawn.x[column] - 567) < 8
    assert figure.layout.meta["row_block"] == 8
    assert len(figure.layout.xaxis.tickvals) <= 42
    assert 567 in figure.layout.xaxis.tickvals
    assert len(figure.to_json()) < 1_500_000


@pytest.mark.parametrize("size", [210, 240, 270, 330, 480, 560, 900])
@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("count", [31, 200])
def test_labels_have_room(size, compact, count):
    forbidden = np.tri(count, dtype=bool)  # with a legend, which leaves the least room
    sides = (Axis(name, ["token"] * count, count // 3) for name in ("query", "key"))
    look = {"forbidden": forbidden, "width": size, "height": size, "compact": compact}
    layout = heatmap(np.ones((count, count)), *sides, name="w", **look).figure.layout
    margin, slanted = layout.margin, np.sin(np.pi / 4)  # lines of text at 45 degrees, one above the other
    rooms = (layout.xaxis, (size - margin.l - margin.r) * slanted), (layout.yaxis, size - margin.t - margin.b)
    for axis, room in rooms:
        assert count // 3 in axis.tickvals
        assert len(axis.tickvals) == 1 or min(np.diff(axis.tickvals)) * room / count >= axis.tickfont.size


def test_each_token_of_a_short_text_has_its_label():
    sides = (Axis(name, ["token"] * 30, 10) for name in ("query", "key"))
    layout = heatmap(np.ones((30, 30)), *sides, name="w", width=210, height=210).figure.layout
    assert list(layout.xaxis.tickvals) == list(layout.yaxis.tickvals) == list(range(30))
    assert (layout.height - layout.margin.t - layout.margin.b) / 30 >= 10 - 0.1  # pixels a row


def test_small_matrices_print_their_numbers(trace):
    (numbers,) = printed(drawn_stage(BY_KEY["weights"], trace, TOKENS, TOKENS, pin=(0, 0)))
    found = dict(zip(zip(numbers.y.tolist(), numbers.x.tolist(), strict=True), numbers.text, strict=True))
    places = zip(*np.nonzero(trace.mask), strict=True)
    assert found == {(row, column): f"{trace.weights[row, column]:.2f}" for row, column in places}
    assert not printed(heatmap(trace.weights, Axis("query"), Axis("key"), name="weight", compact=True).figure)
    (rounded,) = printed(heatmap(np.array([[-0.001, -0.5]]), Axis("query"), Axis("key"), name="score").figure)
    assert rounded.text == ("0.00", "−0.50")


def test_single_characters_stand_upright_and_close_together():
    def labels(tokens, width=520, pinned=None):
        keys = Axis("key", tokens, pinned)
        figure = heatmap(np.zeros((3, len(tokens))), Axis("query"), keys, name="w", scale="share", width=width).figure
        return figure.layout.xaxis.tickangle, len(figure.layout.xaxis.ticktext)

    characters = [*"the 3rd of march 1987 at noon", "</s>"]
    assert labels(characters) == (0, 30)  # in a narrow picture the mark stands on its side
    longer = ["t", *characters]
    assert labels(longer) == (0, 30)  # the mark would lie on the last character
    assert labels(longer, width=1200) == (0, 31)
    assert labels(longer, pinned=30) == (0, 30)  # now the character gives way
    assert labels([*"ab", "</s>", "[PAD]"])[0] == labels(["the", "cat"] * 11)[0] == -45
    assert labels(["the", "cat"] * 16)[1] < 30


FIRST, SECOND = ("the", "<b>", "$x$", "cat"), ("the", "new", "<b>", "$y$", "cat", "too")


def made(count, seed, sinks=None):
    rng = np.random.default_rng(seed)
    inputs = (rng.normal(size=(count, 4)) for _ in range(3))
    return Head.of(attend(*inputs, mask=grid(causal, count, count), sinks=sinks))


@pytest.fixture
def figures():
    axis = align(FIRST, SECOND)
    found = HeadPair.of(made(4, 0), made(6, 1, sinks=2.0), queries=axis, keys=axis).overview()
    pictures = found.matrices
    assert axis.gaps == ([1, 5], [])
    gaps = {"first": [1, 5], "second": [], "difference": [1, 5]}
    labels = axis.labels(FIRST, SECOND)
    tokens = {"first": labels.first, "second": labels.second, "difference": labels.both}
    side = {part: Axis("query", tokens[part], 2, gaps=gaps[part]) for part in tokens}
    limits, divergence = strongest_colours(pictures), found.row_numbers["divergence"]
    charts = compared_heatmaps(pictures, side, side, divergence=divergence, limits=limits, height=300, width=300)
    return found, {part: chart.figure for part, chart in charts.items()}


def hatching(figure):
    return [trace for trace in figure.data if trace.type == "scatter" and trace.fill == "toself"]


def test_both_weights_have_one_scale_and_place_and_the_difference_is_around_0(figures):
    found, drawn = figures
    first, second, difference = (drawn[part].data[0] for part in ("first", "second", "difference"))
    each = [np.nanmax(part.values) for part in (found.matrices["first"], found.matrices["second"])]
    assert each[0] > each[1] + 0.1
    assert (first.zmin, second.zmin) == (0, 0)
    assert first.zmax == second.zmax == pytest.approx(each[0])
    assert difference.zmax == -difference.zmin == pytest.approx(np.nanmax(np.abs(found.matrices["difference"].values)))
    np.testing.assert_array_equal(difference.z, found.matrices["difference"].values.astype(np.float32))
    layouts = [figure.layout for figure in drawn.values()]
    assert len({(one.margin.l, one.margin.t, one.margin.b, one.height) for one in layouts}) == 1


def test_each_picture_has_the_tokens_of_its_own_text_and_pointing_at_a_row_tells_its_divergence(figures):
    _, drawn = figures
    dollars = {"first": "&#36;x&#36;", "second": "&#36;y&#36;", "difference": "&#36;x&#36; / &#36;y&#36;"}
    for part, figure in drawn.items():
        for axis in (figure.layout.xaxis, figure.layout.yaxis):
            texts = [text.replace("<b>", "").replace("</b>", "") for text in axis.ticktext]
            assert texts == ["the", "new", "&lt;b&gt;", dollars[part], "cat", "too"]
    found, drawn = figures
    names = drawn["difference"].layout.yaxis2.ticktext
    assert f"divergence {found.row_numbers['divergence'][2]:.3f} nats" in names[2]
    assert "divergence" not in names[1]
    assert "&lt;b&gt;" in names[2]


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
    queries = Axis("query", gaps=[0, 1, 2, 4])
    figure = heatmap(np.zeros((5, 4)), queries, Axis("key"), name="weight", scale="share").figure
    (hatched,) = hatching(figure)
    assert list(hatched.y) == [-0.5, -0.5, 2.5, 2.5, None, 3.5, 3.5, 4.5, 4.5, None]
    assert figure.layout.showlegend


SHOWN = {" the": "·the", "the  ": "the··", "   ": "···", "\n\n": "⏎⏎", "a\tb": "a⇥b", "a b": "a b", "": "∅"}
SHOWN |= {"\u202eevil": "U+202Eevil", "\x00": "U+0000", "مرحبا": "مرحبا", "##ing": "##ing"}


def test_visible():
    assert {token: visible(token) for token in SHOWN} == SHOWN


@given(st.text(max_size=14))
def test_escaped_text_reads_as_the_visible_text_and_holds_no_markup(token):
    label = escaped(token)
    assert "<" not in label
    assert "$" not in label
    shown = visible(token)
    assert html.unescape(label) == (shown if len(shown) <= 14 else shown[:13] + "…")


@given(st.integers(1, 5_000), st.data())
def test_thinned_ticks_are_few_and_keep_the_pinned_one(count, data):
    keep = data.draw(st.integers(0, count - 1))
    places = thinned(count, keep, max_labels=40)
    assert keep in places
    assert len(places) <= 41
    assert places == sorted(set(places))
    assert min(np.diff(places), default=count) >= count / 40  # the kept one too has room beside it
    assert thinned(count, max_labels=40)[0] == 0
