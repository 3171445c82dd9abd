"""The start page: finished views to look at, and the ways in."""

from __future__ import annotations

from contextlib import suppress

import streamlit as st
from streamlit.errors import StreamlitPageNotFoundError

from ui import lessons

WAYS_IN = (
    (lessons.PAGES / "step_by_step.py", "Type a sentence, see every step", ":material/steps:"),
    (lessons.PAGES / "heads.py", "All heads of a model at once", ":material/apps:"),
    (lessons.file(next(iter(lessons.LESSONS))), "Learn it in eight lessons", ":material/school:"),
)


def show_ways_in() -> None:
    with st.container(horizontal=True), suppress(StreamlitPageNotFoundError):  # a page that runs by itself
        for page, words, icon in WAYS_IN:
            st.page_link(page, label=words, icon=icon)
