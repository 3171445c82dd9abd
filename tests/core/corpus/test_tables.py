"""A finished tally as Parquet: read again, it is what was tallied, and every file says what was run."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from core.corpus.profiles import map_of
from core.corpus.tables import METADATA, About, tables, write
from core.corpus.tally import DIRECTIONS
from core.models.passages import Location, Passage, Problem, Relation
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


def test_relations_passages_and_problems(tally, read):
    relations = read["relations"].to_pandas()
    assert len(relations) == 2 * len(tally.heads.measured)
    assert set(zip(relations["relation"], relations["direction"], strict=True)) == {("det", way) for way in DIRECTIONS}
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
