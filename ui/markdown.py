"""Escape text that others wrote, for Streamlit elements that read Markdown."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import InputError
from core.figures.labels import visible

_MARKUP = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~:$^&])")

# Markdown turns addresses into links after it has read escapes, but only unbroken ones: an empty piece of small text shows
# nothing and breaks them.
_LINK = re.compile(r"(?=://|@)|(?<=www)(?=\.)", re.IGNORECASE)
_NOTHING = ":small[]"


def plain(text: str) -> str:
    """Return the text with all that Markdown, LaTeX, emoji and colour codes would read escaped; addresses are not links."""
    return _NOTHING.join(_MARKUP.sub(r"\\\1", piece) for piece in _LINK.split(text))


def quoted(token: str) -> str:
    """Return a token in quotation marks with its blanks visible, escaped for Markdown."""
    return f"“{plain(visible(token))}”"


_MARK = re.compile(r"(?<!\\)(\*\*|:\w+\[|\]|\|)")


def pieces(words: str) -> list[str]:
    """Return the pieces of text that the browser has where it shows these words, in their order: the text before, between and
    after what is bold, coloured or in a cell of a table. Other Markdown than headings, these and escapes is not known here."""
    return [piece for piece, _ in runs(words)]


def runs(words: str) -> list[tuple[str, bool]]:
    """Return the pieces as `pieces` does, and whether each is bold."""
    found, is_bold = [], False
    for line in words.split("\n"):
        if line.startswith("| --- "):
            continue
        for place, part in enumerate(_MARK.split(line.lstrip("# "))):
            if place % 2:
                is_bold ^= part == "**"
            elif part.strip():
                text = part.strip() if line.startswith("|") else part
                found.append((re.sub(r"\\(.)", r"\1", text), is_bold))
    return found


def show_error(error: InputError) -> None:
    """Show what is wrong with an input."""
    st.error(plain(str(error)), icon=":material/error:")


@contextmanager
def errors_shown(place: DeltaGenerator | None = None) -> Iterator[None]:
    """Run what an input may be wrong for, and show what is wrong with it: in `place`, or here. A function that it decorates
    then returns None."""
    try:
        yield
    except InputError as error:
        with nullcontext() if place is None else place:
            show_error(error)
