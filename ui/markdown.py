"""Text that others wrote, made safe for Streamlit elements that read Markdown."""

from __future__ import annotations

import re

import streamlit as st

from core import InputError
from core.figures.labels import visible

_MARKUP = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~:$^&])")

# Addresses become links after escapes have been read, and only where they stand in one piece: an empty piece of small text
# shows nothing, and keeps the two sides apart.
_LINK = re.compile(r"(?=://|@)|(?<=www)(?=\.)", re.IGNORECASE)
_NOTHING = ":small[]"


def plain(text: str) -> str:
    """The text with everything that Markdown, LaTeX, emoji or colour codes would read escaped, and addresses no links."""
    return _NOTHING.join(_MARKUP.sub(r"\\\1", piece) for piece in _LINK.split(text))


def quoted(token: str) -> str:
    """A token in quotation marks, with its blanks visible, safe in Markdown."""
    return f"“{plain(visible(token))}”"


def show_error(error: InputError) -> None:
    st.error(plain(str(error)), icon=":material/error:")
