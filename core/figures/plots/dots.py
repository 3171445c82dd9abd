"""All heads of a model as dots, each above its layer."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

from ..chart import Chart, Trace
from ..palette import PIN, SERIES
from ..theme import enlarged, plain_layout, thick
from ..values import head_values


def dots(
    groups: Mapping[str, NDArray[np.floating]],
    *,
    y: str,
    levels: Mapping[str, float] | None = None,
    marked: tuple[int, int] | None = None,
    log_y: bool = False,
    height: int = 380,
) -> Chart:
    """Draw numbers [layers, heads] of several groups as dots, the groups side by side above each layer.

    levels  for a group's name the number that theory gives: a dashed line in the group's colour
    marked  (layer, head) with a ring around its dots
    """
    traces: list[Trace] = []
    for place, ((name, values), colour) in enumerate(zip(groups.items(), cycle(SERIES), strict=False)):
        shift = 0.6 * ((place + 0.5) / len(groups) - 0.5)  # the groups share the middle of the layer's width
        heads = np.indices(values.shape).reshape(2, -1).T  # (layer, head) of each
        is_marked = (heads == (marked or (-1, -1))).all(axis=1)
        traces.append(
            {
                "type": "scatter",
                "x": heads[:, 0] + shift,
                "y": values.ravel(),
                "name": name,
                "mode": "markers",
                "marker": {
                    "color": colour,
                    "size": np.where(is_marked, enlarged(13), enlarged(7)),
                    "opacity": 0.75,
                    "line": {"color": PIN, "width": np.where(is_marked, thick(3), 0)},
                },
                "customdata": heads.tolist(),
                "hovertemplate": f"head %{{customdata[0]}}.%{{customdata[1]}}: {name} <b>%{{y:.4g}}</b><extra></extra>",
            }
        )
        if levels is not None and name in levels:
            traces.append(
                {
                    "type": "scatter",
                    "x": [-0.5, len(values) - 0.5],
                    "y": [levels[name]] * 2,
                    "mode": "lines",
                    "line": {"color": colour, "width": thick(2), "dash": "dash"},
                    "showlegend": False,
                    "hoverinfo": "skip",
                }
            )
    layout = plain_layout(height)
    layout["xaxis"] |= {"title": {"text": "layer"}, "nticks": 8, "tickformat": "d"}
    layout["yaxis"] |= {"title": {"text": y}, "type": "log" if log_y else "linear"}
    values = tuple(head_values(numbers, y, part=name) for name, numbers in groups.items())
    return Chart(traces, layout, values)
