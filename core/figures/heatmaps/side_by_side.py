"""Several small heatmaps in one figure: beside each other with one colour range, and in the equation of attention."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...attention.rowwise import Pooled, pool
from ...attention.stages import BY_KEY
from ..chart import Chart, Trace, Values, axis_ending, floats
from ..labels import axis_labels, in_blocks, short
from ..palette import BELOW, FORBIDDEN, INK, PIN, colour_range, largest
from ..theme import PLAIN_AXIS, colour_bar, enlarged, letters, smallest_letters, template, thick
from ..typeface import ems
from .frames import Shape, over_cells, pin_frames
from .heatmap import PERMISSIONS, Scale, legend_entry, size_of, strongest_of

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


# --- the equation of attention in one line: softmax(QKᵀ/√d_k + M)V with a small picture for every matrix in it

WIDTH = 740  # pixels: as wide as a page in a frame of 800; below, the line has to scroll
PICTURE, BELOW_IT = 104, 40  # pixels: the tallest small picture; shapes and colour ranges
LONG = 4.5  # heights of its letters: a shape; longer ones take two lines, or those of neighbours would meet
A_LINE = 15  # pixels
NARROW = 0.6  # a side of d_k or d_v dimensions, of a side of queries or keys
PAPER = {"xref": "paper", "yref": "paper", "xanchor": "center"}


class _Term(NamedTuple):
    """One matrix of the equation."""

    name: str  # above the small picture
    operator: str = ""  # what stands between this matrix and the one before
    room: int = 0  # pixels for it, in a line WIDTH wide


TERMS = {
    "query": _Term("Q"),
    "key": _Term("Kᵀ", "×", 18),
    "raw": _Term("raw scores", "=", 18),
    "scaled": _Term("scaled", "scale", 44),
    "mask": _Term("mask M", "+", 18),
    "masked": _Term("masked", "=", 18),
    "weights": _Term("weights", "softmax", 54),
    "value": _Term("V", "×", 18),
    "output": _Term("output", "=", 18),
}


def equation(
    stages: Mapping[str, Pooled], *, pin: tuple[int, int], opened: str, scale: float, added: Sequence[str] = ()
) -> Chart:
    """Draw all matrices of one head in a line, with the operators between them.

    stages  each stage by its key, small enough to draw
    pin     the (query, key) that runs through them: the row of Q, the column of Kᵀ, the cell, the rows of V and of the output
    opened  the key of the stage that is framed
    added   what happens to the scaled scores besides the mask, such as "B"

    `layout.meta["subplots"]` names each picture's axes in the order of TERMS; their y axes point down.
    """
    is_long = max(ems(_shape(stages[key].shape, " ")) for key in TERMS) > LONG
    layout = _line_layout(BELOW_IT + is_long * A_LINE)
    traces: list[Trace] = []
    values: list[Values] = []
    for index, ((key, term), (left, width)) in enumerate(zip(TERMS.items(), _places().values(), strict=True)):
        drawn = stages[key].smaller(MAX_CELLS)
        drawn = _transposed(drawn) if key == "key" else drawn
        number = axis_ending(index)
        height = NARROW if key == "key" else 1
        traces.append(_picture(key, drawn, number))
        values.append(_values_of(key, drawn))
        rows, columns = drawn.values.shape
        layout[f"xaxis{number}"] = _blank_axis([-0.5, columns - 0.5], f"y{number}", [left, min(left + width, 1)])
        layout[f"yaxis{number}"] = _blank_axis([rows - 0.5, -0.5], f"x{number}", [(1 - height) / 2, (1 + height) / 2])
        layout["shapes"] += _frames(key, number, drawn, pin, is_open=key == opened)
        between = "<br>" if is_long else " "
        layout["annotations"] += _words(key, drawn, left + width / 2, between, is_open=key == opened)
        if term.operator:
            layout["annotations"].append(_operator(term, left, scale=scale, added=added))
    return Chart(traces, layout, tuple(values))


def middle_of(key: str) -> float:
    """Return the middle of a stage's matrix in the line, from 0 to 1."""
    left, width = _places()[key]
    return left + width / 2


def _places() -> dict[str, tuple[float, float]]:
    """Return the left edge and the width of each picture, as shares of the line."""
    gaps = [term.room / WIDTH for term in TERMS.values()]
    sides = [NARROW if key in ("query", "value", "output") else 1 for key in TERMS]
    widths = [side * (1 - sum(gaps)) / sum(sides) for side in sides]
    ends = accumulate(gap + width for gap, width in zip(gaps, widths, strict=True))
    return {key: (end - width, width) for key, end, width in zip(TERMS, ends, widths, strict=True)}


def _transposed(stage: Pooled) -> Pooled:
    blocks = {"row_block": stage.column_block, "column_block": stage.row_block}
    return replace(stage, values=stage.values.T, allowed=stage.allowed.T, shape=stage.shape[::-1], **blocks)


