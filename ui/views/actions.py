"""What can be done with any page as a whole: buttons at the top right, in the line of the pages' names."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from ui import presenting, state
from ui.components.browser import browser
from ui.controls.fields import switch
from ui.views import talking

# In the line of the pages' names, and out of the page's flow, so that pages begin where they did.
STYLE = (
    f"div:has(> .st-key-{state.ACTIONS}) {{ position: fixed; top: .65rem; right: 1rem; width: auto; z-index: 999991; }}"
    f".st-key-{state.ACTIONS} {{ gap: .8rem; align-items: center; }}"
    f"@media (max-width: 900px) {{ .st-key-{state.ACTIONS} button p, .st-key-{state.TABLES} .stTooltipIcon"
    " { display: none; } }"  # icons only
)
# Without the line of the pages' names there is no place for buttons, and no room is needed above the page.
IN_A_FRAME = f".st-key-{state.ACTIONS} {{ display: none; }} .stMainBlockContainer {{ padding-top: 1rem; }}"


def show_actions(page: str, paths: Sequence[str], *, can_present: bool, has_pictures: bool) -> bool:
    """The buttons; gives whether somebody wants to share the page.

    page, paths   the path of this page and those of all
    has_pictures  whether tables can stand below them
    """
    with st.container(key=state.ACTIONS, horizontal=True, vertical_alignment="center", width="content"):
        browser(page, paths, talking.keeping())
        if can_present:
            st.button(
                "Present",
                key=state.PRESENT_PAGE,
                icon=":material/slideshow:",
                type="tertiary",
                help="Without controls, in large letters. Esc leaves, ? tells the keys.",
                on_click=presenting.enter,
            )
        if has_pictures:
            switch("Tables", state.TABLES, help="A table of its strongest values below every picture")
        return st.button("Share", key=state.SHARE, icon=":material/ios_share:", type="tertiary")
