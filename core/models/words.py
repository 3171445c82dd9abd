"""Words: which tokens make one word, which are punctuation or special tokens, and attention between words.

Only the tokens are known, not the text, so words follow from what the tokenizer's decoder makes of the pieces: a word begins
after a blank.

    WordPiece           "un", "##believ", "##able"        the decoder writes a blank before a piece without "##"
    byte-level BPE      "The", "Ġanimal", "Ġdidn", "'t"   pieces have blanks of their own, written "Ġ"
    SentencePiece       "▁un", "believ", "able"           the same, the blank being written "▁"
    BPE with "</w>"     "un", "believable</w>"            the blank comes after a piece with "</w>"
    whole words         "the", "cat"                      the decoder writes a blank between any two

In all of them, as in BERT's splitting of a text before its pieces (Devlin et al. 2019, https://arxiv.org/abs/1810.04805), a
special token is a word, a punctuation token is a word, and the token after either begins a word. A Chinese character begins a
word, and so does the token after it; otherwise a whole Chinese sentence would be one word. Tokens are never divided: "'t" is
not a punctuation token, so the byte-level "didn't" is one word and WordPiece's "didn ' t" are three; a token of two Chinese
characters is one word.

A token of a single blank belongs to the next word, like the blank in "Ġanimal". Other tokens of blanks only (newlines,
several blanks) are words, and so is a single blank before one of those or before a special token. The pieces of a character
that is split over tokens stay together and count as that character.
"""

import codecs
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from ..errors import InputError
from .tokens import Piece, joined, pieces_of

Starts = Sequence[int] | NDArray[np.integer]

ASCII_SYMBOLS = "$+<=>^`|~"

# The characters that BERT's tokenizer treats as Chinese: four blocks of CJK ideographs.
_IDEOGRAPH = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f]")


