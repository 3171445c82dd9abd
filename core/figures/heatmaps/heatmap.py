"""A heatmap of one matrix: query rows from the top down, key columns from left to right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from ...attention.pooling import Pooled, pool
from ..chart import Chart
from ..labels import MAX_LABELS
from ..palette import ALLOWED, DIVERGING, FORBIDDEN, INK, PIN, SEQUENTIAL, colours_of, text_on
from ..theme import enlarged, lettering, letters, template, thick
from ..values import Values, floats
from .axes import LETTER, Axis, columns_axis, hidden_axis, margins_for, plain_names, rows_axis

Scale = Literal["signed", "share", "permission"]

MAX_CELLS = 256  # drawn per side: more than a chart has pixels for is only slow
WIDTH = 480  # pixels: a picture beside a column of words, in a window 1024 wide
LEGEND = 28  # pixels above the cells
SMALLEST = 9  # pixels: letters of numbers in cells
NARROW = 300  # pixels: below, letters and the colour bar are smaller
PRINTED_CELLS = 12  # per side: up to here every cell of a large picture shows its number


class Options(TypedDict, total=False):
    """How a heatmap is drawn; `pooled_heatmap` has the defaults.

    scale      "signed": two colours that meet at 0; "share": one colour from 0 up; "permission": 1 allowed, 0 forbidden
    limit      the number with the strongest colour, so that heatmaps can be compared; None: the largest number
    forbidden_name  name of masked cells in the legend
    gap_name   name of the `gaps` of rows and columns in the legend
    width      approximate width on a narrow screen in pixels, which decides how many columns have labels
    compact    fewer labels and no printed numbers
    printed    maximum number of columns with printed numbers
    """

    scale: Scale
    limit: float | None
    forbidden_name: str
    gap_name: str
    height: int
    width: int
    compact: bool
    printed: int


def heatmap(
    values: NDArray[np.floating],
    rows: Axis,
    columns: Axis,
    *,
    name: str,
    forbidden: NDArray[np.bool_] | None = None,
    hover: tuple[str, NDArray[np.floating]] | None = None,
    **options: Unpack[Options],
) -> Chart:
    """Draw a matrix [rows, columns] as an interactive heatmap.

    forbidden  [rows, columns] bool, True where a pair is masked: drawn grey, never like a small number
    hover      name and numbers of a second matrix, also shown when pointing at a cell

    A matrix of more than 256 rows or columns is pooled: each drawn cell shows the number of its block farthest from 0.
    """
    max_cells = MAX_CELLS // 4 if options.get("compact") else MAX_CELLS
    drawn = pool(values, max_cells, None if forbidden is None else ~forbidden)
    also = None if hover is None else (hover[0], pool(hover[1], max_cells).values)
    return pooled_heatmap(drawn, rows, columns, name=name, hover=also, **options)


def pooled_heatmap(
    drawn: Pooled,
    rows: Axis,
    columns: Axis,
    *,
    name: str,
    hover: tuple[str, NDArray[np.floating]] | None = None,
    scale: Scale = "signed",
    limit: float | None = None,
    forbidden_name: str = "masked",
    gap_name: str = "not there",
    height: int = 420,
    width: int = WIDTH,
    compact: bool = False,
    printed: int = PRINTED_CELLS,
) -> Chart:
    """Draw a matrix that is pooled already, as `heatmap` does; see `Options`.

    drawn    its cells; NaN is left empty
    hover    as in `heatmap`, of the shape of `drawn`; not shown where a drawn cell stands for several, because the strongest
             cell of a block may be another one in the second matrix
    """
    hover = hover if drawn.exact else None
    limit = _largest(drawn.values) if limit is None else limit
    narrow = compact or width < NARROW
    size = letters(11 if compact else 12 if narrow else 14)
    margins = margins_for(drawn.shape, rows, columns, size, titled=not compact) | {"r": _right(scale, narrow=narrow)}
    room = width - margins["l"] - margins["r"]
    on_grey = _lies_on_grey(drawn, scale)

    traces: list[go.Heatmap | go.Scatter] = []
    if scale != "permission":
        traces.append(_numbers(drawn, rows, columns, name, scale, limit, hover, narrow=narrow))
    traces += _masked(drawn, rows, columns, scale, forbidden_name, on_grey=on_grey)
    legend_lines = int(len(traces) > 1)
    if rows.gaps or columns.gaps:
        legend_lines += 1  # two names fit side by side on wide pictures only
        traces.append(_gaps(drawn.shape, rows.gaps, columns.gaps, gap_name))
    if not compact and scale != "permission" and drawn.shape[0] <= PRINTED_CELLS and drawn.shape[1] <= printed:
        traces += _printed(drawn, scale, limit, room)
    if not legend_lines and rows.pinned is columns.pinned is None:
        traces.append(go.Scatter(x=[None], y=[None], hoverinfo="skip"))  # axes with nothing on them show no labels
    margins["t"] = enlarged(LEGEND) * legend_lines or enlarged(8)
    layout = {
        "template": template(),
        "height": height,
        "margin": margins | {"autoexpand": False},
        "font": {"size": size},
        "showlegend": legend_lines > 0,
        "legend": {"itemclick": False},
        "dragmode": False if compact else "zoom",
        "modebar": {"orientation": "v"},  # beside the cells, not on them
        "xaxis": columns_axis(drawn.shape[1], columns, size, room, max_labels=12 if compact else MAX_LABELS),
        "yaxis": rows_axis(drawn.shape[0], rows, size, height - margins["b"] - margins["t"]),
        "xaxis2": hidden_axis(drawn.columns, drawn.column_block, drawn.shape[1], columns, "x"),
        "yaxis2": hidden_axis(drawn.rows, drawn.row_block, drawn.shape[0], rows, "y"),
        "shapes": ([_grey(drawn.shape)] if on_grey else []) + _pin(drawn.shape, rows.pinned, columns.pinned),
        "meta": _coordinates(drawn, rows, columns, empty=forbidden_name if on_grey else "no number"),
    }
    if compact:
        layout["xaxis"]["title"] = layout["yaxis"]["title"] = None
    figure = go.Figure(traces, layout)
    return Chart(figure, (_values(drawn, rows, columns, name, scale, forbidden_name),))


def _right(scale: Scale, *, narrow: bool) -> int:
    """Pixels at the right, for the colour bar and its numbers."""
    if scale == "permission":
        return 12
    if not narrow:
        return enlarged(66, 13)
    return enlarged(58 if scale == "signed" else 50, 11)


def _lies_on_grey(drawn: Pooled, scale: Scale) -> bool:
    """Whether a grey ground behind the cells shows what is masked, instead of a cell for each masked pair."""
    return scale != "permission" and not drawn.exact and np.array_equal(np.isnan(drawn.values), ~drawn.allowed)


def _coordinates(drawn: Pooled, rows: Axis, columns: Axis, *, empty: str) -> dict[str, object]:
    """The meaning of a cell's coordinates, for a page that listens for clicks."""
    return {
        "rows": rows.name,
        "columns": columns.name,
        "row_block": drawn.row_block,
        "column_block": drawn.column_block,
        "row_from": rows.start,
        "column_from": columns.start,
        "empty": empty,
    }


