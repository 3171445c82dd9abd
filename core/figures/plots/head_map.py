"""A map of all heads of a model, on which similar heads lie near each other."""

from __future__ import annotations

import html
from collections.abc import Sequence
from itertools import cycle
from textwrap import wrap

import numpy as np
from numpy.typing import NDArray

from ..chart import Chart, scatter
from ..palette import PIN, SERIES
from ..theme import PLAIN_AXIS, enlarged, letters, plain_layout, thick
from ..values import bar_values

# Clusters are told apart by their colour and, for every kind of colour vision, by their mark.
MARKS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "hexagon", "triangle-down", "x", "pentagon")
LINE = 44  # letters of a line of the legend: it is as wide as the map


def head_map(
    x: NDArray[np.floating],
    y: NDArray[np.floating],
    cluster: NDArray[np.integer],
    words: Sequence[str],
    heads: Sequence[tuple[int, int]],
    *,
    chosen: tuple[int, int],
    height: int,
) -> Chart:
    """Draw a point for each head in the colour and with the mark of its cluster, and a ring around the chosen one.

    x, y, cluster  [heads]; heads: (layer, head) of each
    words          the name of each cluster
    """
    traces = []
    numbers, counts = np.unique(cluster, return_counts=True)
    for number, colour, mark in zip(map(int, numbers), cycle(SERIES), cycle(MARKS), strict=False):
        inside = np.flatnonzero(cluster == number).tolist()
        name = "<br>".join(html.escape(line, quote=False) for line in wrap(words[number], LINE))
        pointing = f"head <b>%{{customdata[0]}}.%{{customdata[1]}}</b><br>{name}<extra></extra>"
        of = {"customdata": [list(heads[place]) for place in inside], "hovertemplate": pointing}
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
