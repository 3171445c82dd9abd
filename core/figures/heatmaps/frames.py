"""What lies over the cells of a heatmap: frames, borders between its parts, and a spotlight that dims all others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ..chart import Chart, Layout
from ..palette import INK, ON_ANY_CELL, PIN
from ..theme import enlarged, letters, thick

Shape = dict[str, Any]  # of Plotly
Spot = Literal["none", "row", "column", "cell"]

VEIL = "rgba(16, 19, 24, 0.74)"  # dark on every ground: what lies outside of a spotlight


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


def with_borders(
    chart: Chart, *, columns: Sequence[int] = (), rows: Sequence[int] = (), names: Sequence[str] = ()
) -> Chart:
    """Draw a frame around the heatmap and lines before these columns and rows, and write the names of the parts above.

    names  one for each part, so one more than there are columns, or none
    """
    layout = chart.layout
    shapes, whole = layout["shapes"], cells_of(layout)
    # In the axes' own numbers: axes that nothing is drawn on, not even a frame, do not show their labels.
    shapes.append(over_cells(*whole, line={"color": INK, "width": thick(1)}))
    for casing in ON_ANY_CELL:
        line = casing | {"width": thick(casing["width"])}
        shapes += [over_cells(whole[0], range(column, column), type="line", line=line) for column in columns]
        shapes += [over_cells(range(row, row), whole[1], type="line", line=line) for row in rows]
    ends = [0, *columns, len(whole[1])]
    above = {"y": 1, "xref": "x", "yref": "y domain", "yanchor": "bottom", "font": {"size": letters(12)}}
    if names:
        layout["annotations"] = [
            above | {"text": name, "x": (start + end - 1) / 2}
            for name, start, end in zip(names, ends, ends[1:], strict=False)
        ]
        layout["margin"]["t"] = max(enlarged(26, 12), layout["margin"]["t"])
    return chart


def with_spotlight(chart: Chart, spot: Spot) -> None:
    """Dim all cells of a heatmap except those of the pinned row, of the pinned column, or the one where they meet.

    Nothing is dimmed if the one that the spot needs is not pinned. The colour bar stays as it is.
    """
    row, column = chart.layout["meta"]["pinned"]
    chart.layout["meta"] |= {"spot": spot, "lit": [row, column]}  # for page.js, which moves the light
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
