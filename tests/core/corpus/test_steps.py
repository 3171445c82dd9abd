"""What a worker does, without a cluster around it; and a run in this process: the same however often it is stopped."""

import json
from contextlib import suppress

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from pyarrow import fs

from core import __version__, load_model
from core.corpus import steps
from core.corpus.folder import load_parts, merge_parts, parts_in
from core.corpus.opened import open_run
from core.corpus.reading import find_files
from core.corpus.steps import CENSUS, InProcessRun, Measurer, count_passages, limited, read_shards
from core.corpus.tally import ModelHeads
from core.progress import stopped_by
from tests.core.corpus.plain import job_of, passages, reader
from tests.core.tiny_models import WEIGHTS_ONLY, randomised
from tests.refusals import refused

SENTENCE = """# text = the cats saw
1\tthe\t_\tDET\t_\t_\t2\tdet\t_\t_
2\tcats\t_\tNOUN\t_\t_\t3\tnsubj\t_\t_
3\tsaw\t_\tVERB\t_\t_\t0\troot\t_\t_

"""
TOKENS = 6  # of it: [CLS] the cat ##s saw [SEP]
SMALL = {"passage_tokens": 32, "strongest": 3, "sample": 10}


@pytest.fixture(scope="module")
def trees(tmp_path_factory):
    """Thirty annotated sentences."""
    folder = tmp_path_factory.mktemp("trees")
    (folder / "a.conllu").write_text(30 * SENTENCE)
    return str(folder)


@pytest.fixture
def job(bert_folder, trees):
    return job_of(str(bert_folder), trees, **SMALL)


SYSTEM = fs.LocalFileSystem()


def counted(job, files):
    rows = list(count_passages({"item": json.dumps(files.names)}, job))
    return np.sort(np.concatenate([np.frombuffer(row["census"], CENSUS) for row in rows]), order="id")


def shards_of(job, files, wanted, most):
    return list(read_shards({"item": json.dumps(files.names)}, job, wanted, most))


def whole_shard(job):
    """All passages in one shard."""
    files = find_files(job.folder)
    (shard,) = shards_of(job, files, counted(job, files)["id"], 100)
    return shard["shard"]


def tally_in(folder):
    """That of the only part."""
    (name,) = parts_in(SYSTEM, str(folder))
    return load_parts(SYSTEM, str(folder), name)


def test_weights_alone_some_heads_a_limit_and_annotated_texts(trees, tmp_path):
    randomised(WEIGHTS_ONLY["GPT-J"]()).save_pretrained(tmp_path / "gptj")
    reader().save_pretrained(tmp_path / "gptj")
    job, folder = job_of(str(tmp_path / "gptj"), trees, heads=((1, 2),), **SMALL), str(tmp_path)
    files = find_files(trees)
    census = counted(job, files)
    assert census["tokens"].sum() == 30 * TOKENS
    wanted = limited(census, 60)
    assert len(wanted) == 60 // TOKENS
    assert (wanted["id"] == np.sort(census["id"])[:10]).all()

    measurer = Measurer(job, folder, 1)
    for shard in shards_of(job, files, wanted["id"], 4):
        assert measurer({"shard": [shard["shard"]]})["failed"] == [""]
    names = parts_in(SYSTEM, folder)
    assert len(names) == 3  # four, four and two
    whole = merge_parts(SYSTEM, folder, names)
    assert parts_in(SYSTEM, folder) == [whole]
    assert merge_parts(SYSTEM, folder, [whole]) == whole  # put together twice it is still there
    found = tally_in(folder)
    assert found.ids == set(wanted["id"].tolist())
    assert found.tokens_read == wanted["tokens"].sum()
    assert found.settings == job.settings
    assert found.heads == ModelHeads("self", ((1, 2),), 2, 4, load_model(job.model).revision)
    assert (found.chance.values == 0).all()  # which pairs are masked is not exposed
    table = found.relations.table()
    assert set(table["relation"]) == {"det", "nsubj"}
    assert set(table["count"]) == {len(wanted)}


def test_many_passages_are_told_in_several_rows(bert_folder, tmp_path, monkeypatch):
    (tmp_path / "a.conllu").write_text(7 * SENTENCE + "no columns\n\n" + 4 * SENTENCE)
    job, files = job_of(str(bert_folder), str(tmp_path), **SMALL), find_files(str(tmp_path))
    monkeypatch.setattr(steps, "COUNTED", 5)
    rows = list(count_passages({"item": json.dumps(files.names)}, job))
    numbers = [np.frombuffer(row["census"], CENSUS) for row in rows]
    assert [len(one) for one in numbers] == [5, 4, 2]
    assert [len(json.loads(row["problems"])) for row in rows] == [0, 1, 0]
    assert len(np.unique(np.concatenate(numbers)["id"])) == 11