def _picture(key: str, drawn: Pooled, number: str) -> Trace:
    scale = BY_KEY[key].scale
    colours, digits = colour_range(largest(drawn.values), signed=scale == "signed"), "%{z:.4g}"
    if scale == "permission":
        colours, digits = {"zmin": 0, "zmax": 1, "colorscale": PERMISSIONS}, "%{z:.0f}"
    return {
        "type": "heatmap",
        "z": _cells(key, drawn),
        "xaxis": f"x{number}",
        "yaxis": f"y{number}",
        **colours,
        "showscale": False,
        "name": key,
        "hovertemplate": f"{TERMS[key].name}: <b>{digits}</b><br>click to open<extra></extra>",
    }


def _cells(key: str, drawn: Pooled) -> NDArray[np.float32]:
    """The numbers of the drawn cells; of the mask 1 where a pair is allowed."""
    return (drawn.allowed if BY_KEY[key].scale == "permission" else drawn.values).astype(np.float32)


def _values_of(key: str, drawn: Pooled) -> Values:
    """One matrix of the equation. Its rows and columns are counted: there is no room for their names."""
    is_mask, cells = BY_KEY[key].scale == "permission", _cells(key, drawn)
    rows, columns = (
        [str(at) if block == 1 else f"{at * block} to {(at + 1) * block - 1}" for at in range(count)]
        for count, block in zip(cells.shape, (drawn.row_block, drawn.column_block), strict=True)
    )
    return Values(
        kind="matrix",
        part=TERMS[key].name,
        headings=("row", "column"),
        numbers=cells,
        rows=rows,
        columns=columns,
        is_mask=is_mask,
        closing=f"forbids {int((cells == 0).sum()):,} of {cells.size:,} drawn pairs" if is_mask else "without numbers",
    )


def _frames(key: str, number: str, drawn: Pooled, pin: tuple[int, int], *, is_open: bool) -> list[Shape]:
    """The frame of a picture, the grey behind masked cells, and the frames of the pinned pair."""
    rows, columns = drawn.values.shape
    axes = {"xref": f"x{number}", "yref": f"y{number}"}
    whole = over_cells(range(rows), range(columns), **axes)
    frames = []
    if BY_KEY[key].after_mask and key != "mask" and not drawn.allowed.all():
        frames.append(whole | {"fillcolor": FORBIDDEN, "line": {"width": 0}, "layer": "below"})
    frames.append(whole | {"line": {"color": BELOW if is_open else INK, "width": thick(4 if is_open else 1)}})
    query_place, key_place = pin
    row = {"key": None, "value": key_place}.get(key, query_place)
    column = key_place if key == "key" or BY_KEY[key].columns == "key" else None
    row = None if row is None else min(row // drawn.row_block, rows - 1)
    column = None if column is None else min(column // drawn.column_block, columns - 1)
    thin = {"color": PIN, "width": thick(1.5)}
    return frames + [frame | axes for frame in pin_frames((rows, columns), row, column, line=thin)]


def _words(key: str, drawn: Pooled, middle: float, between: str, *, is_open: bool) -> list[dict[str, object]]:
    """The matrix's name above it, its shape and its colour range below."""
    name, edge = TERMS[key].name, (1 - NARROW) / 2 if key == "key" else 0
    limit = largest(drawn.values)
    permitted = "all 0" if drawn.allowed.all() else "grey: −∞"
    colours = {"signed": f"±{limit:.3g}", "share": f"0 to {limit:.3g}", "permission": permitted}[BY_KEY[key].scale]
    above = {"text": f"<b>{name}</b>" if is_open else name, "y": 1 - edge, "yanchor": "bottom"}
    below = {"text": f"{_shape(drawn.shape, between)}<br>{colours}", "y": edge, "yanchor": "top"}
    words: list[dict[str, object]] = [
        {"x": middle, **PAPER, **above, "font": {"size": letters(14)}},
        {"x": middle, **PAPER, **below, "font": {"size": letters(12)}},
    ]
    return words[:1] if smallest_letters.get() else words  # from far away nine names are all that there is room for


def _shape(shape: tuple[int, int], between: str) -> str:
    return f"{shape[0]:,}{between}× {shape[1]:,}"


def _operator(term: _Term, left: float, *, scale: float, added: Sequence[str]) -> dict[str, object]:
    text = {"scale": f"×<br>{scale:.3g}<br>=", "softmax": "softmax<br>→"}.get(term.operator, term.operator)
    if text == "+":
        text = "<br>".join(("+", *added, "+") if added else "+")
    size = 13 if "<br>" in text else 20
    return {"x": left - term.room / WIDTH / 2, "y": 0.5, **PAPER, "text": text, "font": {"size": letters(size)}}


def _blank_axis(span: list[float], anchor: str, domain: list[float]) -> dict[str, object]:
    hidden = {"showticklabels": False, "fixedrange": True, **PLAIN_AXIS}
    return {"range": span, "anchor": anchor, "domain": domain, **hidden}


def _line_layout(below: int) -> dict[str, Any]:
    above, below = enlarged(ABOVE), 3 if smallest_letters.get() else below
    subplots = ["xy", *(f"x{number}y{number}" for number in range(2, len(TERMS) + 1))]
    return {
        "template": template(),
        "height": above + enlarged(PICTURE, 18) + below,
        "margin": {"l": 6, "r": 6, "t": above, "b": below, "autoexpand": False},
        "showlegend": False,
        "shapes": [],
        "annotations": [],
        "meta": {"rows": "equation", "columns": "stage", "subplots": subplots},
    }
