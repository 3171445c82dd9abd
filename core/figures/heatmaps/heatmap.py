"""A heatmap of one matrix: query rows from the top down, key columns from left to right."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...attention.rowwise import Pooled, pool
from ..chart import Chart, Trace, Values, floats, scatter
from ..labels import MAX_LABELS, further_lines
from ..palette import ALLOWED, FORBIDDEN, INK, PIN, colour_range, colours_of, largest, text_on
from ..theme import enlarged, letters, smallest_letters, template, thick
from ..typeface import GAP, ems
from .frames import Axis, columns_axis, hidden_axis, margins_for, names_of, over_cells, pin_frames, rows_axis, shows_all

Scale = Literal["signed", "share", "permission"]
Hover = tuple[str, NDArray[Any]]

MAX_CELLS = 256  # drawn per side: more than a chart has pixels for is only slow
WIDTH = 480  # pixels: a picture beside a column of words, in a window 1024 wide
LEGEND = 28  # pixels above the cells
SMALLEST = 9  # pixels: letters of numbers in cells
LEAST_ROW = 10  # pixels of a row that has a label
NARROW = 300  # pixels: below, letters and the colour bar are smaller
PRINTED_CELLS = 12  # per side: up to here every cell of a large picture shows its number
PERMISSIONS = [[0, FORBIDDEN], [1, ALLOWED]]  # the colours of a mask


def heatmap(
    values: NDArray[np.floating] | Pooled,
    rows: Axis,
    columns: Axis,
    *,
    name: str,
    forbidden: NDArray[np.bool_] | None = None,
    hover: Hover | None = None,
    scale: Scale = "signed",
    limit: float | None = None,
    forbidden_name: str = "masked",
    gap_name: str = "not there",
    height: int = 420,
    width: int = WIDTH,
    compact: bool = False,
    printed: int = PRINTED_CELLS,
) -> Chart:
    """Draw a matrix [rows, columns] as an interactive heatmap.

    values          NaN is left empty. A matrix of more than 256 rows or columns is pooled: each drawn cell shows the number of
                    its block farthest from 0. One that is pooled already is drawn as it is, with the pairs that it masks grey;
                    of a part of a matrix, `rows` and `columns` are those of the whole
    forbidden       [rows, columns] bool, True where a pair is masked: drawn grey, never like a small number
    hover           name and numbers of a second matrix of the same shape, also shown when pointing at a cell, or "" and texts,
                    as `further_lines` takes them; not where a drawn cell stands for several, because the strongest cell of a
                    block may be another one in the second matrix
    scale           "signed": two colours that meet at 0; "share": one from 0 up; "permission": 1 allowed, 0 forbidden
    limit           the number with the strongest colour, to compare heatmaps; None: the largest number
    forbidden_name  name of masked cells in the legend; gap_name: that of the `gaps` of rows and columns
    height          in pixels; more where up to 30 labels beside the rows need it
    width           approximate width on a narrow screen in pixels, which decides how many columns have labels
    compact         fewer labels and no printed numbers
    printed         maximum number of columns with printed numbers
    """
    if isinstance(values, Pooled):
        drawn = values
        rows, columns = map(Axis.part, (rows, columns), drawn.start, drawn.shape)
    else:
        max_cells = MAX_CELLS // 4 if compact else MAX_CELLS
        drawn = pool(values, max_cells, None if forbidden is None else ~forbidden)
    is_mask, narrow = scale == "permission", compact or width < NARROW
    colours = colour_range(largest(drawn.values) if limit is None else limit, signed=scale == "signed")
    size = letters(11 if compact else 12 if narrow else 14)
    margins = margins_for(drawn.shape, rows, columns, size, titled=not compact) | {"r": _right(scale, narrow=narrow)}
    room = width - margins["l"] - margins["r"]
    # A grey ground behind all cells shows what is masked: for many cells this saves a third of the bytes.
    on_grey = not is_mask and not drawn.exact and np.array_equal(np.isnan(drawn.values), ~drawn.allowed)

    traces: list[Trace] = []
    if not is_mask:
        traces.append(_numbers(drawn, rows, columns, name, colours, hover if drawn.exact else None, narrow=narrow))
    traces += _masked(drawn, rows, columns, forbidden_name, is_mask=is_mask, on_grey=on_grey)
    legend_lines = int(len(traces) > 1)
    if rows.gaps or columns.gaps:
        legend_lines += 1  # two names fit side by side on wide pictures only
        traces.append(_gaps(drawn.shape, rows.gaps, columns.gaps, gap_name))
    if not compact and not is_mask and drawn.shape[0] <= PRINTED_CELLS and drawn.shape[1] <= printed:
        traces += _printed(drawn.values, colours, room)
    if not legend_lines and rows.pinned is columns.pinned is None:
        # Axes with nothing on them show no labels.
        traces.append(scatter([None], [None], "markers", hoverinfo="skip"))
    margins["t"] = enlarged(LEGEND) * legend_lines or enlarged(8)
    if not compact and shows_all(drawn.shape[0], rows):
        height = max(height, round(LEAST_ROW * drawn.shape[0] + margins["b"] + margins["t"]))
    ground = over_cells(*map(range, drawn.shape), fillcolor=FORBIDDEN, line={"width": 0}, layer="below")
    thin = {"line": {"color": PIN, "width": thick(1)}, "opacity": 0.6}
    layout = {
        "template": template(),
        "height": height,
        "margin": margins | {"autoexpand": False},
        "font": {"size": size},
        "showlegend": legend_lines > 0,
        "legend": {"itemclick": False},
        "dragmode": False if compact else "zoom",
        "xaxis": columns_axis(drawn.shape[1], columns, size, room, max_labels=12 if compact else MAX_LABELS),
        "yaxis": rows_axis(drawn.shape[0], rows, size, height - margins["b"] - margins["t"]),
        "xaxis2": hidden_axis(drawn.columns, drawn.column_block, drawn.shape[1], columns, "x"),
        "yaxis2": hidden_axis(drawn.rows, drawn.row_block, drawn.shape[0], rows, "y"),
        "shapes": [ground] * on_grey + pin_frames(drawn.shape, rows.pinned, columns.pinned, **thin),
        "meta": _coordinates(drawn, rows, columns, empty=forbidden_name if on_grey else "no number"),
    }
    if compact:
        layout["xaxis"]["title"] = layout["yaxis"]["title"] = None
    return Chart(traces, layout, (_values(drawn, rows, columns, name, forbidden_name, is_mask=is_mask),))


def _right(scale: Scale, *, narrow: bool) -> int:
    """Pixels at the right, for the colour bar and its numbers."""
    if scale == "permission":
        return 12
    if not narrow:
        return enlarged(66, 13)
    return enlarged(58 if scale == "signed" else 50, 11)


def _coordinates(drawn: Pooled, rows: Axis, columns: Axis, *, empty: str) -> dict[str, object]:
    """The meaning of a cell's coordinates, for a page that listens for clicks."""
    return {
        "rows": rows.name,
        "columns": columns.name,
        "row_block": drawn.row_block,
        "column_block": drawn.column_block,
        "pinned": [rows.pinned, columns.pinned],
        "row_from": rows.start,
        "column_from": columns.start,
        "empty": empty,
    }


