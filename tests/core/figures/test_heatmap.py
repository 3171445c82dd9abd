"""What a picture holds: the very numbers, in their places, with forbidden pairs told apart and markup made harmless."""

import json

import numpy as np
import pytest
from plotly.colors import sample_colorscale

from core.attention.head import Head
from core.attention.ledger import explain
from core.attention.masks import causal, grid
from core.attention.stages import BY_KEY, STAGES
from core.attention.trace import attend
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.heatmaps.stages import colour_limit, stage_heatmap
from core.figures.palette import FORBIDDEN
from core.figures.plots.waterfall import passed_on, waterfall
from tests.contrast import contrast, hexadecimal

TOKENS = ("the", " cat", "the", "<b>x</b>", "\n", "$x$ & y")


@pytest.fixture
def trace():
    rng = np.random.default_rng(0)
    return attend(*(rng.normal(size=(6, 4)) for _ in range(3)), mask=grid(causal, 6, 6))


def printed(figure):
    return [trace for trace in figure.data if getattr(trace, "mode", None) == "text"]


def main(figure):
    return figure.data[0]


def drawn_stage(stage, trace, query_tokens, key_tokens, **options):
    return stage_heatmap(stage, Head.of(trace).overview().matrices, query_tokens, key_tokens, **options).figure


@pytest.mark.parametrize(
    "stage", [stage for stage in STAGES if stage.scale != "permission"], ids=lambda stage: stage.key
)
def test_a_stage_is_drawn_number_for_number(stage, trace):
    drawn = main(drawn_stage(stage, trace, TOKENS, TOKENS, pin=(3, 1)))
    expected = stage.values(trace)
    finite = np.isfinite(expected) & (trace.mask if stage.key in ("masked", "weights") else True)
    np.testing.assert_array_equal(drawn.z[finite], expected[finite])
    assert np.isnan(drawn.z[~finite]).all()
    np.testing.assert_array_equal(drawn.x, np.arange(expected.shape[1]))
    np.testing.assert_array_equal(drawn.y, np.arange(expected.shape[0]))


def test_masked_cells_are_grey_and_in_the_legend(trace):
    figure = drawn_stage(BY_KEY["weights"], trace, TOKENS, TOKENS, pin=(3, 1))
    grey = figure.data[1]
    np.testing.assert_array_equal(grey.z == 0, ~trace.mask)
    assert grey.colorscale[0][1] == FORBIDDEN
    assert [entry.name for entry in figure.data if entry.showlegend is not False and entry.type == "scatter"] == [
        "masked"
    ]
    # Before the mask every pair has a score, so nothing is grey.
    cells, _numbers = drawn_stage(BY_KEY["raw"], trace, TOKENS, TOKENS, pin=(3, 1)).data
    assert np.isfinite(cells.z).all()


def test_a_weight_of_zero_that_is_allowed_is_drawn_as_a_number():
    trace = attend([[1000.0]], [[1.0], [-1.0]], [[1.0], [1.0]], scale=1.0)
    drawn = main(drawn_stage(BY_KEY["weights"], trace, ("q",), ("a", "b"), pin=(0, 0)))
    assert drawn.z.tolist() == [[1.0, 0.0]]


def test_repeated_tokens_keep_their_own_row_and_column(trace):
    figure = drawn_stage(BY_KEY["weights"], trace, TOKENS, TOKENS, pin=(3, 1))
    assert list(figure.layout.xaxis.tickvals) == list(range(6))
    texts = list(figure.layout.yaxis2.ticktext)
    assert (texts[0], texts[2]) == ("the (0)", "the (2)")


def test_tokens_cannot_be_markup(trace):
    figure = drawn_stage(BY_KEY["weights"], trace, TOKENS, TOKENS, pin=(0, 1))
    texts = list(figure.layout.xaxis.ticktext)
    assert texts == ["the", "<b>·cat</b>", "the", "&lt;b&gt;x&lt;/b&gt;", "⏎", "&#36;x&#36; &amp; y"]


