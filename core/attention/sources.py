"""Queries, keys and values when no model is involved: random matrices and toy sentences."""

import hashlib
import math
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, text_error
from .trace import frozen

MAX_RANDOM_ROWS = 512
MAX_WIDTH = 1024
MAX_SEED = 2**32 - 1
MAX_SENTENCE_WORDS = 512
MAX_SENTENCE_CHARACTERS = 100_000
MAX_WORD_CHARACTERS = 1_000  # putting accents in order (NFC) takes the square of their number


@dataclass(frozen=True, eq=False)
class Matrices:
    """The inputs of one attention head, a name for each row of query and of key, and where the numbers come from.

    query [queries, d_k], key [keys, d_k] and value [keys, d_v] are float64, and read-only from now on.
    """

    query: NDArray[np.float64]
    key: NDArray[np.float64]
    value: NDArray[np.float64]
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    origin: str

    def __post_init__(self) -> None:
        for array in (self.query, self.key, self.value):
            frozen(array)


# How an array of entries is drawn. All three have mean 0 and variance 1, so that a score of random rows has variance d_k
# whichever is chosen.
DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, tuple[int, int]], NDArray[np.float64]]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.uniform(-math.sqrt(3), math.sqrt(3), shape),
    "sign": lambda rng, shape: rng.choice((-1.0, 1.0), shape),
}


def random_matrices(
    queries: int = 6, keys: int = 6, d_k: int = 8, d_v: int = 8, *, seed: int = 0, distribution: str = "normal"
) -> Matrices:
    """Independent random numbers with mean 0 and variance 1, named q0, q1 ... and k0, k1 ...

    queries, keys  1 to MAX_RANDOM_ROWS
    d_k, d_v       1 to MAX_WIDTH
    seed           0 to MAX_SEED; the same seed gives the same numbers, and more rows leave the first rows as they were
    distribution   "normal", "uniform" on [-√3, √3], or "sign" (-1 or 1 with equal chance)

    Raises InputError with the argument's name as its field.
    """
    _check_whole(1, MAX_RANDOM_ROWS, queries=queries, keys=keys)
    _check_whole(1, MAX_WIDTH, d_k=d_k, d_v=d_v)
    _check_whole(0, MAX_SEED, seed=seed)
    if distribution not in DISTRIBUTIONS:
        allowed = ", ".join(DISTRIBUTIONS)
        raise InputError(f"There is no distribution {distribution!r}. Choose one of: {allowed}.", field="distribution")

    draw, words = DISTRIBUTIONS[distribution], {"sign": "±1"}.get(distribution, distribution)
    shapes = ((queries, d_k), (keys, d_k), (keys, d_v))
    query, key, value = (draw(rng, shape) for rng, shape in zip(_three_generators(seed), shapes, strict=True))
    names = numbered("q", queries), numbered("k", keys)
    return Matrices(query, key, value, *names, origin=f"Random {words} numbers, seed {seed}.")


def toy_sentence(text: str, *, d_model: int = 32, d_head: int = 8, seed: int = 0) -> Matrices:
    """An untrained head reading a sentence: one random vector a word, three random projections.

        x                [n, d_model]       row i is the vector of word i, standard normal; equal words, equal rows
        W_Q, W_K, W_V    [d_model, d_head]  normal with variance 1/d_model
        query = x @ W_Q, key = x @ W_K, value = x @ W_V    [n, d_head]

    Every entry of query, key and value then has mean 0 and variance 1, and what the picture shows comes from repeated
    words alone. No positions are added: word order does not matter. Projections as in Vaswani et al. 2017, section 3.2.2.

    text            1 to MAX_SENTENCE_WORDS words and punctuation marks, see `split_words`
    d_model, d_head 1 to MAX_WIDTH
    seed            0 to MAX_SEED

    Raises InputError with the argument's name as its field.
    """
    _check_whole(1, MAX_WIDTH, d_head=d_head)
    words, x = embed(text, d_model=d_model, seed=seed)
    query, key, value = (
        x @ (rng.standard_normal((d_model, d_head)) / math.sqrt(d_model)) for rng in _three_generators(seed)
    )
    origin = f"Untrained: every word and projection is a random vector, seed {seed}."
    return Matrices(query, key, value, words, words, origin)


