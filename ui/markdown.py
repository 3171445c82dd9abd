"""Escape text that others wrote, for Streamlit elements that read Markdown."""

from __future__ import annotations

import re

import streamlit as st

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


def show_error(error: InputError) -> None:
    """Show what is wrong with an input."""
    st.error(plain(str(error)), icon=":material/error:")
