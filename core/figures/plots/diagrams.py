"""Drawings of arrows and dots: a query and its keys in a plane, how an attention block is wired, and a path to the text."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..chart import Chart, Layout, Trace, Values, bar_values, floats, scatter, written
from ..labels import escaped, short
from ..palette import ABOVE, ALLOWED, BELOW, GRID, INK, PIN
from ..theme import enlarged, letters, plain_layout, template, thick

QUERY, KEY, VALUE, OUTPUT = BELOW, ABOVE, ALLOWED, PIN  # colours
ROOM = 0.2  # of the drawn width, at each side for the names
CLEAR = 1.15  # times the query, where its name is clear of the handle at its tip
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
    origin, have = np.zeros(2), np.isfinite(keys).all(axis=1)
    traces += [_arrows("query", origin, query[None], QUERY, 3.4), _arrows("key", origin, keys[have], KEY, 2.2)]
    labelled = range(len(keys)) if labelled is None else labelled
    beside = [f"<i>k</i> {escaped(name)}" if at in labelled else "" for at, name in enumerate(names)]
    of_keys = zip(names, scores, strict=True)
    traces += [
        _names(keys, beside, [f"key <b>{escaped(name)}</b><br>score <b>{score:.5g}</b>" for name, score in of_keys]),
        _names(
            CLEAR * query[None], [f"<b><i>q</i> {escaped(query_name)}</b>"], [f"query <b>{escaped(query_name)}</b>"]
        ),
    ]
    traces += [_output(name, point, hollow=at < len(outputs) - 1) for at, (name, point) in enumerate(outputs.items())]
    layout = plain_layout(height) | {"showlegend": True, "legend": {"itemclick": False, "itemdoubleclick": False}}
    x_axis, y_axis = _axes(np.vstack([np.zeros((1, 2)), query[None], keys, *([] if values is None else [values])]))
    layout["xaxis"] |= x_axis
    layout["yaxis"] |= y_axis | {"scaleanchor": "x"}  # or angles would not be what they look like
    numbers = bar_values([short(name) for name in names], {"": scores}, heading="key", value="score")
    return Chart(traces, layout, numbers)


def _arrows(name: str, start: Points, tips: Points, colour: str, width: float, *, legend: bool = True) -> Trace:
    """Arrows from one point [2] to several [n, 2]. They are a trace, which a browser draws anew faster than annotations."""
    gap = np.full_like(tips, np.nan)  # no line leads from one arrow to the next
    x, y = np.stack([np.broadcast_to(start, tips.shape), tips, gap], axis=1).reshape(-1, 2).T
    head = {"symbol": "arrow", "angleref": "previous", "color": colour, "opacity": 1, "line": {"width": 0}}
    head["size"] = [0, enlarged(round(9 + 2 * width)), 0] * len(tips)
    look = {"line": {"color": colour, "width": thick(width)}, "hoverinfo": "skip", "cliponaxis": False}
    return scatter(x, y, "lines+markers", name=name, marker=head, showlegend=legend, **look)


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


Text = Literal["read", "written"]

# From the top down, so that no two arrows cross whichever text gives what: (letter, height of its inlet, colour).
INLETS = {"K": (3.2, KEY), "V": (2.2, VALUE), "Q": (0.8, QUERY)}
HEIGHTS: dict[Text, float] = {"read": 3.1, "written": 0.9}
NAMES: dict[Text, str] = {"read": "text that is read", "written": "text written so far"}


def wiring(query_text: Text, key_text: Text, *, causal: bool) -> Chart:
    """Draw two texts at the left, the attention block at the right, and arrows for queries, keys and values."""
    layout: Layout = {
        "template": template(),
        "height": enlarged(150),
        "margin": {"l": 0, "r": 0, "t": 0, "b": 0},
        "xaxis": {"visible": False, "range": [-0.05, 10.05], "fixedrange": True},
        "yaxis": {"visible": False, "range": [-0.05, 4.05], "fixedrange": True},
        "shapes": [],
        "annotations": [],
    }
    for text, middle in HEIGHTS.items():
        opacity = 1 if text in (query_text, key_text) else 0.35
        _box(layout, 0, 3.6, middle - 0.75, middle + 0.75, NAMES[text], opacity)
    _box(layout, 7, 10, 0.1, 3.9, "causal<br>attention" if causal else "attention")
    arrows = []
    for letter, (inlet, colour) in INLETS.items():
        origin = query_text if letter == "Q" else key_text
        start = HEIGHTS[origin] + (inlet - 2) * 0.2
        name = {"x": 5.3, "y": (start + inlet) / 2 + 0.33, "text": f"<b>{letter}</b>"}
        layout["annotations"].append(name)
        arrows.append(_arrows(letter, np.array([3.65, start]), np.array([[6.95, inlet]]), colour, 2.2, legend=False))
    return Chart(arrows, layout)


def _box(layout: Layout, x0: float, x1: float, y0: float, y1: float, text: str, opacity: float = 1) -> None:
    look = {"line": {"color": INK, "width": thick(1.5)}, "opacity": opacity}
    layout["shapes"].append({"type": "rect", "x0": x0, "x1": x1, "y0": y0, "y1": y1} | look)
    layout["annotations"].append({"x": (x0 + x1) / 2, "y": (y0 + y1) / 2, "text": text, "opacity": opacity})


HEIGHT = 104  # pixels


class Node(NamedTuple):
    """A stop of a path.

    name   in a word
    below  the token that belongs to it
    gave   its contribution to the number of the stop before
    share  the same as a share of that number
    """

    name: str
    below: str = ""
    gave: float = 0.0
    share: float = 0.0


def path_chart(nodes: Sequence[Node], chosen: int) -> Chart:
    """Draw the stops from left to right, the answer first. A line is as thick as the share that it hands on.

    chosen  the number of the stop with a ring
    """
    places = list(range(len(nodes)))
    lines, words = [], []
    for index, node in enumerate(nodes[1:], start=1):
        look = {"color": ABOVE if node.gave >= 0 else BELOW, "width": thick(2 + 7 * min(abs(node.share), 1.0))}
        lines.append({"type": "line", "x0": index - 1, "x1": index, "y0": 0, "y1": 0, "line": look, "layer": "below"})
        words.append(_words(_signed(node.gave), index - 0.5, 8, "bottom"))
    for index, node in enumerate(nodes):
        # Above the numbers: on a narrow screen there is no room beside them.
        words.append(_words(f"<b>{escaped(node.name)}</b>", index, 26, "bottom"))
        if node.below:
            words.append(_words(escaped(node.below), index, -12, "top"))
    ring = {"color": PIN, "width": [thick(3) if index == chosen else 0 for index in places]}
    look = {"size": enlarged(15), "color": INK, "opacity": 1, "line": ring}
    dots = scatter(places, [0] * len(places), "markers", marker=look, hoverinfo="skip")
    layout = plain_layout(HEIGHT) | {"shapes": lines, "annotations": words, "showlegend": False}
    layout["margin"] = {"l": 8, "r": 8, "t": 4, "b": 4}
    layout["xaxis"] = {"range": [-0.6, max(len(nodes), 2) - 0.4], "visible": False}
    layout["yaxis"] = {"range": [-1, 1], "visible": False}
    names = [f"{node.name} {node.below}".strip() for node in nodes[1:]]
    gave = floats([node.gave for node in nodes[1:]])
    values = Values(kind="bars", numbers=gave, headings=("stop",), value="contribution", rows=names)
    return Chart([dots], layout, (values,) if names else ())


def _signed(number: float) -> str:
    return f"+{written(number)}" if number > 0 else written(number)


def _words(text: str, x: float, shift: float, anchor: str) -> dict[str, object]:
    at = {"x": x, "y": 0, "xanchor": "center", "yanchor": anchor, "yshift": enlarged(shift)}
    return at | {"text": text, "font": {"size": letters(14)}, "showarrow": False}