def token_classes(
    tokenizer: PreTrainedTokenizerBase | None, ids: Sequence[int]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(special, punctuation): the kind of each token, as bool arrays [tokens]. A token is at most one of them; without a
    tokenizer none is either.

    special      tokens that the tokenizer declares special: [CLS], [SEP], padding, [UNK], begin and end of text, chat marks
    punctuation  tokens of punctuation only, apart from blanks: characters of Unicode category P, and the ASCII symbols
                 $ + < = > ^ ` | ~, which BERT's tokenizer counts as punctuation. Other symbols (€, ±, emoji) do not count
    """
    special, punctuation = np.zeros(len(ids), bool), np.zeros(len(ids), bool)
    for unit in _units(tokenizer, tuple(ids)):
        special[unit.start : unit.end] = unit.special
        punctuation[unit.start : unit.end] = not unit.special and _is_punctuation(unit.text)
    return special, punctuation


def word_starts(tokenizer: PreTrainedTokenizerBase | None, ids: Sequence[int]) -> NDArray[np.intp]:
    """The positions at which words begin, rising from 0: [words]. Without a tokenizer: every position."""
    units = _units(tokenizer, tuple(ids))
    starts = [unit.start for before, unit in pairwise(units) if _parted(before, unit)]
    return np.array([0, *starts][: len(units)], np.intp)


def word_texts(tokenizer: PreTrainedTokenizerBase | None, ids: Sequence[int], starts: Starts) -> tuple[str, ...]:
    """The text of each word, from its tokens: "un", "##believ", "##able" -> "unbelievable". A word of one token is that token.

    Leading blanks stay; the bytes of a split character become that character. Raises InputError (field "starts") for starts
    that are not positions of these tokens.
    """
    starts, pieces = _checked(starts, len(ids), "starts"), pieces_of(tokenizer, ids)
    return tuple(_text_of(pieces[start:end]) for start, end in pairwise([*starts, len(ids)]))


def merge_keys(weights: NDArray[np.number], starts: Starts) -> NDArray[np.floating]:
    """Sum weights [..., queries, keys] over the keys of each word: [..., queries, key words], at least in float32.

    starts  where the words of the keys begin, from `word_starts`

    Attention to a word is the sum over its tokens, attention from a word the mean over its tokens (`merge_queries`): Clark et
    al. 2019, https://arxiv.org/abs/1906.04341, section 4.1. Rows are independent, so a long text can be merged in blocks of
    rows. Raises InputError for starts that do not fit the weights.
    """
    weights = np.asarray(weights)
    summed = np.result_type(weights, np.float32)
    return np.add.reduceat(weights, _checked(starts, weights.shape[-1], "key_starts"), axis=-1, dtype=summed)


def merge_queries(weights: NDArray[np.number], starts: Starts) -> NDArray[np.floating]:
    """Average weights [..., queries, keys] over the queries of each word: [..., query words, keys]. See `merge_keys`."""
    weights = np.asarray(weights)
    rows = _checked(starts, weights.shape[-2], "query_starts")
    summed = np.add.reduceat(weights, rows, axis=-2, dtype=np.result_type(weights, np.float32))
    lengths = np.diff(rows, append=weights.shape[-2])
    return summed / lengths[:, None].astype(summed.dtype)


# --- from pieces to words


@dataclass(frozen=True)
class _Unit:
    """One token, or the tokens of a split character, from `start` to `end` (exclusive)."""

    start: int
    end: int
    text: str
    special: bool


def _parted(before: _Unit, unit: _Unit) -> bool:
    """Whether a word ends between two units."""
    if before.text == " ":
        return unit.special or unit.text[:1].isspace()
    if any(part.special or _is_punctuation(part.text) for part in (before, unit)):
        return True
    return any(letter.isspace() or _IDEOGRAPH.match(letter) for letter in (before.text[-1:], unit.text[:1]))


@lru_cache(maxsize=4)  # whoever asks for the kinds of a text's tokens also asks for its words
def _units(tokenizer: PreTrainedTokenizerBase | None, ids: tuple[int, ...]) -> list[_Unit]:
    special = special_ids(tokenizer)
    units: list[_Unit] = []
    held, start, blank = b"", 0, False
    pieces = pieces_of(tokenizer, ids)
    for position, (token, piece) in enumerate(zip(ids, pieces, strict=True)):
        is_special = int(token) in special
        if units and not is_special and _continues(held, piece.data):
            held += piece.data
            units.pop()
        else:
            held, start = piece.data, position
            blank = position > 0 and piece.before and pieces[position - 1].after
        units.append(_Unit(start, position + 1, " " * blank + held.decode(errors="replace"), is_special))
    return units


def special_ids(tokenizer: PreTrainedTokenizerBase | None) -> set[int]:
    """Numbers of special tokens: those with a role (begin, end, padding ...) and those only declared special (chat marks)."""
    if tokenizer is None:
        return set()
    added = getattr(tokenizer, "added_tokens_decoder", {})
    return {*tokenizer.all_special_ids, *(token for token, entry in added.items() if entry.special)}


# --- characters


def _continues(held: bytes, data: bytes) -> bool:
    """Whether `held` ends within a character and `data` continues it."""
    if not data or not 0x80 <= data[0] < 0xC0:
        return False
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(held)
    unfinished, _ = decoder.getstate()
    return bool(unfinished)


@lru_cache(maxsize=4096)
def _is_punctuation(text: str) -> bool:
    shown = text.strip()
    return bool(shown) and all(unicodedata.category(letter)[0] == "P" or letter in ASCII_SYMBOLS for letter in shown)


def _text_of(word: Sequence[Piece]) -> str:
    return word[0].text if len(word) == 1 else joined(word)


def _checked(starts: Starts, length: int, field: str) -> NDArray[np.intp]:
    """Starts as an array. Raises InputError for wrong ones: reduceat would accept them and add up other cells."""
    array = np.asarray(starts, np.intp)
    inside = array.ndim == 1 and array.size and array[0] == 0 and array[-1] < length and (np.diff(array) > 0).all()
    if not inside and (array.size or length):
        raise InputError(
            f"The starts of words are {array.tolist()}; for {length} tokens they have to begin with 0, rise, and stay "
            f"below {length}. Take them from word_starts.",
            field=field,
        )
    return array