def _values(drawn: Pooled, rows: Axis, columns: Axis, name: str, forbidden_name: str, *, is_mask: bool) -> Values:
    """The numbers of the drawn cells. A mask only says how many pairs it allows."""
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
        rows=names_of(drawn.shape[0], rows, drawn.row_block),
        columns=names_of(drawn.shape[1], columns, drawn.column_block),
        is_mask=is_mask,
        opening=size_of(drawn),
        closing=closing,
        block=(drawn.row_block, drawn.column_block),
    )


def size_of(drawn: Pooled) -> str:
    """The size of a matrix in words, and how many of its cells one drawn cell stands for."""
    rows, columns = drawn.shape
    strongest = strongest_of(drawn)
    return f"{rows:,} by {columns:,}" + (f", each drawn cell the {strongest}" if strongest else "")


def strongest_of(drawn: Pooled) -> str:
    """What a drawn cell shows, "strongest of 8 × 8"; "" where it stands for a single cell."""
    return "" if drawn.exact else f"strongest of {drawn.row_block} × {drawn.column_block}"


def _named_cells(drawn: Pooled) -> dict[str, Any]:
    """The places of the drawn cells on the hidden axes, which know the names of all of them."""
    return {"x": drawn.columns, "y": drawn.rows, "xaxis": "x2", "yaxis": "y2"}


def _pointing(rows: Axis, columns: Axis, text: str) -> str:
    """What pointing at a cell shows: the names of its row and of its column, and this text."""
    return f"{rows.name} <b>%{{y}}</b><br>{columns.name} <b>%{{x}}</b><br>{text}<extra></extra>"


def _numbers(
    drawn: Pooled, rows: Axis, columns: Axis, name: str, colours: dict[str, Any], hover: Hover | None, *, narrow: bool
) -> Trace:
    """The cells in their colours."""
    also, beside = hover or ("", None)
    text = f"{name} <b>%{{z:.6g}}</b>" + (
        f"<br>{also} <b>%{{customdata:.6g}}</b>" if also else "%{customdata}" * bool(hover)
    )
    if beside is not None and not also:
        beside = [[further_lines(words) for words in row] for row in beside]
    return {
        "type": "heatmap",
        "z": drawn.values,
        **_named_cells(drawn),
        "name": name,
        **colours,
        "colorbar": _colour_bar(colours["zmin"], colours["zmax"], narrow=narrow),
        "customdata": beside,
        "hovertemplate": _pointing(rows, columns, text if drawn.exact else f"{text}<br>{strongest_of(drawn)} cells"),
    }


