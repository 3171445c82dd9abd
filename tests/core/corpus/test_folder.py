"""The folder of a run: what is left to do after whatever has happened in it, and what it says when it cannot be used."""

import json
import os
import shutil
import signal
import socket
from contextlib import contextmanager, suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.corpus.folder import JOB, PARTS, RUNNING, RunFolder, load_parts, parts_in, save_part
from core.corpus.settings import RunSettings
from core.corpus.tables import LAST, METADATA, About
from tests.core.corpus.plain import about, empty_tally
from tests.refusals import refused

WANTED = np.arange(1, 9, dtype=np.uint64)


@pytest.fixture
def place(tmp_path):
    return RunFolder.of(str(tmp_path / "run"))


def add_part(place, *ids):
    """A part in which passages of these ids are done; its name."""
    tally = empty_tally(RunSettings(heads=((0, 0),), passage_tokens=8, strongest=1, sample=1))
    tally.ids = set(ids)
    return save_part(tally, place.system, place.parts)


def left(place):
    return place.left(WANTED).tolist()


def names(place):
    return set(parts_in(place.system, place.parts))


@pytest.mark.parametrize(
    ("parts", "kept", "still"),
    [
        ([], [], [1, 2, 3, 4, 5, 6, 7, 8]),
        ([(2, 1), (7,)], [0, 1], [3, 4, 5, 6, 8]),
        # Where merging ended between writing the whole and deleting what went into it, the whole counts.
        ([(1, 2), (3,), (1, 2, 3), (4,)], [2, 3], [5, 6, 7, 8]),
        ([(1,), (2, 99)], [0], [2, 3, 4, 5, 6, 7, 8]),  # of which one is not wanted
    ],
)
def test_what_is_in_a_part_is_done(place, parts, kept, still):
    made = [add_part(place, *ids) for ids in parts]
    assert left(place) == still
    assert names(place) == {made[number] for number in kept}


@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_a_part_that_cannot_be_read_is_done_again(place, tmp_path, content):
    good, bad = add_part(place, 1), tmp_path / "run" / PARTS / add_part(place, 2, 3)
    bad.write_bytes(bad.read_bytes()[:200] if content is None else content)
    assert left(place) == [2, 3, 4, 5, 6, 7, 8]
    assert names(place) == {good}


def test_a_part_that_is_broken_inside_is_named(place, tmp_path):
    bad = tmp_path / "run" / PARTS / add_part(place, 1)
    content = bytearray(bad.read_bytes())
    content[len(content) // 2] ^= 1
    bad.write_bytes(content)
    with refused("out", rf"{bad.name} is not a tally.*can be deleted"), place.in_words():
        load_parts(place.system, place.parts, bad.name)


def test_a_run_is_continued_with_the_same_job_and_enough_room(place, tmp_path):
    """test_settings.py tries each field of another job."""
    job = json.dumps({"tokens": 8})
    place.begin(job, 0)
    add_part(place, 1)
    again = RunFolder.of(str(tmp_path / "run"))
    again.begin(job, 0)
    assert left(again) == WANTED.tolist()[1:]
    with refused("out", "of room"):
        again.begin(job, 10**18)
    (tmp_path / "run" / JOB).write_bytes(b"\xff")
    with refused("out", r"with a job\.json that cannot be read"):
        again.begin(job, 0)


def test_a_folder_that_cannot_be_read_is_said(place, tmp_path):
    shutil.rmtree(tmp_path / "run" / PARTS)
    (tmp_path / "run" / PARTS).write_text("no folder")
    with refused("out", "cannot be used"):
        left(place)


TABLES = ("problems", pa.table({"row": [1]})), (LAST, pa.table({"mean": [0.5]}))


def test_a_finished_run_has_its_tables_alone(place, tmp_path):
    place.begin("one", 0)
    add_part(place, 1)
    place.finish(TABLES, about())
    assert {file.name for file in (tmp_path / "run").iterdir()} == {"problems.parquet", f"{LAST}.parquet"}
    table = pq.read_table(tmp_path / "run" / "problems.parquet")
    assert table.to_pydict() == {"row": [1]}
    assert About.read(table.schema.metadata[METADATA]) == about()
    with refused("out", "finished run"):
        RunFolder.of(str(tmp_path / "run"))
    assert not (tmp_path / "run" / PARTS).exists()


def test_where_tables_cannot_be_written_what_was_measured_stays(place, tmp_path):
    place.begin("one", 0)
    done = add_part(place, 1)
    (tmp_path / "run" / "problems.parquet" / "in the way").mkdir(parents=True)
    with refused("out", "could not be written"):
        place.finish(TABLES, about())
    assert names(place) == {done}
    assert (tmp_path / "run" / JOB).is_file()
    assert not (tmp_path / "run" / f"{LAST}.parquet").exists()


def test_a_folder_is_told_to_other_processes_from_the_root_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert RunFolder.of("run").parts_address == str(tmp_path / "run" / PARTS)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert RunFolder.of("~/run").address == str(tmp_path / "home" / "run")
    assert RunFolder.of((tmp_path / "other").as_uri()).path == str(tmp_path / "other")
    assert (tmp_path / "other" / PARTS).is_dir()


# --- two runs into one folder


@contextmanager
def held_by_another(place):
    """The number of a process that holds a folder, and is killed in the end."""
    told, tells = os.pipe()
    if not (child := os.fork()):
        try:
            with place.alone():
                os.write(tells, b"held")
                signal.pause()
        finally:
            os._exit(1)
    try:
        assert os.read(told, 4) == b"held"
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def said_of(place):
    """What is said of a folder that is held."""
    with refused("out", "Another run is at work") as error, place.alone():
        pytest.fail("it is held")
    return str(error.value)


def test_a_second_run_is_told_that_the_first_is_at_work_until_that_ends_or_is_killed(place, tmp_path):
    (tmp_path / "same").symlink_to(tmp_path / "run")
    with held_by_another(place) as process:
        for folder in ("run", "same"):
            said = said_of(RunFolder.of(str(tmp_path / folder)))
            assert f"process {process} on {socket.gethostname()}, since 20" in said
    with suppress(KeyboardInterrupt), place.alone():
        assert f"process {os.getpid()} " in said_of(RunFolder.of(str(tmp_path / "run")))
        raise KeyboardInterrupt
    with place.alone():
        assert (tmp_path / "run" / RUNNING).is_file()
    assert [file.name for file in (tmp_path / "run").iterdir()] == [PARTS]


def test_where_there_are_no_locks_a_run_goes_on(place, tmp_path):
    (tmp_path / "run" / RUNNING).mkdir()
    with place.alone():
        add_part(place, 1)
    assert left(place) == WANTED.tolist()[1:]
