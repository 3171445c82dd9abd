"""Text that others wrote, made safe for Streamlit elements that read Markdown."""

from __future__ import annotations

import re

import streamlit as st

from core import InputError
from core.figures.labels import visible

_MARKUP = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~:$^&])")


def plain(text: str) -> str:
    """The text with every character that Markdown, LaTeX, emoji or colour codes would read escaped."""
    return _MARKUP.sub(r"\\\1", text)


def quoted(token: str) -> str:
    """A token in quotation marks, with its blanks visible, safe in Markdown."""
    return f"“{plain(visible(token))}”"


def show_error(error: InputError) -> None:
    st.error(plain(str(error)), icon=":material/error:")