def _values(drawn: Pooled, rows: Axis, columns: Axis, name: str, scale: Scale, forbidden_name: str) -> Values:
    """The numbers of the drawn cells. A mask only says how many pairs it allows."""
    is_mask = scale == "permission"
    masked = int((~drawn.allowed).sum())
    closing = f"{masked:,} {forbidden_name}" if masked else ""
    if is_mask:
        closing = f"{int(drawn.allowed.sum()):,} may attend, {masked:,} masked"
    return Values(
        kind="heads" if (rows.name, columns.name) == ("layer", "head") else "cells",
        part="" if is_mask else name,
        headings=(rows.name, columns.name),
        value="allowed" if is_mask else name,
        numbers=drawn.allowed.astype(np.float32) if is_mask else floats(drawn.values),
        rows=plain_names(drawn.shape[0], rows, drawn.row_block),
        columns=plain_names(drawn.shape[1], columns, drawn.column_block),
        is_mask=is_mask,
        opening=size_of(drawn),
        closing=closing,
        block=(drawn.row_block, drawn.column_block),
    )


def size_of(drawn: Pooled) -> str:
    """The size of a matrix in words, and how many of its cells one drawn cell stands for."""
    rows, columns = drawn.shape
    size = f"{rows:,} by {columns:,}"
    return size if drawn.exact else f"{size}, each drawn cell the strongest of {drawn.row_block} × {drawn.column_block}"


