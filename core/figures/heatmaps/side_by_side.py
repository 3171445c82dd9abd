"""Several small heatmaps in one figure with one colour range, so that they can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from ...attention.pooling import Pooled, pool
from ..chart import Chart
from ..labels import axis_labels, in_blocks, short
from ..palette import DIVERGING, FORBIDDEN, PIN, SEQUENTIAL
from ..theme import enlarged, letters, template, thick
from ..values import Values, floats
from .heatmap import Scale, size_of

MAX_CELLS = 64  # per side of one small matrix
ROW_LABEL = 11  # pixels that a row needs for its label
ABOVE = 24  # pixels for the name above a small matrix
BETWEEN = 10  # pixels
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
    limit: float | None = None,
    marked: int | None = None,
    line_height: int = 170,
    column_labels: bool = False,
) -> Chart:
    """Draw matrices [rows, columns] of one shape in a grid, `across` in a line, each with its name above it.

    matrices       each made by `small`
    rows, columns  names of rows and columns, shown when pointing at a cell; those of rows also at the left, where they fit
    what           what the number of a cell is: "weight"
    scale, limit   as in `heatmap`; one colour range for all
    marked         a row that is framed in each
    line_height    pixels for one line of small matrices
    column_labels  whether the last line has its columns labelled; for a few columns only

    `layout.meta` says how many cells of a matrix a drawn one stands for.
    """
    strongest = max(float(np.nanmax(np.abs(one.values), initial=0.0)) for one in matrices)
    limit = limit or strongest or 1.0
    row_texts = axis_labels(rows)
    column_texts = axis_labels(columns)
    line_height = enlarged(line_height)
    labelled = (line_height - enlarged(ABOVE) - BETWEEN) / len(row_texts) >= enlarged(ROW_LABEL, 11)
    layout = _layout(scale, limit, height=-(-len(matrices) // across) * line_height)
    layout["meta"] = {"row_block": matrices[0].row_block, "column_block": matrices[0].column_block}
    layout["annotations"], layout["shapes"] = [], []
    traces = []
    for place, (one, name) in enumerate(zip(matrices, names, strict=True)):
        number = "" if place == 0 else str(place + 1)
        x_domain, y_domain = _domains(place, len(matrices), across, line_height)
        layout[f"xaxis{number}"] = _axis(one.columns, one.column_block, column_texts, f"y{number}", x_domain) | {
            "showticklabels": column_labels and place + across >= len(matrices),
        }
        layout[f"yaxis{number}"] = _axis(one.rows, one.row_block, row_texts, f"x{number}", y_domain) | {
            "autorange": "reversed",
            "showticklabels": labelled and place % across == 0,
        }
        layout["annotations"].append(_name(name, x_domain[0], y_domain[1]))
        if marked is not None:
            layout["shapes"].append(_frame(marked, len(column_texts), number))
        traces.append(_heatmap(one, name, number, what))
    if any(np.isnan(one.values).any() for one in matrices):
        layout |= {"plot_bgcolor": FORBIDDEN, "showlegend": True, "margin": layout["margin"] | {"t": enlarged(LEGEND)}}
        layout["height"] += enlarged(LEGEND)
        traces.append(_masked_entry())
    return Chart(go.Figure(traces, layout), _values(matrices, names, rows, columns, what))


def _values(
    matrices: Sequence[Pooled], names: Sequence[str], rows: Sequence[str], columns: Sequence[str], what: str
) -> tuple[Values, ...]:
    """The numbers of each matrix. NaN counts as masked."""
    rows, columns = ([short(name) for name in side] for side in (rows, columns))
    several = f"{len(matrices)} pictures of " if len(matrices) > 1 else ""
    masked = sum(int(np.isnan(one.values).sum()) for one in matrices)
    return tuple(
        Values(
            kind="cells",
            part=name,
            headings=("row", "column"),
            value=what,
            numbers=floats(one.values),
            rows=in_blocks(rows, one.row_block),
            columns=in_blocks(columns, one.column_block),
            opening=f"{several}{size_of(matrices[0])}",
            closing=f"{masked:,} masked" if masked else "",
            block=(one.row_block, one.column_block),
        )
        for one, name in zip(matrices, names, strict=True)
    )


def _masked_entry() -> go.Scatter:
    """The entry of the legend for grey cells."""
    marker = {"symbol": "square", "size": enlarged(11), "color": FORBIDDEN}
    return go.Scatter(x=[None], y=[None], mode="markers", name="masked", marker=marker, hoverinfo="skip")


def _heatmap(one: Pooled, name: str, number: str, what: str) -> go.Heatmap:
    note = "" if one.exact else f"<br>strongest of {one.row_block} × {one.column_block} cells"
    return go.Heatmap(
        z=one.values,
        x=one.columns,
        y=one.rows,
        xaxis=f"x{number}",
        yaxis=f"y{number}",
        coloraxis="coloraxis",
        name=name,
        hovertemplate=f"{name}<br>row <b>%{{y}}</b><br>column <b>%{{x}}</b><br>{what} <b>%{{z:.4g}}</b>{note}<extra></extra>",
    )


def _domains(place: int, count: int, across: int, line_height: int) -> tuple[list[float], list[float]]:
    """Return where a small matrix lies, as shares of the width and the height of the figure."""
    line, column = divmod(place, across)
    height = -(-count // across) * line_height
    gap = 0.025
    width = (1 - gap * (across - 1)) / across
    left = column * (width + gap)
    top = 1 - (line * line_height + enlarged(ABOVE)) / height
    bottom = 1 - ((line + 1) * line_height - BETWEEN) / height
    return [left, min(left + width, 1)], [max(bottom, 0), top]


def _axis(
    places: NDArray[np.floating], block: int, texts: list[str], anchor: str, domain: list[float]
) -> dict[str, object]:
    return {
        "domain": domain,
        "anchor": anchor,
        "tickmode": "array",
        "tickvals": places.tolist(),
        "ticktext": in_blocks(texts, block),
        "tickfont": {"size": letters(11)},
        "showticklabels": False,
        "showgrid": False,
        "zeroline": False,
        "automargin": True,
    }


def _name(name: str, left: float, top: float) -> dict[str, object]:
    return {
        "text": name,
        "x": left,
        "y": top,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
    }


def _frame(row: int, columns: int, number: str) -> dict[str, object]:
    return {
        "type": "rect",
        "xref": f"x{number}",
        "yref": f"y{number}",
        "x0": -0.5,
        "x1": columns - 0.5,
        "y0": row - 0.5,
        "y1": row + 0.5,
        "line": {"color": PIN, "width": thick(1.5)},
    }


def _layout(scale: Scale, limit: float, height: int) -> dict[str, Any]:
    return {
        "template": template(),
        "height": height,
        "margin": {"l": 8, "r": 8, "t": 0, "b": 0},
        "font": {"size": letters(13)},
        "showlegend": False,
        "legend": {"itemclick": False},
        "coloraxis": {
            "colorscale": DIVERGING if scale == "signed" else SEQUENTIAL,
            "cmin": -limit if scale == "signed" else 0,
            "cmax": limit,
            "colorbar": {
                "thickness": enlarged(10),
                "outlinewidth": 0,
                "nticks": 5,
                "ticks": "",
                "tickfont": {"size": letters(12)},
                "xpad": 6,
            },
        },
    }
