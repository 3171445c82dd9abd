"""Bars of several kinds under each other, on one scale, so that their heights can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from core.figures.charts import GRID, SERIES, plain_layout, room_for
from core.figures.labels import axis_labels
from core.figures.palette import INK

TITLE = 26  # pixels above each panel
LABELS = 46  # pixels below the last one


def bar_panels(
    names: Sequence[str], panels: Mapping[str, ArrayLike], *, x: str, printed: bool = True, panel: int = 150
) -> go.Figure:
    """A panel of bars for each title, one bar a name, with its number on it; all panels share their range and their names.

    panel  the height of each in pixels, its title included
    """
    height = len(panels) * panel + LABELS
    limits = list(room_for(panels.values(), share=0.2))
    layout = plain_layout(height) | {"showlegend": False, "margin": {"l": 8, "r": 16, "t": 4, "b": LABELS}}
    del layout["xaxis"], layout["yaxis"]
    layout["annotations"] = []
    places, labels = list(range(len(names))), axis_labels(names)
    traces = []
    for index, (title, values) in enumerate(panels.items()):
        number = "" if index == 0 else str(index + 1)
        top = 1 - (index * panel + TITLE) / (len(panels) * panel)
        last = index == len(panels) - 1
        layout[f"xaxis{number}"] = {
            "anchor": f"y{number}",
            "showgrid": False,
            "zeroline": False,
            "tickmode": "array",
            "tickvals": places,
            "ticktext": labels,
            "showticklabels": last,
            "title": {"text": x, "standoff": 8} if last else None,
        }
        layout[f"yaxis{number}"] = {
            "anchor": f"x{number}",
            "domain": [1 - (index + 1) / len(panels), top],
            "range": limits,
            "gridcolor": GRID,
            "zerolinecolor": INK,
            "nticks": 4,
            "automargin": True,
        }
        layout["annotations"].append(
            {
                "text": title,
                "x": 0,
                "y": top,
                "xref": "paper",
                "yref": "paper",
                "xanchor": "left",
                "yanchor": "bottom",
                "showarrow": False,
            }
        )
        traces.append(
            go.Bar(
                x=places,
                y=np.asarray(values),
                xaxis=f"x{number}",
                yaxis=f"y{number}",
                name=title,
                marker={"color": SERIES[index % len(SERIES)]},
                customdata=labels,
                texttemplate="%{y:.3f}" if printed else None,
                textposition="outside",
                textangle=0,
                cliponaxis=False,
                hovertemplate="%{customdata}: <b>%{y:.6g}</b><extra></extra>",
            )
        )
    return go.Figure(traces, layout)
