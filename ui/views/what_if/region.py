"""A region of the image, chosen on its picture or by its rows and columns, and hidden from the model."""

from __future__ import annotations

import numpy as np
import streamlit as st

from core import InputError
from core.capturing.edits.lines import lines_of
from core.capturing.image_regions import edits_without_region
from ui import links, presenting, state
from ui.components import pin
from ui.controls import edit_list
from ui.controls.fields import KEPT
from ui.markdown import show_error
from ui.views.patches import drawn_region, show_patches
from ui.views.sources.heads import RealHead

HIDDEN = "No query of any head may attend to what shows a part of it, neither in the text nor in the vision tower."
KEYS = (state.REGION_ROWS, state.REGION_COLUMNS)


def choose_region(real: RealHead, query: int) -> None:
    """Show what a query attends to on the image, if one was read, and beside it the fields for a region of it."""
    grids = real.capture.image_grids(real.kind)
    if not grids:
        return
    picture, fields = st.columns([7, 5], gap="medium", vertical_alignment="center")
    with fields:
        st.markdown("**Without a part of the image.** Draw a region with the mouse, or choose its rows and columns.")
        shape = dict(zip(("Rows", "Columns"), zip(KEYS, grids[0].tokens.shape, strict=True), strict=True))
        rows, columns = (_choose(label, key, count) for label, (key, count) in shape.items())
        try:
            lines = lines_of(edits_without_region(real.capture, rows, columns, real.kind))
        except InputError as error:
            show_error(error)
            return
        hiding = {"key": state.button("region", 0), "on_click": edit_list.add, "args": lines, "help": HIDDEN}
        st.button("Hide the region", icon=":material/visibility_off:", **hiding)
    trace = real.capture.trace(*real.place, real.kind, rows=range(query, query + 1))
    row = np.where(trace.mask, trace.weights, np.nan)[0]
    with picture, presenting.aside():
        show_patches(real, row, query, region=(rows, columns))


def choose_drawn_region(real: RealHead, cell: pin.Cell) -> bool:
    """Choose the region that was drawn on the image, or the patch that was clicked. Return whether there was one."""
    grids = real.capture.image_grids(real.kind)
    region = drawn_region(cell, grids[0].tokens.shape) if grids else None
    for key, places in zip(KEYS, region or (), strict=False):
        st.session_state[key] = (places[0], places[-1])
    return region is not None


def _choose(label: str, key: str, count: int) -> range:
    """Show a slider with two ends. It opens with the whole image."""
    if count == 1:
        return range(1)
    everything = (0, count - 1)
    if links.local_value(key, everything)[1] >= count:  # of another grid
        st.session_state[key] = everything
    first, last = st.slider(label, *everything, everything, key=key, width=300, **KEPT)
    return range(first, last + 1)
