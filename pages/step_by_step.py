"""The page Step by step: one head, from query, key and value to its output, on numbers of any origin."""

import streamlit as st

from ui.controls.what_if import choose_change
from ui.views.common.heading import show_heading
from ui.views.head_links import link_to_changing
from ui.views.sources.scenes import SOURCES, pick_source
from ui.views.step_by_step.head_notes import show_next_tokens, show_notes
from ui.views.step_by_step.projections import show_head_weights
from ui.views.step_by_step.stage_view import show_stages
from ui.views.step_by_step.tour import show_tour, show_tour_button

with st.container(horizontal=True, vertical_alignment="bottom", horizontal_alignment="distribute"):
    show_heading(
        "Step by step",
        "One attention head, from query, key and value to its output. Click any matrix or cell to see its numbers.",
    )
    show_tour_button()
with st.container(horizontal=True, vertical_alignment="center"):  # in two lines if there is no room for one
    with st.container(width="content"):
        chosen = pick_source()
    switches = st.container()
scene, cell = SOURCES[chosen](), None
if scene is not None:
    with switches:
        change = choose_change(scene.head)
    changed = None if change is None else scene.changed(*change)
    real = scene.real
    if real is not None:
        show_notes(real)
    cell = show_stages(scene, changed)
    if real is not None:
        if change is not None:
            link_to_changing(real, change[0])
        show_next_tokens(real.capture, of_original=changed is not None)
        show_head_weights(real.capture, real.layer, real.head, real.kind)
show_tour(scene, cell)
