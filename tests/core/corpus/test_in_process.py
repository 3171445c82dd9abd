"""A run in this process: bounded and the same however often it is stopped.

That its tables are those of the command is tested beside the command, in test_running.py; that it needs nothing that only the
command needs, in test_install.py.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pyarrow.parquet as pq
import pytest
import torch

from core.corpus import in_process, workers
from core.corpus.in_process import AT_ONCE, InProcessRun
from core.corpus.opened import open_run
from core.models.loading import load_model
from core.progress import stopped_by
from tests.core.corpus.plain import passages
from tests.refusals import refused

TEXT = "\n".join(passage.text for passage in passages(60))


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
    assert told[0][0] == AT_ONCE
    assert told[-1] == (run.total, 1)
    opened = open_run(run.folder)
    assert opened.about == run.about
    assert (opened.about.tokens, opened.about.passages, opened.about.data) == (run.tokens, run.total, "text.txt")


def test_whoever_shares_it_measures_each_passage_once(begin, alone):
    shared = begin("shared")
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda _: finish(shared), range(4)))
    assert results[-1] == alone


def test_after_an_error_half_way_nothing_is_counted_twice(begin, alone, monkeypatch):
    run, take, taken = begin("fails"), workers.take, []

    def fails_once(*given):
        taken.append(given)
        if len(taken) == 2 * AT_ONCE:
            raise MemoryError
        return take(*given)

    monkeypatch.setattr(workers, "take", fails_once)
    with pytest.raises(MemoryError):
        finish(run)
    assert finish(run) == alone


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
    read = []
    monkeypatch.setattr(in_process, "census_row", lambda *given: read.append(given) or workers.census_row(*given))
    with refused("data", r"more than 100 tokens for .*Shorten it"):
        begin("less", 100)
    assert len(read) < run.total


@pytest.mark.parametrize(("contents", "words"), [(b" \n", "no text in it"), (b"a\xff", "not UTF-8")])
def test_a_file_without_text_is_refused(bert, tmp_path, contents, words):
    (tmp_path / "text.txt").write_bytes(contents)
    with refused("data", words):
        InProcessRun(bert, tmp_path / "text.txt", tmp_path / "run", 100)


def test_it_computes_with_one_thread(begin, monkeypatch):
    """Other threads keep theirs: tests/core/test_threads.py."""
    before, told, measure = torch.get_num_threads(), [], in_process.measure
    monkeypatch.setattr(in_process, "measure", lambda *given: told.append(torch.get_num_threads()) or measure(*given))
    torch.set_num_threads(3)
    try:
        begin("threads").go_on()
        assert ({*told}, torch.get_num_threads()) == ({1}, 3)
    finally:
        torch.set_num_threads(before)
