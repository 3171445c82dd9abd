"""A heatmap in which no cell is pinned, with its axes drawn all the same."""

from __future__ import annotations

import plotly.graph_objects as go
from numpy.typing import NDArray

from core.figures.heatmap import Axis, heatmap


def labelled_heatmap(values: NDArray, rows: Axis, columns: Axis, **options) -> go.Figure:
    """`heatmap` with the same options. Plotly leaves out axes that nothing is drawn on; an empty line keeps them."""
    figure = heatmap(values, rows, columns, **options)
    figure.add_scatter(x=[None], y=[None], showlegend=False, hoverinfo="skip")
    return figure