def test_a_worker_computes_with_as_many_threads_as_it_is_told(job, tmp_path):
    before = torch.get_num_threads()
    try:
        Measurer(job, str(tmp_path), before + 1)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"heads": ((2, 0),)}, "heads", "no head 2.0"),
        ({"dtype": "int3"}, "dtype", "int3"),
        ({"revision": "sha256 0"}, "model", "other weights of bert"),
        ({"versions": {"headlight": __version__, "torch": "1.0"}}, "address", "started with 1.0"),
        ({"metrics": ("next", "later"), "examples_of": ("next",)}, "metrics", "no metric 'later'"),
        ("elsewhere", "out", "does not see the folder"),
        ("parts", "out", "could not be written"),
    ],
)
def test_a_worker_that_cannot_work_says_why(job, trees, tmp_path, changes, field, words):
    if isinstance(changes, str):
        shard, folder = whole_shard(job), tmp_path / "parts"
        folder.mkdir()
        measurer = Measurer(job, str(tmp_path / changes), 1)
        folder.rmdir()
    else:
        shard, measurer = "[]", Measurer(job_of(job.model, trees, **SMALL | changes), str(tmp_path), 1)
    failed = json.loads(measurer({"shard": [shard]})["failed"][0])
    assert failed["field"] == field
    assert words in failed["message"]


@pytest.mark.parametrize(
    ("text", "why"),
    [(40 * "the ", "at most 32"), ("the old moon", "bert cannot read it: IndexError: index out of range in self")],
)
def test_a_passage_that_cannot_be_read_is_counted_and_listed(job, tmp_path, monkeypatch, text, why):
    """One that is longer than the worker reads, and one on which the model fails: both end nothing, as long as the model
    reads others, and are not tried again and again."""
    read, failing = steps.take, ["moon"]

    def take(model, text, most):
        if failing[0] in text:
            raise IndexError("index out of range in self")
        return read(model, text, most)

    passages = json.loads(whole_shard(job))
    passages[3]["text"] = text
    measurer = Measurer(job, str(tmp_path), 1)
    monkeypatch.setattr(steps, "take", take)
    assert measurer({"shard": [json.dumps(passages)]})["failed"] == [""]
    tally = tally_in(tmp_path)
    (problem,) = tally.problems
    assert why in problem.why
    assert (tally.problem_count, len(tally.ids), tally.tokens_read) == (1, 30, 29 * TOKENS)
    failing[0] = "a"
    with pytest.raises(IndexError):
        measurer({"shard": [json.dumps(passages)]})


def test_a_line_that_no_tokenizer_takes_ends_no_counting(bert_folder, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "the cat"}\n{"text": "\\ud800"}\n{"text": "the dog"}\n')
    job, files = job_of(str(bert_folder), str(tmp_path), **SMALL), find_files(str(tmp_path))
    (row,) = count_passages({"item": json.dumps(files.names)}, job)
    assert len(np.frombuffer(row["census"], CENSUS)) == 2
    assert [problem["place"] for problem in json.loads(row["problems"])] == [{"file": "a.jsonl", "row": 2}]


# --- a run in this process. That its tables are those of the command is tested beside the command, in test_running.py; that it
# needs nothing that only the command needs, in test_install.py.

TEXT = "\n".join(passage.text for passage in passages(30))


@pytest.fixture(scope="module")
def begin(bert_folder, tmp_path_factory):
    """Begins a run over a text into a folder of that name."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text.txt").write_text(TEXT)
    model = load_model(str(bert_folder))
    return lambda name, most=10**6: InProcessRun(model, folder / "text.txt", folder / name, most)


@pytest.fixture(scope="module")
def alone(begin):
    """The tables of a run that nobody stops or shares."""
    return finish(begin("alone"))


def finish(run):
    while run.go_on():
        pass
    return {file.stem: repr(pq.read_table(file).to_pydict()) for file in run.folder.glob("*.parquet")}


def test_it_tells_how_far_it_is_and_ends_with_a_run_that_opens(begin):
    run = begin("run")
    assert (run.done, run.share, run.about) == (0, 0, None)
    told = []
    while run.go_on():
        told.append((run.done, run.share))
    assert told == sorted(told)
    assert told[0][0] == 1
    assert told[-1] == (run.total, 1)
    opened = open_run(run.folder)
    assert opened.about == run.about
    assert (opened.about.tokens, opened.about.passages, opened.about.data) == (run.tokens, run.total, "text.txt")


@pytest.mark.thorough
def test_a_run_that_is_ended_in_a_passage_goes_on_with_it(begin, alone):
    class Ended(BaseException):
        pass

    run, left, done = begin("ended"), 0, []

    def check(_):
        nonlocal left
        left -= 1
        if left < 0:
            raise Ended

    while run.about is None:
        left = 7 + len(done)  # a little farther each time
        with suppress(Ended), stopped_by(check):
            finish(run)
        done.append(run.done)
    assert len(done) > 3
    assert done == sorted(done)  # what was measured stays
    assert finish(run) == alone


def test_a_text_that_is_too_long_is_refused_before_all_of_it_is_read(begin, monkeypatch):
    run = begin("exact")
    assert begin("enough", run.tokens).tokens == run.tokens
    read, row = [], steps.census_row
    monkeypatch.setattr(steps, "census_row", lambda *given: read.append(given) or row(*given))
    with refused("data", r"more than 100 tokens for .*Shorten it"):
        begin("less", 100)
    assert len(read) < run.total


@pytest.mark.parametrize(("contents", "words"), [(b" \n", "no text in it"), (b"a\xff", "not UTF-8")])
def test_a_file_without_text_is_refused(bert, tmp_path, contents, words):
    (tmp_path / "text.txt").write_bytes(contents)
    with refused("data", words):
        InProcessRun(bert, tmp_path / "text.txt", tmp_path / "run", 100)
