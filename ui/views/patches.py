"""The attention of one token, laid over the image that the model read."""

from typing import Any

import numpy as np
import streamlit as st

from core.attention.trace import Array
from core.figures.heatmaps.views import WIDTH, on_image
from core.heads.views import SCORES, TIMES, Quantity, image_sinks
from core.units import listed
from ui import state
from ui.components import pin
from ui.markdown import plain, quoted
from ui.views.charts import show_chart
from ui.views.sources.heads import RealHead

NAMED = 3  # sinks that are named; the others are counted
Region = tuple[range, range]  # rows and columns of patches


def show_patches(
    real: RealHead, values: Array, query: int, quantity: Quantity = "weights", region: Region | None = None
) -> None:
    """
    values  [keys] of one query, NaN where one is left out
    region  rows and columns of the first grid, which is then shown alone: a region is chosen instead of a query
    """
    grids = real.capture.image_grids(real.kind)[: 1 if region else None]
    image = real.capture.image
    if image is None:  # an older file
        image = np.full((*grids[0].tokens.shape, 3), 255, np.uint8)
    is_framed = region is None and real.tokens[0] == real.tokens[1]
    look: dict[str, Any] = {"name": noun(quantity), "signed": quantity in SCORES, "region": region}
    look["width_drawn"] = WIDTH // len(grids)
    for number, (grid, place) in enumerate(zip(grids, st.columns(len(grids)), strict=True)):
        found = np.argwhere(grid.tokens == query)
        patch = (int(found[0][0]), int(found[0][1])) if len(found) and is_framed else None
        chart = on_image(image, values[grid.tokens], patch, area=grid.area, axes=_axes(number), **look)
        alt = "The image, each patch coloured by how much the chosen token attends to it."
        with place:
            show_chart(chart, "patches" if number == 0 else f"patches {number}", alt, tools=False)
    _say(real, values, query, quantity, is_framed, "" if region else " Click a patch to choose it.")


def noun(quantity: Quantity) -> str:
    """What a number of this quantity is called."""
    return "score" if quantity in SCORES else "weight" if quantity == "weights" else "size"


def _axes(number: int) -> tuple[str, str]:
    """The names of the rows and columns of a grid, by which a click is told from one on another grid."""
    return (f"patch_row_{number}", f"patch_column_{number}") if number else ("patch_row", "patch_column")


def _say(real: RealHead, values: Array, query: int, quantity: Quantity, is_framed: bool, mouse: str) -> None:
    boxes = real.capture.image_boxes(real.kind)
    lies_there = ~np.isnan(boxes[:, 0])
    is_patch = query < len(boxes) and lies_there[query] and real.tokens[0] == real.tokens[1]
    token = f"the token {quoted(real.tokens[0][query])}"
    if is_patch:
        token = f"{plain(real.tokens[0][query])}{' (framed)' if is_framed else ''}"
    does = f"How {token} scores" if quantity in SCORES else f"How much {token} attends to"
    words = f"{does} each patch.{mouse}"
    if quantity == "weights":
        elsewhere, names = values[~lies_there], [real.tokens[1][place] for place in np.flatnonzero(~lies_there)]
        others = names[0] if len(names) == 1 else "tokens that are not patches"
        if len(elsewhere) and not np.isnan(elsewhere).all():
            words += f" {np.nansum(elsewhere):.1%} goes to {plain(others)}."
        words += f" {np.nansum(values[lies_there]):.1%} lies on what is shown of the image."
        sinks = image_sinks(real.capture, [real.place], real.kind)
        if len(sinks):
            names = listed([real.tokens[1][sink] for sink in sinks], NAMED)
            much = f"more than {TIMES} times as much as the median patch"
            words += f" Sinks of this head: {plain(names)}. The queries that see the whole image give them "
            words += f"{much}. *Numbers* on the page Heads leaves them out."
    st.caption(words)


def drawn_region(cell: pin.Cell, shape: tuple[int, ...]) -> Region | None:
    """The rows and columns of a region that was drawn on the first grid, which has this shape; None for any other cell."""
    if cell.keys() != set(_axes(0)):
        return None
    rows, columns = (cell[axis][: max(0, size - cell[axis].start)] for axis, size in zip(_axes(0), shape, strict=True))
    return (rows, columns) if rows and columns else None


def choose_clicked_patch(cell: pin.Cell, real: RealHead, chosen: str = state.QUERY) -> bool:
    """Make the patch that was clicked the query, or what else is `chosen`. Return whether there was one."""
    for number, grid in enumerate(real.capture.image_grids(real.kind)):
        if (patch := pin.place_in(cell, *_axes(number), grid.tokens.shape)) is not None:
            st.session_state[chosen] = int(grid.tokens[patch])
            return True
    return False
