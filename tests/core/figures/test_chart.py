"""What is said about a figure is what NumPy finds in the numbers that were drawn."""

import numpy as np
import pytest

from core.attention.head import Head
from core.attention.ledger import explain
from core.attention.masks import causal, grid
from core.attention.stages import BY_KEY
from core.attention.trace import attend
from core.figures.chart import Chart
from core.figures.heatmaps.additive import additive_mask
from core.figures.heatmaps.all_heads import metric_grid, small_pictures
from core.figures.heatmaps.equation import TERMS, equation
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.heatmaps.patches import on_image
from core.figures.heatmaps.side_by_side import side_by_side, small
from core.figures.heatmaps.stages import stage_heatmap
from core.figures.plots.bars import bar_panels, bars, log_bars, share_bars
from core.figures.plots.lines import Series, lines
from core.figures.plots.waterfall import waterfall
from core.figures.plots.wiring import wiring
from core.figures.values import Values
from tests.hostile import processor_time

TOKENS = ("the", " cat", "the", "<b>x</b>", "\n", "$x$ & y")
SPELLED = ("the (0)", "·cat (1)", "the (2)", "<b>x</b> (3)", "⏎ (4)", "$x$ & y (5)")
RNG = np.random.default_rng(3)


def picture(values, **more):
    rows, columns = values.shape
    return heatmap(
        values, Axis("query", (TOKENS * rows)[:rows]), Axis("key", (TOKENS * columns)[:columns]), name="score", **more
    )


def said(value):
    return f"{value:.3g}".replace("-", "−")


@pytest.fixture
def head():
    query, key, value = (RNG.normal(size=(6, 4)) for _ in range(3))
    return Head.of(attend(query, key, value, mask=grid(causal, 6, 6)))


def test_the_strongest_cell_is_the_one_that_numpy_finds():
    for _ in range(20):
        values = RNG.normal(size=(6, 6)).round(2)
        row, column = np.unravel_index(np.abs(values).argmax(), values.shape)
        opening = f"6 by 6. Strongest: query {SPELLED[row]}, key {SPELLED[column]}: {said(values[row, column])}; then "
        assert picture(values).description.startswith(opening)


def test_the_table_holds_the_ten_numbers_that_numpy_sorts_first():
    values = RNG.normal(size=(6, 6))
    found = picture(values).strongest()
    assert found.headings == ["query", "key", "score"]
    order = np.argsort(-np.abs(values), axis=None, kind="stable")[:10]
    rows, columns = np.unravel_index(order, values.shape)
    assert found.rows == [
        [SPELLED[row], SPELLED[column], said(values[row, column])] for row, column in zip(rows, columns, strict=True)
    ]
    assert found.left_out == "The 10 of 36 numbers that are farthest from 0."


def test_masked_pairs_are_counted_and_never_named(head):
    stages = head.overview().matrices
    chart = stage_heatmap(BY_KEY["weights"], stages, TOKENS, TOKENS, pin=(3, 1))
    weights = np.where(np.tri(6, dtype=bool), stages["weights"].values, -1)
    order = np.argsort(-weights, axis=None, kind="stable")
    rows, columns = np.unravel_index(order[:3], (6, 6))
    words = chart.description
    assert words.endswith("; 15 masked.")
    # The first row has one key: its weight is 1, and nothing is stronger.
    assert (
        f"query {SPELLED[0]}, key {SPELLED[0]}: 1; then query {SPELLED[rows[1]]}, key {SPELLED[columns[1]]}: " in words
    )
    assert len(chart.strongest(100).rows) == 21


def test_a_mask_is_counted():
    masked = ~grid(causal, 6, 6)
    assert (
        picture(np.ones((6, 6)), scale="permission", forbidden=masked).description
        == "6 by 6. 21 may attend, 15 masked."
    )
    added = np.where(masked, -np.inf, 0)
    assert additive_mask(added, TOKENS, TOKENS).description == "6 by 6. 21 may attend, 15 masked."
    assert additive_mask(added, TOKENS, TOKENS).strongest() is None


