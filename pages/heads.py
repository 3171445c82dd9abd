"""Every head of a model at once, and any of them in detail, for texts as long as the model reads."""

import streamlit as st

from ui import stores
from ui.views.atlas import measure, show_atlas
from ui.views.head_view import show_head
from ui.views.scene import choose_place, choose_text

passed = choose_text(more=True, max_tokens=None, measuring=True)
if passed is not None:
    request, capture, places = passed
    kind, layer, head = choose_place(request, capture, places)
    atlas, detail = st.columns([5, 7], gap="medium")
    of = stores.KindRequest(request, kind)
    with atlas:
        measured = measure(of, capture)
    # The head comes first: it is what a visitor who walks through the atlas waits for.
    with detail:
        show_head(of, capture, layer, head, measured)
    if measured is not None:
        with atlas:
            show_atlas(of, capture, (layer, head), measured)
