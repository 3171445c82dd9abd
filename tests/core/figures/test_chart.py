"""What is said about a figure is what NumPy finds in the numbers that were drawn."""

import numpy as np
import pytest

from core import attend, explain
from core.attention.head import Head
from core.attention.masks import causal, grid
from core.attention.stages import BY_KEY
from core.figures.chart import Chart, Values
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.heatmaps.side_by_side import TERMS, equation, side_by_side, small
from core.figures.heatmaps.views import additive_mask, metric_grid, on_image, small_pictures, stage_heatmap
from core.figures.plots.bars import bar_panels, bars, share_bars, waterfall
from core.figures.plots.diagrams import plane, wiring
from core.figures.plots.lines import Series, lines
from tests.hostile import processor_time

TOKENS = ("the", " cat", "the", "<b>x</b>", "\n", "$x$ & y")
SPELLED = ("the (0)", "·cat (1)", "the (2)", "<b>x</b> (3)", "⏎ (4)", "$x$ & y (5)")
RNG = np.random.default_rng(3)


def picture(values, **more):
    rows, columns = np.shape(values)
    queries, keys = Axis("query", (TOKENS * rows)[:rows]), Axis("key", (TOKENS * columns)[:columns])
    return heatmap(np.array(values), queries, keys, name="score", **more)


def with_numbers(shape, numbers, fill=0.0):
    """An array of one number, except in these places."""
    values = np.full(shape, fill)
    for place, number in numbers.items():
        values[place] = number
    return values


def said(value):
    return f"{value:.3g}".replace("-", "−")


@pytest.fixture
def head():
    query, key, value = (RNG.normal(size=(6, 4)) for _ in range(3))
    return Head.of(attend(query, key, value, mask=grid(causal, 6, 6)))


MASKED = ~grid(causal, 6, 6)
HEADS = np.array([[0.1, 0.95, 0.3], [0.6, 0.3, 0.2]])
TIED = with_numbers((6, 6), {(1, place): 0.5 for place in (0, 2, 3, 5)})
# Beside its name: a chart, and how its description begins; with a full stop at its end, all of it.
DESCRIBED = {
    "a mask that is added": (
        additive_mask(np.where(MASKED, -np.inf, 0), TOKENS, TOKENS),
        "6 by 6. 21 may attend, 15 masked.",
    ),
    "equal numbers": (picture(np.full((6, 6), 0.25)), "6 by 6. Every number is 0.25."),
    "ties": (picture(TIED), f"6 by 6. Strongest: 4 cells with 0.5, the first query {SPELLED[1]}, key {SPELLED[0]}."),
    "no number": (picture(np.full((3, 3), np.nan)), "3 by 3. No numbers."),
    "infinity": (
        picture(with_numbers((3, 3), {(2, 1): -2.0, (0, 0): np.inf}, np.nan)),
        f"3 by 3. Strongest: query {SPELLED[2]}, key {SPELLED[1]}: −2.",
    ),
    "cells that stand for blocks": (
        heatmap(with_numbers((600, 600), {(400, 7): -3.0}), Axis("query"), Axis("key"), name="score"),
        "600 by 600, each drawn cell the strongest of 3 × 3. Strongest: query 399 … 401, key 6 … 8: −3;",
    ),
    "a part of a text": (
        heatmap(
            with_numbers((3, 3), {(1, 2): 5.0}), Axis("query", TOKENS[:3], start=40), Axis("key", start=7), name="score"
        ),
        "3 by 3. Strongest: query ·cat (41), key 9: 5; then",
    ),
    "bars": (bars(TOKENS[:3], {"weight": [0.2, np.nan, 0.7]}, y="weight"), "Largest: the: 0.7; smallest: the: 0.2."),
    "groups of bars": (
        bars(["a", "b"], {"before W_O": [1, -4], "after": [2, 3]}, y="length", x="head"),
        "before W_O: largest: head a: 1; smallest: head b: −4. after: largest: head b: 3; smallest: head a: 2.",
    ),
    "panels": (
        bar_panels(TOKENS[:2], {"<b>Softmax</b>": [1, 2], "RMS": [3, 0]}, x="key"),
        "Softmax: largest: key ·cat: 2; smallest: key the: 1. RMS: largest: key the: 3; smallest: key ·cat: 0.",
    ),
    "changes": (
        share_bars([" Paris", " the"], {"before": np.array([0.772, 0.1]), "after": np.array([0.141, 0.3])}),
        "Largest change: ·Paris from 0.772 to 0.141; then ·the from 0.1 to 0.3.",
    ),
    "no change": (share_bars(["a"], dict.fromkeys(("before", "after"), np.array([0.5]))), "Nothing has changed."),
    "curves": (
        lines([Series("here", [0, 1, 2], [1.0, 5.0, 2.0]), Series("flat", [0, 1], [3.0, 3.0])], x="n (tokens)", y="y"),
        "here: from 1 at n 0 to 2 at n 2, highest 5 at n 1. flat: 3 throughout.",
    ),
    "exponents": (
        lines([Series("a", [1, 2], [-3.0, -8.5])], x="layer", y="gradient", powers_of_ten=True),
        "From 10^−3 at layer 1 to 10^−8.5 at layer 2.",
    ),
    "arrows": (
        plane([1.0, 0.0], np.eye(2), "q", ("the", "cat"), np.array([1.5, -0.5])),
        "Largest: key the: 1.5; smallest: key cat: −0.5.",
    ),
    "a grid of heads": (
        metric_grid(
            HEADS, "sink", signed=False, chosen=(0, 0), height=300, forbidden=HEADS > 0.9, forbidden_name="filtered out"
        ),
        "2 by 3. Largest: layer 1, head 0: 0.6; smallest: layer 0, head 0: 0.1; 1 filtered out.",
    ),
    "patches of an image": (
        on_image(np.zeros((8, 10, 3), np.uint8), with_numbers((4, 5), {(2, 3): 0.5}), (0, 0)),
        "4 by 5. Strongest: patch row 2, patch column 3: 0.5; then",
    ),
    "no arrows": (plane([1.0, 0.0], np.zeros((0, 2)), "q", (), np.zeros(0)), "No numbers."),
}


