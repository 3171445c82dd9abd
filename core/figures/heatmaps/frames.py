"""Frames around cells of a heatmap, and whatever else covers some of its rows and columns."""

from __future__ import annotations

from typing import Any

from ..chart import Layout
from ..palette import PIN
from ..theme import thick

Shape = dict[str, Any]  # of Plotly


def over_cells(rows: range, columns: range, **look: Any) -> Shape:
    """A rectangle over these rows and columns. A line in the look is its frame."""
    edges = {"y0": rows.start - 0.5, "y1": rows.stop - 0.5, "x0": columns.start - 0.5, "x1": columns.stop - 0.5}
    return {"type": "rect", "xref": "x", "yref": "y"} | edges | look


def cells_of(layout: Layout) -> tuple[range, range]:
    """The rows and the columns of a heatmap with this layout."""
    return range(round(layout["yaxis"]["range"][0] + 0.5)), range(round(layout["xaxis"]["range"][1] + 0.5))


def pin_frames(shape: tuple[int, int], row: int | None, column: int | None, **thin: Any) -> list[Shape]:
    """Thin frames around the pinned row and column, a thick one around the cell where they meet."""
    rows = range(shape[0]) if row is None else range(row, row + 1)
    columns = range(shape[1]) if column is None else range(column, column + 1)
    frames = []
    if row is not None:
        frames.append(over_cells(rows, range(shape[1]), **thin))
    if column is not None:
        frames.append(over_cells(range(shape[0]), columns, **thin))
    if len(frames) == 2:
        frames.append(over_cells(rows, columns, line={"color": PIN, "width": thick(3)}))
    return frames
