"""The page Heads: all heads of a model at once, and one of them in detail, for texts as long as the model reads."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from ui.views.common.heading import show_heading
from ui.views.heads.head_view import show_exposed_head, show_head
from ui.views.heads.heads_grid import measure, show_grid
from ui.views.sources.heads import ChosenHead, choose_head
from ui.views.sources.passes import choose_text


def show(head: ChosenHead, show_chosen: Callable[[Any, Any], None]) -> None:
    # No gaps: containers for progress stay empty above both pictures, and each would add a gap.
    grid_side, head_side = (column.container(gap=None) for column in st.columns([5, 7], gap="medium"))
    with grid_side:
        measured = measure(head)
    # The head comes first: a visitor who walks through the grid waits for it.
    with head_side:
        show_chosen(head, measured)
    if measured is not None:
        with grid_side:
            show_grid(head, measured)


show_heading("Heads", "All heads of a model at once. The head that you choose opens beside the grid.")
passed = choose_text(
    more=True,
    max_tokens=None,
    measuring=True,
    on_weights=lambda request, exposed, places: show(choose_head(request, exposed, places), show_exposed_head),
)
if passed is not None:
    show(choose_head(*passed), show_head)
