"""Tables as CSV and NPZ: every number of core to the last bit, labels as they were, masked pairs never 0."""

import csv
import io
import json
import re

import numpy as np
import pytest

from core import InputError, attend
from core.attention.head import Head
from core.attention.masks import causal, grid
from core.attention.stages import STAGES
from core.exporting.tables import MAX_CSV_CELLS, Side, Table, stage_table, tables_of, to_csv, to_npz
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.plots.bars import bars
from core.figures.plots.lines import Series, lines

TOKENS = ("=1+1", " the", 'a,"b"\n', "##ing", "</script>")
ABOUT = {"model": "a model", "layer.head": "1.10", "text": '=HYPERLINK("x")\nsecond, line', "dtype": "float32"}


@pytest.fixture(scope="module")
def trace():
    numbers = np.random.default_rng(3)
    query, key, value = (numbers.normal(size=(5, width)).astype(np.float32) for width in (4, 4, 3))
    return attend(query, key, value, mask=grid(causal, 5, 5))


def read_csv(text):
    """(what is said before, the table), as a person would read it who knows the first line alone."""
    rows = list(csv.reader(io.StringIO(text)))
    before = int(rows[0][0].rpartition(" ")[2])
    notes = dict(row[0].removeprefix("# ").split(": ", 1) for row in rows[1:before])
    return notes, rows[before:]


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.key)
def test_every_stage_comes_back_to_the_last_bit(trace, stage):
    expected = np.asarray(stage.values(trace))
    table = stage_table(Head.of(trace), stage.key, TOKENS, TOKENS)
    file = np.load(io.BytesIO(to_npz([table], ABOUT)), allow_pickle=False)
    values, missing = file[f"{stage.key}.values"], file[f"{stage.key}.missing"]
    hides = stage.key in ("masked", "weights")
    assert np.array_equal(missing, ~trace.mask if hides else np.zeros(expected.shape, bool))
    assert values.dtype == expected.dtype
    assert np.array_equal(values[~missing], expected[~missing])
    assert np.isnan(values[missing]).all()
    assert tuple(file[f"{stage.key}.rows"]) == TOKENS
    assert tuple(file[f"{stage.key}.columns"]) == (TOKENS if stage.columns == "key" else ("",) * expected.shape[1])
    assert (str(file[f"{stage.key}.row_is"]), str(file[f"{stage.key}.column_is"])) == (stage.rows, stage.columns)
    assert file[f"{stage.key}.row_numbers"].tolist() == [0, 1, 2, 3, 4]
    assert json.loads(str(file["about"])) == ABOUT
    notes, rows = read_csv(to_csv([table], ABOUT))
    assert json.loads(notes["text"]) == ABOUT["text"]
    assert notes["layer.head"] == "1.10"
    cells = np.array([row[1:] for row in rows[1:]])
    assert np.array_equal(cells == "", missing)
    written = cells[~missing].astype(np.float32 if expected.dtype == bool else expected.dtype)
    assert np.array_equal(written, expected[~missing])
    assert [row[0].split(" ", 1) for row in rows[1:]] == [[str(place), token] for place, token in enumerate(TOKENS)]


def test_no_cell_begins_like_a_formula(trace):
    written = to_csv([stage_table(Head.of(trace), "weights", TOKENS, TOKENS)], ABOUT)
    number = re.compile(r"(-?\d+(\.\d+)?(e[+-]?\d+)?)?")  # or an empty cell
    words = [cell for row in csv.reader(io.StringIO(written)) for cell in row if not number.fullmatch(cell)]
    assert len(words) > 10
    assert not [cell for cell in words if cell.startswith(("=", "+", "-", "@", "\t"))]


def test_heads_stay_apart_in_csv_and_too_many_cells_are_refused_in_words():
    rows, columns = Side("head", ("head 1.1", "head 1.10"), start=None), Side("metric", ("entropy",), start=None)
    table = Table(key="m", name="m", values=np.array([[0.1], [np.nan]]), rows=rows, columns=columns)
    assert read_csv(to_csv([table], {}))[1][1:] == [["head 1.1", "0.1"], ["head 1.10", ""]]
    values = np.zeros((2, MAX_CSV_CELLS))
    table = Table(key="m", name="m", values=values, rows=Side("row"), columns=Side("column"))
    with pytest.raises(InputError, match="2,097,152 cells are too many for CSV"):
        to_csv([table], {})


def test_what_a_figure_draws_can_be_taken_from_it_and_of_a_mask_what_may_attend():
    values = np.array([[0.5, 0.0], [0.25, 0.75]], np.float32)
    hidden = np.array([[False, True], [False, False]])
    figure = heatmap(values, Axis("query", ["<b>", "$"]), Axis("key", ["a", "b"]), name="weight", forbidden=hidden)
    (table,) = tables_of(figure)
    assert np.array_equal(np.isnan(table.values), hidden)
    assert np.array_equal(table.values[~hidden], values[~hidden])
    assert table.rows.texts(2) == ["<b> (0)", "$ (1)"]
    (table,) = tables_of(bars(["one", "<b>", "one"], {"b": [1.5, np.nan, 2.5]}, y="share"))
    assert table.rows.texts(3) == ["one", "<b>", "one"]
    np.testing.assert_array_equal(table.values, [[1.5], [np.nan], [2.5]])
    places = np.array([1234.5, 98765.25])
    (table,) = tables_of(lines([Series("here", places, [0.25, -1.0])], x="distance", y="score"))
    assert table.columns.named(2) == ["distance", "score"]
    assert np.array_equal(table.values, np.stack([places, [0.25, -1.0]], axis=1))
    allowed = grid(causal, 4, 4)
    axes = Axis("query"), Axis("key")
    (table,) = tables_of(heatmap(allowed.astype(float), *axes, name="mask", scale="permission", forbidden=~allowed))
    assert np.array_equal(table.values == 1, allowed)
