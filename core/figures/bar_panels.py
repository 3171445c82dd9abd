"""Bars of several kinds under each other, on one scale, so that their heights can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike
from plotly.subplots import make_subplots

from .chart import Chart
from .charts import room_for
from .labels import axis_labels, short, without_markup
from .palette import SERIES
from .theme import enlarged, letters, template
from .values import bar_values

TITLE = 26  # pixels above each panel
LABELS = 46  # pixels below the last one


def bar_panels(
    names: Sequence[str], panels: Mapping[str, ArrayLike], *, x: str, printed: bool = True, panel: int = 150
) -> Chart:
    """A panel of bars for each title, one bar a name, with its number on it; all panels share their range and their names.

    panel  the height of each in pixels, its title included
    """
    limits, labels = room_for(panels.values(), share=0.2), axis_labels(names)
    above, below = enlarged(TITLE), enlarged(LABELS)
    area = len(panels) * enlarged(panel) - above  # without the first title, which lies in the margin
    figure = make_subplots(
        rows=len(panels), shared_xaxes=True, vertical_spacing=above / area, subplot_titles=list(panels)
    )
    for row, (title, values) in enumerate(panels.items(), start=1):
        bars = go.Bar(
            x=list(range(len(names))),
            y=np.asarray(values),
            name=title,
            marker={"color": SERIES[(row - 1) % len(SERIES)]},
            customdata=labels,
            texttemplate="%{y:.3f}" if printed else None,
            hovertemplate="%{customdata}: <b>%{y:.6g}</b><extra></extra>",
        )
        figure.add_trace(bars, row=row, col=1)
    figure.update_layout(
        template=template(),
        height=area + above + below,
        margin={"l": 8, "r": 16, "t": above, "b": below},
        showlegend=False,
    )
    figure.update_annotations(x=0, xanchor="left", font_size=letters(14))
    figure.update_xaxes(tickmode="array", tickvals=list(range(len(names))), ticktext=labels)
    figure.update_xaxes(title_text=x, row=len(panels))
    figure.update_yaxes(range=limits, nticks=4, automargin=True)
    groups = {without_markup(title): values for title, values in panels.items()}
    return Chart(figure, bar_values([short(name) for name in names], groups, heading=x))
