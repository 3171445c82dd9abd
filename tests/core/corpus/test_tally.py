"""A tally is the same to the last bit in any order and any parts. Its numbers, as a run keeps them: test_opened.py."""

import random

import numpy as np
import pytest
from pyarrow import fs

from core import load_model
from core.capturing.calls.rows import row_blocks
from core.corpus.settings import RunSettings
from core.corpus.tables import tables, write
from core.corpus.tally import LISTED, SUMS, first_of
from core.models.passages import Location, Problem
from tests.core.corpus.plain import about, empty_tally, passages, reader, settings_of, take, tallied
from tests.core.corpus.test_relations import SENTENCES
from tests.core.tiny_models import tiny

NEAR = 2e-5  # of a metric: an entropy is a sum over 60 keys in float32
TEXTS = passages(15)


def folder_bytes(tally, folder):
    """Every file of a run: name -> its bytes."""
    found = {}
    for name, table in tables(tally, dict.fromkeys(tally.shown_passages, ("token",))):
        write(table, fs.LocalFileSystem(), str(folder / name), about())
        found[name] = (folder / name).read_bytes()
    return found


def test_the_same_to_the_last_bit_in_any_parts_and_order(bert, tmp_path):
    """One after another, in 3 and 7 parts, shuffled, parts joined in any order: the same files."""
    settings = settings_of(bert, strongest=3, sample=7)
    taken = [(passage, take(bert, passage)) for passage in (*TEXTS, *SENTENCES)]

    def run(parts, seed):
        chance, given = random.Random(seed), [*taken]
        chance.shuffle(given)
        tallies = []
        for part in range(parts):
            tallies.append(empty_tally(settings))
            for passage, one in given[part::parts]:
                tallies[-1].add(passage, one)
            tallies[-1].note([Problem(Location("bad.txt", part), "No.")])
        while len(tallies) > 1:  # two at random, until one is left
            chance.shuffle(tallies)
            tallies[-2].merge(tallies.pop())
        return tallies[0]

    first = run(1, 0)
    expected = folder_bytes(first, tmp_path)
    assert len(expected) == 8
    assert not first.relations.table().empty
    for parts, seed in ((1, 1), (3, 2), (7, 3)):
        other = run(parts, seed)
        found = folder_bytes(other, tmp_path)
        assert {name for name in expected if found[name] != expected[name]} <= ({"problems"} if parts > 1 else set())
        assert (other.ids, other.tokens_read, other.problem_count) == (first.ids, first.tokens_read, parts)


@pytest.mark.parametrize("name", ["BERT", "Llama"])
def test_a_text_in_many_blocks(name, monkeypatch):
    """Blocks of a model that looks back only end with the last key that may be looked at: weights behind it are 0."""
    model = load_model(tiny(name), tokenizer=reader())
    settings = settings_of(model)
    whole, parts = empty_tally(settings), empty_tally(settings)
    reaches = []
    for passage in TEXTS[:4]:
        taken = take(model, passage)
        whole.add(passage, taken)
        with monkeypatch.context() as small:  # a few rows at a time, as of a long text
            small.setitem(row_blocks.__kwdefaults__, "cells", 4 * 30)
            reaches += [block.weights.shape[2] for layer in taken.in_rows("self") for block in layer]
            parts.add(passage, taken)
    assert len(reaches) > 20
    np.testing.assert_array_equal(parts.counts, whole.counts)
    np.testing.assert_array_equal(parts.queries, whole.queries)
    for name in SUMS:
        one, other = getattr(parts, name), getattr(whole, name)
        np.testing.assert_allclose(one.values, other.values, rtol=1e-5, atol=1e-4, err_msg=name)
    np.testing.assert_array_equal(parts.sample.rows["query"], whole.sample.rows["query"])
    np.testing.assert_allclose(parts.sample.rows["weights"], whole.sample.rows["weights"], atol=1e-6)
    np.testing.assert_allclose(parts.sample.rows["values"], whole.sample.rows["values"], atol=NEAR)
    mine, its = parts.strongest.rows, whole.strongest.rows
    np.testing.assert_allclose(mine["score"], its["score"], atol=NEAR)
    assert (np.isfinite(mine["weights"]).sum(axis=1) == np.isfinite(its["weights"]).sum(axis=1)).mean() > 0.95
    np.testing.assert_allclose(np.nansum(mine["weights"], axis=1), 1, atol=1e-5)


def test_tallies_that_do_not_belong_together(bert):
    one = tallied(bert, TEXTS[:2], settings_of(bert))
    with pytest.raises(ValueError, match="other settings"):
        one.merge(empty_tally(settings_of(bert, sample=19)))
    with pytest.raises(ValueError, match="in common"):
        one.merge(tallied(bert, TEXTS[1:2], settings_of(bert)))


def test_only_passages_that_are_shown_are_kept(bert):
    one, other = (tallied(bert, part, settings_of(bert, strongest=1, sample=1)) for part in (TEXTS[::2], TEXTS[1::2]))
    one.merge(other)
    wanted = {*one.strongest.rows["passage"].tolist(), *one.sample.rows["passage"].tolist()}
    assert set(one.passages) == wanted
    assert [*one.shown_passages] == sorted(wanted)


def test_of_many_problems_the_first_are_listed_and_all_are_counted():
    """However they come: whoever counts them need not hold more than are listed."""
    settings = RunSettings(heads=((0, 0),), passage_tokens=8)
    every = [Problem(Location(name, row), "No.") for name in "ab" for row in range(1, LISTED + LISTED // 2)]
    whole, parts, one, other = (empty_tally(settings) for _ in range(4))
    whole.note(every)
    for number, problem in reversed([*enumerate(every)]):
        (one if number % 2 else other).note([problem])
    one.merge(other)
    held, count = [], 0
    for start in range(len(every), 0, -700):
        further = every[max(start - 700, 0) : start]
        held, count = first_of([*held, *further]), count + len(further)
        assert len(held) <= LISTED
    parts.note(held, count)
    assert parts.problems == whole.problems == one.problems == every[:LISTED]
    assert parts.problem_count == whole.problem_count == one.problem_count == len(every)
