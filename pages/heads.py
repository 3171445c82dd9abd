"""Every head of a model at once, and any of them in detail, for texts as long as the model reads."""

import streamlit as st

from core.heads.quantities import Taken
from ui.requests import KindRequest, TextRequest
from ui.views.common.heading import show_heading
from ui.views.heads.head_view import show_head
from ui.views.heads.heads_grid import measure, show_grid
from ui.views.sources.heads import choose_place
from ui.views.sources.passes import choose_text


def show(request: TextRequest, taken: Taken, places: list) -> None:
    kind, layer, head = choose_place(request, taken, places)
    # No gaps: places for progress are kept free above both pictures, and each would cost one.
    every, one = (column.container(gap=None) for column in st.columns([5, 7], gap="medium"))
    of = KindRequest(request, kind)
    with every:
        measured = measure(of, taken)
    # The head comes first: it is what a visitor who walks through the grid waits for.
    with one:
        show_head(of, taken, layer, head, measured)
    if measured is not None:
        with every:
            show_grid(of, taken, (layer, head), measured)


show_heading("Heads", "Every head of a model at once. The one that you choose is open beside the grid.")
passed = choose_text(more=True, max_tokens=None, measuring=True, on_weights=show)
if passed is not None:
    show(*passed)
