"""A matrix as a picture: query rows from the top down, key columns from left to right."""

from __future__ import annotations

import html
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from ...attention.pooling import Pooled, pool
from ..chart import Chart
from ..labels import MAX_LABELS, axis_labels, in_blocks, short, thinned
from ..palette import ALLOWED, DIVERGING, FORBIDDEN, INK, PIN, SEQUENTIAL, colours_of, text_on
from ..theme import enlarged, lettering, letters, template, thick
from ..values import Values, floats

Scale = Literal["signed", "share", "permission"]

MAX_CELLS = 256  # drawn per side: more than a chart has pixels for is only slow
WIDTH = 480  # pixels: a picture beside a column of words, in a window 1024 wide
LEGEND = 28  # pixels above the cells
MANY = 24  # labels: more are written smaller
SMALLEST = 9  # pixels: letters of numbers in cells
NARROW = 300  # pixels: below, letters and the colour bar are smaller
MAX_NUMBERS = 9  # along a side whose rows or columns are only numbered
LETTER = 0.6  # the width of a letter, as a share of its height
PRINTED_CELLS = 12  # per side: up to here every cell of a large picture shows its number


@dataclass(frozen=True)
class Axis:
    """What stands along one side of a matrix.

    name     "query", "key", "dimension"
    tokens   a text for each row or column; None: its number
    pinned   the row or column that is marked, or None
    notes    a remark for each drawn row or column, shown when pointing at it, or None
    start    the number of the first one, where the matrix is a part of a larger one
    gaps     rows or columns that are not there, counted from the first one: hatched, never like a number or a masked pair
    """

    name: str
    tokens: Sequence[str] | None = None
    pinned: int | None = None
    notes: Sequence[str] | None = None
    start: int = 0
    gaps: Sequence[int] = ()


def heatmap(
    values: NDArray[np.floating],
    rows: Axis,
    columns: Axis,
    *,
    name: str,
    scale: Scale = "signed",
    limit: float | None = None,
    forbidden: NDArray[np.bool_] | None = None,
    forbidden_name: str = "masked",
    gap_name: str = "not there",
    hover: tuple[str, NDArray[np.floating]] | None = None,
    height: int = 420,
    width: int = WIDTH,
    compact: bool = False,
    printed: int = PRINTED_CELLS,
) -> Chart:
    """A matrix [rows, columns] as an interactive picture.

    scale      "signed": two colours that meet at 0; "share": one colour from 0 up; "permission": 1 allowed, 0 forbidden
    limit      the number with the strongest colour, so that pictures can be compared; None: the largest one here
    forbidden  [rows, columns] of True where a pair is masked: drawn grey, never like a small number
    forbidden_name  what the legend calls these cells
    gap_name   what it calls the `gaps` of rows and columns
    hover      a second matrix whose number is shown when pointing at a cell, with its name
    width      about how many pixels wide the page draws it, on a narrow screen: so many columns are labelled as fit
    compact    a small picture: fewer labels, no printed numbers
    printed    up to how many columns every cell shows its number

    Matrices of more than 256 rows or columns are pooled: each drawn cell is its block's number farthest from 0.
    """
    max_cells = MAX_CELLS // 4 if compact else MAX_CELLS
    return pooled_heatmap(
        pool(values, max_cells, None if forbidden is None else ~forbidden),
        rows,
        columns,
        name=name,
        scale=scale,
        limit=limit,
        forbidden_name=forbidden_name,
        gap_name=gap_name,
        hover=None if hover is None else (hover[0], pool(hover[1], max_cells).values),
        height=height,
        width=width,
        compact=compact,
        printed=printed,
    )


