"""The page What if: change what a model's heads do, and see what the model then does."""

import streamlit as st

from ui import state
from ui.controls.fields import choose
from ui.markdown import plain
from ui.presenting import show_heading
from ui.views.sources.heads import choose_head
from ui.views.sources.models import TEXTS, missing
from ui.views.sources.text_fields import choose_text
from ui.views.what_if.changing import show_changing
from ui.views.what_if.comparing import show_comparison
from ui.views.what_if.effects import show_effects, show_patching
from ui.views.what_if.worked_examples import show_examples

VIEWS = {
    "change": ("Change", (show_changing, ())),
    "matter": ("Which heads matter", (show_effects, (TEXTS,))),
    "patch": ("Patch", (show_patching, (TEXTS,))),
    "compare": ("Compare", (show_comparison, ())),
    "examples": ("Examples", (None, ())),
}

title, views = st.columns([5, 7], vertical_alignment="bottom")
with title:
    show_heading("What if", "Change heads, see what follows.")
with views, st.container(horizontal_alignment="right"):
    show, needs = choose("View", state.VIEW, VIEWS, look="buttons", label_visibility="collapsed")
if show is None:
    show_examples()
elif (passed := choose_text(more=True)) is not None:
    real = choose_head(*passed)
    words = missing(real.capture.model, *needs)
    if real.request.reads_both and show not in (show_changing, show_comparison):
        words = "This is computed from texts alone. Take the image out, or open Change."
    if words is None:
        show(real)
    else:
        st.info(plain(words), icon=":material/visibility_off:")
