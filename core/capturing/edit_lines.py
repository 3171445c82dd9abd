"""Edits as short lines of text, one change a line, for lists and addresses: "mute 23.4", "scale 2 at 5", "block key 3".

What each line can say, with a place at its end or none for all heads (a layer "5", a head "5.11", with the kind of attention
before it where a model has several: "cross 5.11"; ".11" is that head of every layer):

    mute 23.4                                 scale 2 at 5.11                    mask window 4 at 5
    mean 23.4 over "a text"                   softmax hardmax at 5               block key 3 at 5.11
    patch 23.4 from "a text of the same length"                                  block pair 10>2
    pattern previous at 5.11                  paint 10>2=0.7 10>3=0.3 at 5.11    token 3 "dog"

Lines come from anybody's link. They are cut at words, quotes and signs and never searched for a pattern, so that reading one
takes time in proportion to its length, and that length has a limit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from string import ascii_lowercase
from typing import Any, NamedTuple, get_args

from ..errors import InputError, shortened
from ..models.modules import Kind
from .edits import EVERYWHERE, Edits, Place

MAX_LINE = 20_000  # characters: as many as a view of a talk has
MAX_CELLS = 500  # painted in one line: more than the address of a link holds


def edits_of(line: str) -> Edits:
    """The change that a line says. Raises InputError for a line that says none, or one that no model could do."""
    said = _said(line)
    if said is None or said.verb not in VERBS:
        raise InputError(f"“{shortened(line)}” is no change: it begins with one of {', '.join(VERBS)}.", field="edits")
    with _told(line, said.verb):
        if said.place is not None and said.verb in _WITHOUT_TAIL:
            raise ValueError(said.place)
        return VERBS[said.verb](said.what, _place(said.place or ""))


def lines_of(edits: Edits) -> tuple[str, ...]:
    """The lines that say these edits, one for every change."""
    lines = [line("mute", "", place) for place in _sorted(edits.mute_heads)]
    lines += [line("mean", str(edits.mean_over), place) for place in _sorted(edits.mean_heads)]
    lines += [line("patch", str(edits.patch_from), place) for place in _sorted(edits.patch_heads)]
    lines += [line("scale", _number(factor), place) for place, factor in edits.scale_by]
    lines += [line("softmax", softmax, place) for place, softmax in edits.softmax]
    lines += [line("mask", mask, place) for place, mask in edits.mask]
    lines += [line("key", str(key), place) for place, keys in edits.block_keys for key in keys]
    lines += [line("pair", f"{query}>{key}", place) for place, pairs in edits.block_pairs for query, key in pairs]
    for place, pattern in edits.pattern:
        if isinstance(pattern, str):
            lines.append(line("pattern", pattern, place))
        else:
            lines.append(painting(place, {query: dict(row) for query, row in pattern}))
    return (*lines, *(line("token", text, position) for position, text in edits.replace_tokens))


def line(verb: str, what: str, at: Place | int) -> str:
    """One line. what: as the line says it, but a text as it is; at: the heads, or the position of a token."""
    match verb, at:
        case "token", int():
            return f"token {at} {_json(what)}"
        case (("mute" | "mean" | "patch"), Place()):
            joined = {"mute": "", "mean": f" over {_json(what)}", "patch": f" from {_json(what)}"}
            return f"{verb} {_at(at)}{joined[verb]}"
        case (("key" | "pair"), Place()):
            return f"block {verb} {what}{_tail(at)}"
        case _, Place():
            return f"{verb} {what}{_tail(at)}"
    raise ValueError(f"{verb} at {at}")


def painted(line: str) -> tuple[Place, dict[int, dict[int, float | None]]] | None:
    """The cells of a line that paints: query -> key -> share, None where the row is shared evenly; None for other lines.

    Raises InputError for a line whose cells or place cannot be read; shares need not sum to 1.
    """
    said = _said(line)
    if said is None or said.verb != "paint":
        return None
    with _told(line, "paint"):
        return _place(said.place or ""), _cells(said.what)


def divided(line: str) -> str | None:
    """A painted line with each row divided by its sum; None for other lines, and where that would not put it right."""
    try:
        cells = painted(line)
        if cells is None:
            return None
        found = painting(cells[0], {query: _divided(_shared(row)) for query, row in cells[1].items()})
        edits_of(found)
    except (InputError, ZeroDivisionError):
        return None
    return found


def painting(place: Place, rows: Mapping[int, Mapping[int, float | None]]) -> str:
    """The line that paints these cells: query -> key -> share, None where the row is shared evenly."""
    cells = [
        f"{query}>{key}" + ("" if share is None else f"={share:.10g}")
        for query, row in sorted(rows.items())
        for key, share in sorted(row.items())
    ]
    return line("paint", " ".join(cells), place)


# --- parts of a line


class _Said(NamedTuple):
    """A line in its parts: "scale", "2", "5.11". place: None where there is none at its end."""

    verb: str
    what: str
    place: str | None


def _said(line: str) -> _Said | None:
    """None for less than two words. Raises InputError for a line that is too long."""
    if len(line) > MAX_LINE:
        raise InputError(
            f"A change has at most {MAX_LINE:,} characters, and this one has {len(line):,}. Shorten its text.",
            field="edits",
        )
    verb, *rest = line.split(None, 1) or [""]
    return _Said(verb, *_what_and_place(rest[0].rstrip())) if rest else None


def _what_and_place(rest: str) -> tuple[str, str | None]:
    """What follows the first word, without the place at its end; and that place: "5.11", or in two words "cross 5.11"."""
    for words in (2, 1):
        what, *tail = rest.rsplit(None, words + 1)
        if len(tail) == words + 1 and tail[0] == "at" and _looks_like_a_place(*tail[1:]):
            return what, " ".join(tail[1:])
    return rest, None


def _looks_like_a_place(*words: str) -> bool:
    """Letters and then numbers, which may have a word of their own."""
    *kinds, numbers = words
    numbers = numbers if kinds else numbers.lstrip(ascii_lowercase)
    return not "".join(kinds).strip(ascii_lowercase) and all(sign == "." or sign.isdecimal() for sign in numbers)


@contextmanager
def _told(line: str, verb: str) -> Iterator[None]:
    """Whatever is wrong with a line is said as an InputError."""
    try:
        yield
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"“{shortened(line)}” cannot be read as a change. Write it as in “{_EXAMPLES[verb]}”.", field="edits"
        ) from None


def _place(text: str) -> Place:
    text = text.strip()
    numbers = text.lstrip(ascii_lowercase)
    kind = text[: len(text) - len(numbers)]
    layer, *head = numbers.strip().split(".", 1)
    if text == "all":
        return EVERYWHERE
    if kind not in ("", *get_args(Kind)) or not all(number.isdecimal() for number in (layer or "0", *head)):
        raise InputError(
            f"“{shortened(text)}” is no place: write a layer such as 5, or a layer and a head such as 5.11.",
            field="edits",
        )
    known: Any = kind or None  # just looked up
    return Place(int(layer) if layer else None, int(head[0]) if head else None, known)


def _at(place: Place) -> str:
    layer = "" if place.layer is None else str(place.layer)
    head = "" if place.head is None else f".{place.head}"
    return f"{place.kind or ''} {layer}{head}".strip() or "all"


def _tail(place: Place) -> str:
    return "" if place == EVERYWHERE else f" at {_at(place)}"


def _number(value: float) -> str:
    """As short as it can be written without becoming another."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _sorted(places: frozenset[Place]) -> list[Place]:
    return sorted(places, key=_at)