def pooled_heatmap(
    drawn: Pooled,
    rows: Axis,
    columns: Axis,
    *,
    name: str,
    scale: Scale = "signed",
    limit: float | None = None,
    forbidden_name: str = "masked",
    gap_name: str = "not there",
    hover: tuple[str, NDArray[np.floating]] | None = None,
    height: int = 420,
    width: int = WIDTH,
    compact: bool = False,
    printed: int = PRINTED_CELLS,
) -> Chart:
    """The same of a matrix that has been made small already.

    drawn    what is left of it; NaN is drawn as nothing
    hover    as in `heatmap`, but as small as `drawn`; left out where a drawn cell stands for several, since the strongest of a
             block may be another one in the second matrix
    """
    shape, allowed = drawn.shape, drawn.allowed
    hover = hover if drawn.exact else None
    limit = _largest(drawn.values) if limit is None else limit
    narrow = compact or width < NARROW
    size = letters(11 if compact else 12 if narrow else 14)
    colour_bar = (
        12
        if scale == "permission"
        else enlarged(66, 13)
        if not narrow
        else enlarged(58 if scale == "signed" else 50, 11)
    )  # and its numbers
    margins = _margins(shape, rows, columns, size, titled=not compact) | {"r": colour_bar}
    room = width - margins["l"] - margins["r"]
    number_size = min(letters(13), int(room / shape[1] / (LETTER * len("−0.12" if scale == "signed" else "0.12"))))
    prints = not compact and shape[0] <= PRINTED_CELLS and shape[1] <= printed
    prints = prints and number_size >= lettering.get().least  # none are better than some that nobody can read

    traces: list[go.Heatmap | go.Scatter] = []
    if scale != "permission":
        traces.append(_numbers(drawn, rows, columns, name, scale, limit, hover, narrow=narrow))
    on_grey = scale != "permission" and not drawn.exact and np.array_equal(np.isnan(drawn.values), ~allowed)
    if on_grey and not allowed.all():
        traces += _legend(forbidden_name, show_allowed=False, show_forbidden=True)
    elif scale == "permission" or not allowed.all():
        hover_text = f"{forbidden_name}: may not attend" if forbidden_name == "masked" else forbidden_name
        traces.append(_permissions(allowed, drawn, rows, columns, hover_text, show_allowed=scale == "permission"))
        traces += _legend(forbidden_name, show_allowed=scale == "permission", show_forbidden=not allowed.all())
    legend_lines = 1
    if rows.gaps or columns.gaps:
        legend_lines += len(traces) > 1  # two names fit side by side on wide pictures only
        traces.append(_gaps(shape, rows.gaps, columns.gaps, gap_name))
    has_legend = len(traces) > 1
    if prints and scale != "permission":
        traces.append(_printed(drawn, scale, limit, max(number_size, SMALLEST)))
    if not has_legend and rows.pinned is columns.pinned is None:
        traces.append(go.Scatter(x=[None], y=[None], hoverinfo="skip"))  # axes with nothing on them show no labels
    max_across = _fitting(room, shape[1], columns, size, max_labels=12 if compact else MAX_LABELS)
    across = _shown_axis(shape[1], columns, size, max_across, titled=not compact) | {"tickangle": _ANGLE}
    top = enlarged(LEGEND) * legend_lines if has_legend else enlarged(8)
    max_down = MAX_NUMBERS if rows.tokens is None else _fitting_down(height - margins["b"] - top, size)
    layout = {
        "template": template(),
        "height": height,
        "margin": margins | {"t": top, "autoexpand": False},
        "font": {"size": size},
        "showlegend": has_legend,
        "legend": {"itemclick": False},
        "dragmode": False if compact else "zoom",
        "modebar": {"orientation": "v"},  # beside the cells, not on them
        "xaxis": across if _angle(shape[1], columns) else _side_by_side(across, room / shape[1], size),
        "yaxis": _shown_axis(shape[0], rows, size, max_down, titled=not compact) | {"range": [shape[0] - 0.5, -0.5]},
        "xaxis2": _hidden_axis(drawn.columns, drawn.column_block, shape[1], columns, "x"),
        "yaxis2": _hidden_axis(drawn.rows, drawn.row_block, shape[0], rows, "y"),
        "shapes": ([_grey(shape)] if on_grey else []) + _pin(shape, rows.pinned, columns.pinned),
        # A page that listens for clicks reads here what a cell's coordinates mean.
        "meta": {
            "rows": rows.name,
            "columns": columns.name,
            "row_block": drawn.row_block,
            "column_block": drawn.column_block,
            "row_from": rows.start,
            "column_from": columns.start,
            "empty": forbidden_name if on_grey else "no number",
        },
    }
    figure = go.Figure(traces, layout)
    return Chart(figure, (_values(drawn, rows, columns, name, scale, forbidden_name),))


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
        rows=_numbered(_plain_texts(drawn.shape[0], rows), rows, drawn.row_block),
        columns=_numbered(_plain_texts(drawn.shape[1], columns), columns, drawn.column_block),
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


