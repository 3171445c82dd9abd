"""Attention along grammatical relations, against a loop over words, tokens and pairs."""

from itertools import accumulate, permutations, starmap

import numpy as np
import pytest

from core.corpus.relations import DIRECTIONS, FARTHEST, Relations
from core.models.passages import Location, Passage, Relation, tokens_of_words
from tests.core.corpus.plain import queries_of, settings_of, tallied
from tests.refusals import refused


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


def test_a_head_that_looks_at_the_word_before_has_no_more_than_its_baseline():
    """However often that word is its subject; the head that looks at subjects has."""
    relations = Relations.empty(2)
    for row in range(1, 9):
        before, subject = np.eye(4, k=-1), np.zeros((4, 4))
        verb = 1 + row % 3
        subject[verb, 0] = 1
        passage = annotated(row, "abcd", (0, verb, "nsubj"))
        relations.add(passage, np.ones(4, bool), np.stack([before, subject]))
    table = relations.table().set_index(["direction", "place"])
    (before, of_before), (subject, of_subject) = table.loc["to the dependent", ["attention", "baseline"]].values
    assert before == pytest.approx(of_before)
    assert (subject, of_subject < 0.7) == (1, True)


def test_words_far_apart_count_as_if_they_were_nearer():
    relations, words = Relations.empty(1), FARTHEST + 11
    passage = annotated(1, "a" * words, (0, words - 1, "x"), (0, FARTHEST, "y"))
    attention = np.zeros((1, words, words))
    attention[0, 0, words - 1] = 1
    relations.add(passage, np.ones(words, bool), attention)
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


def test_a_blank_before_a_word_belongs_to_its_token(smollm):
    """Byte-level tokenizers may count it to the token; the word is found all the same."""
    passage = annotated(1, ["The", "animal", "unbelievably"], (0, 1, "det"))
    tokens = len(smollm.tokenizer(passage.text)["input_ids"])
    words = tokens_of_words(smollm.tokenizer, passage, tokens)
    assert words.sum(dim=1).tolist() == [1] * tokens
    assert words.sum(dim=0).tolist() == [1, 1, tokens - 2]


def test_a_tokenizer_that_knows_no_places():
    class Slow:
        is_fast = False

    for tokenizer in (Slow(), None):
        with refused("model", "Choose another model"):
            tokens_of_words(tokenizer, SENTENCES[0], 9)
