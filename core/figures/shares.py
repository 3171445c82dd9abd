"""Shares of some tokens as bars one below the other, of one kind or of several to compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from .chart import Chart
from .charts import plain_layout
from .labels import axis_labels, short
from .palette import ABOVE, TOTAL
from .theme import enlarged
from .values import bar_values

ROW = 34  # pixels of the bars of a token


def share_bars(names: Sequence[str], groups: Mapping[str, NDArray[np.floating]]) -> Chart:
    """Shares from 0 to 1, each with its number. Names are tokens, written as they are, also when one occurs twice.

    groups  one or two: what the bars of a kind are called -> a share for each token
    """
    places, labels = list(range(len(names))), axis_labels(names)
    bars = [
        go.Bar(
            y=places,
            x=values,
            orientation="h",
            name=name,
            marker={"color": colour},
            customdata=labels,
            texttemplate="%{x:.1%}",
            textposition="outside",
            cliponaxis=False,
            hovertemplate="%{customdata}: <b>%{x:.4%}</b>",
        )
        for (name, values), colour in zip(groups.items(), (TOTAL, ABOVE), strict=False)
    ]
    legend = enlarged(34) if len(groups) > 1 else 8
    layout = plain_layout(enlarged(26) + legend + enlarged(ROW) * len(names)) | {
        "barmode": "group",
        "bargap": 0.25,
        "dragmode": False,
        "showlegend": len(groups) > 1,
    }
    layout["legend"] = {"traceorder": "normal"}
    layout["margin"] |= {"t": legend, "r": enlarged(48), "b": enlarged(28)}
    highest = max(float(np.max(values, initial=0)) for values in groups.values())
    layout["xaxis"] = {"range": [0, highest * 1.12 or 1], "tickformat": ".0%", "nticks": 5}
    layout["yaxis"] |= {
        "tickmode": "array",
        "tickvals": places,
        "ticktext": labels,
        "range": [len(names) - 0.5, -0.5],
        "showgrid": False,
    }
    return Chart(go.Figure(bars, layout), bar_values([short(name) for name in names], groups))
