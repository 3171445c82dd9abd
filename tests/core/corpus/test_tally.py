"""A tally is the same to the last bit in any order and any parts. Its numbers, as a run keeps them: test_opened.py."""

import random
from itertools import accumulate, permutations, starmap

import numpy as np
import pytest
from pyarrow import fs

from core import load_model
from core.capturing.calls.rows import row_blocks
from core.corpus.settings import RunSettings
from core.corpus.sums import draws
from core.corpus.tables import tables, write
from core.corpus.tally import DIRECTIONS, FARTHEST, LISTED, SUMS, Relations, first_of
from core.models.passages import Location, Passage, Problem, Relation, tokens_of_words
from tests.core.corpus.plain import (
    about,
    empty_tally,
    passages,
    queries_of,
    reader,
    settings_of,
    splitmix,
    take,
    tallied,
)
from tests.core.tiny_models import tiny
from tests.refusals import refused

NEAR = 2e-5  # of a metric: an entropy is a sum over 60 keys in float32
TEXTS = passages(15)


def folder_bytes(tally, folder):
    """Every file of a run: name -> its bytes."""
    found = {}
    for name, table in tables(tally, dict.fromkeys(tally.shown_passages, ("token",))):
        write(table, fs.LocalFileSystem(), str(folder / name), about())
        found[name] = (folder / name).read_bytes()
    return found


@pytest.mark.parametrize("name", ["BERT", "Llama"])
def test_the_same_to_the_last_bit_in_any_parts_and_order(name, tmp_path):
    """One after another, in 3 and 7 parts, shuffled, parts joined in any order: the same files.

    Every first query of a text gives itself all of its weight in Llama: of many equal scores the same few are kept.
    """
    model = load_model(tiny(name), tokenizer=reader())
    settings = settings_of(model, strongest=3, sample=7)
    taken = [(passage, take(model, passage)) for passage in (*TEXTS, *SENTENCES)]

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


def test_draws_are_those_of_splitmix64():
    for seed in (0, 1, 2**63 + 12345, 2**64 - 1):
        assert draws(seed, 200).tolist() == [splitmix(seed, place) for place in range(200)]
    # The first numbers that the generator gives for the seed 1234567, as they are published for checking.
    assert draws(1234567, 3).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_fewer_than_twice_as_many_queries_are_held_as_are_kept(bert):
    tally = empty_tally(settings_of(bert, strongest=1, sample=4))
    kept = {tally.strongest: 8 * len(tally.settings.examples_of), tally.sample: 4}
    for passage in TEXTS:
        tally.add(passage, take(bert, passage))
        assert all(sum(map(len, one._held)) < 2 * most for one, most in kept.items())
    assert [len(one.rows) for one in kept] == [*kept.values()]


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


# --- attention along relations, by a plain loop


def annotated(row, words, *relations):
    """A sentence of these words, and (dependent, head, name) of each relation."""
    ends = [*accumulate(len(word) + 1 for word in words)]
    spans = tuple((end - 1 - len(word), end - 1) for word, end in zip(words, ends, strict=True))
    return Passage(Location("a.conllu", row), 0, " ".join(words), spans, tuple(starmap(Relation, relations)))


SENTENCES = [
    annotated(
        1, ["the", "old", "cats", "saw", "trees", "."], (0, 2, "det"), (1, 2, "amod"), (2, 3, "nsubj"), (4, 3, "obj")
    ),
    annotated(2, ["dog", "barks"], (0, 1, "nsubj")),
    annotated(3, ["saw", "the", "house", "and", "the", "rivers"], (1, 2, "det"), (4, 5, "det"), (2, 0, "obj")),
]


def by_words(model, passage):
    """[heads, words, words]: to a word the sum over its tokens, from a word their mean."""
    offsets = model.tokenizer(passage.text, return_offsets_mapping=True)["offset_mapping"]
    tokens_of = [
        [place for place, (start, end) in enumerate(offsets) if first <= start < end <= last]
        for first, last in passage.words
    ]
    weights = np.stack([query.weights for query in queries_of(model, [passage], causal=False)], axis=1)
    found = np.empty((len(weights), len(tokens_of), len(tokens_of)))
    for one, of in enumerate(tokens_of):
        for other, to in enumerate(tokens_of):
            found[:, one, other] = np.mean([sum(weights[:, query, key] for key in to) for query in of], axis=0)
    return found


