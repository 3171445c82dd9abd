"""All heads of a model as dots: each above its layer, by two numbers, or on a map where similar heads lie near each other."""

import html
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..chart import Chart, Trace, bar_values, farthest, head_values, scatter
from ..labels import further_lines
from ..palette import INK, PIN, SERIES
from ..theme import PLAIN_AXIS, enlarged, letters, plain_layout, thick
from ..typeface import wrapped

HEIGHT = 380  # pixels
NAMED = 3  # dots along each axis that have the names of their heads


def dots(
    groups: Mapping[str, NDArray[np.floating]],
    *,
    y: str,
    levels: Mapping[str, float] | None = None,
    marked: tuple[int, int] | None = None,
    log_y: bool = False,
    height: int = HEIGHT,
) -> Chart:
    """Draw numbers [layers, heads] of several groups as dots, the groups side by side above each layer.

    levels  for a group's name the number that theory gives: a dashed line in the group's colour
    marked  (layer, head) with a ring around its dots
    """
    traces: list[Trace] = []
    for index, ((name, values), colour) in enumerate(zip(groups.items(), cycle(SERIES), strict=False)):
        shift = 0.6 * ((index + 0.5) / len(groups) - 0.5)  # the groups share the middle of the layer's width
        heads = np.indices(values.shape).reshape(2, -1).T  # (layer, head) of each
        is_marked = (heads == (marked or (-1, -1))).all(axis=1)
        pointing = f"head %{{customdata[0]}}.%{{customdata[1]}}: {name} <b>%{{y:.4g}}</b><extra></extra>"
        look = {"marker": _marker(colour, is_marked), "customdata": heads.tolist(), "hovertemplate": pointing}
        traces.append(scatter(heads[:, 0] + shift, values.ravel(), "markers", name=name, **look))
        if levels is not None and name in levels:
            ends, dashed = [-0.5, len(values) - 0.5], {"color": colour, "width": thick(2), "dash": "dash"}
            level = scatter(ends, [levels[name]] * 2, "lines", line=dashed, showlegend=False, hoverinfo="skip")
            traces.append(level)
    layout = plain_layout(height)
    layout["xaxis"] |= {"title": {"text": "layer"}, "nticks": 8, "tickformat": "d"}
    layout["yaxis"] |= {"title": {"text": y}, "type": "log" if log_y else "linear"}
    values = tuple(head_values(numbers, y, part=name) for name, numbers in groups.items())
    return Chart(traces, layout, values)


def dots_against(
    x: NDArray[np.floating], y: NDArray[np.floating], *, names: tuple[str, str], marked: tuple[int, int]
) -> Chart:
    """Draw each head as a dot by two numbers, both [layers, heads]; one where either is NaN is left out.

    names   of x and y
    marked  (layer, head) with a ring around its dot; it and the heads farthest from 0 along x or y are named
    """
    heads = np.argwhere(np.isfinite(x) & np.isfinite(y))
    across, along = x[tuple(heads.T)], y[tuple(heads.T)]
    is_marked = (heads == marked).all(axis=1)
    named = {*farthest(across, NAMED), *farthest(along, NAMED), *np.flatnonzero(is_marked).tolist()}
    texts = ["{}.{}".format(*head) if index in named else "" for index, head in enumerate(heads.tolist())]
    pointing = f"{names[0]} <b>%{{x:.4g}}</b><br>{names[1]} <b>%{{y:.4g}}</b><extra></extra>"
    words = {"text": texts, "textposition": "top center", "textfont": {"size": letters(12)}, "cliponaxis": False}
    look = {"marker": _marker(SERIES[0], is_marked), "customdata": heads.tolist()}
    look |= {"hovertemplate": f"head %{{customdata[0]}}.%{{customdata[1]}}<br>{pointing}"}
    dot = scatter(across, along, "markers+text", **words, **look)
    layout = plain_layout(HEIGHT)
    layout["showlegend"] = False
    layout["xaxis"] |= {"title": {"text": names[0]}, "nticks": 8, "zeroline": True, "zerolinecolor": INK}
    layout["yaxis"] |= {"title": {"text": names[1]}}
    places = [[*head, *at] for head, at in zip(heads.tolist(), np.stack([across, along], axis=1).tolist(), strict=True)]
    layout["meta"] = {"map": {"rows": "layer", "columns": "head", "places": places}}
    values = tuple(head_values(numbers, name, part=name) for name, numbers in zip(names, (x, y), strict=True))
    return Chart([dot], layout, values)


