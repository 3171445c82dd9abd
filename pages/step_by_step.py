"""The page Step by step: one head, from query, key and value to its output, on numbers of any origin."""

import streamlit as st

from ui.controls.masks import choose_change
from ui.presenting import show_heading
from ui.views.head_links import link_to_changing, link_to_why
from ui.views.sources.heads import show_key_sharing
from ui.views.sources.models import NEXT_TOKENS
from ui.views.step_by_step.scenes import pick_source
from ui.views.step_by_step.stage_view import show_head_weights, show_layer_number, show_next_tokens, show_stages
from ui.views.step_by_step.tour import show_tour, show_tour_button

with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
    show_heading("Step by step", "One attention head, from query, key and value to its output.")
    with st.container(horizontal=True, width="content", gap="xsmall"):
        make_scene = pick_source()
        switches = st.popover("Scale and mask")
        show_tour_button()
problem = st.container()
scene, change, changed, cell = make_scene(), None, None, None
if scene is not None:
    with switches:
        change = choose_change(scene.head, problem)
    if change is not None and (changed := scene.changed(*change)) is None:
        scene = None  # the change waits for the visitor
if scene is not None:
    if (real := scene.real) is not None:
        show_layer_number(real)
        show_key_sharing(real)
    cell = show_stages(scene, changed)
    if real is not None:
        if change is not None:
            link_to_changing(real, change[0])
        link_to_why(real.of, (cell.query, cell.key))
        if NEXT_TOKENS.is_met(real.capture.model):
            show_next_tokens(real, of_original=changed is not None)
        show_head_weights(real)
show_tour(scene, cell)
