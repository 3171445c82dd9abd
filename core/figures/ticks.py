"""Whole labels on logarithmic axes, where Plotly would shorten 20 to a small 2."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

# A third of a power of ten apart on the axis, from far below to far above anything drawn.
THIRDS = tuple(float(f"{digit}e{power}") for power in range(-9, 10) for digit in (1, 3))


def label_log_axes(figure: go.Figure, *, x: Sequence[float] = THIRDS, y: Sequence[float] = THIRDS) -> None:
    """Put plain numbers at these places of the axes that are logarithmic; places outside the picture are not drawn."""
    for update, places in ((figure.update_xaxes, x), (figure.update_yaxes, y)):
        labels = [f"{place:,g}" for place in places]
        update(selector={"type": "log"}, tickmode="array", tickvals=list(places), ticktext=labels)
