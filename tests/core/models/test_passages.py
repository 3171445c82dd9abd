"""Passages: nothing of a text is lost, none is too long, each can be read again alone."""

import random

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import PreTrainedTokenizerFast

from core import InputError, load_model
from core.models.passages import CLASSES, Location, Passage, Problem, classes_of, counter, cut, faults_of_a_text
from tests.core.corpus.plain import reader
from tests.core.tiny_models import tiny

PLACE = Location("a.txt", 3)


def pieces(text, most, count):
    return [*cut(Passage(PLACE, 0, text), count, most)]


def check(text, found, most, count):
    """They are parts of the text, in its order and without a gap, none too long, none that could have taken a word more."""
    at = 0
    for passage in found:
        assert isinstance(passage, Passage)
        assert text[passage.start : passage.start + len(passage.text)] == passage.text
        assert not text[at : passage.start].strip()
        assert passage.text == passage.text.strip()
        assert 0 < count(passage.text) <= most
        at = passage.start + len(passage.text)
        if (rest := text[at:].split()) and text[at].isspace():
            end = text.index(rest[0], at) + len(rest[0])
            assert count(text[passage.start : end]) > most
    assert not text[at:].strip()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("most", [3, 16, 64])
def test_nothing_is_lost(seed, most):
    chance = random.Random(seed)
    every, gaps = ["the", "cat", "cats", "tree.", "7", "moon,old", "walks"], [" ", "\n\n", "  ", "\u00a0"]
    words = [chance.choice(every) for _ in range(chance.randint(1, 150))]
    text = chance.choice(["", "\n ", "\t"]) + "".join(word + chance.choice(gaps) for word in words)
    count = counter(load_model(tiny("BERT"), tokenizer=reader())) if most > 5 else (lambda piece: len(piece.split()))
    check(text, pieces(text, most, count), most, count)


def test_a_real_tokenizer(minilm, smollm):
    text = "Unbelievable! The 東京 café costs €5 😀.\n\ndef f(n):\n    return n\n" * 20
    for model in (minilm, smollm):
        found = pieces(text, 40, counter(model))
        check(text, found, 40, counter(model))
        assert 5 < len(found) < 40


def test_a_word_that_is_too_long_is_cut_within():
    found = pieces("ab " + "x" * 25 + " cd", 10, len)
    expected = {0: "ab", 3: "x" * 10, 13: "x" * 10, 23: "x" * 5 + " cd"}
    assert {passage.start: passage.text for passage in found} == expected


def test_where_not_one_character_fits_the_rest_is_told():
    found = pieces("ab 東 cd", 3, lambda text: len(text.encode()) if "東" not in text else 9)
    assert found == [Passage(PLACE, 0, "ab"), Problem(PLACE, "Not one character at 3 fits into 3 tokens.")]
    assert pieces(" \n\t ", 5, len) == pieces("", 5, len) == []


def test_a_sentence_with_words_stays_whole():
    text = Passage(PLACE, 0, "the cat", ((0, 3), (4, 7)))
    assert [*cut(text, len, 7)] == [Passage(PLACE, 0, "the cat", text.words)]
    assert [*cut(text, len, 6)] == [Problem(PLACE, "The sentence has 7 tokens; at most 6 are read.")]


def test_an_id_follows_from_the_place_alone():
    """Known ones: a run that goes on has to find what an earlier one has written."""
    assert Passage(Location("a.txt", 1), 0, "x").id == Passage(Location("a.txt", 1), 0, "y").id == 10460467806572053165
    places = {(name, row, start) for name in ("a", "a1", "b") for row in range(30) for start in range(30)}
    assert len({Passage(Location(name, row), start, "").id for name, row, start in places}) == len(places)
    assert Passage(Location("a1", 1), 1, "").id != Passage(Location("a", 11), 1, "").id


def test_classes_of_tokens(minilm, smollm):
    def named(model, text):
        ids = tuple(model.tokenizer(text)["input_ids"])
        names = [CLASSES[number] for number in classes_of(model.tokenizer, ids)]
        return [*zip(model.tokenizer.convert_ids_to_tokens(ids), names, strict=True)]

    classes = {"[CLS]": "special", "fi": "word", "##bon": "word part", "##ac": "word part", "##ci": "word part"}
    classes |= {",": "punctuation", "3": "number", "cats": "word", ".": "punctuation", "[SEP]": "special"}
    assert named(minilm, "Fibonacci, 3 cats.") == [*classes.items()]
    found = dict(named(smollm, "The cat\n\n    42, tokenisation"))
    assert {found[token] for token in found if not token.strip("ĠĊ")} == {"blank"}
    assert (found[","], found["4"], [*found.values()][-1]) == ("punctuation", "number", "word part")
    np.testing.assert_array_equal(classes_of(None, (1, 2)), [CLASSES.index("number")] * 2)


def test_a_text_that_the_tokenizer_cannot_cut_is_told():
    """One without a token for what it does not know raises an error for such texts."""
    words = Tokenizer(WordLevel({"the": 0, "cat": 1}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    count = counter(load_model(tiny("BERT"), tokenizer=PreTrainedTokenizerFast(tokenizer_object=words)))
    assert pieces("the cat the", 2, count) == [Passage(PLACE, 0, "the cat"), Passage(PLACE, 8, "the")]
    (problem,) = pieces("the dog", 2, count)
    assert problem.place == PLACE
    assert problem.why.startswith("The tokenizer cannot read it: Exception: WordLevel error: Missing [UNK] token")


def test_what_is_wrong_with_every_text_is_no_fault_of_one():
    with pytest.raises(ZeroDivisionError), faults_of_a_text("It", lambda: 1 / 0):
        raise KeyError("for one")
    with pytest.raises(InputError, match="It cannot read it: KeyError: 'for one'"), faults_of_a_text("It", list):
        raise KeyError("for one")
    for error in (MemoryError, OSError, RuntimeError):  # of the machine
        with pytest.raises(error), faults_of_a_text("It", list):
            raise error
