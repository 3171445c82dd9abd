"""Several small matrices of one kind in one picture, with one colour range, so that they can be compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from core.figures.heatmap import Scale
from core.figures.labels import axis_labels
from core.figures.palette import DIVERGING, INK, PIN, SEQUENTIAL
from core.figures.pooling import Pooled, pool

MOST_CELLS = 64  # per side of one small matrix
ROW_LABEL = 11  # pixels that a row needs for its label
ABOVE = 24  # pixels for the name above a small matrix
BETWEEN = 10  # pixels


def side_by_side(
    matrices: Sequence[NDArray[np.floating] | Pooled],
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
) -> go.Figure:
    """Matrices [rows, columns] of one shape in a grid, `across` in a line, each with its name above it.

    matrices       arrays, or what `pool` made of them
    rows, columns  what rows and columns are called when one points at a cell; rows also at the left, where that fits
    what           what the number of a cell is
    scale, limit   as in `heatmap`; one colour range for all
    marked         a row that is framed in each
    line_height    pixels for one line of small matrices
    column_labels  whether the last line has its columns labelled; for a few columns only

    Long matrices are pooled to 64 cells a side; `layout.meta` says how many cells a drawn one then stands for.
    """
    drawn = [matrix if isinstance(matrix, Pooled) else pool(matrix, MOST_CELLS) for matrix in matrices]
    strongest = max(float(np.nanmax(np.abs(small.values), initial=0.0)) for small in drawn)
    limit = limit or strongest or 1.0
    row_texts = axis_labels(rows)
    column_texts = axis_labels(columns)
    labelled = (line_height - ABOVE - BETWEEN) / len(row_texts) >= ROW_LABEL
    layout = _layout(scale, limit, height=-(-len(drawn) // across) * line_height)
    layout["meta"] = {"row_block": drawn[0].row_block, "column_block": drawn[0].column_block}
    layout["annotations"], layout["shapes"] = [], []
    traces = []
    for place, (small, name) in enumerate(zip(drawn, names, strict=True)):
        number = "" if place == 0 else str(place + 1)
        x_domain, y_domain = _domains(place, len(drawn), across, line_height)
        layout[f"xaxis{number}"] = _axis(small.columns, small.column_block, column_texts, f"y{number}", x_domain) | {
            "showticklabels": column_labels and place + across >= len(drawn),
        }
        layout[f"yaxis{number}"] = _axis(small.rows, small.row_block, row_texts, f"x{number}", y_domain) | {
            "autorange": "reversed",
            "showticklabels": labelled and place % across == 0,
        }
        layout["annotations"].append(_name(name, x_domain[0], y_domain[1]))
        if marked is not None:
            layout["shapes"].append(_frame(marked, len(column_texts), number))
        traces.append(_heatmap(small, name, number, what))
    return go.Figure(traces, layout)


def _heatmap(small: Pooled, name: str, number: str, what: str) -> go.Heatmap:
    note = "" if small.exact else f"<br>strongest of {small.row_block} × {small.column_block} cells"
    return go.Heatmap(
        z=small.values,
        x=small.columns,
        y=small.rows,
        xaxis=f"x{number}",
        yaxis=f"y{number}",
        coloraxis="coloraxis",
        name=name,
        hoverongaps=False,
        hovertemplate=f"{name}<br>row <b>%{{y}}</b><br>column <b>%{{x}}</b><br>{what} <b>%{{z:.4g}}</b>{note}<extra></extra>",
    )


def _domains(place: int, count: int, across: int, line_height: int) -> tuple[list[float], list[float]]:
    """Where the small matrix lies, as shares of the width and the height of the picture."""
    line, column = divmod(place, across)
    height = -(-count // across) * line_height
    gap = 0.025
    width = (1 - gap * (across - 1)) / across
    left = column * (width + gap)
    top = 1 - (line * line_height + ABOVE) / height
    bottom = 1 - ((line + 1) * line_height - BETWEEN) / height
    return [left, min(left + width, 1)], [max(bottom, 0), top]


def _axis(places, block: int, texts: list[str], anchor: str, domain: list[float]) -> dict[str, object]:
    if block > 1:
        texts = [
            f"{texts[start]} … {texts[min(start + block, len(texts)) - 1]}" for start in range(0, len(texts), block)
        ]
    return {
        "domain": domain,
        "anchor": anchor,
        "tickmode": "array",
        "tickvals": places.tolist(),
        "ticktext": texts,
        "tickfont": {"size": 11},
        "showticklabels": False,
        "ticks": "",
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
        "showarrow": False,
        "font": {"size": 13, "color": INK},
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
        "line": {"color": PIN, "width": 1.5},
    }


def _layout(scale: Scale, limit: float, height: int) -> dict[str, object]:
    return {
        "template": "none",
        "height": height,
        "margin": {"l": 8, "r": 8, "t": 0, "b": 0},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": INK, "size": 13},
        "dragmode": False,
        "hoverlabel": {"font": {"size": 14}, "align": "left"},
        "coloraxis": {
            "colorscale": DIVERGING if scale == "signed" else SEQUENTIAL,
            "cmin": -limit if scale == "signed" else 0,
            "cmax": limit,
            "colorbar": {
                "thickness": 10,
                "outlinewidth": 0,
                "nticks": 5,
                "ticks": "",
                "tickfont": {"size": 12},
                "xpad": 6,
            },
        },
    }
