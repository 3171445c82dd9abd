"""A finished tally as Parquet: read again, it is what was tallied, and every file says what was run."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from core import load_model
from core.corpus.about import METADATA, About
from core.corpus.passages import CLASSES
from core.corpus.profiles import map_of
from core.corpus.settings import distance_ranges
from core.corpus.storing import tables, write
from core.corpus.sums import mean_and_spread
from core.corpus.tally import BINS
from core.corpus.texts import Location, Passage, Problem, Relation
from core.heads.metrics import NAMES
from tests.core.corpus.plain import empty_tally, passages, reader, settings_of, tallied
from tests.core.tiny_models import tiny


def about(**others):
    given = {
        "model": "m",
        "revision": "r",
        "dtype": "float32",
        "device": "cpu",
        "captures": True,
        "kind": "self",
        "layers": 2,
        "heads": 4,
        "wanted": 8,
        "data": "d",
        "column": "text",
        "by": "document",
        "files": 1,
        "passages": 2,
        "tokens": 30,
        "corpus": "0" * 16,
        "unread": 0,
        "limit": None,
        "passage_tokens": 64,
        "strongest": 5,
        "sample": 20,
        "examples_of": ("next", "entropy"),
        "versions": {"torch": "2"},
        "seconds": 1.5,
    }
    return About(**given | others)


def store(tally, folder):
    tokens = {number: tuple(passage.text.split()) for number, passage in tally.shown_passages.items()}
    for name, table in tables(tally, tokens):
        write(table, fs.LocalFileSystem(), str(folder / f"{name}.parquet"), about())
    return {path.stem: pq.read_table(path) for path in folder.iterdir()}


@pytest.fixture(scope="module")
def tally():
    model = load_model(tiny("BERT"), tokenizer=reader())
    found = tallied(model, passages(8), settings_of(model))
    annotated = Passage(Location("a.conllu", 1), 0, "the old cat", ((0, 3), (4, 7), (8, 11)), (Relation(0, 2, "det"),))
    found.merge(tallied(model, [annotated], found.settings))
    found.note([Problem(Location("b.txt", 3), "No.")])
    return found


@pytest.fixture(scope="module")
def read(tally, tmp_path_factory):
    return store(tally, tmp_path_factory.mktemp("run"))


def test_metrics(tally, read):
    frame = read["metrics"].to_pandas()
    assert len(frame) == 8 * len(NAMES)
    mean, spread = mean_and_spread(tally.counts, tally.totals, tally.squares)
    for place, (layer, head) in enumerate(tally.heads.measured):
        for metric, name in enumerate(NAMES):
            (row,) = frame[(frame.layer == layer) & (frame["head"] == head) & (frame.metric == name)].itertuples()
            assert (row.count, row.mean, row.spread) == (
                tally.counts[metric, place],
                mean[metric, place],
                spread[metric, place],
            )
            assert row.high == tally.settings.highs[metric]
            np.testing.assert_array_equal(row.histogram, tally.histogram[metric, place])
            assert len(row.histogram) == BINS


def test_classes_and_distances(tally, read):
    """Shares of a query; of classes without queries nothing."""
    classes = read["classes"].to_pandas().set_index(["layer", "head", "query_class", "key_class"])
    place = tally.heads.measured.index((1, 2))
    for of, one in enumerate(CLASSES):
        for to, other in enumerate(CLASSES):
            row = classes.loc[(1, 2, one, other)]
            count = tally.queries[place, of]
            assert row["queries"] == count
            if count:
                assert row["attention"] == tally.attention.values[place, of, to] / count
                assert row["chance"] == tally.chance.values[place, of, to] / count
            else:
                assert np.isnan(row["attention"])
    distances = read["distances"].to_pandas()
    assert (
        distances[["first", "last"]].drop_duplicates().to_numpy().tolist()
        == distance_ranges(tally.settings.passage_tokens).tolist()
    )
    for column in ("attention", "chance"):
        of_all = distances.groupby(["layer", "head"])[column].sum()
        np.testing.assert_allclose(of_all, 1, atol=1e-5)


def test_kept_queries(tally, read):
    """Whole rows of weights, one for each key of their passage and no more."""
    tokens = {number: len(row) for number, row in zip(*columns(read["passages"], "passage", "tokens"), strict=True)}
    assert len(tokens) == len(tally.shown_passages) == 9
    for name, rows in (("strongest", tally.strongest.rows), ("sample", None)):
        table = read[name]
        for passage, weights in zip(*columns(table, "passage", "weights"), strict=True):
            words = len(tally.shown_passages[passage].text.split())
            assert len(weights) >= words + 2
            assert sum(weights) == pytest.approx(1, abs=1e-5)
        if rows is not None:
            assert columns(table, "score")[0] == rows["score"].tolist()
            assert columns(table, "metric")[0] == [tally.settings.examples_of[number] for number in rows["metric"]]
    frame = read["sample"].to_pandas()
    sample = frame[(frame.layer == 0) & (frame["head"] == 3)]
    np.testing.assert_array_equal(sample[list(NAMES)].to_numpy(), tally.sample.rows["values"][:, :, 3])
    assert sample["query"].tolist() == tally.sample.rows["query"].tolist()
    assert len(frame) == 8 * len(tally.sample.rows)


def columns(table, *names):
    return [table[name].to_pylist() for name in names]


def test_relations_passages_and_problems(tally, read):
    relations = read["relations"].to_pandas()
    assert len(relations) == 8 * 2
    assert set(relations.direction) == {"to the head", "to the dependent"}
    assert relations[["layer", "head"]].drop_duplicates().to_numpy().tolist() == [[*h] for h in tally.heads.measured]
    passage = Passage(Location("a.conllu", 1), 0, "the old cat")
    (row,) = [row for row in read["passages"].to_pylist() if row["passage"] == passage.id]
    assert row == {
        "passage": passage.id,
        "file": "a.conllu",
        "row": 1,
        "start": 0,
        "text": "the old cat",
        "tokens": ["the", "old", "cat"],
    }
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


def test_of_nothing_read_there_are_files_too(tmp_path):
    """With the same columns of the same kinds, so that whoever reads them need not ask."""
    model = load_model(tiny("BERT"), tokenizer=reader())
    settings = settings_of(model)
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    empty = store(empty_tally(settings), tmp_path / "empty")
    full = store(tallied(model, passages(2), settings), tmp_path / "full")
    for name, table in empty.items():
        assert table.schema.equals(full[name].schema), name
    frame = empty["metrics"].to_pandas()
    assert (frame["count"] == 0).all()
    assert frame["mean"].isna().all()