def _printed(drawn: Pooled, scale: Scale, limit: float, size: int) -> go.Scatter:
    """The numbers of all cells, black or white on their colours; `size` is the height of the letters in pixels."""
    rows, columns = np.nonzero(np.isfinite(drawn.values))
    values = drawn.values[rows, columns]
    shares = (values / limit + 1) / 2 if scale == "signed" else values / limit
    return go.Scatter(
        x=columns,
        y=rows,
        xaxis="x2",
        yaxis="y2",
        mode="text",
        text=[f"{value:.2f}".replace("-", "−") for value in values.tolist()],
        textfont={"size": size, "color": text_on(colours_of(shares, DIVERGING if scale == "signed" else SEQUENTIAL))},
        showlegend=False,
        hoverinfo="skip",
    )


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


def _permissions(
    allowed: NDArray[np.bool_], drawn: Pooled, rows: Axis, columns: Axis, hover_text: str, *, show_allowed: bool
) -> go.Heatmap:
    """Grey where forbidden. A pooled cell is grey only if the whole block is."""
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
    """A ground behind all cells, seen where there is none: of many cells that is a third of the picture's bytes less."""
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
    """Hatching over the rows and columns that are not there, and its place in the legend."""
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
    """Places in a row as one: (first, after the last)."""
    known = set(places)
    starts = [place for place in places if place - 1 not in known]
    return list(zip(starts, [place + 1 for place in places if place + 1 not in known], strict=True))


def _legend(forbidden_name: str, *, show_allowed: bool, show_forbidden: bool) -> list[go.Scatter]:
    """Squares that say what the plain colours mean; they stand for cells and have no place in the picture."""
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
    """Numbers beside the colours; where there is little room those of both ends and of the middle, however small they are."""
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


_ANGLE = -45  # of the labels below the columns that are no single characters
SINGLE, MARK = 2, 4  # letters at most of what stands for a single character, and of a mark among them, such as </s>


def _margins(shape: tuple[int, int], rows: Axis, columns: Axis, size: int, *, titled: bool) -> dict[str, float]:
    """Room for the labels at the left and below, estimated from their length.

    Left to find it out by itself, Plotly draws every picture several times, and does not always come to an end: more room
    turns the labels, turned labels need other room.
    """
    title = enlarged(26) if titled else 0
    slant = math.sin(math.radians(abs(_angle(shape[1], columns))))
    letter = size * LETTER
    beside = letter * max(map(_width, _texts(shape[0], rows)))
    below = letter * _widest(shape[1], columns) * slant + size if slant else size * 1.4
    return {"l": 8 + title + beside, "b": 6 + title + below}


def _fitting(room: float, count: int, columns: Axis, size: int, *, max_labels: int) -> int:
    """How many labels fit below the columns without lying over each other."""
    if columns.tokens is None:
        max_labels, needed = MAX_NUMBERS, (len(str(columns.start + count - 1)) + 1) * size * LETTER
    elif angle := _angle(count, columns):
        needed = size / math.sin(math.radians(abs(angle)))
    else:
        single = [width for width in map(_width, _texts(count, columns)) if width <= SINGLE]
        needed = (max(single) + 0.5) * size * LETTER
    return max(1, min(max_labels, int(room / needed)))


def _fitting_down(room: float, size: int) -> int:
    """How many labels fit beside the rows: a line of text needs a fifth more than its letters."""
    usual, smaller = (int(room / height / 1.2) for height in (size, _smaller(size)))
    return max(1, smaller if smaller > MANY else usual)