def _numbers(
    drawn: Pooled,
    rows: Axis,
    columns: Axis,
    name: str,
    scale: Scale,
    limit: float,
    hover: tuple[str, NDArray[np.floating]] | None,
    *,
    narrow: bool,
) -> go.Heatmap:
    """The cells in their colours."""
    return go.Heatmap(
        z=drawn.values,
        x=drawn.columns,
        y=drawn.rows,
        xaxis="x2",
        yaxis="y2",
        name=name,
        zmin=-limit if scale == "signed" else 0,
        zmax=limit,
        colorscale=DIVERGING if scale == "signed" else SEQUENTIAL,
        colorbar=_colour_bar(-limit if scale == "signed" else 0, limit, narrow=narrow),
        **_hover(name, rows, columns, drawn, hover),
    )


def _printed(drawn: Pooled, scale: Scale, limit: float, room: float) -> list[go.Scatter]:
    """The printed numbers of all cells, black or white on their colours; none where they would be too small to read.

    room  pixels for all columns
    """
    longest = len("−0.12" if scale == "signed" else "0.12")
    size = min(letters(13), int(room / drawn.shape[1] / (LETTER * longest)))
    if size < lettering.get().least:
        return []
    rows, columns = np.nonzero(np.isfinite(drawn.values))
    values = drawn.values[rows, columns]
    shares = (values / limit + 1) / 2 if scale == "signed" else values / limit
    numbers = go.Scatter(
        x=columns,
        y=rows,
        xaxis="x2",
        yaxis="y2",
        mode="text",
        text=[f"{value:.2f}".replace("-", "−") for value in values.tolist()],
        textfont={
            "size": max(size, SMALLEST),
            "color": text_on(colours_of(shares, DIVERGING if scale == "signed" else SEQUENTIAL)),
        },
        showlegend=False,
        hoverinfo="skip",
    )
    return [numbers]


def _largest(values: NDArray[np.floating]) -> float:
    largest = float(np.nanmax(np.abs(values), initial=0.0))
    return largest or 1.0


def _hover(
    name: str, rows: Axis, columns: Axis, drawn: Pooled, hover: tuple[str, NDArray[np.floating]] | None
) -> dict[str, Any]:
    note = "" if drawn.exact else f"<br>strongest of {drawn.row_block} × {drawn.column_block} cells"
    lines = f"{rows.name} <b>%{{y}}</b><br>{columns.name} <b>%{{x}}</b><br>{name} <b>%{{z:.6g}}</b>"
    if hover is None:
        return {"hovertemplate": f"{lines}{note}<extra></extra>"}
    other, numbers = hover
    return {
        "customdata": numbers,
        "hovertemplate": f"{lines}<br>{other} <b>%{{customdata:.6g}}</b>{note}<extra></extra>",
    }


def _masked(
    drawn: Pooled, rows: Axis, columns: Axis, scale: Scale, forbidden_name: str, *, on_grey: bool
) -> list[go.Heatmap | go.Scatter]:
    """The grey cells of masked pairs and their legend; empty where no pair is masked."""
    is_mask, all_allowed = scale == "permission", bool(drawn.allowed.all())
    if all_allowed and not is_mask:
        return []
    if on_grey:
        return [*_legend(forbidden_name, show_allowed=False, show_forbidden=True)]
    hover_text = f"{forbidden_name}: may not attend" if forbidden_name == "masked" else forbidden_name
    return [
        _permissions(drawn.allowed, drawn, rows, columns, hover_text, show_allowed=is_mask),
        *_legend(forbidden_name, show_allowed=is_mask, show_forbidden=not all_allowed),
    ]


