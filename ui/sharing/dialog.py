"""The dialog "Share": a section for each form in which a page can be shared."""

from __future__ import annotations

import streamlit as st

from ui.sharing.as_python import show_as_python
from ui.sharing.exhibit import show_exhibit
from ui.sharing.link import show_link
from ui.sharing.pictures import show_pictures
from ui.shown import PageContents


@st.dialog("Share", width="large")
def open_dialog(shown: PageContents) -> None:
    """Open the dialog over the page; call it when everything on the page is drawn."""
    st.markdown("**A link**")
    show_link(shown)
    st.markdown("**A picture and its numbers**")
    show_pictures(shown)
    if shown.about is None or shown.head is not None:  # a view from an exhibit is in its file already
        st.markdown("**All of this view, as an exhibit**")
        show_exhibit(shown)
    st.markdown("**As Python**")
    show_as_python(shown)