def _smaller(size: int) -> int:
    return letters(size - 2)


def _width(text: str) -> float:
    """How many letters wide a label is, about: full-width letters and pictures count twice."""
    shown = html.unescape(text)
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in shown)


def _widest(count: int, axis: Axis) -> float:
    """Of an axis' labels, in letters."""
    return max(map(_width, _texts(count, axis)))


def _angle(count: int, columns: Axis) -> int:
    """Of the labels below the columns: numbers stand upright, and so do single characters, with a mark here and there."""
    if columns.tokens is None:
        return 0
    widths = [_width(text) for text in _texts(count, columns)]
    are_single = sum(width > SINGLE for width in widths) <= len(widths) / 10 and max(widths) <= MARK
    return 0 if are_single else _ANGLE


def _texts(count: int, axis: Axis) -> list[str]:
    if axis.tokens is None:
        return [str(place) for place in range(axis.start, axis.start + count)]
    return axis_labels(axis.tokens)


def _plain_texts(count: int, axis: Axis) -> list[str]:
    """The labels of an axis as plain text, for whatever is not drawn by Plotly."""
    return _texts(count, axis) if axis.tokens is None else [short(token) for token in axis.tokens]


def _numbered(texts: list[str], axis: Axis, block: int) -> list[str]:
    """The name of each drawn row or column: "it (10)", of a block "it (10) … was (12)"."""
    if axis.tokens is not None:
        texts = [f"{text} ({place})" for place, text in enumerate(texts, axis.start)]
    return in_blocks(texts, block)


def _shown_axis(count: int, axis: Axis, size: int, max_labels: int, *, titled: bool) -> dict[str, object]:
    """Shows the labels that there is room for, the pinned one in bold among them."""
    texts = _texts(count, axis)
    places = thinned(count, axis.pinned, max_labels)
    labels = [f"<b>{texts[place]}</b>" if place == axis.pinned else texts[place] for place in places]
    return {
        "title": {"text": axis.name, "standoff": enlarged(12)} if titled else None,
        "range": [-0.5, count - 0.5],
        "tickmode": "array",
        "tickvals": places,
        "ticktext": labels,
        "tickfont": {"size": size if len(places) <= MANY else _smaller(size)},
        "showgrid": False,
        "zeroline": False,
    }


def _side_by_side(axis: dict[str, Any], column: float, size: int) -> dict[str, Any]:
    """An axis whose labels stand upright, without marks such as </s> that would lie on the labels beside them.

    column  how many pixels wide one is
    """
    kept: list[tuple[int, str]] = []
    for place, text in zip(axis["tickvals"], axis["ticktext"], strict=True):
        if kept and _overlap(kept[-1], (place, text), column, size):
            _, before = kept[-1]
            if "<b>" in before or ("<b>" not in text and _letters(text) > _letters(before)):
                continue
            kept.pop()
        kept.append((place, text))
    return axis | {
        "tickvals": [place for place, _ in kept],
        "ticktext": [text for _, text in kept],
        "tickangle": 0,
    }


def _overlap(one: tuple[int, str], other: tuple[int, str], column: float, size: int) -> bool:
    needed = (_letters(one[1]) + _letters(other[1]) + 0.5) / 2 * size * LETTER
    return needed > (other[0] - one[0]) * column


def _letters(label: str) -> float:
    return _width(label.removeprefix("<b>").removesuffix("</b>"))


def _hidden_axis(places: NDArray[np.floating], block: int, count: int, axis: Axis, shown: str) -> dict[str, object]:
    """Knows the name of every drawn row or column, without the cost of drawing them."""
    named = _numbered(_texts(count, axis), axis, block)
    if axis.notes is not None:
        named = [f"{name}{note}" for name, note in zip(named, axis.notes, strict=True)]
    return {
        "overlaying": shown,
        "matches": shown,
        "tickmode": "array",
        "tickvals": places.tolist(),
        "ticktext": named,
        "showticklabels": False,
        "showgrid": False,
        "zeroline": False,
    }