def _marker(colour: str, is_marked: NDArray[np.bool_]) -> dict[str, Any]:
    """The look of dots of a colour, some of them marked."""
    return {
        "color": colour,
        "size": np.where(is_marked, enlarged(13), enlarged(7)),
        "opacity": 0.75,
        "line": {"color": PIN, "width": np.where(is_marked, thick(3), 0)},
    }


# Clusters are told apart by their colour and, for every kind of colour vision, by their mark.
MARKS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "hexagon", "triangle-down", "x", "pentagon")
LINE = 22  # heights of its letters: a line of the legend, which is as wide as the map


def head_map(
    x: NDArray[np.floating],
    y: NDArray[np.floating],
    cluster: NDArray[np.integer],
    words: Sequence[str],
    heads: Sequence[tuple[int, int]],
    *,
    chosen: tuple[int, int],
    held: NDArray[np.object_] | None = None,
    height: int,
) -> Chart:
    """Draw a point for each head in the colour and with the mark of its cluster, and a ring around the chosen one.

    x, y, cluster  [heads]; heads: (layer, head) of each
    words          the name of each cluster
    held           [layers, heads] what is also said of a head when pointing at it, as in `further_lines`
    """
    traces = []
    numbers, counts = np.unique(cluster, return_counts=True)
    for number, colour, mark in zip(map(int, numbers), cycle(SERIES), cycle(MARKS), strict=False):
        inside = np.flatnonzero(cluster == number).tolist()
        name = "<br>".join(html.escape(line, quote=False) for line in wrapped(words[number], LINE))
        said = ["" if held is None else further_lines(held[heads[place]]) for place in inside]
        pointing = f"head <b>%{{customdata[0]}}.%{{customdata[1]}}</b>%{{text}}<br>{name}<extra></extra>"
        of = {"customdata": [list(heads[place]) for place in inside], "text": said, "hovertemplate": pointing}
        look = {"color": colour, "symbol": mark, "size": enlarged(11)}
        traces.append(scatter(x[inside], y[inside], "markers", name=name, marker=look, **of))
    if chosen in heads:
        at = [heads.index(chosen)]
        ring = {"symbol": "circle-open", "size": enlarged(22), "color": PIN, "line": {"width": thick(3)}}
        traces.append(scatter(x[at], y[at], "markers", marker=ring, showlegend=False, hoverinfo="skip"))
    layout = plain_layout(height)
    layout["showlegend"] = True
    layout["margin"] |= {"t": 8, "l": 8, "r": 8}
    layout["legend"] = {"y": -0.02, "yanchor": "top", "orientation": "v", "font": {"size": letters(13)}}
    for axis in ("xaxis", "yaxis"):
        layout[axis] |= PLAIN_AXIS | {"showticklabels": False}
    layout["yaxis"] |= {"scaleanchor": "x"}  # or what is near would depend on the window
    places = [[*head, *map(float, place)] for head, *place in zip(heads, x, y, strict=True)]
    layout["meta"] = {"map": {"rows": "layer", "columns": "head", "places": places}}
    # Where a point lies means nothing by itself; how many heads a cluster has does.
    names = [" ".join(words[int(number)].split()) for number in numbers]
    values = bar_values(names, {"": counts}, heading="cluster", value="heads")
    return Chart(traces, layout, values)