def _permissions(
    allowed: NDArray[np.bool_], drawn: Pooled, rows: Axis, columns: Axis, hover_text: str, *, show_allowed: bool
) -> go.Heatmap:
    """Grey cells where pairs are forbidden. A pooled cell is grey only if its whole block is."""
    shown = allowed.astype(np.uint8) if show_allowed else np.where(allowed, np.nan, 0.0).astype(np.float32)
    words = np.where(allowed, "may attend", hover_text) if show_allowed and drawn.exact else None
    said = hover_text if not show_allowed else "may attend: <b>%{z}</b>" if words is None else "%{text}"
    return go.Heatmap(
        z=shown,
        x=drawn.columns,
        y=drawn.rows,
        xaxis="x2",
        yaxis="y2",
        zmin=0,
        zmax=1,
        colorscale=[[0, FORBIDDEN], [1, ALLOWED]],
        showscale=False,
        text=words,
        hovertemplate=f"{rows.name} <b>%{{y}}</b><br>{columns.name} <b>%{{x}}</b><br>{said}<extra></extra>",
    )


def _grey(shape: tuple[int, int]) -> dict[str, object]:
    """A grey ground behind all cells, visible where there is no cell. For many cells this saves a third of the bytes."""
    rows, columns = shape
    return {
        "type": "rect",
        "xref": "x",
        "yref": "y",
        "x0": -0.5,
        "x1": columns - 0.5,
        "y0": -0.5,
        "y1": rows - 0.5,
        "fillcolor": FORBIDDEN,
        "line": {"width": 0},
        "layer": "below",
    }


def _gaps(shape: tuple[int, int], rows: Sequence[int], columns: Sequence[int], name: str) -> go.Scatter:
    """Hatching over missing rows and columns, with its entry in the legend."""
    boxes = [(-0.5, shape[1] - 0.5, start - 0.5, stop - 0.5) for start, stop in _runs(rows)]
    boxes += [(start - 0.5, stop - 0.5, -0.5, shape[0] - 0.5) for start, stop in _runs(columns)]
    return go.Scatter(
        x=[at for left, right, _, _ in boxes for at in (left, right, right, left, None)],
        y=[at for _, _, top, bottom in boxes for at in (top, top, bottom, bottom, None)],
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillpattern={"shape": "/", "size": 6, "solidity": 0.25, "fgcolor": INK, "bgcolor": "rgba(0, 0, 0, 0)"},
        name=name,
        hoverinfo="skip",
    )


def _runs(places: Sequence[int]) -> list[tuple[int, int]]:
    """Join neighbouring places to runs: (first, after the last)."""
    known = set(places)
    starts = [place for place in places if place - 1 not in known]
    return list(zip(starts, [place + 1 for place in places if place + 1 not in known], strict=True))


def _legend(forbidden_name: str, *, show_allowed: bool, show_forbidden: bool) -> list[go.Scatter]:
    """Entries of the legend for plain colours. They are points without a position."""
    entries = [(forbidden_name, FORBIDDEN, show_forbidden), ("may attend", ALLOWED, show_allowed)]
    return [
        go.Scatter(
            x=[None],
            y=[None],
            mode="markers",
            name=name,
            marker={"symbol": "square", "size": enlarged(11), "color": colour},
            hoverinfo="skip",
        )
        for name, colour, wanted in entries
        if wanted
    ]


def _colour_bar(lowest: float, highest: float, *, narrow: bool) -> dict[str, object]:
    """The colour bar; where there is little room, only with the numbers of both ends and of the middle."""
    if not narrow:
        return {"nticks": 6}
    shown = [lowest, (lowest + highest) / 2, highest]
    texts = [f"{value:.2g}".replace("-", "−") for value in shown]
    font = {"size": letters(11)}
    return {"thickness": enlarged(8), "tickmode": "array", "tickvals": shown, "ticktext": texts, "tickfont": font}


def _pin(shape: tuple[int, int], row: int | None, column: int | None) -> list[dict[str, object]]:
    """Thin frames around the pinned row and column, a thick one around the cell where they meet."""
    rows, columns = shape
    boxes = []
    if row is not None:
        boxes.append((row, row, 0, columns - 1, 1))
    if column is not None:
        boxes.append((0, rows - 1, column, column, 1))
    if row is not None and column is not None:
        boxes.append((row, row, column, column, 3))
    return [
        {
            "type": "rect",
            "xref": "x",
            "yref": "y",
            "y0": top - 0.5,
            "y1": bottom + 0.5,
            "x0": left - 0.5,
            "x1": right + 0.5,
            "line": {"color": PIN, "width": thick(width)},
            "opacity": 1 if width > 1 else 0.6,
        }
        for top, bottom, left, right, width in boxes
    ]