def _printed(values: NDArray[np.floating], colours: dict[str, Any], room: float) -> list[Trace]:
    """The printed numbers of all cells, black or white on their colours; none where they would be too small to read."""
    lowest, highest = colours["zmin"], colours["zmax"]
    longest = ems("−0.12" if lowest else "0.12") + GAP
    size = min(letters(13), int(room / values.shape[1] / longest))
    if size < smallest_letters.get():
        return []
    is_known = np.isfinite(values)
    known = values[is_known]
    texts = [f"{value:z.2f}".replace("-", "−") for value in known.tolist()]
    on = colours_of((known - lowest) / (highest - lowest), colours["colorscale"])
    return [printed_in(is_known, texts, {"size": max(size, SMALLEST), "color": text_on(on)})]


def printed_in(cells: NDArray[np.bool_], texts: Sequence[str], font: dict[str, Any]) -> Trace:
    """Texts in some cells of an exact heatmap: those where `cells` [rows, columns] is True, row by row."""
    rows, columns = np.nonzero(cells)
    look = {"textfont": font, "showlegend": False, "hoverinfo": "skip"}
    return scatter(columns, rows, "text", xaxis="x2", yaxis="y2", text=texts, **look)


def _masked(
    drawn: Pooled, rows: Axis, columns: Axis, forbidden_name: str, *, is_mask: bool, on_grey: bool
) -> list[Trace]:
    """The grey cells of masked pairs and their legend, if any. A pooled cell is grey only if its whole block is."""
    allowed = drawn.allowed
    legend = [] if allowed.all() else [legend_entry(forbidden_name, FORBIDDEN)]
    if is_mask:
        legend.append(legend_entry("may attend", ALLOWED))
    if on_grey or not legend:
        return [*legend]
    pointing = f"{forbidden_name}: may not attend" if forbidden_name == "masked" else forbidden_name
    texts = np.where(allowed, "may attend", pointing) if is_mask and drawn.exact else None
    if is_mask:
        pointing = "may attend: <b>%{z}</b>" if texts is None else "%{text}"
    cells = {
        "type": "heatmap",
        "z": allowed.astype(np.uint8) if is_mask else np.where(allowed, np.nan, 0.0).astype(np.float32),
        **_named_cells(drawn),
        "zmin": 0,
        "zmax": 1,
        "colorscale": PERMISSIONS,
        "showscale": False,
        "text": texts,
        "hovertemplate": _pointing(rows, columns, pointing),
    }
    return [cells, *legend]


def legend_entry(name: str, colour: str) -> Trace:
    """An entry of the legend for a plain colour: a point without a position."""
    square = {"symbol": "square", "size": enlarged(11), "color": colour}
    return scatter([None], [None], "markers", name=name, hoverinfo="skip", marker=square)


def _gaps(shape: tuple[int, int], rows: Sequence[int], columns: Sequence[int], name: str) -> Trace:
    """Hatching over missing rows and columns, with its entry in the legend."""
    boxes = [(-0.5, shape[1] - 0.5, start - 0.5, stop - 0.5) for start, stop in _runs(rows)]
    boxes += [(start - 0.5, stop - 0.5, -0.5, shape[0] - 0.5) for start, stop in _runs(columns)]
    x = [at for left, right, _, _ in boxes for at in (left, right, right, left, None)]
    y = [at for _, _, top, bottom in boxes for at in (top, top, bottom, bottom, None)]
    hatched = {"shape": "/", "size": 6, "solidity": 0.25, "fgcolor": INK, "bgcolor": "rgba(0, 0, 0, 0)"}
    look = {"line": {"width": 0}, "fill": "toself", "fillpattern": hatched, "hoverinfo": "skip"}
    return scatter(x, y, "lines", name=name, **look)


def _runs(places: Sequence[int]) -> list[tuple[int, int]]:
    """Join neighbouring places to runs: (first, after the last)."""
    known = set(places)
    starts = [place for place in places if place - 1 not in known]
    return list(zip(starts, [place + 1 for place in places if place + 1 not in known], strict=True))


def _colour_bar(lowest: float, highest: float, *, narrow: bool) -> dict[str, object]:
    """The colour bar; where there is little room, only with the numbers of both ends and of the middle."""
    if not narrow:
        return {"nticks": 6}
    shown = [lowest, (lowest + highest) / 2, highest]
    texts = [f"{value:.2g}".replace("-", "−") for value in shown]
    font = {"size": letters(11)}
    return {"thickness": enlarged(8), "tickvals": shown, "ticktext": texts, "tickfont": font}
