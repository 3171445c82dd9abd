"""Change what a model's heads do, and see what the model then does."""

import streamlit as st

from ui import state
from ui.controls.menu import menu
from ui.views.changing import show_changing
from ui.views.comparing import show_comparison
from ui.views.heading import show_heading
from ui.views.scene import choose_head, choose_text

VIEWS = {"change": show_changing, "compare": show_comparison}
NAMES = {"change": "Change something", "compare": "Compare two heads"}

with st.container(horizontal=True, vertical_alignment="bottom", horizontal_alignment="distribute"):
    show_heading("What if", "Change what heads do, and see what the model then does.")
    view = menu("View", state.VIEW, NAMES, look="buttons", label_visibility="collapsed", width="content")
passed = choose_text(more=True)
if passed is not None:
    VIEWS[view](choose_head(*passed))
