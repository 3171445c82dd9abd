"""Edits as short lines of text, one change a line, for lists and addresses: "mute 23.4", "scale 2 at 5", "block key 3".

What each line can say, with a place at its end or none for all heads (a layer "5", a head "5.11", with the kind of attention
before it where a model has several: "cross 5.11"; ".11" is that head of every layer):

    mute 23.4                                 scale 2 at 5.11                    mask window 4 at 5
    mean 23.4 over "a text"                   softmax hardmax at 5               block key 3 5-8 at 5.11
    patch 23.4 from "a text of the same length"                                  block pair 10>2
    pattern previous at 5.11                  paint 10>2=0.7 10>3=0.3 at 5.11    token 3 "dog"
    cut 16.0 from the key of 18.6             cut mlp 9 mean from the value of 18.6
    cut 16.0 from the key of 18.6 as in "a text of the same length"

Lines come from anybody's link. They are cut at words, quotes and signs and never searched for a pattern, so that reading one
takes time in proportion to its length, and that length has a limit. Each kind of edit reads its own words
(`core/capturing/edits/kinds.py`).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ...errors import InputError, edits_error, shortened
from ..calls.head_places import Place, looks_like_a_place, read_place
from .edit import Edit, cells_in_words, even_shares, read_cells
from .edits import BY_KEYWORD, Edits
from .kinds import EDIT_KINDS, Paint

SIGNS = (">", "=", '"')  # by which kinds of edits differ
MAX_LINE = 20_000  # characters: as many as a view of a talk has

# The kinds by the first word of their lines, in the order of the keywords of `Edits`.
VERBS: dict[str, list[type[Edit]]] = {}
for _kind in sorted(EDIT_KINDS, key=lambda kind: list(BY_KEYWORD).index(kind.keyword)):
    VERBS.setdefault(_kind.verb.split()[0], []).append(_kind)


def edits_of(line: str) -> Edits:
    """The change that a line says. Raises InputError for a line that says none, or one that no model could do."""
    verb, words, place = _parts_of(line)
    if verb not in VERBS:
        raise edits_error(f"“{shortened(line)}” is not a change: a change begins with one of {', '.join(VERBS)}.")
    with _readable(line, verb):
        for kind in VERBS[verb] if words else ():
            before, _, words_of_kind = f"{verb} {words}".partition(f"{kind.verb} ")
            if not before:
                return Edits.of([kind.parse(words_of_kind, place)])
        raise ValueError(words)


def lines_of(edits: Edits) -> tuple[str, ...]:
    """The lines that say these edits, one for every change."""
    return tuple(edit.line_of(words, edit.at) for edit in edits.each for words in edit.words)


def speaks_of_text(line: str) -> bool:
    """Whether a line only means something for the text that is read: see `of_text` of its kind. It may be one that cannot be
    read."""
    verb, _, words = line.strip().partition(" ")
    return any(kind.of_text is not None and kind.of_text in words for kind in VERBS.get(verb, ()))


def painted(line: str) -> tuple[Place, dict[int, dict[int, float | None]]] | None:
    """The cells of a line that paints: query -> key -> share, None where the row is shared evenly; None for other lines.
    Raises InputError for a line whose cells or place cannot be read; shares need not sum to 1."""
    verb, words, place = _parts_of(line)
    if not words or verb != Paint.verb:
        return None
    with _readable(line, verb):
        return read_place(place or ""), read_cells(words)


def divided(line: str) -> str | None:
    """A painted line with each row divided by its sum; None for other lines, and where that would not put it right."""
    try:
        if (cells := painted(line)) is None:
            return None
        place, rows = cells
        whole = painting(place, {query: _divided(even_shares(row)) for query, row in rows.items()})
        edits_of(whole)
    except (InputError, ZeroDivisionError):
        return None
    return whole


def painting(place: Place, rows: Mapping[int, Mapping[int, float | None]]) -> str:
    """The line that paints these cells: query -> key -> share, None where the row is shared evenly."""
    return Paint.line_of(cells_in_words(rows), place)


def _divided(row: dict[int, float]) -> dict[int, float]:
    total = sum(row.values())
    return {key: share / total for key, share in row.items()}


# --- parts of a line


def _parts_of(line: str) -> tuple[str, str, str | None]:
    """A line in its parts: ("scale", "2", "5.11"), or "cross 5.11" at the end; None if there is no place at its end.

    The second part is empty if there are fewer than two words. Raises InputError for a line that is too long.
    """
    if len(line) > MAX_LINE:
        why = f"A change has at most {MAX_LINE:,} characters, and this one has {len(line):,}. Shorten its text."
        raise edits_error(why)
    verb, rest, *_ = [*line.strip().split(None, 1), "", ""]
    for length in (2, 1):
        words, *end = rest.rsplit(None, length + 1) or [""]
        if len(end) == length + 1 and end[0] == "at" and looks_like_a_place(*end[1:]):
            return verb, words, " ".join(end[1:])
    return verb, rest, None


@contextmanager
def _readable(line: str, verb: str) -> Iterator[None]:
    """Turn whatever a line that cannot be read raises into an InputError with the form of the change that was tried."""
    try:
        yield
    except (ValueError, KeyError, TypeError) as error:
        is_input = isinstance(error, InputError)
        why = str(error) if is_input else f"“{shortened(line)}” cannot be read as a change."
        field = error.field if is_input else "edits"
        raise InputError(f"{why} Write it as in “{_tried(line, verb).example}”.", field=field) from None


def _tried(line: str, verb: str) -> type[Edit]:
    """The kind whose verb the line begins with; of several with the same first word the one with most of the line's signs."""
    kinds = [kind for kind in VERBS[verb] if line.strip().startswith(f"{kind.verb} ")] or VERBS[verb]
    return max(kinds, key=lambda kind: sum(sign in line for sign in SIGNS if sign in kind.example))
