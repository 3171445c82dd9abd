"""Several small heatmaps in one figure with one colour range, so that they can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...attention.rowwise import Pooled, pool
from ..chart import Chart, Trace, Values, axis_ending, floats
from ..labels import axis_labels, in_blocks, short
from ..palette import FORBIDDEN, PIN, colour_range, largest
from ..theme import PLAIN_AXIS, colour_bar, enlarged, letters, template, thick
from .frames import over_cells
from .heatmap import Scale, legend_entry, size_of, strongest_of

MAX_CELLS = 64  # per side of one small matrix
ROW_LABEL = 11  # pixels that a row needs for its label
ABOVE = 24  # pixels for the name above a small matrix
BETWEEN = 10  # pixels
GAP = 0.025  # between two matrices in a line, as a share of it
LEGEND = 20  # pixels, where a legend is needed


def small(matrix: NDArray[np.floating], allowed: NDArray[np.bool_] | None = None) -> Pooled:
    """Pool a matrix [rows, columns] to at most 64 cells a side; cells where `allowed` is False are grey."""
    return pool(matrix, MAX_CELLS, allowed)


def side_by_side(
    matrices: Sequence[Pooled],
    names: Sequence[str],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    across: int,
    what: str = "weight",
    scale: Scale = "share",
    marked: int | None = None,
    line_height: int = 170,
) -> Chart:
    """Draw matrices [rows, columns] of one shape in a grid, `across` in a line, each with its name above it.

    matrices       each made by `small`
    rows, columns  names of rows and columns, shown when pointing at a cell; those of rows also at the left, where they fit
    what           what the number of a cell is: "weight"
    scale          as in `heatmap`; one colour range for all
    marked         a row that is framed in each
    line_height    pixels for one line of small matrices

    `layout.meta` says how many cells of a matrix a drawn one stands for.
    """
    line_height = enlarged(line_height)
    first = matrices[0]
    row_names = in_blocks(axis_labels(rows), first.row_block)
    column_names = in_blocks(axis_labels(columns), first.column_block)
    fits = (line_height - enlarged(ABOVE) - BETWEEN) / len(rows) >= enlarged(ROW_LABEL, 11)
    layout = _layout(matrices, signed=scale == "signed", height=-(-len(matrices) // across) * line_height)
    traces: list[Trace] = []
    for index, (matrix, name) in enumerate(zip(matrices, names, strict=True)):
        number = axis_ending(index)
        left_right, bottom_top = _domains(index, len(matrices), across, line_height)
        layout[f"xaxis{number}"] = _axis(matrix.columns, column_names, f"y{number}", left_right)
        down = {"autorange": "reversed", "showticklabels": fits and index % across == 0}
        layout[f"yaxis{number}"] = _axis(matrix.rows, row_names, f"x{number}", bottom_top) | down
        at = {"x": left_right[0], "y": bottom_top[1], "xanchor": "left", "yanchor": "bottom"}
        layout["annotations"].append({"text": name, "xref": "paper", "yref": "paper"} | at)
        if marked is not None:
            look = {"xref": f"x{number}", "yref": f"y{number}", "line": {"color": PIN, "width": thick(1.5)}}
            layout["shapes"].append(over_cells(range(marked, marked + 1), range(len(columns)), **look))
        traces.append(_heatmap(matrix, name, number, what))
    if any(np.isnan(matrix.values).any() for matrix in matrices):
        layout |= {"plot_bgcolor": FORBIDDEN, "showlegend": True, "margin": layout["margin"] | {"t": enlarged(LEGEND)}}
        layout["height"] += enlarged(LEGEND)
        traces.append(legend_entry("masked", FORBIDDEN))
    return Chart(traces, layout, _values(matrices, names, rows, columns, what))


def _values(
    matrices: Sequence[Pooled], names: Sequence[str], rows: Sequence[str], columns: Sequence[str], what: str
) -> tuple[Values, ...]:
    """The numbers of each matrix. NaN counts as masked."""
    first = matrices[0]
    masked = sum(int(np.isnan(matrix.values).sum()) for matrix in matrices)
    common = {
        "headings": ("row", "column"),
        "value": what,
        "rows": in_blocks([short(name) for name in rows], first.row_block),
        "columns": in_blocks([short(name) for name in columns], first.column_block),
        "opening": f"{len(matrices)} pictures of {size_of(first)}" if len(matrices) > 1 else size_of(first),
        "closing": f"{masked:,} masked" if masked else "",
        "block": (first.row_block, first.column_block),
    }
    return tuple(
        Values(kind="cells", part=name, numbers=floats(matrix.values), **common)
        for matrix, name in zip(matrices, names, strict=True)
    )


def _heatmap(matrix: Pooled, name: str, number: str, what: str) -> Trace:
    note = "" if matrix.exact else f"<br>{strongest_of(matrix)} cells"
    cell = f"row <b>%{{y}}</b><br>column <b>%{{x}}</b><br>{what} <b>%{{z:.4g}}</b>{note}"
    return {
        "type": "heatmap",
        "z": matrix.values,
        "x": matrix.columns,
        "y": matrix.rows,
        "xaxis": f"x{number}",
        "yaxis": f"y{number}",
        "coloraxis": "coloraxis",
        "name": name,
        "hovertemplate": f"{name}<br>{cell}<extra></extra>",
    }


def _domains(index: int, count: int, across: int, line_height: int) -> tuple[list[float], list[float]]:
    """Return where a small matrix lies, as shares of the width and the height of the figure."""
    line, column = divmod(index, across)
    height = -(-count // across) * line_height
    width = (1 - GAP * (across - 1)) / across
    left = column * (width + GAP)
    top = 1 - (line * line_height + enlarged(ABOVE)) / height
    bottom = 1 - ((line + 1) * line_height - BETWEEN) / height
    return [left, min(left + width, 1)], [max(bottom, 0), top]


def _axis(places: NDArray[np.floating], names: list[str], anchor: str, domain: list[float]) -> dict[str, object]:
    return {
        "domain": domain,
        "anchor": anchor,
        "tickvals": places.tolist(),
        "ticktext": names,
        "tickfont": {"size": letters(11)},
        "showticklabels": False,
        "automargin": True,
        **PLAIN_AXIS,
    }


def _layout(matrices: Sequence[Pooled], *, signed: bool, height: int) -> dict[str, Any]:
    """The layout without its axes, with one colour range for all matrices."""
    colours = colour_range(largest(np.stack([matrix.values for matrix in matrices])), signed=signed)
    return {
        "template": template(),
        "height": height,
        "margin": {"l": 8, "r": 8, "t": 0, "b": 0},
        "font": {"size": letters(13)},
        "showlegend": False,
        "legend": {"itemclick": False},
        "coloraxis": {
            "colorscale": colours["colorscale"],
            "cmin": colours["zmin"],
            "cmax": colours["zmax"],
            "colorbar": colour_bar(10, 12) | {"nticks": 5},
        },
        "annotations": [],
        "shapes": [],
        "meta": {"row_block": matrices[0].row_block, "column_block": matrices[0].column_block},
    }
