"""A query and its keys as arrows in a plane, and values and outputs as points of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..chart import Chart, Trace, bar_values, scatter
from ..labels import escaped, short
from ..palette import ABOVE, ALLOWED, BELOW, GRID, INK, PIN
from ..theme import enlarged, plain_layout, thick

QUERY, KEY, VALUE, OUTPUT = BELOW, ABOVE, ALLOWED, PIN  # colours; of the first three the same as those of `wiring`
ROOM = 0.2  # of the drawn width, at each side for the names
AREA = "rgba(58, 163, 148, 0.12)"  # VALUE, see-through

Points = NDArray[np.floating]


def plane(
    query: ArrayLike,
    keys: Points,
    query_name: str,
    names: Sequence[str],
    scores: Points,
    *,
    values: Points | None = None,
    outputs: Mapping[str, Points] | None = None,
    labelled: Collection[int] | None = None,
    height: int = 400,
) -> Chart:
    """Draw a query [2] and keys [n, 2] as arrows from 0. The names of query and keys are tokens; the same one may occur twice.

    keys      NaN for a key that has no direction: it is left out
    scores    [n] of the keys, shown when pointing at one
    values    [n, 2] the corners of the area in which every output lies; None: they are not drawn
    outputs   name -> its point [2]; of two, the first is drawn hollow
    labelled  the keys whose names are written; None: all
    """
    query, outputs = np.asarray(query, dtype=np.float64), outputs or {}
    traces = [] if values is None else _values(values, names)
    traces += [
        _key_names(keys, names, scores, range(len(keys)) if labelled is None else labelled),
        _names(query[None], [f"<b><i>q</i> {escaped(query_name)}</b>"], [f"query <b>{escaped(query_name)}</b>"]),
        _legend("query", QUERY),
        _legend("key", KEY),
    ]
    traces += [_output(name, point, hollow=at < len(outputs) - 1) for at, (name, point) in enumerate(outputs.items())]
    layout = plain_layout(height) | {"showlegend": True, "legend": {"itemclick": False, "itemdoubleclick": False}}
    arrows = [(key, KEY, 2.2) for key in keys] + [(query, QUERY, 3.4)]
    layout["annotations"] = [_arrow(tip, colour, width) for tip, colour, width in arrows if np.isfinite(tip).all()]
    x_axis, y_axis = _axes(np.vstack([np.zeros((1, 2)), query[None], keys, *([] if values is None else [values])]))
    layout["xaxis"] |= x_axis
    layout["yaxis"] |= y_axis | {"scaleanchor": "x"}  # or angles would not be what they look like
    numbers = bar_values([short(name) for name in names], {"": scores}, heading="key", value="score")
    return Chart(traces, layout, numbers)


def _arrow(tip: Points, colour: str, width: float) -> dict[str, Any]:
    """An arrow from 0 to this point."""
    places = {"x": float(tip[0]), "y": float(tip[1]), "ax": 0, "ay": 0}
    places |= {"xref": "x", "yref": "y", "axref": "x", "ayref": "y"}
    look = {"showarrow": True, "arrowhead": 2, "arrowsize": 1.1, "arrowwidth": thick(width), "arrowcolor": colour}
    return places | look | {"text": ""}


def _legend(name: str, colour: str) -> Trace:
    """The entry of the legend for arrows of this colour."""
    return scatter([None], [None], "lines", name=name, line={"color": colour, "width": thick(3)})


def _key_names(keys: Points, names: Sequence[str], scores: Points, labelled: Collection[int]) -> Trace:
    texts = [f"<i>k</i> {escaped(name)}" if at in labelled else "" for at, name in enumerate(names)]
    hover = [f"key <b>{escaped(name)}</b>" for name in names]
    return _names(
        keys, texts, [f"{words}<br>score <b>{score:.5g}</b>" for words, score in zip(hover, scores, strict=True)]
    )


def _names(points: Points, texts: Sequence[str], hover: Sequence[str]) -> Trace:
    """Names beyond the tips of arrows."""
    look = {"showlegend": False, "cliponaxis": False, "textposition": [_beyond(point) for point in points]}
    return scatter(points[:, 0], points[:, 1], "text", text=texts, hovertext=hover, hoverinfo="text", **look)


def _values(points: Points, names: Sequence[str]) -> list[Trace]:
    """Values as squares, and the area that they enclose. Its corners are joined in the order of their directions."""
    middle = points.mean(axis=0)
    around = points[np.argsort(np.arctan2(*(points - middle).T[::-1]))]
    line = {"color": VALUE, "width": thick(1), "dash": "dot"}
    look = {"line": line, "fill": "toself", "fillcolor": AREA, "showlegend": False, "hoverinfo": "skip"}
    x, y = np.vstack([around, around[:1]]).T
    area = scatter(x, y, "lines", **look)
    squares = scatter(
        points[:, 0],
        points[:, 1],
        "markers+text",
        name="value",
        marker={"symbol": "square", "size": enlarged(11), "color": VALUE},
        text=[f"<i>v</i> {escaped(name)}" for name in names],
        textposition=["top center" if point[1] > middle[1] else "bottom center" for point in points],  # narrower
        hovertext=[f"value <b>{escaped(name)}</b>" for name in names],
        hoverinfo="text",
        cliponaxis=False,
    )
    return [area, squares]


def _output(name: str, point: Points, *, hollow: bool) -> Trace:
    symbol = "diamond-open" if hollow else "diamond"
    look = {"symbol": symbol, "size": enlarged(14), "color": OUTPUT, "line": {"width": thick(2) if hollow else 0}}
    pointing = f"{name} <b>(%{{x:.3g}}, %{{y:.3g}})</b><extra></extra>"
    return scatter([point[0]], [point[1]], "markers", name=name, marker=look, hovertemplate=pointing)


def _beyond(direction: Points) -> str:
    """Where a name stands beside a point, so that it continues the line from 0 to the point."""
    length = float(np.hypot(*direction)) or 1.0
    across, up = direction / length
    vertical = "top" if up > 0.4 else "bottom" if up < -0.4 else "middle"
    horizontal = "right" if across > 0.4 else "left" if across < -0.4 else "center"
    return "top center" if (vertical, horizontal) == ("middle", "center") else f"{vertical} {horizontal}"


def _axes(points: Points) -> list[dict[str, Any]]:
    """The two axes: all points, and room for names; a line for each unit, as long as there are few."""
    low, high = np.nanmin(points, axis=0), np.nanmax(points, axis=0)
    extent = float((high - low).max()) or 1.0
    room, lines = ROOM * extent, {"showgrid": True, "gridcolor": GRID, "zeroline": True, "zerolinecolor": INK}
    lines |= {"dtick": 1 if extent < 12 else None, "showticklabels": False}
    return [lines | {"range": [float(first) - room, float(last) + room]} for first, last in zip(low, high, strict=True)]
