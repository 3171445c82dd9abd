"""Texts of a corpus, where they stand, how they are cut into passages that a model reads at once, and read one by one.

Read alone, a passage has the same tokens again.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from ..errors import InputError, shown
from ..progress import OnProgress, held, stop_point
from .model import Model
from .tokens import pieces_of
from .words import token_classes, word_starts

By = Literal["document", "paragraph", "line"]  # what one text is in a file of plain text


@dataclass(frozen=True)
class Location:
    """The file and the row of a text. Rows count from 1 (lines of text and JSONL, records of CSV, rows of Parquet,
    sentences of CoNLL-U, paragraphs); 0 is the file as a whole."""

    file: str
    row: int


@dataclass(frozen=True)
class Relation:
    """A word and its head in a sentence: positions of words from 0, and the name of the relation between them."""

    dependent: int
    head: int
    name: str


@dataclass(frozen=True)
class Passage:
    """A text, or a piece of one that a model reads at once.

    start      where in the text it begins, in characters
    words, relations, tags  of an annotated text: (start, end) of each word in characters, how they depend on each other, and
           the part of speech of each. Words that are written as one, as "au" is à and le, stand in the same place
    """

    place: Location
    start: int
    text: str
    words: tuple[tuple[int, int], ...] = ()
    relations: tuple[Relation, ...] = ()
    tags: tuple[str, ...] = ()

    @property
    def id(self) -> int:
        """64 bits that follow only from where the passage stands: passages are drawn at random in the order of their ids."""
        return text_hash(f"{self.place.file}\0{self.place.row}\0{self.start}")


@dataclass(frozen=True)
class Problem:
    """A text that could not be read or measured, and why, as `shown`: it may quote what somebody else has written."""

    place: Location
    why: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "why", shown(self.why))


def text_hash(text: str) -> int:
    """64 bits."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


# The classes of tokens; each token has the first that fits.
CLASSES = ("special", "punctuation", "number", "blank", "word", "word part")
_LETTER = re.compile(r"\S")


def cut(text: Passage, count: Callable[[str], int], most: int) -> Iterator[Passage | Problem]:
    """Cut a text into passages of at most `most` tokens, between words where possible, without blanks at their ends.

    count  the number of tokens of a text for the model, special ones included; an InputError of it becomes a problem of the
           text
    """
    end = 0
    try:
        if text.words:  # a sentence whose words are known by their places stays whole
            tokens = count(text.text)
            too_long = Problem(text.place, f"The sentence has {tokens:,} tokens; at most {most:,} are read.")
            yield text if tokens <= most else too_long
            return
        while letter := _LETTER.search(text.text, end):
            start = letter.start()
            end = _reach(text.text, start, count, most)
            if end == start:
                yield Problem(text.place, f"Not one character at {start:,} fits into {most:,} tokens.")
                return
            yield Passage(text.place, start, text.text[start:end].rstrip())
    except InputError as error:
        yield Problem(text.place, str(error))


def _reach(text: str, start: int, count: Callable[[str], int], most: int) -> int:
    """The end of the longest passage from `start` on: after a word, or within a word that is too long by itself."""
    window = text[start : start + 16 * most]
    ends = [word.end() for word in re.finditer(r"\S+", window)]
    if words := _most_that_fit(lambda words: count(window[: ends[words - 1]]), len(ends), most):
        return start + ends[words - 1]
    return start + _most_that_fit(lambda letters: count(window[:letters]), min(len(window), ends[0]), most)