def test_equal_numbers_are_not_told_apart():
    assert picture(np.full((6, 6), 0.25)).description == "6 by 6. Every number is 0.25."
    tied = np.zeros((6, 6))
    tied[1, [0, 2, 3, 5]] = 0.5
    assert (
        picture(tied).description
        == f"6 by 6. Strongest: 4 cells with 0.5, the first query {SPELLED[1]}, key {SPELLED[0]}."
    )
    assert [row[1] for row in picture(tied).strongest().rows][:4] == [SPELLED[place] for place in (0, 2, 3, 5)]


def test_what_is_no_number_is_not_the_strongest():
    values = np.full((3, 3), np.nan)
    assert picture(values).description == "3 by 3. No numbers."
    assert picture(values).strongest().rows == []
    values[2, 1], values[0, 0] = -2.0, np.inf
    assert picture(values).description == f"3 by 3. Strongest: query {SPELLED[2]}, key {SPELLED[1]}: −2."
    assert picture(values).strongest().rows == [[SPELLED[2], SPELLED[1], "−2"]]


def test_a_cell_that_stands_for_a_block_says_so():
    values = np.zeros((600, 600))
    values[400, 7] = -3.0
    chart = heatmap(values, Axis("query"), Axis("key"), name="score")
    words = chart.description
    assert words.startswith(
        "600 by 600, each drawn cell the strongest of 3 × 3. Strongest: query 399 … 401, key 6 … 8: −3;"
    )


def test_a_part_of_a_text_counts_from_its_first_token():
    values = np.eye(3)
    values[1, 2] = 5.0
    chart = heatmap(values, Axis("query", TOKENS[:3], start=40), Axis("key", start=7), name="score")
    assert chart.description.startswith("3 by 3. Strongest: query ·cat (41), key 9: 5; then")


def test_notes_of_rows_are_no_part_of_their_names():
    axis = Axis("query", TOKENS[:2], notes=["<br>left out 3 %", ""])
    assert heatmap(np.array([[2.0], [1.0]]), axis, Axis("key"), name="score").strongest().rows[0][0] == SPELLED[0]


def test_a_grid_of_heads_names_the_largest_and_the_smallest():
    values = RNG.random((4, 5))
    left_out = values > 0.9
    shown = np.where(left_out, np.nan, values)
    words = metric_grid(values, "sink", signed=False, chosen=(0, 0), left_out=left_out, height=300).description
    (high, low) = (np.unravel_index(place, shown.shape) for place in (np.nanargmax(shown), np.nanargmin(shown)))
    filtered = f"; {left_out.sum()} filtered out" if left_out.any() else ""
    assert words == (
        f"4 by 5. Largest: layer {high[0]}, head {high[1]}: {said(shown[high])}; "
        f"smallest: layer {low[0]}, head {low[1]}: {said(shown[low])}{filtered}."
    )


def test_small_pictures_are_told_apart_by_their_largest_weight():
    weights = RNG.random((3, 4, 5, 5)) * np.arange(1, 13).reshape(3, 4, 1, 1) / 12
    weights[:, :, 0, 1:] = np.nan
    left_out = np.zeros((3, 4), bool)
    left_out[2, 3] = True
    found = small_pictures(weights, chosen=(0, 0), left_out=left_out, height=300).strongest(100)
    largest = np.nanmax(weights, axis=(2, 3))
    assert len(found.rows) == 11
    for layer, head, value in found.rows:
        assert value == said(largest[int(layer), int(head)])


def test_several_small_matrices_share_one_ranking():
    matrices = RNG.random((3, 6, 6))
    chart = side_by_side([small(one) for one in matrices], ["0.0", "0.1", "0.2"], TOKENS, TOKENS, across=3)
    head, row, column = np.unravel_index(matrices.argmax(), matrices.shape)
    labels = [name.rpartition(" (")[0] for name in SPELLED]
    assert chart.strongest().rows[0] == [f"0.{head}", labels[row], labels[column], said(matrices.max())]
    assert chart.description.startswith(
        f"3 pictures of 6 by 6. Strongest: 0.{head}, row {labels[row]}, column {labels[column]}"
    )


