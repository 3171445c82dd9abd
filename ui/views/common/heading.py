"""What a page begins with: its name and one sentence, on one line where there is room."""

from __future__ import annotations

import streamlit as st

from ui import presenting, state


def show_heading(title: str, sentence: str) -> None:
    """Both are words of our own, never what others wrote: they are read as Markdown.

    Left out while presenting, when each view says what is seen.
    """
    if presenting.is_on():
        return
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key=state.HEADING):
        st.markdown(f"### {title}", width="content", anchors=False)
        st.caption(sentence, width="content")
