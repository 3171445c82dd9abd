"""Numbers before and after something was changed, as pairs of bars one below the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from .charts import plain_layout
from .labels import axis_labels
from .palette import ABOVE, TOTAL
from .theme import enlarged

ROW = 34  # pixels of a pair of bars


def before_and_after(names: Sequence[str], before: NDArray[np.floating], after: NDArray[np.floating]) -> go.Figure:
    """Shares from 0 to 1, each with its number. Names are tokens, written as they are, also when one occurs twice."""
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
        for name, values, colour in (("before", before, TOTAL), ("after", after, ABOVE))
    ]
    layout = plain_layout(enlarged(60) + enlarged(ROW) * len(names)) | {
        "barmode": "group",
        "bargap": 0.25,
        "dragmode": False,
    }
    layout["legend"] = {"traceorder": "normal"}
    layout["margin"] |= {"r": enlarged(48), "b": enlarged(28)}
    highest = max(float(before.max(initial=0)), float(after.max(initial=0)))
    layout["xaxis"] = {"range": [0, highest * 1.12 or 1], "tickformat": ".0%", "nticks": 5}
    layout["yaxis"] |= {
        "tickmode": "array",
        "tickvals": places,
        "ticktext": labels,
        "range": [len(names) - 0.5, -0.5],
        "showgrid": False,
    }
    return go.Figure(bars, layout)
