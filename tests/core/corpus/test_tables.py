"""A finished tally as Parquet: read again, it is what was tallied, and every file says what was run."""

import json
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from core.corpus.passages import CLASSES, Location, Passage, Problem, Relation
from core.corpus.profiles import map_of
from core.corpus.settings import distance_ranges
from core.corpus.sums import mean_and_spread
from core.corpus.tables import METADATA, About, tables, write
from core.heads.metrics import NAMES
from tests.core.corpus.plain import about, empty_tally, passages, settings_of, tallied

SENTENCE = Passage(Location("a.conllu", 1), 0, "the old cat", ((0, 3), (4, 7), (8, 11)), (Relation(0, 2, "det"),))


def store(tally, folder):
    tokens = {number: tuple(passage.text.split()) for number, passage in tally.shown_passages.items()}
    for name, table in tables(tally, tokens):
        write(table, fs.LocalFileSystem(), str(folder / f"{name}.parquet"), about())
    return {path.stem: pq.read_table(path) for path in folder.iterdir()}


@pytest.fixture(scope="module")
def tally(bert):
    found = tallied(bert, passages(8), settings_of(bert))
    found.merge(tallied(bert, [SENTENCE], found.settings))
    found.note([Problem(Location("b.txt", 3), "No.")])
    return found


@pytest.fixture(scope="module")
def read(tally, tmp_path_factory):
    return store(tally, tmp_path_factory.mktemp("run"))


def by_head(tally, table, *keys):
    """(the rows of each head in order as a frame, the combinations of keys in the order of the first head)"""
    frame = table.to_pandas().sort_values(["layer", "head"], kind="stable", ignore_index=True)
    rows = len(frame) // len(tally.heads.measured)
    assert frame[["layer", "head"]].values.tolist() == [[*head] for head in tally.heads.measured for _ in range(rows)]
    combinations = [*frame[[*keys]].itertuples(index=False, name=None)]
    assert combinations == combinations[:rows] * len(tally.heads.measured)
    return frame, combinations[:rows]


def test_metrics(tally, read):
    frame, names = by_head(tally, read["metrics"], "metric")
    assert names == [(name,) for name in NAMES]
    mean, spread = mean_and_spread(tally.counts, tally.totals, tally.squares)
    for name, expected in {"count": tally.counts, "mean": mean, "spread": spread}.items():
        np.testing.assert_array_equal(frame[name], expected.T.ravel(), name)
    np.testing.assert_array_equal(frame["high"], [*tally.settings.highs] * 8)
    np.testing.assert_array_equal([*frame["histogram"]], np.concatenate(tally.histogram.swapaxes(0, 1)))


def test_classes_and_distances(tally, read):
    """Shares of a query; of classes without queries nothing."""
    classes, pairs = by_head(tally, read["classes"], "query_class", "key_class")
    assert pairs == [*product(CLASSES, CLASSES)]  # queries and keys cannot be mistaken for each other
    queries = np.repeat(tally.queries, len(CLASSES))
    np.testing.assert_array_equal(classes["queries"], queries)
    for name in ("attention", "chance"):
        shares = np.where(queries > 0, getattr(tally, name).values.ravel() / queries.clip(1), np.nan)
        np.testing.assert_array_equal(classes[name], shares, name)
    distances, ranges = by_head(tally, read["distances"], "first", "last")
    assert ranges == [*map(tuple, distance_ranges(tally.settings.passage_tokens).tolist())]
    for name in ("attention", "chance"):
        np.testing.assert_allclose(distances.groupby(["layer", "head"])[name].sum(), 1, atol=1e-5)


def test_kept_queries(tally, read):
    """Whole rows of weights, one for each key of their passage and no more."""
    assert len(read["passages"]) == len(tally.shown_passages) == 9
    for name in ("strongest", "sample"):
        for passage, weights in zip(read[name]["passage"].to_pylist(), read[name]["weights"].to_pylist(), strict=True):
            assert len(weights) >= len(tally.shown_passages[passage].text.split()) + 2
            assert sum(weights) == pytest.approx(1, abs=1e-5)
    rows, strongest = tally.strongest.rows, read["strongest"].to_pydict()
    assert strongest["score"] == rows["score"].tolist()
    assert strongest["metric"] == [tally.settings.examples_of[number] for number in rows["metric"]]
    frame, queries = by_head(tally, read["sample"], "passage", "query")
    sample = tally.sample.rows
    assert queries == [*zip(sample["passage"].tolist(), sample["query"].tolist(), strict=True)]
    np.testing.assert_array_equal(frame[list(NAMES)], np.concatenate(sample["values"].transpose(2, 0, 1)))


def test_relations_passages_and_problems(tally, read):
    _, relations = by_head(tally, read["relations"], "relation", "direction")
    assert relations == [("det", "to the head"), ("det", "to the dependent")]
    (row,) = [row for row in read["passages"].to_pylist() if row["passage"] == SENTENCE.id]
    said = {"file": "a.conllu", "row": 1, "start": 0, "text": "the old cat", "tokens": ["the", "old", "cat"]}
    assert row == {"passage": SENTENCE.id} | said
    assert read["problems"].to_pylist() == [{"file": "b.txt", "row": 3, "why": "No."}]


def test_a_table_keeps_its_own_metadata(read, tmp_path):
    found = map_of(*(read[name].to_pandas() for name in ("metrics", "classes", "distances")))
    write(found.table(), fs.LocalFileSystem(), str(tmp_path / "map.parquet"), about(limit=5))
    table = pq.read_table(tmp_path / "map.parquet")
    assert json.loads(table.schema.metadata[b"map"])["clusters"] == [*found.clusters]
    assert About.read(table.schema.metadata[METADATA]).limit == 5
    again = pa.table({"a": [1]}, metadata={METADATA: b"of another run"})
    write(again, fs.LocalFileSystem(), str(tmp_path / "a.parquet"), about())
    assert About.read(pq.read_schema(tmp_path / "a.parquet").metadata[METADATA]) == about()


def test_of_nothing_read_there_are_files_too(bert, tmp_path):
    """With the same columns of the same kinds, so that whoever reads them need not ask."""
    tallies = {"empty": empty_tally(settings_of(bert)), "full": tallied(bert, passages(2), settings_of(bert))}
    for name in tallies:
        (tmp_path / name).mkdir()
    empty, full = (store(tally, tmp_path / name) for name, tally in tallies.items())
    assert {name: table.schema for name, table in empty.items()} == {name: full[name].schema for name in empty}
    frame = empty["metrics"].to_pandas()
    assert (frame["count"] == 0).all()
    assert frame["mean"].isna().all()