def test_against_a_plain_loop(bert):
    attention = {passage: by_words(bert, passage) for passage in SENTENCES}
    at_offset = {}
    for passage, given in attention.items():
        for one, other in permutations(range(len(passage.words)), 2):
            at_offset.setdefault(other - one, []).append(given[:, one, other])
    usual = {offset: np.mean(found, axis=0) for offset, found in at_offset.items()}
    table = tallied(bert, SENTENCES, settings_of(bert)).relations.table()
    assert sorted(set(table["relation"])) == ["amod", "det", "nsubj", "obj"]
    for name, count in {"amod": 1, "det": 3, "nsubj": 2, "obj": 2}.items():
        pairs = [(p, r.dependent, r.head) for p in SENTENCES for r in p.relations if r.name == name]
        assert len(pairs) == count
        for direction in DIRECTIONS:
            ways = [(p, one, other) if direction == "to the head" else (p, other, one) for p, one, other in pairs]
            expected = np.mean([attention[p][:, one, other] for p, one, other in ways], axis=0)
            baseline = np.mean([usual[other - one] for _, one, other in ways], axis=0)
            rows = table[(table["relation"] == name) & (table["direction"] == direction)]
            assert rows["place"].tolist() == [*range(8)]
            assert set(rows["count"]) == {count}
            np.testing.assert_allclose(rows["attention"], expected, atol=1e-6)
            np.testing.assert_allclose(rows["baseline"], baseline, atol=1e-6)
    assert (table["attention"] - table["baseline"]).abs().max() > 0.05


def test_words_far_apart_count_as_if_they_were_nearer():
    relations, words = Relations(1), FARTHEST + 11
    passage = annotated(1, "a" * words, (0, words - 1, "x"), (0, FARTHEST, "y"))
    attention = np.zeros((1, words, words))
    attention[0, 0, words - 1] = 1
    relations.add(passage, np.eye(words, dtype=bool), attention)
    table = relations.table().set_index(["relation", "direction"])
    ahead = sum(words - offset for offset in range(FARTHEST, words))
    assert table.loc[("x", "to the head"), "baseline"] == table.loc[("y", "to the head"), "baseline"] == 1 / ahead
    assert table.loc[("x", "to the head"), "attention"] == 1
    assert table.loc[("y", "to the head"), "attention"] == 0


def test_words_without_tokens_words_that_are_their_own_head_and_texts_without_annotations_are_left_out(bert):
    passage = annotated(1, ["cat", " ", "saw"], (0, 2, "nsubj"), (1, 2, "dep"), (2, 2, "self"))
    assert tokens_of_words(bert.tokenizer, passage, 4).any(dim=0).tolist() == [True, False, True]
    table = tallied(bert, [passage], settings_of(bert)).relations.table()
    assert set(table["relation"]) == {"nsubj"}
    assert np.isfinite(table["baseline"]).all()
    assert tallied(bert, [Passage(Location("a", 1), 0, "cat")], settings_of(bert)).relations.table().empty


def test_words_that_are_written_as_one_have_the_same_tokens_and_no_attention_between_them(bert):
    of = Relation(0, 2, "nsubj"), Relation(1, 2, "case"), Relation(1, 0, "det")
    passage = Passage(Location("a", 1), 0, "cat saw", ((0, 3), (0, 3), (4, 7)), of)
    belongs = tokens_of_words(bert.tokenizer, passage, 4)
    assert belongs.tolist() == [[0, 0, 0], [1, 1, 0], [0, 0, 1], [0, 0, 0]]
    table = tallied(bert, [passage], settings_of(bert)).relations.table()
    numbers = {name: rows["attention"].tolist() for name, rows in table.groupby("relation")}
    assert numbers.keys() == {"nsubj", "case"}
    assert numbers["nsubj"] == numbers["case"]


def test_a_tokenizer_that_knows_no_places():
    class Slow:
        is_fast = False

    for tokenizer in (Slow(), None):
        with refused("model", "Choose another model"):
            tokens_of_words(tokenizer, SENTENCES[0], 9)
