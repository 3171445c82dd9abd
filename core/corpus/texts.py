"""What a text of a corpus is, where it stands, and what cannot be read."""

from __future__ import annotations

from dataclasses import dataclass

WORDS = 300  # characters of what is said of a problem, at most: it may quote what somebody else has written


@dataclass(frozen=True)
class Place:
    """Where a text stands. `row` counts from 1: lines of text and JSONL, records of CSV, rows of Parquet, sentences of CoNLL-U,
    paragraphs; 0 is the file as a whole."""

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
    """A text, and of an annotated one where its words are, (start, end) in characters, and what joins them."""

    place: Place
    text: str
    words: tuple[tuple[int, int], ...] = ()
    relations: tuple[Relation, ...] = ()


@dataclass(frozen=True)
class Problem:
    """What could not be read or measured, and why, in at most WORDS characters, all of which can be seen."""

    place: Place
    why: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "why", shown(self.why))


def shown(text: str, most: int = WORDS) -> str:
    """At most so many characters of a text; those that cannot be seen, or not be written, as Python writes them."""
    cut = text if len(text) <= most else f"{text[: most - 1]}…"
    escaped = cut if cut.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in cut)
    return escaped if len(escaped) <= most else f"{escaped[: most - 1]}…"


def half_of_a_pair(text: str) -> int | None:
    """Where a text has half of a surrogate pair, which nothing can write: UTF-8 has no such character. None: nowhere."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None
