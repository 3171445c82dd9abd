"""Words against what fast tokenizers say of the text they cut, against Python's own splitting, and sums against sums."""

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers

from core.models.tokens import token_texts
from core.models.words import merge_keys, merge_queries, token_classes, word_starts, word_texts
from tests.conftest import TEXTS
from tests.core.models.vocabularies import VOCABULARIES, fast
from tests.refusals import refused

ORDINARY = (
    *TEXTS,
    "An unbelievably long-winded, tokenised sentence: 1234 words (or 5.6e7)... isn't it?!",
    "https://example.org/a_b/c?d=e&f=%20#top and mail@example.org",
    "我们在北京学习注意力机制。它很有趣！東京へ行きました、ไทย, हिन्दी",
    "👩‍👩‍👧 family, 🏳️‍🌈 flag; 5 € ± 3 £, x² ≤ y",
    "  two  blanks\n\n\ttabs\r\nand\u00a0others\u3000end \n",
)

READABLE = st.text(st.sampled_from("abcéZ 019\n\t'.,()_-+=<>$|€½²😀👩‍東京へ。“”\u00a0"), max_size=60)
PLAIN = st.text(st.sampled_from("abcéßZ 019  \n\tжλ€½²😀👩ไ\u00a0\u3000"), max_size=60)


def with_ordinary(test):
    for text in ORDINARY:
        test = example(text)(test)
    return settings(max_examples=60)(test)


def ids_of(tokenizer, text):
    return tokenizer(text)["input_ids"]


def words(tokenizer, ids):
    return word_texts(tokenizer, ids, word_starts(tokenizer, ids))


def split(model, text):
    return words(model.tokenizer, ids_of(model.tokenizer, text))


@with_ordinary
@given(READABLE)
def test_wordpiece_words_are_those_that_the_tokenizer_cut(minilm, text):
    """One begins where the word that the fast tokenizer itself names for a token is another one than for the token before."""
    numbers = minilm.tokenizer(text).word_ids()
    begins = [i for i, number in enumerate(numbers) if i == 0 or number is None or number != numbers[i - 1]]
    assert word_starts(minilm.tokenizer, ids_of(minilm.tokenizer, text)).tolist() == begins


@settings(max_examples=60)
@given(PLAIN)
def test_byte_level_words_without_punctuation_are_pythons(smollm, text):
    found = split(smollm, text)
    assert "".join(found) == text
    assert [word.strip() for word in found if word.strip()] == text.split()


@with_ordinary
@given(READABLE)
def test_byte_level_words_with_punctuation_only_break_more(smollm, text):
    found = split(smollm, text)
    assert "".join(found) == text
    assert not [word for word in found if re.search(r"\S\s", word)]  # blanks stand before a word, or alone
    edges = np.cumsum([0, *map(len, found)])
    begins = [match.start() for match in re.finditer(r"(?<!\S)\S", text)]
    # A word may begin with the blanks before it.
    firsts = {edge + len(word) - len(word.lstrip()) for edge, word in zip(edges, found, strict=False)}
    assert set(begins) <= firsts


def test_words_read_as_written(minilm, smollm):
    in_pieces = ("[CLS]", "unbelievably", "tokenised", ",", "didn", "'", "t", "東", "京", "€5", "[SEP]")
    assert split(minilm, "Unbelievably tokenised, didn't 東京 €5") == in_pieces
    assert split(smollm, "f(n):\n    x_y") == ("f", "(", "n", "):", "\n   ", " x", "_", "y")
    assert split(smollm, "東京 😀👍 €5") == ("東", "京", " 😀👍", " €5")
    assert split(smollm, "a  5 \nb 12 \n(") == ("a", "  ", "5", " ", "\n", "b", " 12", " ", "\n", "(")
    assert split(smollm, "a<|im_end|>b\n") == ("a", "<|im_end|>", "b", "\n")


def test_a_broken_character_shows_its_bytes_and_takes_no_blank_with_it(smollm):
    half = ids_of(smollm.tokenizer, "😀")[:1]
    ids = [*half, *ids_of(smollm.tokenizer, " cat"), *half, *ids_of(smollm.tokenizer, "€5.")]
    assert words(smollm.tokenizer, ids) == ("‹F0 9F›", " cat‹F0 9F›€5", ".")


@pytest.mark.parametrize("name", VOCABULARIES)
def test_words_are_those_that_the_tokenizer_writes(name):
    tokenizer = VOCABULARIES[name].make()
    found = words(tokenizer, ids_of(tokenizer, VOCABULARIES[name].text))
    assert "|".join(found) == VOCABULARIES[name].words


def test_sentencepiece_words_and_single_bytes():
    emoji = [f"<0x{byte:02X}>" for byte in "😀".encode()]
    pieces = ["<unk>", "</s>", "▁", "▁un", "believ", "able", "▁cat", ".", "s", *emoji]
    tokenizer = fast(
        models.Unigram([(piece, -1.0) for piece in pieces], unk_id=0, byte_fallback=True),
        pre_tokenizers.Metaspace(),
        decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]),
        unk_token="<unk>",
        eos_token="</s>",
    )
    ids = [*ids_of(tokenizer, "unbelievable cats😀. cat s"), 1]
    assert words(tokenizer, ids) == (" unbelievable", " cats😀", ".", " cat", " s", "</s>")  # "▁", "s"


