"""Reading a figure: its numbers and what each of them stands for, from its own arrays and names.

What is said of a figure in words and what is saved of it as tables are both made from this.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from .atlas import weights_of
from .palette import FORBIDDEN

Kind = Literal["cells", "heads", "bars", "changes", "steps", "line", "matrix"]
Names = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Reading:
    """Numbers of one kind in a figure, and what each of them stands for.

    part      which part of the figure they are; "" where there is one
    headings  what the names of a place are names of: ("query", "key")
    value     what the numbers are
    drawn     [rows] or [rows, columns], NaN where there is none
    rows      the names of each row, one for each heading but that of the columns
    columns   the name of each column
    x         [rows], where the numbers of a curve are; its rows have no names
    is_mask   whether they say which pairs are forbidden, and none is stronger than another
    opening   what is said before the numbers: the size of a matrix
    closing   what is said after them: how many cells are masked
    prefix    before a number: "10^" where the numbers are exponents
    """

    kind: Kind
    part: str
    headings: Names
    value: str
    drawn: NDArray[np.floating]
    rows: Sequence[Names] = ()
    columns: Names = ()
    x: NDArray[np.floating] | None = None
    is_mask: bool = False
    opening: str = ""
    closing: str = ""
    prefix: str = ""

    @property
    def values(self) -> NDArray[np.floating]:
        """[n], those that can be compared, row by row."""
        return self.drawn[:0].ravel() if self.is_mask else self.drawn.ravel()

    def names(self, place: int) -> Names:
        """Of the number at a place among `values`."""
        if self.x is not None:
            return (written(self.x[place]),)
        row, column = divmod(place, max(1, len(self.columns)))
        return (*self.rows[row], *self.columns[column : column + 1])

    def said(self, place: int) -> str:
        """The number at a place."""
        return self.prefix + written(self.values[place])

    def place(self, place: int) -> str:
        """What it stands for: "query it (10), key animal (2)"."""
        return ", ".join(
            f"{heading} {name}".strip() for heading, name in zip(self.headings, self.names(place), strict=True)
        )

    def named(self, place: int) -> str:
        return f"{self.place(place)}: {self.said(place)}"


def readings(figure: go.Figure) -> list[Reading]:
    """All numbers of a figure, those of one kind together."""
    drawn: Any = figure
    meta = drawn.layout.meta or {}
    traces = [trace for trace in drawn.data if trace.hoverinfo != "skip"]  # legends, levels, printed numbers
    matrices = [trace for trace in traces if trace.type == "heatmap"]
    if "map" in meta:
        return [_clusters(traces)]
    if meta.get("subplots"):
        return [_matrix(trace) for trace in matrices]
    if matrices:
        return _cells(drawn, matrices, meta)
    found: list[Reading] = []
    for trace in traces:
        if trace.type == "waterfall":
            found += _steps(trace, [other for other in traces if other.type == "bar"])
            break
        if trace.type == "bar":
            found.append(_bars(drawn, trace))
        else:
            found.append(_points(drawn, trace))
    if [one.part for one in found] == ["before", "after"]:
        found = [replace(one, kind="changes") for one in found]
    return sorted(found, key=lambda one: one.kind)


def _cells(figure: Any, matrices: Sequence[Any], meta: dict[str, Any]) -> list[Reading]:
    """Heatmaps: one with its masked pairs beside it, or several small ones side by side."""
    numbers = [trace for trace in matrices if trace.showscale is not False]
    grey = [trace for trace in matrices if trace.showscale is False]
    first = (numbers or grey)[0]
    rows, columns = _axis_names(figure, first.yaxis or "y"), _axis_names(figure, first.xaxis or "x")
    shape = np.shape(first.z)
    headings = (meta.get("rows", "row").replace("_", " "), meta.get("columns", "column").replace("_", " "))
    if "rows" in meta and len(rows) != shape[0]:
        return [_small_pictures(first, rows, columns, headings)]
    blocks = meta.get("row_block", 1), meta.get("column_block", 1)
    opening = " by ".join(f"{length:,}" for length in _lengths(figure, shape, blocks))
    if blocks != (1, 1):
        opening += f", each drawn cell the strongest of {blocks[0]} × {blocks[1]}"
    if len(numbers) > 1:
        opening = f"{len(numbers)} pictures of {opening}"
    forbidden = _grey_cells(figure, numbers, grey)
    closing = f"{forbidden:,} {_grey_name(figure)}" if forbidden else ""
    said = {"rows": [(name,) for name in rows], "columns": columns, "opening": opening}
    if not numbers:
        allowed = _numeric(first.z)
        closing = f"{int((allowed == 1).sum()):,} may attend, {forbidden:,} masked"
        return [Reading("cells", "", headings, "allowed", allowed, is_mask=True, closing=closing, **said)]
    kind: Kind = "heads" if headings == ("layer", "head") else "cells"
    return [
        Reading(kind, trace.name or "", headings, _value_name(trace), _numeric(trace.z), closing=closing, **said)
        for trace in numbers
    ]


def _small_pictures(trace: Any, rows: Names, columns: Names, headings: Names) -> Reading:
    """A grid of small pictures in one heatmap: of each its largest weight, NaN where all of it is masked or left out."""
    cells = weights_of(np.asarray(trace.z), (len(rows), len(columns)))
    largest = np.nanmax(np.nan_to_num(cells, nan=-1.0), axis=(2, 3))
    return Reading(
        "heads",
        "",
        headings,
        "largest weight",
        np.where(largest < 0, np.nan, largest),
        [(name,) for name in rows],
        columns,
        opening=f"{len(rows)} by {len(columns)} heads, by their largest weight",
    )


def _matrix(trace: Any) -> Reading:
    """One matrix of the equation. Its axes are not named: rows and columns are counted."""
    values, is_mask = _numeric(trace.z), trace.meta["permission"]
    rows, columns = (
        [str(at) if block == 1 else f"{at * block} to {(at + 1) * block - 1}" for at in range(length)]
        for length, block in zip(values.shape, (trace.meta["row_block"], trace.meta["column_block"]), strict=True)
    )
    return Reading(
        "matrix",
        _plain_words(trace.hovertemplate.split(":")[0]),
        ("row", "column"),
        "value",
        values,
        [(name,) for name in rows],
        tuple(columns),
        is_mask=is_mask,
        closing=f"forbids {int((values == 0).sum()):,} of {values.size:,} drawn pairs"
        if is_mask
        else "without numbers",
    )


def _bars(figure: Any, trace: Any) -> Reading:
    lying = trace.orientation == "h"
    places, values = (trace.y, trace.x) if lying else (trace.x, trace.y)
    along, measured = (figure.layout.yaxis, figure.layout.xaxis)[:: 1 if lying else -1]
    numbers, part = _numeric(values), _plain_words(trace.name or "")
    if trace.text is not None:  # a logarithmic axis has no place for 0, which is only written
        numbers = np.where(np.array(trace.text) == "0", 0.0, numbers)
    value = _title(measured) or part or "value"
    return Reading("bars", part, (_title(along),), value, numbers, _given(trace.customdata, places))


def _steps(trace: Any, shares: Sequence[Any]) -> list[Reading]:
    """A waterfall: what its steps add; then the sums on the way, and the bars beside it."""
    values, names, is_sum = _numeric(trace.y), _given(trace.customdata, trace.x), np.array(trace.measure) == "total"
    reached = [(names[place], values[place]) for place in np.flatnonzero(is_sum)]
    reached += [((name,), value) for share in shares for name, value in zip(share.x, _numeric(share.y), strict=True)]
    return [
        Reading("steps", "", ("",), "adds", values[~is_sum], [names[place] for place in np.flatnonzero(~is_sum)]),
        Reading(
            "steps", "sums", ("sum",), "value", np.array([value for _, value in reached]), [name for name, _ in reached]
        ),
    ]


def _clusters(traces: Sequence[Any]) -> Reading:
    """A map of heads: where a point lies means nothing by itself, how many heads a cluster has does."""
    counts = np.array([len(trace.x) for trace in traces], np.float64)
    return Reading(
        "bars", "", ("cluster",), "heads", counts, _given([trace.name.replace("<br>", " ") for trace in traces], ())
    )


def _points(figure: Any, trace: Any) -> Reading:
    """A curve; or points that are heads of layers, whose numbers they carry."""
    axis = figure.layout.yaxis
    part, value, values = trace.name or "", _title(axis) or trace.name or "value", _numeric(trace.y)
    if (figure.layout.meta or {}).get("heads_along") == "x":
        value, values = trace.name or _title(figure.layout.xaxis), _numeric(trace.x)
    if trace.customdata is not None:
        heads = [(str(layer), str(head)) for layer, head in trace.customdata]
        return Reading("heads", part, ("layer", "head"), value, values, heads)
    heading = _title(figure.layout.xaxis).partition(" (")[0]  # without its unit
    prefix = "10^" if axis.tickprefix == "10<sup>" else ""
    return Reading("line", part, (heading,), value, values, x=_numeric(trace.x), prefix=prefix)


# --- what things are called


def _axis_names(figure: Any, short: str) -> Names:
    """What the drawn rows or columns are called: "it (10)". Notes that follow a name are for pointing only.

    The axis that shows only some of them has a hidden twin, which knows all.
    """
    axis = figure.layout[f"{short[0]}axis{short[1:]}"]
    if axis.ticktext is None:
        axis = figure.layout[f"{short[0]}axis2"]
    texts = axis.ticktext if axis.ticktext is not None else axis.tickvals
    return tuple(_plain_words(str(text).split("<br>")[0]) for text in texts or ())


def _lengths(figure: Any, shape: Sequence[int], blocks: tuple[int, int]) -> tuple[int, int]:
    """How many rows and columns there are: the last block may be smaller than the others."""
    axes = figure.layout.yaxis, figure.layout.xaxis
    if blocks == (1, 1) or any(axis.range is None for axis in axes):
        return shape[0] * blocks[0], shape[1] * blocks[1]
    rows, columns = (round(max(axis.range) + 0.5) for axis in axes)
    return rows, columns


def _grey_cells(figure: Any, numbers: Sequence[Any], grey: Sequence[Any]) -> int:
    """How many drawn cells are grey: drawn so, or empty over a grey ground."""
    if grey:
        return int((_numeric(grey[0].z) == 0).sum())
    is_on_grey = figure.layout.plot_bgcolor == FORBIDDEN or any(
        shape.fillcolor == FORBIDDEN for shape in figure.layout.shapes
    )
    return sum(int(np.isnan(_numeric(trace.z)).sum()) for trace in numbers) if is_on_grey else 0


def _grey_name(figure: Any) -> str:
    """What the legend calls grey."""
    squares = (trace for trace in figure.data if trace.type == "scatter" and trace.marker.color == FORBIDDEN)
    return next((trace.name for trace in squares), "masked")


def _value_name(trace: Any) -> str:
    """What the number of a cell is, from the words that are shown when pointing at it."""
    words = re.findall(r"(?:^|<br>)([^<%]+) <b>%\{z", trace.hovertemplate or "")
    return _plain_words(words[0]) if words else "value"


def _title(axis: Any) -> str:
    return _plain_words(axis.title.text or "")


def _plain_words(text: str) -> str:
    """Without markup, and with letters that stand for themselves."""
    return html.unescape(re.sub(r"</?[a-z]+>", "", text)).strip()


def _given(labels: Any, places: Iterable[Any]) -> list[Names]:
    return [(_plain_words(str(name)),) for name in (places if labels is None else labels)]


def _numeric(values: Any) -> NDArray[np.floating]:
    """As exact as they were given: what is saved has no more digits than that. NaN where nothing is given."""
    given = np.asarray(values)
    return given.astype(np.float64 if given.dtype == object else np.result_type(given.dtype, np.float32))


# --- numbers


def farthest(values: NDArray[np.floating], count: int) -> list[int]:
    """The places of the `count` numbers farthest from 0, the farthest first, of equal ones the first; NaN is no number."""
    sizes = np.where(np.isfinite(values), np.abs(values), -1.0)
    count = min(count, int((sizes >= 0).sum()))
    if count == 0:
        return []
    least = np.partition(sizes, -count)[-count]
    above = np.flatnonzero(sizes > least)
    places = np.concatenate([above, np.flatnonzero(sizes == least)[: count - len(above)]])
    return places[np.lexsort((places, -sizes[places]))].tolist()


def written(value: float) -> str:
    """Three significant digits and a real minus sign."""
    return f"{value:.3g}".replace("e-0", "e-").replace("e+0", "e+").replace("-", "−")
