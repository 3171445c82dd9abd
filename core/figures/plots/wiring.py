"""A drawing of an attention block: which text gives it queries, and which keys and values."""

from __future__ import annotations

from typing import Literal

import plotly.graph_objects as go

from ..chart import Chart
from ..palette import ABOVE, BELOW, INK
from ..theme import enlarged, template, thick

Text = Literal["read", "written"]

# From the top down, so that no two arrows cross whichever text gives what: (letter, height of its inlet, colour).
INLETS = {"K": (3.2, ABOVE), "V": (2.2, "#3aa394"), "Q": (0.8, BELOW)}
HEIGHTS: dict[Text, float] = {"read": 3.1, "written": 0.9}
NAMES: dict[Text, str] = {"read": "text that is read", "written": "text written so far"}


def wiring(query_text: Text, key_text: Text, *, causal: bool) -> Chart:
    """Draw two texts at the left, the attention block at the right, and arrows for queries, keys and values."""
    figure = go.Figure(
        go.Scatter(x=[None], y=[None], showlegend=False, hoverinfo="skip"),  # without anything there are no axes
        {
            "template": template(),
            "height": enlarged(150),
            "margin": {"l": 0, "r": 0, "t": 0, "b": 0},
            "xaxis": {"visible": False, "range": [-0.05, 10.05], "fixedrange": True},
            "yaxis": {"visible": False, "range": [-0.05, 4.05], "fixedrange": True},
        },
    )
    for text, middle in HEIGHTS.items():
        opacity = 1 if text in (query_text, key_text) else 0.35
        _box(figure, 0, 3.6, middle - 0.75, middle + 0.75, NAMES[text], opacity)
    _box(figure, 7, 10, 0.1, 3.9, "causal<br>attention" if causal else "attention")
    arrow = {"showarrow": True, "arrowhead": 2, "arrowsize": 1.1, "arrowwidth": thick(2.2), "text": ""}
    arrow |= {"xref": "x", "yref": "y", "axref": "x", "ayref": "y"}
    for letter, (inlet, colour) in INLETS.items():
        origin = query_text if letter == "Q" else key_text
        start = HEIGHTS[origin] + (inlet - 2) * 0.2
        figure.add_annotation(arrow, x=6.95, y=inlet, ax=3.65, ay=start, arrowcolor=colour)
        figure.add_annotation(x=5.3, y=(start + inlet) / 2 + 0.33, text=f"<b>{letter}</b>")
    return Chart(figure)


def _box(figure: go.Figure, x0: float, x1: float, y0: float, y1: float, text: str, opacity: float = 1) -> None:
    figure.add_shape(type="rect", x0=x0, x1=x1, y0=y0, y1=y1, line={"color": INK, "width": thick(1.5)}, opacity=opacity)
    figure.add_annotation(x=(x0 + x1) / 2, y=(y0 + y1) / 2, text=text, opacity=opacity)
