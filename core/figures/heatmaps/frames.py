"""What lies over the cells of a heatmap and along its sides: frames, borders, a spotlight that dims other cells, and axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..chart import Chart, Layout
from ..labels import ALL_LABELS, MAX_LABELS, axis_labels, escaped, in_blocks, placed, short, thinned
from ..palette import INK, ON_ANY_CELL, PIN
from ..theme import PLAIN_AXIS, enlarged, letters, smallest_letters, thick
from ..typeface import GAP, ems, ems_of_label

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


# --- the axes: what stands along the sides, which labels fit there, and the room that they need

MANY = 24  # labels: more are written smaller
MAX_NUMBERS = 9  # along a side whose rows or columns are only numbered, at a desk
LINE = 1.1  # the height of a line of text, as a share of that of its letters
_ANGLE = -45  # of the labels below the columns, unless they are single characters
# How wide what stands for a single character may be, and a mark among them, such as </s>, in heights of the letters.
SINGLE, MARK = 1.2, 2


@dataclass(frozen=True)
class Axis:
    """One side of a matrix."""

    name: str  # what a row or a column is: "query", "key", "dimension"
    tokens: Sequence[str] | None = None  # a text for each row or column; None: numbers
    pinned: int | None = None  # the marked row or column
    notes: Sequence[str] | None = None  # a remark for each drawn row or column, shown when pointing at it
    start: int = 0  # number of the first row or column, where the matrix is a part of a larger one
    gaps: Sequence[int] = ()  # missing rows or columns, counted from the first: hatched, unlike masked pairs

    def part(self, start: int, count: int) -> Axis:
        """So many rows or columns of this axis, from `start` on. Its notes are of those that are drawn already."""
        places = range(start, start + count)
        return replace(
            self,
            tokens=None if self.tokens is None else self.tokens[start : start + count],
            pinned=None if self.pinned is None or self.pinned not in places else self.pinned - start,
            start=start,
            gaps=[gap - start for gap in self.gaps if gap in places],
        )


def margins_for(shape: tuple[int, int], rows: Axis, columns: Axis, size: int, *, titled: bool) -> dict[str, float]:
    """Estimate the room for the labels at the left and below from their length.

    Plotly's own margins draw every figure several times and do not always settle: more room turns the labels, and turned
    labels need other room.
    """
    title = enlarged(26) if titled else 0
    slant = math.sin(math.radians(abs(_angle_of(shape[1], columns))))
    beside = size * _widest(shape[0], rows)
    below = size * (_widest(shape[1], columns) * slant + 1) if slant else size * 1.4
    return {"l": 8 + title + beside, "b": 6 + title + below}


def _fitting_across(room: float, count: int, columns: Axis, size: int, *, max_labels: int) -> int:
    """Return how many labels fit below the columns without overlap."""
    if columns.tokens is None:
        max_labels, needed = _max_numbers(), size * ems(f"0{columns.start + count - 1}")
    elif angle := _angle_of(count, columns):
        needed = size / math.sin(math.radians(abs(angle)))
    else:
        single = [wide for wide in map(ems_of_label, _labels(count, columns)) if wide <= SINGLE]
        beside = (left + right for left, right in pairwise([*single, single[-1]]))
        needed = size * (max(beside) / 2 + GAP)
    return max(1, min(max_labels, int(room / needed)))


def _fitting_down(room: float, size: int) -> int:
    """Return how many labels fit beside the rows."""
    usual, smaller = (int(room / height / LINE) for height in (size, _smaller(size)))
    return max(1, smaller if smaller > MANY else usual)


def _max_numbers() -> int:
    """Return how many rows or columns are numbered at most. At a desk, pointing at a cell tells its number."""
    return MAX_LABELS if smallest_letters.get() else MAX_NUMBERS


def _smaller(size: int) -> int:
    return letters(size - 2)


def _widest(count: int, axis: Axis) -> float:
    return max(map(ems_of_label, _labels(count, axis)))


def _angle_of(count: int, columns: Axis) -> int:
    """Return the angle of the labels below the columns. Numbers and single characters stand upright, even with a few marks."""
    if columns.tokens is None:
        return 0
    widths = [*map(ems_of_label, _labels(count, columns))]
    are_single = sum(wide > SINGLE for wide in widths) <= len(widths) / 10 and max(widths) <= MARK
    return 0 if are_single else _ANGLE


def _texts(count: int, axis: Axis) -> list[str]:
    if axis.tokens is None:
        return [str(position) for position in range(axis.start, axis.start + count)]
    return axis_labels(axis.tokens)


def _labels(count: int, axis: Axis) -> list[str]:
    """What is written at each row or column: its text, of the pinned one in bold."""
    return [f"<b>{text}</b>" if at == axis.pinned else text for at, text in enumerate(_texts(count, axis))]


def names_of(count: int, axis: Axis, block: int, written: Callable[[str], str] = short) -> list[str]:
    """The name of each drawn row or column, with its token as `written`: "it (10)", of a block "it (10) … was (12)"."""
    if axis.tokens is None:
        return in_blocks(_texts(count, axis), block)
    return in_blocks([placed(token, at, written) for at, token in enumerate(axis.tokens, axis.start)], block)


def shows_all(count: int, axis: Axis) -> bool:
    """Whether each row or column has its label: a short text is read whole. In a small picture fitting.js makes them fit."""
    return axis.tokens is not None and count <= ALL_LABELS


def columns_axis(count: int, columns: Axis, size: int, room: float, *, max_labels: int) -> dict[str, Any]:
    """The axis below the columns, with the labels that fit into these pixels for all columns; see `shows_all`."""
    slant = _angle_of(count, columns)
    if shows_all(count, columns):
        return _shown(count, columns, size, count) | {"tickangle": slant}
    axis = _shown(count, columns, size, _fitting_across(room, count, columns, size, max_labels=max_labels))
    return axis | {"tickangle": slant} if slant else _upright(axis, room / count, size)


def rows_axis(count: int, rows: Axis, size: int, room: float) -> dict[str, Any]:
    """The axis beside the rows, from the top down, with the labels that fit into these pixels for all rows; see `shows_all`."""
    max_labels = count if shows_all(count, rows) else _fitting_down(room, size)
    if rows.tokens is None:
        max_labels = min(max_labels, _max_numbers())
    return _shown(count, rows, size, max_labels) | {"range": [count - 0.5, -0.5]}


def _shown(count: int, axis: Axis, size: int, max_labels: int) -> dict[str, Any]:
    """An axis with as many labels as fit, among them the pinned one in bold."""
    labels = _labels(count, axis)
    places = thinned(count, axis.pinned, max_labels)
    return {
        "title": {"text": axis.name, "standoff": enlarged(12)},
        "range": [-0.5, count - 0.5],
        "tickvals": places,
        "ticktext": [labels[position] for position in places],
        "tickfont": {"size": size if min(count, max_labels) <= MANY else _smaller(size)},
        **PLAIN_AXIS,
    }


def _upright(axis: dict[str, Any], column_width: float, size: int) -> dict[str, Any]:
    """An axis whose labels stand upright, without marks such as </s> that would lie on the labels beside them."""
    kept: list[tuple[int, str]] = []
    for position, text in zip(axis["tickvals"], axis["ticktext"], strict=True):
        if kept and _overlap(kept[-1], (position, text), column_width, size):
            _, before = kept[-1]
            if "<b>" in before or ("<b>" not in text and ems_of_label(text) > ems_of_label(before)):
                continue
            kept.pop()
        kept.append((position, text))
    places, texts = zip(*kept, strict=True)
    return axis | {"tickvals": places, "ticktext": texts, "tickangle": 0}


def _overlap(left: tuple[int, str], right: tuple[int, str], column_width: float, size: int) -> bool:
    needed = size * ((ems_of_label(left[1]) + ems_of_label(right[1])) / 2 + GAP)
    return needed > (right[0] - left[0]) * column_width


def hidden_axis(places: NDArray[np.floating], block: int, count: int, axis: Axis, shown: str) -> dict[str, object]:
    """An invisible axis that knows the name of every drawn row or column, without the cost of drawing them."""
    names = names_of(count, axis, block, escaped)
    if axis.notes is not None:
        names = [f"{name}{note}" for name, note in zip(names, axis.notes, strict=True)]
    return {
        "overlaying": shown,
        "matches": shown,
        "tickvals": places.tolist(),
        "ticktext": names,
        "showticklabels": False,
        **PLAIN_AXIS,
    }
