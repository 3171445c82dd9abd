"""Whole runs on Ray: the same as a plain loop over the same texts, whatever is stopped or killed on the way."""

import json
from math import inf, nan

import pandas as pd
import psutil
import pyarrow.parquet as pq
import pytest
import ray
from pandas.testing import assert_frame_equal
from transformers import BertConfig, BertModel

from core.corpus import running, running_changes
from core.corpus.__main__ import command
from core.corpus.changes import Changes, Pair
from core.corpus.folder import JOB, PARTS, RunFolder
from core.corpus.opened import open_run
from core.corpus.reading import find_files
from core.corpus.running import Pool, run
from core.corpus.running_changes import run_changes
from core.corpus.steps import InProcessRun, heads_of, passages_of, take
from core.corpus.tables import tables
from core.corpus.tally import Tally
from core.models.loading import load_model
from core.models.passages import Passage, Problem
from core.models.tokens import token_texts
from core.threads import one_thread
from tests.core.corpus.plain import job_of, passages, reader
from tests.core.tiny_models import SMALL as SIZES
from tests.core.tiny_models import randomised, tiny
from tests.depth import thorough
from tests.refusals import exit_status, refused

pytestmark = pytest.mark.usefixtures("cluster")
READS = 32  # tokens, the encoder, at most
SMALL = {"strongest": 3, "sample": 10}
SMALL["claims"] = ("1.2: looks at punctuation, at least 0.2", "any head: looks at the previous token, at least 0.1")
TOKENS = 600  # a part of all that there are