def _with_text(what: str) -> tuple[str, str]:
    first, quote, rest = what.partition('"')
    text = json.loads(quote + rest)
    text.encode()  # half of a pair of surrogates is no text
    first = first.rstrip()
    return first[: -len("over")] if first.endswith(("over", "from")) else first, text


def _cells(what: str) -> dict[int, dict[int, float | None]]:
    if (count := what.count(">")) > MAX_CELLS:
        raise InputError(
            f"One change paints at most {MAX_CELLS} cells, and this one {count:,}. Paint further ones in another change.",
            field="edits",
        )
    rows: dict[int, dict[int, float | None]] = {}
    for word in what.split():
        query, _, rest = word.partition(">")
        key, equals, share = rest.partition("=")
        if not (query.isdecimal() and key.isdecimal()):
            raise ValueError(word)
        rows.setdefault(int(query), {})[int(key)] = _share(share) if equals else None
    if not rows:
        raise ValueError(what)
    return rows


def _share(text: str) -> float:
    share = float(text)
    if not isfinite(share) or "_" in text:  # which float() takes
        raise ValueError(text)
    return share


def _shared(row: dict[int, float | None]) -> dict[int, float]:
    """Shares where none are said: as much for each."""
    return {key: 1 / len(row) if share is None else share for key, share in row.items()}


def _divided(row: dict[int, float]) -> dict[int, float]:
    total = sum(row.values())
    return {key: share / total for key, share in row.items()}


def _mean(what: str, _: Place) -> Edits:
    place, text = _with_text(what)
    return Edits(mean_heads={_place(place)}, mean_over=text)


def _patch(what: str, _: Place) -> Edits:
    place, text = _with_text(what)
    return Edits(patch_heads={_place(place)}, patch_from=text)


def _block(what: str, place: Place) -> Edits:
    kind, _, which = what.partition(" ")
    if kind == "key":
        return Edits(block_keys={place: {int(which)}})
    if kind != "pair":
        raise ValueError(what)
    query, _, key = which.partition(">")
    return Edits(block_pairs={place: {(int(query), int(key))}})


def _token(what: str, _: Place) -> Edits:
    position, text = _with_text(what)
    return Edits(replace_tokens={int(position): text})


# The first word of every line.
VERBS: dict[str, Callable[[str, Place], Edits]] = {
    "mute": lambda what, _: Edits(mute_heads={_place(what)}),
    "mean": _mean,
    "patch": _patch,
    "scale": lambda what, place: Edits(scale_by={place: float(what)}),
    "softmax": lambda what, place: Edits(softmax={place: what}),
    "mask": lambda what, place: Edits(mask={place: what}),
    "block": _block,
    "pattern": lambda what, place: Edits(pattern={place: what}),
    "paint": lambda what, place: Edits(pattern={place: {query: _shared(row) for query, row in _cells(what).items()}}),
    "token": _token,
}
_WITHOUT_TAIL = ("mute", "mean", "patch", "token")  # they say themselves what they are at
_EXAMPLES = {
    "mute": "mute 23.4",
    "mean": 'mean 23.4 over "a text"',
    "patch": 'patch 23.4 from "a text"',
    "scale": "scale 2 at 5",
    "softmax": "softmax hardmax at 5",
    "mask": "mask window 4",
    "block": "block key 3, or block pair 10>2",
    "pattern": "pattern previous at 5.11",
    "paint": "paint 10>2=0.7 10>3=0.3 at 5.11",
    "token": 'token 3 "dog"',
}
