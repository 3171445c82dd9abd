"""Runs that are damaged or lie are refused with a reason, or read as if nothing had happened; never anything else."""

from __future__ import annotations

import json
import os
import shutil
from itertools import product
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from core import InputError, load_model
from core.corpus.about import METADATA, About
from core.corpus.columns import MAP
from core.corpus.opened import open_run, runs_in
from core.corpus.settings import RunSettings
from core.corpus.storing import tables, write
from core.corpus.texts import Place, Problem
from tests.core.corpus.damages import POSSIBLE, all_that_is_shown, damages, outcome
from tests.core.corpus.made_runs import SENTENCES, add_map, made_run
from tests.core.corpus.plain import empty_tally, reader
from tests.core.corpus.test_storing import about
from tests.core.tiny_models import randomised, tiny

EACH = 14  # of so many damages one is tried here; bench/hostile.py tries all of them, on the page


@pytest.fixture(scope="module")
def model():
    return load_model(randomised(tiny("BERT")), tokenizer=reader())


@pytest.fixture(scope="module")
def runs(model, tmp_path_factory) -> Path:
    """A folder with a run, and another one over fewer sentences."""
    folder = tmp_path_factory.mktemp("runs")
    add_map(made_run(folder / "run", model))
    add_map(made_run(folder / "other", model, sentences=SENTENCES[:3]))
    return folder


@pytest.fixture(scope="module")
def right(runs) -> str:
    return all_that_is_shown(runs / "run")


@pytest.fixture(scope="module")
def every(runs):
    return damages(runs / "run", runs / "other")


@pytest.fixture
def copy(runs, tmp_path) -> Path:
    return Path(shutil.copytree(runs / "run", tmp_path / "copy"))


@pytest.mark.parametrize(
    "name",
    [
        "map: cut off in half",
        "map: of another run",
        "map.cluster: the largest",
        "map.alike: with somewhat large",
        "metadata of the map: deep brackets",
        "metadata of the map, clusters: a number below 0",
        "metadata: brackets without an end",
        "metadata: deep brackets",
        "metadata, layers: text",
        "metadata, heads: 1000000000",
        "metadata, model: a nest",
        "metadata, model: half a character",
        "metadata, versions: a list",
        "metadata, seconds: a float beyond all",
        "metrics.mean: NaN",
        "metrics.mean: numbers",
        "metrics.histogram: short",
        "metrics.histogram: with below 0",
        "metrics.metric: no UTF-8",
        "metrics.layer: there twice",
        "classes: no rows",
        "classes.attention: infinite",
        "distances.first: somewhat large",
        "relations.direction: texts",
        "strongest.query: somewhat large",
        "strongest.passage: 0",
        "strongest.score: NaN",
        "sample.weights: short",
        "sample.weights: with NaN",
        "sample.previous: missing",
        "sample: one row missing",
        "passages: one row missing",
        "passages.tokens: empty",
        "passages.text: no UTF-8",
        "problems: no rows",
    ],
)
def test_a_run_that_is_damaged_so_is_refused(name, every, copy, right):
    every[name](copy)
    assert outcome(copy, right) == "refused"


def test_whatever_is_damaged_a_run_is_refused_or_as_before(every, runs, right, tmp_path):
    assert len(every) > 1_000
    found = {}
    for number, name in enumerate([*every][::EACH]):
        copy = Path(shutil.copytree(runs / "run", tmp_path / str(number)))
        every[name](copy)
        found[name] = outcome(copy, right)
    wrong = {name: what for name, what in found.items() if what not in ("refused", "as before")}
    assert {
        name: what for name, what in wrong.items() if not (what == "other numbers" and POSSIBLE.fullmatch(name))
    } == {}
    assert list(found.values()).count("refused") > 0.8 * len(found)


def test_it_is_said_what_is_wrong_and_what_to_do(every, copy):
    every["metrics.mean: NaN"](copy)
    with pytest.raises(InputError) as error:
        open_run(copy)
    assert str(error.value) == (
        "'copy' cannot be read: the numbers in a row of metrics.parquet do not belong together. Run it again, into another "
        "folder."
    )


