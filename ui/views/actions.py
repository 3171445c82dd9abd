"""What can be done with any page as a whole: buttons at the top right, in the line of the pages' names."""

from __future__ import annotations

import streamlit as st

from ui import state

# In the line of the pages' names, and out of the page's flow, so that pages begin where they did.
STYLE = (
    f"div:has(> .st-key-{state.ACTIONS}) {{ position: fixed; top: .65rem; right: 1rem; width: auto; z-index: 999991; }}"
    f".st-key-{state.ACTIONS} {{ gap: .4rem; }}"
)
# Without the line of the pages' names there is no place for buttons, and no room is needed above the page.
IN_A_FRAME = f".st-key-{state.ACTIONS} {{ display: none; }} .stMainBlockContainer {{ padding-top: 1rem; }}"


def show_actions() -> bool:
    """The buttons; gives whether somebody wants to share the page."""
    with st.container(key=state.ACTIONS, horizontal=True, vertical_alignment="center", width="content"):
        st.toggle(
            "Tables",
            key=state.TABLES,
            bind="query-params",
            help="A table of its strongest values below every picture",
        )
        return st.button("Share", key=state.SHARE, icon=":material/ios_share:", type="tertiary")