def _most_that_fit(count: Callable[[int], int], largest: int, most: int) -> int:
    """The largest number of pieces, from 0 to `largest`, with at most `most` tokens; more pieces have more tokens.

    Each guess follows from the number of tokens of the last one.
    """
    fits, over = 0, largest + 1
    guess = min(largest, most)
    while over - fits > 1:
        tokens = count(guess)
        fits, over = (guess, over) if tokens <= most else (fits, guess)
        guess = min(max(guess * most // max(tokens, 1), fits + 1), over - 1)
    return fits


def counter(model: Model) -> Callable[[str], int]:
    """A function that counts the tokens of a text; it raises InputError (field "data") for one that cannot be tokenised."""
    tokenizer = model.tokenizer
    if tokenizer is None:
        raise ValueError("A model without a tokenizer reads no corpus.")

    def count(text: str) -> int:
        stop_point()
        with faults_of_a_text("The tokenizer", lambda: tokenizer("", verbose=False)):
            return len(tokenizer(text, verbose=False)["input_ids"])

    return count


def passages_of(
    models: Sequence[Model], texts: Iterable[str | Passage], max_tokens: int, purpose: str = "test"
) -> list[Passage]:
    """The passages of these texts, at most `max_tokens` tokens each, which all of the models can read at once.

    purpose  what they are for, as errors say it. Raises InputError (field "text") for a text that cannot be read, and for none.
    """
    longest = min(limit for limit in (max_tokens, *(model.max_tokens for model in models)) if limit is not None)
    counters = [*map(counter, models)]
    passages = []
    for row, text in enumerate(texts, start=1):
        whole = text if isinstance(text, Passage) else Passage(Location("", row), 0, text)
        for passage in cut(whole, lambda part: max(count(part) for count in counters), longest):
            if not isinstance(passage, Passage):
                raise InputError(passage.why, field="text")
            passages.append(passage)
    if not passages:
        raise InputError(f"There is no text to {purpose} on. Write some.", field="text")
    return passages


class PassageByPassage:
    """Work on passages one after another, whenever somebody asks for the next. Threads may share it.

    passages     all of them
    total, done  how many there are, and how many are read
    may_pause    always: what is there is worth looking at
    """

    may_pause = True

    def __init__(self, passages: Sequence[Passage], read: Callable[[Passage, int], None]) -> None:
        """read: does the work on a passage, given its place among all; what it does not finish, it has to undo"""
        self.passages, self.total, self.done = passages, len(passages), 0
        self._read: Callable[[Passage, int], None] | None = read
        self._lock = Lock()

    @property
    def share(self) -> float:
        return self.done / self.total

    def go_on(self) -> bool:
        """Read one more passage; False if none is left."""
        with held(self._lock):
            if self._read is None:
                return False
            self._read(self.passages[self.done], self.done)
            self.done += 1
            if self.done == self.total:
                self._read = None  # what it holds, such as models, is not held any longer
            return True

    def finished(self, on_progress: OnProgress | None = None) -> Self:
        """This, when all passages are read. on_progress: called after each one with how many are read"""
        while self.go_on():
            if on_progress is not None:
                on_progress(self.done)
        return self


@contextmanager
def faults_of_a_text(who: str, read_another: Callable[[], object]) -> Iterator[None]:
    """Raise InputError (field "data") for whatever goes wrong with one text.

    Tokenizers and networks raise errors of any kind (a token for which the network has no vector is an IndexError). Where
    another text cannot be read either, the fault is not the text's, and the error of that one is raised. A lack of memory,
    which torch reports as a RuntimeError, is not the text's fault either.
    """
    try:
        yield
    except (InputError, MemoryError, OSError, RuntimeError):
        raise
    except Exception as error:
        read_another()
        raise InputError(f"{who} cannot read it: {type(error).__name__}: {error}", field="data") from error


def classes_of(tokenizer: PreTrainedTokenizerBase | None, ids: tuple[int, ...]) -> NDArray[np.intp]:
    """The class of every token, as its place in CLASSES: [tokens]."""
    begins = np.isin(np.arange(len(ids)), word_starts(tokenizer, ids))
    texts = [piece.bare.strip() for piece in pieces_of(tokenizer, ids)]
    fitting = (
        *token_classes(tokenizer, ids),
        np.array([bool(re.fullmatch(r"\d[\d.,]*", text)) for text in texts]),
        np.array([not text for text in texts]),
        begins,
    )
    return np.select(fitting, range(len(fitting)), default=len(fitting))


def tokens_of_words(tokenizer: PreTrainedTokenizerBase | None, passage: Passage, tokens: int) -> Tensor:
    """[tokens, words] 1 where a token belongs to a word of the passage; one of "don't" may belong to do and to n't.

    Raises InputError for a tokenizer that does not say where in a text its tokens stand.
    """
    if tokenizer is None or not tokenizer.is_fast:
        why = "The tokenizer of this model does not tell where in a text its tokens stand, so that annotated words cannot be"
        raise InputError(f"{why} found again. Choose another model.", field="model")
    belongs = torch.zeros(tokens, len(passage.words))
    words_at = defaultdict(list)
    for word, span in enumerate(passage.words):
        for place in range(*span):
            words_at[place].append(word)
    places = tokenizer(passage.text, return_offsets_mapping=True, verbose=False)["offset_mapping"]
    for token, (start, end) in enumerate(places):
        # Some count the blank before a word to its first token.
        belongs[token, [word for place in range(start, end) for word in words_at.get(place, ())]] = 1
    return belongs