@pytest.mark.parametrize("name", ["strongest", "sample", "classes", "metrics", "passages"])
def test_a_bit_that_turns_in_a_page_of_a_file_is_seen(name, copy, right):
    """Whatever it stands for: pages have a checksum."""
    file = copy / f"{name}.parquet"
    column = pq.read_metadata(file).row_group(0).column(pq.read_metadata(file).num_columns - 1)
    whole = bytearray(file.read_bytes())
    whole[(column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size // 2] ^= 1
    file.write_bytes(whole)
    assert outcome(copy, right) == "refused"


def test_a_run_of_an_earlier_version_has_no_checksums_and_opens(copy, right):
    for file in copy.iterdir():
        pq.write_table(pq.read_table(file), file, write_page_checksum=False)
    assert outcome(copy, right) == "as before"


READING = {
    "metrics": lambda run: run.distribution(1, 3, "previous"),
    "sample": lambda run: run.sample(1, 3),
    "strongest": lambda run: run.strongest(1, 3, "previous"),
    "passages": lambda run: run.passages(run.ids),
}


@pytest.mark.parametrize("name", READING)
@pytest.mark.parametrize("what", ["no rows", "rows missing", "of another run", "cut off in half"])
def test_a_file_that_changes_under_an_open_run_is_seen(name, what, every, copy):
    run = open_run(copy)
    READING[name](run)
    run = open_run(copy)
    every[f"{name}: {what}"](copy)
    with pytest.raises(InputError, match="cannot be read"):
        READING[name](run)


def test_one_bad_folder_hides_no_other(every, runs, tmp_path):
    for name in ("good", "bad", "worse"):
        shutil.copytree(runs / "run", tmp_path / name)
    every["metadata: brackets without an end"](tmp_path / "bad")
    every["metadata, model: a nest"](tmp_path / "worse")
    os.mkdir(os.fsencode(tmp_path) + b"/caf\xe9")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "a file").touch()
    listed = {one.name: one for one in runs_in(tmp_path)}
    assert listed["good"].about == open_run(runs / "run").about
    assert {name for name, one in listed.items() if one.about is None} == {"bad", "worse", "caf\\udce9"}
    for one in listed.values():
        f"{one.name} {one.problem}".encode()
        assert one.about is not None or "cannot be read" in one.problem or "not UTF-8" in one.problem


def test_a_run_that_has_measured_nothing_opens(tmp_path):
    tally = empty_tally(RunSettings(heads=tuple(product(range(2), range(4))), passage_tokens=64, sample=20))
    tally.note([Problem(Place("a.txt", row), "No.") for row in range(1_500)])
    said = about(tokens=0, passages=0, unread=1_500, examples_of=tally.settings.examples_of)
    for name, table in tables(tally, {}):
        write(table, fs.LocalFileSystem(), str(tmp_path / f"{name}.parquet"), said)
    run = open_run(tmp_path)
    assert (run.names, run.about.unread, len(run.problems)) == ((), 1_500, 1_000)
    assert len(run.sample(0, 0).rows) == 0


def test_problems_of_earlier_versions_are_cut(copy):
    file = copy / "problems.parquet"
    table = pq.read_table(file)
    pq.write_table(table.set_column(2, "why", [["x" * 3_000_000]]).replace_schema_metadata(table.schema.metadata), file)
    assert len(open_run(copy).problems["why"][0]) == 300


@pytest.mark.parametrize(
    "said",
    [
        {"tokens": 1.5},
        {"tokens": True},
        {"tokens": -1},
        {"layers": 10**20},
        {"limit": "x"},
        {"seconds": float("nan")},
        {"captures": 1},
        {"model": "\ud800"},
        {"examples_of": "next"},
        {"versions": {"a": 1}},
    ],
)
def test_what_a_run_says_of_itself_has_the_types_that_it_says(said, runs):
    there = json.loads(pq.read_schema(runs / "run" / "metrics.parquet").metadata[METADATA])
    assert About.read(json.dumps(there).encode()) == About.read(json.dumps(there | {"seconds": 1}).encode())
    with pytest.raises(TypeError, match=next(iter(said))):
        About.read(json.dumps(there | said).encode())


def test_the_map_is_read_once(copy):
    run = open_run(copy)
    (copy / f"{MAP}.parquet").unlink()
    assert run.map is not None
