"""A drawing of an attention block: which text gives it queries, and which keys and values."""

from __future__ import annotations

from typing import Literal

from ..chart import Chart, Layout, scatter
from ..palette import ABOVE, BELOW, INK
from ..theme import enlarged, template, thick

Text = Literal["read", "written"]

# From the top down, so that no two arrows cross whichever text gives what: (letter, height of its inlet, colour).
INLETS = {"K": (3.2, ABOVE), "V": (2.2, "#3aa394"), "Q": (0.8, BELOW)}
HEIGHTS: dict[Text, float] = {"read": 3.1, "written": 0.9}
NAMES: dict[Text, str] = {"read": "text that is read", "written": "text written so far"}


def wiring(query_text: Text, key_text: Text, *, causal: bool) -> Chart:
    """Draw two texts at the left, the attention block at the right, and arrows for queries, keys and values."""
    layout: Layout = {
        "template": template(),
        "height": enlarged(150),
        "margin": {"l": 0, "r": 0, "t": 0, "b": 0},
        "xaxis": {"visible": False, "range": [-0.05, 10.05], "fixedrange": True},
        "yaxis": {"visible": False, "range": [-0.05, 4.05], "fixedrange": True},
        "shapes": [],
        "annotations": [],
    }
    for text, middle in HEIGHTS.items():
        opacity = 1 if text in (query_text, key_text) else 0.35
        _box(layout, 0, 3.6, middle - 0.75, middle + 0.75, NAMES[text], opacity)
    _box(layout, 7, 10, 0.1, 3.9, "causal<br>attention" if causal else "attention")
    arrow = {"showarrow": True, "arrowhead": 2, "arrowsize": 1.1, "arrowwidth": thick(2.2), "text": ""}
    arrow |= {"x": 6.95, "ax": 3.65, "xref": "x", "yref": "y", "axref": "x", "ayref": "y"}
    for letter, (inlet, colour) in INLETS.items():
        origin = query_text if letter == "Q" else key_text
        start = HEIGHTS[origin] + (inlet - 2) * 0.2
        name = {"x": 5.3, "y": (start + inlet) / 2 + 0.33, "text": f"<b>{letter}</b>"}
        layout["annotations"] += [arrow | {"y": inlet, "ay": start, "arrowcolor": colour}, name]
    nothing = scatter([None], [None], "markers", showlegend=False, hoverinfo="skip")
    return Chart([nothing], layout)  # without any trace there are no axes


def _box(layout: Layout, x0: float, x1: float, y0: float, y1: float, text: str, opacity: float = 1) -> None:
    look = {"line": {"color": INK, "width": thick(1.5)}, "opacity": opacity}
    layout["shapes"].append({"type": "rect", "x0": x0, "x1": x1, "y0": y0, "y1": y1} | look)
    layout["annotations"].append({"x": (x0 + x1) / 2, "y": (y0 + y1) / 2, "text": text, "opacity": opacity})