def test_the_equation_names_the_strongest_of_each_matrix(head):
    stages = head.overview().matrices
    chart = equation(stages, pin=(1, 0), opened="weights", scale=0.5)
    rows = {row[0]: row[1:] for row in chart.strongest().rows}
    assert rows.keys() == {term.name for term in TERMS.values()} - {"mask M"}
    raw = stages["raw"].values
    row, column = np.unravel_index(np.abs(raw).argmax(), raw.shape)
    assert rows["raw scores"] == [str(row), str(column), said(raw[row, column])]
    query, key = stages["key"].values.shape
    column, row = np.unravel_index(np.abs(stages["key"].values).argmax(), (query, key))
    assert rows["Kᵀ"][:2] == [str(row), str(column)]
    assert "mask M forbids 15 of 36 drawn pairs" in chart.description


def test_patches_of_an_image():
    values = RNG.random((4, 5))
    row, column = np.unravel_index(values.argmax(), values.shape)
    words = on_image(np.zeros((8, 10, 3), np.uint8), values, (0, 0)).description
    assert words.startswith(f"4 by 5. Strongest: patch row {row}, patch column {column}: {values.max():.3g}; then")


def test_bars_name_the_largest_and_the_smallest():
    chart = bars(TOKENS[:3], {"weight": [0.2, np.nan, 0.7]}, y="weight")
    assert chart.description == "Largest: the: 0.7; smallest: the: 0.2."
    grouped = bars(["a", "b"], {"before W_O": [1, -4], "after": [2, 3]}, y="length", x="head")
    assert (
        grouped.description
        == "before W_O: largest: head a: 1; smallest: head b: −4. after: largest: head b: 3; smallest: head a: 2."
    )
    assert grouped.strongest().rows[0] == ["before W_O", "b", "−4"]
    panels = bar_panels(TOKENS[:2], {"<b>Softmax</b>": [1, 2]}, x="key")
    assert panels.description == "Largest: key ·cat: 2; smallest: key the: 1."
    panels = bar_panels(TOKENS[:2], {"<b>Softmax</b>": [1, 2], "RMS": [3, 0]}, x="key")
    assert panels.description.endswith(" RMS: largest: key the: 3; smallest: key ·cat: 0.")
    logarithmic = log_bars(["float16", "float32"], {"error": [0.0, 1e-3]}, x="error", limits=(1e-9, 1))
    assert logarithmic.description == "Largest: float32: 0.001; smallest: float16: 0."


def test_movers_name_the_largest_change():
    chart = share_bars([" Paris", " the"], {"before": np.array([0.772, 0.1]), "after": np.array([0.141, 0.3])})
    assert chart.description == "Largest change: ·Paris from 0.772 to 0.141; then ·the from 0.1 to 0.3."
    assert (
        share_bars(["a"], {"before": np.array([0.5]), "after": np.array([0.5])}).description == "Nothing has changed."
    )


def test_a_waterfall_ends_at_the_weight():
    cell = explain(attend(*(RNG.normal(size=(3, 4)) for _ in range(3))), 2, 1)
    words = waterfall(cell).description
    assert f"q·k {said(cell.raw)}" in words
    assert words.endswith(f"weight {said(cell.weight)}.")
    assert ["dimension 0", said(cell.products[0])] in waterfall(cell).strongest(100).rows


def test_curves_say_where_they_begin_end_and_are_highest():
    chart = lines(
        [Series("here", [0, 1, 2], [1.0, 5.0, 2.0]), Series("flat", [0, 1], [3.0, 3.0])], x="n (tokens)", y="y"
    )
    assert chart.description == "here: from 1 at n 0 to 2 at n 2, highest 5 at n 1. flat: 3 throughout."
    assert chart.strongest().rows[0] == ["here", "1", "5"]
    exponents = lines([Series("a", [1, 2], [-3.0, -8.5])], x="layer", y="gradient", powers_of_ten=True)
    assert exponents.description == "From 10^−3 at layer 1 to 10^−8.5 at layer 2."


def test_many_curves_under_a_hostile_heading():
    """As many as a file may hold, and a heading as long as it may be: nothing is searched for twice."""
    curve = Values(kind="line", numbers=np.array([1.0, 2.0]), headings=("(" * 2_000,), x=np.array([0.0, 1.0]))
    with processor_time(3):
        assert Chart([], {}, (curve,) * 500).description


def test_a_drawing_without_numbers_says_nothing():
    assert wiring("read", "written", causal=False).description == ""
    assert wiring("read", "written", causal=False).strongest() is None
