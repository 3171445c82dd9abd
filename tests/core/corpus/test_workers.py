"""What a worker does, without a cluster around it."""

import json

import numpy as np
import pytest
import torch
from pyarrow import fs

from core import __version__
from core.corpus import parts, workers
from core.corpus.reading import find_files
from core.corpus.tally import ModelHeads
from core.corpus.workers import CENSUS, Measurer, count_passages, limited, read_shards
from core.models.loading import load_model
from tests.core.corpus.jobs import job_of
from tests.core.corpus.plain import reader
from tests.core.tiny_models import WEIGHTS_ONLY, randomised, tiny

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


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders of a model that can be captured, and of one that exposes its weights alone."""
    folder = tmp_path_factory.mktemp("models")
    tiny("BERT").save_pretrained(folder / "bert")
    randomised(WEIGHTS_ONLY["GPT-J"]()).save_pretrained(folder / "gptj")
    for name in ("bert", "gptj"):
        reader().save_pretrained(folder / name)
    return folder


def counted(job, files):
    rows = list(count_passages({"item": json.dumps(files.names)}, job))
    return np.sort(np.concatenate([np.frombuffer(row["census"], CENSUS) for row in rows]), order="id")


def shards_of(job, files, wanted, most):
    return list(read_shards({"item": json.dumps(files.names)}, job, wanted, most))


def test_weights_alone_some_heads_a_limit_and_annotated_texts(models, trees, tmp_path):
    job = job_of(str(models / "gptj"), trees, heads=((1, 2),), **SMALL)
    files = find_files(trees)
    census = counted(job, files)
    assert census["tokens"].sum() == 30 * TOKENS
    wanted = limited(census, 60)
    assert len(wanted) == 60 // TOKENS
    assert (wanted["id"] == np.sort(census["id"])[:10]).all()

    measurer = Measurer(job, str(tmp_path), 1)
    for shard in shards_of(job, files, wanted["id"], 4):
        assert measurer({"shard": [shard["shard"]]})["failed"] == [""]
    system = fs.LocalFileSystem()
    names = parts.names_in(system, str(tmp_path))
    assert len(names) == 3  # four, four and two
    whole = parts.merged(system, str(tmp_path), names)
    assert parts.names_in(system, str(tmp_path)) == [whole]
    assert parts.merged(system, str(tmp_path), [whole]) == whole  # put together twice it is still there
    found = parts.load(system, str(tmp_path), whole)
    assert found.ids == set(wanted["id"].tolist())
    assert found.tokens_read == wanted["tokens"].sum()
    assert found.settings == job.settings
    assert found.heads == ModelHeads("self", ((1, 2),), 2, 4, load_model(job.model).revision)
    assert (found.chance.values == 0).all()  # which pairs are masked is not exposed
    table = found.relations.table()
    assert set(table["relation"]) == {"det", "nsubj"}
    assert set(table["count"]) == {len(wanted)}


def test_a_part_is_the_same_after_it_was_written_and_read(models, trees, tmp_path):
    job, files = job_of(str(models / "bert"), trees, **SMALL), find_files(trees)
    (shard,) = shards_of(job, files, counted(job, files)["id"], 100)
    Measurer(job, str(tmp_path), 1)({"shard": [shard["shard"]]})
    system = fs.LocalFileSystem()
    (name,) = parts.names_in(system, str(tmp_path))
    tally = parts.load(system, str(tmp_path), name)
    other = tmp_path / "again"
    other.mkdir()
    assert parts.save(tally, system, str(other)) == name  # its name follows from its passages
    with np.load(tmp_path / name) as before, np.load(other / name) as after:
        assert before.files == after.files
        for one in before.files:
            np.testing.assert_array_equal(before[one], after[one], one)


def test_many_passages_are_told_in_several_rows(models, tmp_path, monkeypatch):
    (tmp_path / "a.conllu").write_text(7 * SENTENCE + "no columns\n\n" + 4 * SENTENCE)
    job, files = job_of(str(models / "bert"), str(tmp_path), **SMALL), find_files(str(tmp_path))
    monkeypatch.setattr(workers, "COUNTED", 5)
    rows = list(count_passages({"item": json.dumps(files.names)}, job))
    numbers = [np.frombuffer(row["census"], CENSUS) for row in rows]
    assert [len(one) for one in numbers] == [5, 4, 2]
    assert [len(json.loads(row["problems"])) for row in rows] == [0, 1, 0]
    assert len(np.unique(np.concatenate(numbers)["id"])) == 11


def test_a_worker_computes_with_as_many_threads_as_it_is_told(models, trees, tmp_path):
    before = torch.get_num_threads()
    try:
        Measurer(job_of(str(models / "bert"), trees, **SMALL), str(tmp_path), before + 1)
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
    ],
)
def test_a_worker_that_cannot_work_says_why(models, trees, tmp_path, changes, field, words):
    told = Measurer(job_of(str(models / "bert"), trees, **SMALL | changes), str(tmp_path), 1)({"shard": ["[]"]})
    failed = json.loads(told["failed"][0])
    assert failed["field"] == field
    assert words in failed["message"]


def test_a_worker_that_does_not_see_the_folder_says_so(models, trees, tmp_path):
    told = Measurer(job_of(str(models / "bert"), trees, **SMALL), str(tmp_path / "elsewhere"), 1)({"shard": ["[]"]})
    assert "does not see the folder" in json.loads(told["failed"][0])["message"]


def test_a_worker_that_cannot_write_what_it_found_says_so(models, trees, tmp_path):
    job, files, folder = job_of(str(models / "bert"), trees, **SMALL), find_files(trees), tmp_path / "parts"
    folder.mkdir()
    measurer = Measurer(job, str(folder), 1)
    folder.rmdir()
    (shard,) = shards_of(job, files, counted(job, files)["id"], 100)
    failed = json.loads(measurer({"shard": [shard["shard"]]})["failed"][0])
    assert failed["field"] == "out"
    assert "could not be written" in failed["message"]


def test_a_passage_that_cannot_be_read_is_counted_and_listed(models, trees, tmp_path):
    job, files = job_of(str(models / "bert"), trees, **SMALL), find_files(trees)
    shards = shards_of(job, files, counted(job, files)["id"], 100)
    passages = json.loads(shards[0]["shard"])
    passages[3]["text"] = 40 * "the "  # longer than the worker reads
    Measurer(job, str(tmp_path), 1)({"shard": [json.dumps(passages)]})
    system = fs.LocalFileSystem()
    tally = parts.load(system, str(tmp_path), parts.names_in(system, str(tmp_path))[0])
    assert tally.problem_count == 1
    assert "at most 32" in tally.problems[0].why
    assert len(tally.ids) == 30  # it is not tried again and again
    assert tally.tokens_read == 29 * TOKENS


def test_a_passage_on_which_the_model_fails_is_counted_and_listed(models, trees, tmp_path, monkeypatch):
    """And ends nothing, as long as the model reads others."""
    job, files = job_of(str(models / "bert"), trees, **SMALL), find_files(trees)
    (shard,) = shards_of(job, files, counted(job, files)["id"], 100)
    passages = json.loads(shard["shard"])
    passages[3]["text"] = "the old moon"
    measurer, read = Measurer(job, str(tmp_path), 1), workers.take

    def fails_at(word):
        def take(model, text, most):
            if word in text:
                raise IndexError("index out of range in self")
            return read(model, text, most)

        return take

    monkeypatch.setattr(workers, "take", fails_at("moon"))
    assert measurer({"shard": [json.dumps(passages)]})["failed"] == [""]
    system = fs.LocalFileSystem()
    tally = parts.load(system, str(tmp_path), parts.names_in(system, str(tmp_path))[0])
    assert [one.why for one in tally.problems] == ["bert cannot read it: IndexError: index out of range in self"]
    assert (tally.problem_count, len(tally.ids), tally.tokens_read) == (1, 30, 29 * TOKENS)
    monkeypatch.setattr(workers, "take", fails_at("a"))
    with pytest.raises(IndexError):
        measurer({"shard": [json.dumps(passages)]})


def test_a_line_that_no_tokenizer_takes_ends_no_counting(models, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "the cat"}\n{"text": "\\ud800"}\n{"text": "the dog"}\n')
    job, files = job_of(str(models / "bert"), str(tmp_path), **SMALL), find_files(str(tmp_path))
    (row,) = count_passages({"item": json.dumps(files.names)}, job)
    assert len(np.frombuffer(row["census"], CENSUS)) == 2
    assert [problem["place"] for problem in json.loads(row["problems"])] == [{"file": "a.jsonl", "row": 2}]
