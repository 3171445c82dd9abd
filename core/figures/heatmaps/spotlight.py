"""A spotlight on the chosen row, column or cell of a heatmap, which dims all other cells."""

from __future__ import annotations

from typing import Literal

import plotly.graph_objects as go

Spot = Literal["none", "row", "column", "cell"]

VEIL = "rgba(16, 19, 24, 0.74)"  # dark on every ground: a pale one would look like the zero of signed numbers


def with_spotlight(figure: go.Figure, spot: Spot, row: int | None, column: int | None) -> go.Figure:
    """Dim all cells of a heatmap except those of the row, of the column, or the one where they meet.

    row, column  as on the axes; nothing is dimmed if the one that the spot needs is None. The colour bar stays as it is.
    """
    rows = row if spot in ("row", "cell") else None
    columns = column if spot in ("column", "cell") else None
    if (rows is None and columns is None) or (spot == "cell" and (rows is None or columns is None)):
        return figure
    layout = figure.to_plotly_json()["layout"]
    right, bottom = layout["xaxis"]["range"][1], layout["yaxis"]["range"][0]
    top_edge, bottom_edge = (-0.5, bottom) if rows is None else (rows - 0.5, rows + 0.5)
    left_edge, right_edge = (-0.5, right) if columns is None else (columns - 0.5, columns + 0.5)
    dimmed = (
        (-0.5, right, -0.5, top_edge),
        (-0.5, right, bottom_edge, bottom),
        (-0.5, left_edge, top_edge, bottom_edge),
        (right_edge, right, top_edge, bottom_edge),
    )
    veils = [
        {"type": "rect", "xref": "x", "yref": "y", "x0": x0, "x1": x1, "y0": y0, "y1": y1}
        | {"fillcolor": VEIL, "line": {"width": 0}, "name": "veil"}
        for x0, x1, y0, y1 in dimmed
        if x1 > x0 and y1 > y0
    ]
    # Below the frames of the chosen pair, which are there already.
    figure.layout.shapes = veils + list(layout.get("shapes", ()))  # not update_layout, which merges them one by one
    return figure
