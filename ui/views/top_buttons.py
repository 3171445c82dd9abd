"""The actions for a whole page: buttons at the top right, in the line of the menu."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from ui import presenting, state
from ui.components.browser import browser
from ui.controls.fields import switch
from ui.views import talking

# In the line of the menu, and out of the page's flow, so that they take no room on the page.
STYLE = (
    f"div:has(> .st-key-{state.ACTIONS}) {{ position: fixed; top: .65rem; right: 1rem; width: auto; z-index: 999991; }}"
    f".st-key-{state.ACTIONS} {{ gap: .8rem; align-items: center; }}"
    f"@media (max-width: 900px) {{ .st-key-{state.ACTIONS} button p, .st-key-{state.TABLES} .stTooltipIcon"
    " { display: none; } }"  # icons only
)
# Without a menu there is no place for buttons, and the page needs no room above it.
IN_A_FRAME = f".st-key-{state.ACTIONS} {{ display: none; }} .stMainBlockContainer {{ padding-top: 1rem; }}"


def show_actions(page: str, paths: Sequence[str], *, can_present: bool, has_pictures: bool) -> bool:
    """Show the buttons, and return whether somebody has pressed Share.

    page, paths   the path of this page, and the paths of all pages
    has_pictures  whether the page has pictures, below which tables can be shown
    """
    with st.container(key=state.ACTIONS, horizontal=True, vertical_alignment="center", width="content"):
        browser(page, paths, talking.storage(asks=page == "talk"))
        if can_present:
            words = "Shows the page without controls, in large letters. Press Esc to leave, ? for the keys."
            pressed = {"key": state.PRESENT_PAGE, "help": words, "on_click": presenting.enter}
            st.button("Present", icon=":material/slideshow:", type="tertiary", **pressed)
        if has_pictures:
            switch("Tables", state.TABLES, help="Shows a table of the strongest values below each picture.")
            adding = {"key": state.ADD_TO_TALK, "on_click": talking.add_to_talk, "help": "Adds this view to the talk."}
            st.button("Add to talk", icon=":material/playlist_add:", type="tertiary", **adding)
        return st.button("Share", key=state.SHARE, icon=":material/ios_share:", type="tertiary")
