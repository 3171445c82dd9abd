"""Passages of a corpus: where they stand, what they say, and what could not be read."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

from ..errors import shown

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
    words, relations  of an annotated text: (start, end) of each word in characters, and how they depend on each other
    """

    place: Location
    start: int
    text: str
    words: tuple[tuple[int, int], ...] = ()
    relations: tuple[Relation, ...] = ()

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
