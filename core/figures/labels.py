"""Token text as labels: exactly as written, with visible blanks and harmless markup."""

import html
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

ALL_LABELS = 30  # tokens along a side of which each has its label, in whatever size
MAX_LABELS = 40  # tick labels, not cells, are what makes a long axis slow and unreadable
MAX_CHARACTERS = 14
FITTING = Path(__file__).with_name("fitting.js")  # makes the labels of a picture fit, in a browser

_VISIBLE = {" ": "·", "\n": "⏎", "\t": "⇥", "\r": "␍", "\u00a0": "⍽"}


def visible(token: str) -> str:
    """Make leading and trailing blanks, line breaks and control characters visible: " the" becomes "·the"."""
    inside = range(len(token) - len(token.lstrip(" ")), len(token.rstrip(" ")))
    letters = (" " if letter == " " and at in inside else _marked(letter) for at, letter in enumerate(token))
    return "".join(letters) or "∅"


def _marked(letter: str) -> str:
    if letter in _VISIBLE:
        return _VISIBLE[letter]
    return f"U+{ord(letter):04X}" if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Cn") else letter


@lru_cache(maxsize=2**13)  # a figure asks for each token of a text several times
def short(token: str) -> str:
    """Return the visible token, cut to 14 characters."""
    text = visible(token)
    return text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 1] + "…"


def placed(token: str, position: int, written: Callable[[str], str] = short) -> str:
    """Return the token with its position: "it (10)". Every page names a token of a text in this way."""
    return f"{written(token)} ({position})"


@lru_cache(maxsize=16)  # of long texts: a page asks for the same ones again in every run
def all_placed(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Return each token of a text with its position."""
    return tuple(placed(token, position) for position, token in enumerate(tokens))


@lru_cache(maxsize=2**13)
def escaped(token: str) -> str:
    """Return the short token with nothing in it that Plotly would read as markup."""
    return without_effect(short(token))


def without_effect(text: str) -> str:
    """Return a text that Plotly shows as it is."""
    return html.escape(text, quote=False).replace("$", "&#36;")


def further_lines(words: str) -> str:
    """What follows a picture's own words where somebody points: parts that "; " joins, a line each, exactly as written."""
    return "".join(f"<br>{without_effect(part)}" for part in words.split("; ") if part)


def without_markup(title: str) -> str:
    """Return a title of a figure as plain text, without the tags that Plotly reads."""
    return html.unescape(re.sub(r"</?[a-z]+>", "", title))


def thinned(count: int, keep: int | None = None, max_labels: int = MAX_LABELS) -> list[int]:
    """Return at most `max_labels` evenly spaced positions of `count`; `keep` is one of them, without close neighbours."""
    step = -(-count // max_labels)
    places = list(range(0, count, step))
    if keep is None or keep in places:
        return places
    return sorted([position for position in places if abs(position - keep) >= step] + [keep])


def in_blocks(names: Sequence[str], block: int) -> list[str]:
    """Return the names of drawn rows or columns that stand for `block` rows or columns each: "the … cat"."""
    if block == 1:
        return list(names)
    return [f"{names[first]} … {names[min(first + block, len(names)) - 1]}" for first in range(0, len(names), block)]


def axis_labels(tokens: Sequence[str]) -> list[str]:
    return [escaped(token) for token in tokens]