def test_words_that_end_with_a_mark():
    pieces = ["un", "believable</w>", "cat</w>", ".</w>", "s</w>", "cat"]
    marked = models.BPE({piece: i for i, piece in enumerate(pieces)}, [], end_of_word_suffix="</w>")
    tokenizer = fast(marked, pre_tokenizers.Whitespace())
    assert words(tokenizer, [0, 1, 5, 4, 2, 3]) == ("unbelievable ", "cats ", "cat ", ". ")


def test_whole_words_and_numbers_stay_alone():
    whole = models.WordLevel({"<s>": 0, "cat": 1, "sat": 2}, unk_token="<s>")
    tokenizer = fast(whole, pre_tokenizers.WhitespaceSplit())
    assert words(tokenizer, [1, 2, 2]) == ("cat", "sat", "sat")
    assert words(None, [7, 8]) == ("7", "8")
    assert words(None, []) == words(tokenizer, []) == ()
    assert not np.any(token_classes(None, [1, 2, 3]))


def test_classes_of_wordpiece(minilm):
    ids = ids_of(minilm.tokenizer, "A cat, (didn't) cost $5 or €5: #1 😀")
    texts = np.array(token_texts(minilm.tokenizer, ids))
    special, punctuation = token_classes(minilm.tokenizer, ids)
    assert [*texts[punctuation]] == [*",(')$:#"]
    assert [*texts[special]] == ["[CLS]", "[UNK]", "[SEP]"]


def test_classes_of_byte_level_see_whole_characters(smollm):
    """The Chinese full stop and its comma are several tokens each; the halves of an emoji are no punctuation."""
    text = "<|im_start|>user\n## 好。 (x): 好， 'tis 😀 “so” €…<|im_end|>"
    ids = ids_of(smollm.tokenizer, text)
    special, punctuation = token_classes(smollm.tokenizer, ids)
    tokens = token_texts(smollm.tokenizer, ids)
    starts = word_starts(smollm.tokenizer, ids)
    found = [word for word, i in zip(word_texts(smollm.tokenizer, ids, starts), starts, strict=True) if punctuation[i]]
    assert [word.strip() for word in found] == ["##", "。", "(", "):", "，", "'", "“", "”", "…"]
    assert [tokens[i] for i in np.flatnonzero(special)] == ["<|im_start|>", "<|im_end|>"]
    for start, end in zip(starts, [*starts[1:], len(ids)], strict=True):
        assert len(set(punctuation[start:end])) == 1


def test_declared_marks_are_special(smollm):
    """<repo_name> has no role of its own in this tokenizer; it is only declared."""
    token = smollm.tokenizer.convert_tokens_to_ids("<repo_name>")
    assert token not in smollm.tokenizer.all_special_ids
    assert token_classes(smollm.tokenizer, [token])[0].tolist() == [True]


def test_a_mark_that_looks_like_punctuation_is_special_only():
    tokenizer = fast(models.WordLevel({"|": 0, ".": 1}, unk_token="|"), pre_tokenizers.WhitespaceSplit(), eos_token="|")
    special, punctuation = token_classes(tokenizer, [0, 1])
    assert special.tolist() == [True, False]
    assert punctuation.tolist() == [False, True]


def membership(starts, length):
    """[words, tokens], 1 where the token belongs to the word."""
    return np.eye(len(starts))[:, np.searchsorted(starts, np.arange(length), side="right") - 1]


def merge(weights, query_starts, key_starts):
    return merge_queries(merge_keys(weights, key_starts), query_starts)


@pytest.mark.parametrize("seed", range(20))
def test_merging_is_summing_and_averaging(seed):
    chance = np.random.default_rng(seed)
    queries, keys = chance.integers(1, 9, 2)
    # Multiples of 1/1024 add up without rounding.
    weights = chance.integers(0, 1025, (2, queries, keys)) / 1024
    query_starts, key_starts = ([0, *np.flatnonzero(chance.random(size - 1) < 0.5) + 1] for size in (queries, keys))
    of_query, of_key = membership(query_starts, weights.shape[1]), membership(key_starts, weights.shape[2])
    expected = (of_query / of_query.sum(1, keepdims=True)) @ weights @ of_key.T
    np.testing.assert_allclose(merge(weights, query_starts, key_starts), expected, rtol=1e-13, atol=0)


@pytest.mark.parametrize("starts", [[], [1], [0, 2, 2], [0, 3], [0, 2, 1], [[0, 1]]])
def test_starts_that_do_not_fit_are_refused(starts):
    with refused("key_starts", r"for 3 tokens .* begin with 0"):
        merge(np.ones((2, 3)), [0], starts)


def test_whole_numbers_and_half_precision_are_added_in_floats():
    assert merge(np.ones((2, 2), int), [0], [0]).tolist() == [[2.0]]
    half = merge_keys(np.ones((1, 5001), np.float16), [0])
    assert (half.dtype, half.tolist()) == (np.float32, [[5001.0]])
