"""The page Heads: all heads of a model at once, and one of them in detail, for texts as long as the model reads."""

import streamlit as st

from core.heads.quantities import Pass
from ui.requests import KindRequest, TextRequest
from ui.views.common.heading import show_heading
from ui.views.heads.head_view import show_head
from ui.views.heads.heads_grid import measure, show_grid
from ui.views.sources.heads import choose_place
from ui.views.sources.passes import choose_text


def show(request: TextRequest, taken: Pass, places: list) -> None:
    kind, layer, head = choose_place(request, taken, places)
    # No gaps: containers for progress stay empty above both pictures, and each would add a gap.
    grid_side, head_side = (column.container(gap=None) for column in st.columns([5, 7], gap="medium"))
    of = KindRequest(request, kind)
    with grid_side:
        measured = measure(of, taken)
    # The head comes first: a visitor who walks through the grid waits for it.
    with head_side:
        show_head(of, taken, layer, head, measured)
    if measured is not None:
        with grid_side:
            show_grid(of, taken, (layer, head), measured)


show_heading("Heads", "All heads of a model at once. The head that you choose opens beside the grid.")
passed = choose_text(more=True, max_tokens=None, measuring=True, on_weights=show)
if passed is not None:
    show(*passed)