def embed(text: str, *, d_model: int = 32, seed: int = 0) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """The words of a sentence and their vectors x [n, d_model]. Arguments and errors as in `toy_sentence`."""
    _check_whole(1, MAX_WIDTH, d_model=d_model)
    _check_whole(0, MAX_SEED, seed=seed)
    words = _sentence_words(text)
    return words, np.stack([_word_vector(word, d_model, seed) for word in words])


def numbered(prefix: str, count: int) -> tuple[str, ...]:
    """Names for rows that have none: numbered("q", 3) is ("q0", "q1", "q2")."""
    return tuple(f"{prefix}{index}" for index in range(count))


# One letter a character (see _character_kind): a word with its marks and inner apostrophes; or one symbol, which may be a
# flag (two regional letters) or an emoji built of several that joiners hold together.
_TOKEN = re.compile(r"w[wmfj]*(?:'w[wmfj]*)*|(?:rr|[sr'm])[mf]*(?:js[mf]*)*")


def split_words(text: str) -> tuple[str, ...]:
    """Words and punctuation marks in order, as typed, without the blanks between them.

    A word is a run of letters, digits, combining marks and apostrophes inside ("don't", "café", "नमस्ते"); scripts written
    without blanks stay in one piece ("東京"). Anything else stands alone, an emoji of several characters included.
    """
    kinds = "".join(map(_character_kind, text))
    return tuple(text[match.start() : match.end()] for match in _TOKEN.finditer(kinds))


def _character_kind(character: str) -> str:
    category = unicodedata.category(character)
    if character.isspace():
        return " "
    if character in "'’":
        return "'"
    if character == "\N{ZERO WIDTH JOINER}":
        return "j"
    if "\N{REGIONAL INDICATOR SYMBOL LETTER A}" <= character <= "\N{REGIONAL INDICATOR SYMBOL LETTER Z}":
        return "r"
    # `re` has no class for combining marks, and its \w leaves them out: accents and Indic vowels would fall off their words.
    if category[0] == "M" or "\N{EMOJI MODIFIER FITZPATRICK TYPE-1-2}" <= character <= "\U0001f3ff":
        return "m"
    if category == "Cf":
        return "f"
    return "w" if category[0] in "LN" or character == "_" else "s"


def _sentence_words(text: str) -> tuple[str, ...]:
    if len(text) > MAX_SENTENCE_CHARACTERS:
        limits = f"{MAX_SENTENCE_CHARACTERS:,} and {MAX_SENTENCE_WORDS} words"
        raise _too_long(f"The text has {len(text):,} characters; a toy sentence takes at most {limits}")
    words = split_words(text)
    if not words:
        raise text_error("The text is blank. Type at least one word.")
    if (longest := max(map(len, words))) > MAX_WORD_CHARACTERS:
        limit = f"in a toy sentence at most {MAX_WORD_CHARACTERS:,}"
        raise _too_long(f"One word of the text has {longest:,} characters; {limit}")
    if len(words) > MAX_SENTENCE_WORDS:
        limit = f"a toy sentence takes at most {MAX_SENTENCE_WORDS}"
        raise _too_long(f"The text has {len(words):,} words and punctuation marks; {limit}")
    return words


def _too_long(problem: str) -> InputError:
    return text_error(f"{problem}. Shorten it.")


def _word_vector(word: str, d_model: int, seed: int) -> NDArray[np.float64]:
    # hash() differs from process to process; and é typed as one character or as two is the same word.
    # surrogatepass, because half a surrogate pair can reach us from a browser, and should not be an error.
    spelling = unicodedata.normalize("NFC", word).encode("utf-8", "surrogatepass")
    fingerprint = int.from_bytes(hashlib.sha256(spelling).digest()[:16])
    return np.random.default_rng([seed, fingerprint]).standard_normal(d_model)


def _three_generators(seed: int) -> list[np.random.Generator]:
    """One generator each for what becomes query, key and value, so that resizing one leaves the others alone."""
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(3)]


def _check_whole(smallest: int, largest: int, **values: int) -> None:
    """Raise InputError, with its name as the field, for the first value that is not a whole number in this range."""
    for name, value in values.items():
        is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not is_whole or not smallest <= value <= largest:
            message = f"{name} is {value!r}; it must be a whole number from {smallest} to {largest:,}."
            raise InputError(message, field=name)