def test_scales(trace):
    signed = main(drawn_stage(BY_KEY["raw"], trace, TOKENS, TOKENS, pin=(0, 0)))
    assert signed.zmin == -signed.zmax
    assert signed.zmax == np.abs(trace.raw).max()
    share = main(drawn_stage(BY_KEY["weights"], trace, TOKENS, TOKENS, pin=(0, 0)))
    assert (share.zmin, share.zmax) == (0, trace.weights.max())
    assert signed.showscale is not False
    other = trace.changed(scale=1.0)
    limit = colour_limit(BY_KEY["scaled"], *(Head.of(one).overview().matrices["scaled"] for one in (trace, other)))
    assert limit == np.abs(other.scaled).max()
    assert main(drawn_stage(BY_KEY["scaled"], trace, TOKENS, TOKENS, pin=(0, 0), limit=limit)).zmax == limit


def test_all_zero_numbers_still_have_a_range():
    drawn = main(heatmap(np.zeros((2, 2)), Axis("query"), Axis("key"), name="score").figure)
    assert (drawn.zmin, drawn.zmax) == (-1, 1)


def test_long_texts_are_bounded_and_lose_no_spike():
    n = 2_000
    values = np.full((n, n), 1e-6)
    values[1_234, 567] = 0.9
    figure = heatmap(
        values,
        Axis("query", ["t"] * n, 1_234),
        Axis("key", ["t"] * n, 567),
        name="weight",
        scale="share",
        hover=("x", values),
    ).figure
    drawn = main(figure)
    assert max(drawn.z.shape) <= 256
    row, column = np.unravel_index(drawn.z.argmax(), drawn.z.shape)
    assert drawn.z.max() == 0.9
    assert abs(drawn.y[row] - 1_234) < 8
    assert abs(drawn.x[column] - 567) < 8
    assert figure.layout.meta["row_block"] == 8
    assert len(figure.layout.xaxis.tickvals) <= 42
    assert 567 in figure.layout.xaxis.tickvals
    assert len(json.dumps(figure.to_plotly_json(), default=lambda array: array.tolist())) > 0
    assert len(figure.to_json()) < 1_500_000


