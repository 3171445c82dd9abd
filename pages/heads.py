"""The page Heads: all heads of a model at once, and one of them in detail, for texts as long as the model reads."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from ui import state
from ui.presenting import show_heading
from ui.views.heads.all_heads import PAIR, choose_by, measure, show_findings, show_grid
from ui.views.heads.one_head import show_exposed_head, show_head
from ui.views.sources.heads import ChosenHead, choose_head
from ui.views.sources.text_fields import choose_text


def show(head: ChosenHead, show_chosen: Callable[[Any, Any], tuple[int, int] | None]) -> None:
    findings = st.container(key=state.FINDINGS, horizontal=True, vertical_alignment="center", gap="medium")
    # No gaps: containers for progress stay empty above both pictures, and each would add a gap.
    with st.container(key=state.SIDES):
        grid_side, head_side = (column.container(gap=None) for column in st.columns([5, 7], gap="medium"))
    with grid_side:
        measured = measure(head)
        wanted = None if measured is None else choose_by(head, measured)
    # The head comes first: a visitor who walks through the grid waits for it.
    with head_side:
        by_pair = wanted is not None and wanted.by == PAIR
        cell = show_chosen(head, findings if by_pair else None)
    if measured is not None and wanted is not None:
        with findings:
            show_findings(head, measured, wanted, cell)
        with grid_side:
            show_grid(head, measured, wanted, cell)


show_heading("Heads", "All heads at once.")
passed = choose_text(more=True, max_tokens=None, recorded=True, on_weights=lambda head: show(head, show_exposed_head))
if passed is not None:
    show(choose_head(*passed), show_head)