@pytest.mark.parametrize("name", DESCRIBED)
def test_a_picture_is_described_by_its_numbers(name):
    chart, words = DESCRIBED[name]
    assert chart.description == words if words.endswith(".") else chart.description.startswith(words)


def test_the_strongest_are_those_that_numpy_finds():
    for _ in range(20):
        values = RNG.normal(size=(6, 6)).round(2)
        order = np.argsort(-np.abs(values), axis=None, kind="stable")[:10]
        rows, columns = np.unravel_index(order, values.shape)
        cells = [(SPELLED[row], SPELLED[key], said(values[row, key])) for row, key in zip(rows, columns, strict=True)]
        chart = picture(values)
        assert chart.description.startswith("6 by 6. Strongest: query {}, key {}: {}; then ".format(*cells[0]))
        found = chart.strongest()
        assert found.headings == ["query", "key", "score"]
        assert [*map(tuple, found.rows)] == cells
        assert found.left_out == "The 10 of 36 numbers that are farthest from 0."


def test_what_the_table_of_the_strongest_holds():
    """Of ties the first; no number that is none, none of a mask, no notes; the name of a group; nothing of a drawing."""
    assert [row[1] for row in picture(TIED).strongest().rows][:4] == [SPELLED[place] for place in (0, 2, 3, 5)]
    assert picture(np.full((3, 3), np.nan)).strongest().rows == []
    values = with_numbers((3, 3), {(2, 1): -2.0, (0, 0): np.inf}, np.nan)
    assert picture(values).strongest().rows == [[SPELLED[2], SPELLED[1], "−2"]]
    assert DESCRIBED["a mask that is added"][0].strongest() is None
    axis = Axis("query", TOKENS[:2], notes=["<br>left out 3 %", ""])
    assert heatmap(np.array([[2.0], [1.0]]), axis, Axis("key"), name="score").strongest().rows[0][0] == SPELLED[0]
    assert DESCRIBED["groups of bars"][0].strongest().rows[0] == ["before W_O", "b", "−4"]
    assert DESCRIBED["curves"][0].strongest().rows[0] == ["here", "1", "5"]
    drawing = wiring("read", "written", causal=False)
    assert (drawing.description, drawing.strongest()) == ("", None)


def test_masked_pairs_are_counted_and_never_named(head):
    stages = head.overview().matrices
    chart = stage_heatmap(BY_KEY["weights"], stages, TOKENS, TOKENS, pin=(3, 1))
    weights = np.where(np.tri(6, dtype=bool), stages["weights"].values, -1)
    row = np.unravel_index(np.argsort(-weights, axis=None, kind="stable")[1], (6, 6))[0]
    words = chart.description
    assert words.endswith("; 15 masked.")
    # The first row has one key: its weight is 1, and nothing is stronger.
    assert f"query {SPELLED[0]}, key {SPELLED[0]}: 1; then query {SPELLED[row]}, key " in words
    assert len(chart.strongest(100).rows) == 21


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


def test_other_pictures_name_what_is_largest_in_them():
    matrices = RNG.random((3, 6, 6))
    chart = side_by_side([small(one) for one in matrices], ["0.0", "0.1", "0.2"], TOKENS, TOKENS, across=3)
    head, row, column = np.unravel_index(matrices.argmax(), matrices.shape)
    row, column = (SPELLED[place].rpartition(" (")[0] for place in (row, column))
    assert chart.strongest().rows[0] == [f"0.{head}", row, column, said(matrices.max())]
    assert chart.description.startswith(f"3 pictures of 6 by 6. Strongest: 0.{head}, row {row}, column {column}")
    cell = explain(attend(*(RNG.normal(size=(3, 4)) for _ in range(3))), 2, 1)
    words = waterfall(cell).description
    assert f"q·k {said(cell.raw)}" in words
    assert words.endswith(f"weight {said(cell.weight)}.")
    assert ["dimension 0", said(cell.products[0])] in waterfall(cell).strongest(100).rows


def test_the_equation_names_the_strongest_of_each_matrix(head):
    stages = head.overview().matrices
    chart = equation(stages, pin=(1, 0), opened="weights", scale=0.5)
    rows = {row[0]: row[1:] for row in chart.strongest().rows}
    assert rows.keys() == {term.name for term in TERMS.values()} - {"mask M"}
    for name, values in {"raw scores": stages["raw"].values, "Kᵀ": stages["key"].values.T}.items():
        row, column = np.unravel_index(np.abs(values).argmax(), values.shape)
        assert rows[name] == [str(row), str(column), said(values[row, column])]
    assert "mask M forbids 15 of 36 drawn pairs" in chart.description


def test_many_curves_under_a_hostile_heading():
    """As many as a file may hold, and a heading as long as it may be: nothing is searched for twice."""
    curve = Values(kind="line", numbers=np.array([1.0, 2.0]), headings=("(" * 2_000,), x=np.array([0.0, 1.0]))
    with processor_time(3):
        assert Chart([], {}, (curve,) * 500).description