@pytest.fixture(scope="module")
def cluster():
    """One Ray for all tests of this file: starting it takes longer than they do."""
    keep = {"idle_worker_killing_time_threshold_ms": 10**6}  # starting a process takes longer than all that it does
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    ray.init("local", num_cpus=1, _system_config=keep, **quiet)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    place = tmp_path_factory.mktemp("encoder")
    randomised(BertModel(BertConfig(**SIZES, max_position_embeddings=READS))).save_pretrained(place)
    reader().save_pretrained(place)
    return str(place)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Five files; of one of them a line is not JSON, and one file is not gzip."""
    place = tmp_path_factory.mktemp("texts")
    lines = [json.dumps({"body": passage.text}) + "\n" for passage in passages(45)]
    for number in range(3):
        (place / f"{number}.jsonl").write_text("".join(lines[number::3]))
    (place / "3.jsonl").write_text('{"body": "the cat"}\n{broken\n{"body": "the dog"}\n')
    (place / "4.jsonl.gz").write_bytes(b"\x1f\x8b\x08\x00 no gzip")
    return str(place)


def plain_loop(model_folder, data, most=TOKENS, **settings):
    """A tally to which passages are added one after the other, at most so many tokens, and the rows of its tables."""
    model, files = load_model(model_folder), find_files(data)
    job = job_of(model_folder, files.folder, **settings, passage_tokens=READS)
    tally, every = Tally(job.settings, heads_of(job.settings, model)), []
    for found in passages_of(files.names, job, model):
        tally.note([found]) if isinstance(found, Problem) else every.append(found)
    assert any(found.start for found in every)  # some texts are longer than a passage
    with one_thread():  # as a worker has it: with more the last bits differ
        for found in sorted(every, key=lambda one: one.id):
            taken = take(model, found.text, READS)
            if tally.tokens_read + len(taken.input_ids) > most:
                break
            tally.add(found, taken)
    cut = model.tokenizer
    tokens = {number: token_texts(cut, cut(one.text)["input_ids"]) for number, one in tally.shown_passages.items()}
    return tally, {name: repr(table.to_pydict()) for name, table in tables(tally, tokens)}


def tables_in(out):
    """Without the map, which is drawn of the others."""
    found = {file.stem: repr(pq.read_table(file).to_pydict()) for file in out.glob("*.parquet")}
    assert found.pop("map")
    return found


class Stopped(Exception):
    """What a person does with Ctrl-C."""


@thorough
def test_a_run_that_is_stopped_and_whose_workers_die_ends_like_a_plain_loop(encoder, texts, tmp_path, monkeypatch):
    """Only this test finds passages that are lost or counted twice where real workers of Ray are stopped and killed."""
    # Many small parts, put together three at a time while others are being made.
    for name, value in {"SHARD": 6, "AT_ONCE": 3, "LISTED_AFTER": 0}.items():
        monkeypatch.setattr(running, name, value)
    out = tmp_path / "run"
    told = []

    def stop_after_two(progress):
        told.append(progress)
        if progress.doing == "Measuring" and len(list((out / PARTS).glob("*.npz"))) > 1:
            raise Stopped

    given = {"column": "body", "tokens": TOKENS, "workers": 1, "passage_tokens": 40, **SMALL}
    with pytest.raises(Stopped):
        run(encoder, texts, str(out), on_progress=stop_after_two, **given)
    assert (out / JOB).is_file()
    assert not list(out.glob("*.parquet"))

    killed = []

    def kill_one(progress):
        told.append(progress)
        if progress.doing == "Measuring" and not killed:
            workers = [one for one in psutil.process_iter(["cmdline"]) if is_worker(one)]
            killed.append(workers[0].pid)
            workers[0].kill()

    del told[:]
    about = run(encoder, texts, str(out), on_progress=kill_one, **given)
    assert killed
    begins = [one for one in told if one.doing == "Starting the workers"]
    measured = [one for one in told if one.doing == "Measuring"]
    assert begins[0].tokens > 0  # what was done is not done again
    assert max(one.tokens for one in measured) == measured[0].of == about.tokens
    assert measured[-1].left == 0
    tally, expected = plain_loop(encoder, texts, column="body", **SMALL)
    assert tally.tokens_read > TOKENS - READS  # there are more
    assert tables_in(out) == expected
    assert "claims" in expected
    assert not (out / PARTS).exists()
    assert not (out / JOB).exists()

    problems = pq.read_table(out / "problems.parquet").to_pylist()
    assert [(one["file"], one["row"]) for one in problems] == [("3.jsonl", 2), ("4.jsonl.gz", 0)]
    assert open_run(out).about == about  # which every file of it says
    assert (about.unread, about.files) == (2, 5)
    assert (about.limit, about.passage_tokens) == (TOKENS, READS)
    assert about.revision == load_model(encoder).revision


def is_worker(process):
    command = process.info["cmdline"] or [""]
    return command[0].startswith("ray::MapWorker") and process.ppid() in {
        child.pid for child in psutil.Process().children(recursive=True)
    }


def test_a_run_in_this_process_gives_the_tables_of_a_plain_loop(encoder, tmp_path):
    """To the last bit, with as many threads as this process has, as the command does; and stopped on the way."""
    file = tmp_path / "my text.txt"
    file.write_text("\n".join(passage.text for passage in passages(40)))
    here = InProcessRun(load_model(encoder), file, tmp_path / "page", 10**6)
    while here.go_on():
        pass
    tally, expected = plain_loop(encoder, str(file), 10**6)
    assert here.total == here.done == len(tally.ids) > 12
    assert here.tokens == tally.tokens_read
    assert tables_in(tmp_path / "page") == expected


@thorough
def test_what_is_wrong_is_said_before_any_worker_starts(encoder, texts, tmp_path, monkeypatch):
    def wrong(field, words, **changes):
        given = {"model": encoder, "data": texts, "out": str(tmp_path / "run"), "column": "body"} | SMALL | changes
        with refused(field, words):
            run(**given, on_progress=lambda progress: pytest.fail("it starts") if "workers" in progress.doing else None)

    (tmp_path / "empty.txt").write_text(" \n\n")
    (tmp_path / "file").write_text("")
    wrong("data", "nothing at", data=str(tmp_path / "nowhere"))
    wrong("data", "no text in it", data=str(tmp_path / "empty.txt"))
    wrong("column", "no column 'text'", column="text")
    wrong("out", "cannot be written", out=str(tmp_path / "file" / "run"))
    wrong("model", "no folder", model=str(tmp_path / "no-model"))
    for name, words in {"ViT": "reads images", "BERT": "without a tokenizer"}.items():
        tiny(name).save_pretrained(tmp_path / name)
        wrong("model", words, model=str(tmp_path / name))
    wrong("examples_of", "no metric 'best'", examples_of=("best",))
    wrong("tokens", "less than one passage", tokens=5)
    wrong("passage_tokens", "at least 8", passage_tokens=2)
    wrong("dtype", "not a dtype", dtype="int3")
    wrong("by", "Choose one of document, paragraph, line", by="page")
    wrong("heads", "no heads", heads=[])
    wrong("workers", "1 at least", workers=0)
    for name in ("cpus", "gpus"):
        for number in (-1, inf, nan, 1e-9, 1e9):
            wrong(name, rf"{name} is {number:g}".replace("+", r"\+"), **{name: number})
    for name in ("model", "data", "out"):
        for nothing in ("", "caf\udce9", "a\0b"):
            wrong(name, "Nothing is named" if not nothing else "not UTF-8, or has a NUL", **{name: nothing})
    with monkeypatch.context() as small:
        small.setattr("shutil.disk_usage", lambda _path: type("", (), {"free": 1000})())
        wrong("out", "of room")
    monkeypatch.setattr("core.corpus.running.free_bytes", lambda _device: 10**6)
    wrong("workers", "workers need about", workers=3)


def test_the_command_says_what_is_wrong(texts, encoder, tmp_path, capsys):
    assert (
        exit_status(command, "run", "--model", encoder, "--data", texts, "--out", str(tmp_path / "run"), "--gpus=inf")
        == 2
    )
    assert capsys.readouterr().err.strip().startswith("gpus: gpus is inf;")


def test_a_run_has_its_folder_alone(encoder, texts, tmp_path):
    """From before it counts."""
    place, told = RunFolder.of(str(tmp_path / "run")), []

    def second(progress):
        if progress.doing == "Looking for files":
            return
        told.append(progress.doing)
        with refused("out", "Another run is at work"):
            run(encoder, texts, place.address, column="body", **SMALL)
        if progress.doing == "Counting the passages":
            raise Stopped

    with pytest.raises(Stopped):
        run(encoder, texts, place.address, column="body", workers=1, on_progress=second, **SMALL)
    assert told == ["Looking at the model", "Counting the passages"]
    with place.alone():
        pass


@thorough
def test_what_changed_in_a_copy_is_that_of_a_plain_loop_also_after_a_stop(texts, tmp_path, capsys, monkeypatch):
    """To the last bit, of whatever half; with what is compared kept, and heads swapped back in all of it."""
    base, copied, swap = str(tmp_path / "base"), str(tmp_path / "copy"), [(1, 1), (0, 2)]
    network = tiny("Llama")
    for folder in (base, copied):
        network.save_pretrained(folder)
        reader().save_pretrained(folder)
        network.model.layers[1].self_attn.q_proj.weight.data[8:16] *= 2  # of head 1, in the copy
    out, read = tmp_path / "changes.json", []

    def stop(progress):
        read.append(progress.tokens)
        if len({*read}) == 3:  # none, one shard, two
            raise Stopped

    monkeypatch.setattr(running_changes, "KEPT_AFTER", 0)
    how = {"column": "body", "tokens": TOKENS, "passage_tokens": 40, "workers": 1}
    with pytest.raises(Stopped):
        run_changes(base, copied, texts, str(out), swap=swap, on_progress=stop, **how)
    [part] = (tmp_path / "changes.json.unfinished" / PARTS).iterdir()
    kept = Changes.from_bytes(part.read_bytes())
    assert 0 < kept.tokens == read[-1]
    assert len({*kept.ids.tolist()}) == kept.passages + kept.unread
    with refused("out", r"another run has been begun, with swap \[\[1, 1\], \[0, 2\]\] \(here \[\[1, 1\]\]\)"):
        run_changes(base, copied, texts, str(out), swap=swap[:1], **how)
    given = ["--base", base, "--copy", copied, "--data", texts, "--out", str(out), "--swap", "1.1,0.2"]
    for name, value in how.items():
        given += [f"--{name.replace('_', '-')}", str(value)]
    assert exit_status(command, "changes", *given) == 0
    told = capsys.readouterr()
    assert "With 1.1 of the base: loss" in told.out
    assert f"Starting the workers: {kept.tokens:,} of " in told.err  # what was done is not done again
    assert not [*tmp_path.glob("*.unfinished")]

    written, expected = json.loads(out.read_text()), changes_in_a_loop(base, copied, texts, swap)
    assert (written["passages"], written["tokens"], written["unread"]) == (expected.passages, expected.tokens, 2)
    assert expected.passages > 9
    table = pd.DataFrame(written["heads"])
    assert_frame_equal(table.astype(float), expected.table().astype(float), check_exact=True)
    assert table["divergence"].idxmax() == 5
    found = {(row["layer"], row["head"]): row for row in written["swapped"]}
    # All that was changed is undone by the first; the second never changed.
    assert found[1, 1]["loss"] == pytest.approx(written["loss"]["base"], abs=1e-5)
    assert found[0, 2]["loss"] == pytest.approx(written["loss"]["copy"], abs=1e-5)
    assert abs(found[1, 1]["change"]) > 1e-5 > abs(found[0, 2]["change"])


def changes_in_a_loop(base, copied, data, swap):
    job = job_of(base, data, column="body", passage_tokens=40)
    pair = Pair(load_model(base), load_model(copied))
    changes, every = pair.changes(swap), passages_of(find_files(data).names, job, pair.base)
    there = sorted((found for found in every if isinstance(found, Passage)), key=lambda one: one.id)
    with one_thread():
        for found in there:
            if changes.tokens + len(pair.ids(found.text)[0]) > TOKENS:
                break
            pair.add(changes, found.text, found.id % 2)
    return changes


@thorough
def test_models_that_are_no_copies_of_each_other_are_not_compared(encoder, texts, tmp_path):
    tiny("ALBERT").save_pretrained(tmp_path / "albert")
    reader().save_pretrained(tmp_path / "albert")
    with refused("model", "4 of 4: heads"):
        run_changes(encoder, str(tmp_path / "albert"), texts, str(tmp_path / "albert.json"), column="body", workers=1)


@thorough
def test_many_workers_write_less_often():
    """Fewer passages than workers could share are one each; otherwise there are four shards for each worker at least."""
    shards = {(2, 3): 1, (2, 800): 100, (2, 10**6): 128, (31, 10**6): 128, (32, 10**6): 256, (1600, 640_000): 100}
    assert {given: Pool(given[0], 1, 0).shard(given[1]) for given in shards} == shards
    assert Pool(1600, 1, 0).shard(8_800_000) == 512