@pytest.mark.parametrize("width", [240, 270, 480, 900])
@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("count", [5, 16, 200])
def test_labels_below_columns_have_room(width, compact, count):
    tokens = ["token"] * count
    figure = heatmap(
        np.ones((3, count)), Axis("query"), Axis("key", tokens, count // 3), name="w", width=width, compact=compact
    ).figure
    axis, margin = figure.layout.xaxis, figure.layout.margin
    cell = (width - margin.l - margin.r) / count
    assert count // 3 in axis.tickvals
    # Lines of text at 45 degrees, one above the other.
    assert len(axis.tickvals) == 1 or min(np.diff(axis.tickvals)) * cell * np.sin(np.pi / 4) >= axis.tickfont.size


@pytest.mark.parametrize("height", [210, 330, 560])
@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("count", [5, 16, 200])
def test_labels_beside_rows_have_room(height, compact, count):
    tokens = ["token"] * count
    forbidden = np.tri(count, 16, dtype=bool)  # with a legend, which leaves the least room
    figure = heatmap(
        np.ones((count, 16)),
        Axis("query", tokens, count // 3),
        Axis("key", ["because"] * 16),
        name="w",
        forbidden=forbidden,
        height=height,
        compact=compact,
    ).figure
    axis, margin = figure.layout.yaxis, figure.layout.margin
    cell = (height - margin.t - margin.b) / count
    assert count // 3 in axis.tickvals
    assert len(axis.tickvals) == 1 or min(np.diff(axis.tickvals)) * cell >= axis.tickfont.size


def test_the_pin_is_a_frame_around_its_cell(trace):
    shapes = drawn_stage(BY_KEY["weights"], trace, TOKENS, TOKENS, pin=(3, 1)).layout.shapes
    thick = max(shapes, key=lambda shape: shape.line.width)
    assert (thick.y0, thick.y1, thick.x0, thick.x1) == (2.5, 3.5, 0.5, 1.5)
    rows_only = drawn_stage(BY_KEY["query"], trace, TOKENS, TOKENS, pin=(3, 1)).layout.shapes
    assert [(shape.y0, shape.y1) for shape in rows_only] == [(2.5, 3.5)]


def test_small_matrices_print_their_numbers(trace):
    (numbers,) = printed(drawn_stage(BY_KEY["weights"], trace, TOKENS, TOKENS, pin=(0, 0)))
    found = dict(zip(zip(numbers.y.tolist(), numbers.x.tolist(), strict=True), numbers.text, strict=True))
    places = zip(*np.nonzero(trace.mask), strict=True)
    assert found == {(row, column): f"{trace.weights[row, column]:.2f}" for row, column in places}
    assert not printed(heatmap(trace.weights, Axis("query"), Axis("key"), name="weight", compact=True).figure)
    (rounded,) = printed(heatmap(np.array([[-0.001, -0.5]]), Axis("query"), Axis("key"), name="score").figure)
    assert rounded.text == ("0.00", "−0.50")


@pytest.mark.parametrize("scale", ["signed", "share"])
def test_printed_numbers_can_be_read_on_their_colours(scale):
    values = np.linspace(-1 if scale == "signed" else 0, 1, 144).reshape(12, 12)
    figure = heatmap(values, Axis("query"), Axis("key"), name="score", scale=scale).figure
    cells, (numbers,) = main(figure), printed(figure)
    shares = (values.ravel() - cells.zmin) / (cells.zmax - cells.zmin)
    colours = sample_colorscale([[at, colour] for at, colour in cells.colorscale], shares.tolist())
    black_or_white = {"black": "#000000", "white": "#ffffff"}
    read = [
        contrast(hexadecimal(one), black_or_white[two])
        for one, two in zip(colours, numbers.textfont.color, strict=True)
    ]
    assert min(read) >= 4.5


def test_the_waterfall_ends_where_the_ledger_does(trace):
    cell = explain(trace, 4, 2)
    bars, share = waterfall(cell).figure.data
    np.testing.assert_array_equal(bars.y[:4], cell.products)
    named = dict(zip(bars.customdata, zip(bars.y, bars.measure, strict=True), strict=True))
    assert named["q·k"] == (cell.raw, "total")
    assert named["score"] == (cell.masked, "total")
    assert named["shifted"] == (cell.shifted, "total")
    # The relative steps between two totals lead from one to the other.
    assert np.sum(bars.y[:4]) == pytest.approx(cell.raw)
    assert cell.raw + named["× scale"][0] == pytest.approx(cell.masked)
    assert cell.masked + named["− row max"][0] == pytest.approx(cell.shifted)
    assert list(share.y) == [cell.exponential, cell.weight]


def test_a_forbidden_cell_has_a_waterfall_without_infinity(trace):
    cell = explain(trace, 1, 5)
    bars, share = waterfall(cell).figure.data
    assert np.isfinite(bars.y).all()
    assert "shifted" not in bars.customdata
    assert list(share.y) == [0, 0]
    assert not passed_on(cell).figure.data[1].y.any()


def test_single_characters_stand_upright_and_close_together():
    def labels(tokens: list[str], width: int = 520, pinned: int | None = None) -> tuple[int, int]:
        keys = Axis("key", tokens, pinned)
        figure = heatmap(np.zeros((3, len(tokens))), Axis("query"), keys, name="w", scale="share", width=width).figure
        return figure.layout.xaxis.tickangle, len(figure.layout.xaxis.ticktext)

    characters = [*"the 3rd of march 1987", "</s>"]
    assert labels(characters) == (0, len(characters) - 1)  # the mark would lie on the last character
    assert labels(characters, width=900) == (0, len(characters))
    assert labels(characters, pinned=21) == (0, len(characters) - 1)  # now the character gives way
    assert labels([*"ab", "</s>", "[PAD]"])[0] == labels(["the", "cat"] * 11)[0] == -45
    assert labels(["the", "cat"] * 15)[1] < 30
