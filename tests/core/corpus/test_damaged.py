"""Runs that are damaged or lie are refused with a reason, or read as if nothing had happened; never anything else."""

import os
import re
import shutil
from itertools import product
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from core import load_model
from core.corpus.opened import open_run, runs_in
from core.corpus.settings import RunSettings
from core.corpus.tables import COLUMNS, MAP, tables, write
from core.models.passages import Location, Problem
from tests.core.corpus.damages import POSSIBLE, all_that_is_shown, damages, outcome
from tests.core.corpus.made_runs import SENTENCES, add_map, made_run
from tests.core.corpus.plain import about, empty_tally, reader
from tests.core.tiny_models import randomised, tiny
from tests.depth import thorough
from tests.refusals import refused

EACH = 20  # of so many damages one is tried here; bench/hostile.py tries all of them, on the page


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """A folder with a run, and another one over fewer sentences."""
    folder, model = tmp_path_factory.mktemp("runs"), load_model(randomised(tiny("BERT")), tokenizer=reader())
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


# Damages by what is said of such a run.
NOT_SAID = [f"metadata: {what}" for what in ("nothing", "brackets without an end", "deep brackets")]
NOT_SAID += ["metadata, layers: text", "metadata, model: a nest", "metadata, model: half a character"]
NOT_SAID += ["metadata, versions: a list", "metadata, seconds: a float beyond all", "metadata, seconds: missing"]
NOT_SAID += ["metadata, tokens: true", "metadata, layers: a number beyond 64 bits", "metadata, limit: text"]
NO_CLUSTERS = ["map.cluster: the largest", "metadata of the map: deep brackets"]
NO_CLUSTERS += ["metadata of the map, clusters: a number below 0"]
WRONG_VALUES = ["map.alike: with somewhat large", "metrics.histogram: with below 0", "classes.attention: infinite"]
WRONG_VALUES += ["relations.direction: texts", "strongest.query: somewhat large", "strongest.score: NaN"]
WRONG_VALUES += ["sample.weights: with NaN"]
CANNOT_HAVE = "the column {1} of {0}.parquet has a value that it cannot have"
OTHERS = [
    "metrics.mean: numbers",
    "metrics.histogram: short",
    "metrics.metric: no UTF-8",
    "classes: no rows",
    "claims: no rows",
]
OTHERS += ["claims: no rows", "distances.first: somewhat large", "sample: one row missing", "passages: one row missing"]
OTHERS += ["passages.text: no UTF-8", *(f"{name}: cut off in half" for name in COLUMNS)]
REFUSED = {  # what is said after its name and before the advice; None: it may be anything
    **dict.fromkeys(NOT_SAID, "its files do not say what was run"),
    **dict.fromkeys(NO_CLUSTERS, "map.parquet does not say what its clusters are called"),
    **{name: CANNOT_HAVE.format(*re.split("[.:]", name)) for name in WRONG_VALUES},
    **dict.fromkeys(OTHERS),
    "map: of another run": "map.parquet is of another run",
    "metadata of one file: nothing": "it mixes files of several runs",
    "metadata, heads: 1000000000": "its files say what cannot be true of a run",
    "metadata, layers: 1": "metrics.parquet does not fit a model of 1 layers with 4 heads each",
    "metrics.mean: NaN": "the numbers in a row of metrics.parquet do not belong together",
    "metrics.mean: missing": "metrics.parquet has no column mean",
    "metrics.layer: there twice": "the column layer of metrics.parquet is not what a run writes (int64)",
    "strongest.passage: 0": "strongest.parquet has a query in a passage that is not there",
    "sample.weights: short": "a query has other keys than its passage has tokens",
    "sample.previous: missing": "sample.parquet has no column previous",
    "passages.tokens: empty": "a query has other keys than its passage has tokens",
    "problems: no rows": "problems.parquet lists others than the 1 that there were",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_run_that_is_damaged_so_is_refused(name, every, copy):
    """What is wrong stands between its name and what to do."""
    every[name](copy)
    with refused("run") as error:
        all_that_is_shown(copy)
    said = re.fullmatch(r"'copy' cannot be read: (.+)\. Run it again, into another folder\.", str(error.value))
    assert said is not None, error.value
    assert said[1] == (REFUSED[name] or said[1])


def test_what_is_no_finished_run_is_refused(every, copy, tmp_path):
    (tmp_path / "empty").mkdir()
    for folder, words in {"nowhere": "There is no folder", "empty": "is not a finished run"}.items():
        with refused("run", words):
            open_run(tmp_path / folder)
    every["metadata, format: 99"](copy)
    with refused("run", r"another version of Headlight \(format 99; this one reads 1\)"):
        open_run(copy)
    (copy / "sample.parquet").unlink()
    with refused("run", "no sample"):
        open_run(copy)


@thorough
def test_whatever_is_damaged_a_run_is_refused_or_as_before(every, runs, right, tmp_path):
    assert len(every) > 1_000
    found = {}
    for number, name in enumerate([*every][::EACH]):
        copy = Path(shutil.copytree(runs / "run", tmp_path / str(number)))
        every[name](copy)
        found[name] = outcome(copy, right)
    wrong = {name: what for name, what in found.items() if what not in ("refused", "as before")}
    possible = {name for name, what in wrong.items() if what == "other numbers" and POSSIBLE.fullmatch(name)}
    assert wrong.keys() == possible, wrong
    assert list(found.values()).count("refused") > 0.8 * len(found)


@pytest.mark.parametrize("name", ["strongest", "sample", "classes", "metrics", "passages"])
def test_a_bit_that_turns_in_a_page_of_a_file_is_seen(name, copy, right):
    """Whatever it stands for: pages have a checksum."""
    file = copy / f"{name}.parquet"
    column = pq.read_metadata(file).row_group(0).column(pq.read_metadata(file).num_columns - 1)
    whole = bytearray(file.read_bytes())
    whole[(column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size // 2] ^= 1
    file.write_bytes(whole)
    assert outcome(copy, right) == "refused"


def test_a_run_of_an_earlier_version_has_no_checksums_and_long_problems_and_opens(copy, right):
    for file in copy.iterdir():
        pq.write_table(pq.read_table(file), file, write_page_checksum=False)
    assert outcome(copy, right) == "as before"
    file = copy / "problems.parquet"
    table = pq.read_table(file)
    pq.write_table(table.set_column(2, "why", [["x" * 3_000_000]]).replace_schema_metadata(table.schema.metadata), file)
    run = open_run(copy)
    assert len(run.problems["why"][0]) == 300
    (copy / f"{MAP}.parquet").unlink()
    assert run.map is not None  # it is read once


READING = {  # each a file, and what reads it of an open run
    "metrics": lambda run: run.distribution(1, 3, "previous"),
    "sample": lambda run: run.sample(1, 3),
    "strongest": lambda run: run.strongest(1, 3, "previous"),
    "passages": lambda run: run.passages(run.ids),
}


@pytest.mark.parametrize("name", READING)
@pytest.mark.parametrize("what", ["no rows", "rows missing", "of another run", "cut off in half", "deleted"])
def test_a_file_that_changes_under_an_open_run_is_seen(name, what, every, copy):
    READING[name](open_run(copy))
    run = open_run(copy)
    every[f"{name}: {what}"](copy)
    with refused("run", "cannot be read"):
        READING[name](run)


def test_one_bad_folder_hides_no_other(every, runs, tmp_path):
    for name in ("good", "bad", "worse"):
        shutil.copytree(runs / "run", tmp_path / name)
    every["metadata: brackets without an end"](tmp_path / "bad")
    every["metadata, model: a nest"](tmp_path / "worse")
    os.mkdir(os.fsencode(tmp_path) + b"/caf\xe9")
    for name in ("Empty", ".hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "a file").touch()
    listed = {one.name: one for one in runs_in(tmp_path)}
    assert [*listed] == ["bad", "caf\\udce9", "Empty", "good", "worse"]  # large letters among small ones
    good = listed.pop("good")
    assert (good.about, good.problem) == (open_run(runs / "run").about, None)
    why = {"bad": "cannot be read", "worse": "cannot be read", "Empty": "not a finished run"}
    for name, one in listed.items():
        assert one.about is None
        assert why.get(name, "not UTF-8") in one.problem
        f"{one.name} {one.problem}".encode()
    assert runs_in(tmp_path / "nowhere") == []


def test_a_run_that_has_measured_nothing_opens(tmp_path):
    tally = empty_tally(RunSettings(heads=tuple(product(range(2), range(4))), passage_tokens=64, sample=20))
    tally.note([Problem(Location("a.txt", row), "No.") for row in range(1_500)])
    said = about(tokens=0, passages=0, unread=1_500, examples_of=tally.settings.examples_of)
    for name, table in tables(tally, {}):
        write(table, fs.LocalFileSystem(), str(tmp_path / f"{name}.parquet"), said)
    run = open_run(tmp_path)
    assert (run.names, run.about.unread, len(run.problems)) == ((), 1_500, 1_000)
    assert len(run.sample(0, 0).rows) == 0
