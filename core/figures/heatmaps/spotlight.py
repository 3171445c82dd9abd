"""A spotlight on the chosen row, column or cell of a heatmap, which dims all other cells."""

from __future__ import annotations

from typing import Literal

from ..chart import Chart
from .frames import cells_of, over_cells

Spot = Literal["none", "row", "column", "cell"]

VEIL = "rgba(16, 19, 24, 0.74)"  # dark on every ground: what lies outside of a spotlight


def with_spotlight(chart: Chart, spot: Spot, row: int | None, column: int | None) -> None:
    """Dim all cells of a heatmap except those of the row, of the column, or the one where they meet.

    row, column  as on the axes; nothing is dimmed if the one that the spot needs is None. The colour bar stays as it is.
    """
    needed = {"none": (), "row": (row,), "column": (column,), "cell": (row, column)}[spot]
    if not needed or None in needed:
        return
    rows, columns = cells_of(chart.layout)
    lit_rows = rows if row is None or spot == "column" else range(row, row + 1)
    lit_columns = columns if column is None or spot == "row" else range(column, column + 1)
    dimmed = (
        (rows[: lit_rows.start], columns),
        (rows[lit_rows.stop :], columns),
        (lit_rows, columns[: lit_columns.start]),
        (lit_rows, columns[lit_columns.stop :]),
    )
    look = {"fillcolor": VEIL, "line": {"width": 0}, "name": "veil"}
    veils = [over_cells(*part, **look) for part in dimmed if all(part)]
    chart.layout["shapes"][:0] = veils  # below the frames of the chosen pair, which are there already
