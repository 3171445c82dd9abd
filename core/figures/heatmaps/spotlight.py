"""A spotlight on the chosen row, column or cell of a heatmap, which dims all other cells."""

from __future__ import annotations

from typing import Literal

import plotly.graph_objects as go

from .frames import over_cells

Spot = Literal["none", "row", "column", "cell"]

VEIL = "rgba(16, 19, 24, 0.74)"  # dark on every ground: what lies outside of a spotlight


def with_spotlight(figure: go.Figure, spot: Spot, row: int | None, column: int | None) -> go.Figure:
    """Dim all cells of a heatmap except those of the row, of the column, or the one where they meet.

    row, column  as on the axes; nothing is dimmed if the one that the spot needs is None. The colour bar stays as it is.
    """
    needed = {"none": (), "row": (row,), "column": (column,), "cell": (row, column)}[spot]
    if not needed or None in needed:
        return figure
    layout = figure.to_plotly_json()["layout"]
    rows, columns = round(layout["yaxis"]["range"][0] + 0.5), round(layout["xaxis"]["range"][1] + 0.5)
    lit_rows = range(rows) if row is None or spot == "column" else range(row, row + 1)
    lit_columns = range(columns) if column is None or spot == "row" else range(column, column + 1)
    dimmed = (
        (range(lit_rows.start), range(columns)),
        (range(lit_rows.stop, rows), range(columns)),
        (lit_rows, range(lit_columns.start)),
        (lit_rows, range(lit_columns.stop, columns)),
    )
    look = {"fillcolor": VEIL, "line": {"width": 0}, "name": "veil"}
    veils = [over_cells(*part, **look) for part in dimmed if all(part)]
    # Below the frames of the chosen pair, which are there already.
    figure.layout.shapes = veils + list(layout.get("shapes", ()))  # not update_layout, which merges them one by one
    return figure
