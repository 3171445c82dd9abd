"""A text of a corpus, how it is found in a file, where it stands, and what could not be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

By = Literal["document", "paragraph", "line"]  # what one text is in a file of plain text
WORDS = 300  # the maximum number of characters of a problem's reason, which may quote what somebody else has written


@dataclass(frozen=True)
class Place:
    """Where a text stands: its file and row. Rows count from 1 (lines of text and JSONL, records of CSV, rows of Parquet,
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
class Text:
    """A text; an annotated one with its words, (start, end) in characters, and the relations between them."""

    place: Place
    text: str
    words: tuple[tuple[int, int], ...] = ()
    relations: tuple[Relation, ...] = ()


@dataclass(frozen=True)
class Problem:
    """A text that could not be read or measured, and why: at most WORDS characters, all of them visible."""

    place: Place
    why: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "why", shown(self.why))


def first_line(error: BaseException) -> str:
    """The first line of an error's message that is not empty, as `shown`, without its full stop; else the error's name."""
    return shown(next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)).rstrip(". ")


def shown(text: str, most: int = WORDS) -> str:
    """At most this many characters of a text. Characters that cannot be seen or written are escaped as Python does it."""
    cut = text if len(text) <= most else f"{text[: most - 1]}…"
    escaped = cut if cut.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in cut)
    return escaped if len(escaped) <= most else f"{escaped[: most - 1]}…"
