"""Drawings without axes: how an attention block is wired, and a path from an answer back to the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from ..chart import Chart, Layout, Values, floats, scatter, written
from ..labels import escaped
from ..palette import ABOVE, BELOW, INK, PIN
from ..theme import enlarged, letters, plain_layout, template, thick

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


HEIGHT = 104  # pixels


class Node(NamedTuple):
    """A stop of a path.

    name   in a word
    below  the token that belongs to it
    gave   its contribution to the number of the stop before
    share  the same as a share of that number
    """

    name: str
    below: str = ""
    gave: float = 0.0
    share: float = 0.0


def path_chart(nodes: Sequence[Node], chosen: int) -> Chart:
    """Draw the stops from left to right, the answer first. A line is as thick as the share that it hands on.

    chosen  the number of the stop with a ring
    """
    places = list(range(len(nodes)))
    lines, words = [], []
    for index, node in enumerate(nodes[1:], start=1):
        look = {"color": ABOVE if node.gave >= 0 else BELOW, "width": thick(2 + 7 * min(abs(node.share), 1.0))}
        lines.append({"type": "line", "x0": index - 1, "x1": index, "y0": 0, "y1": 0, "line": look, "layer": "below"})
        words.append(_words(_signed(node.gave), index - 0.5, 8, "bottom"))
    for index, node in enumerate(nodes):
        # Above the numbers: on a narrow screen there is no room beside them.
        words.append(_words(f"<b>{escaped(node.name)}</b>", index, 26, "bottom"))
        if node.below:
            words.append(_words(escaped(node.below), index, -12, "top"))
    ring = {"color": PIN, "width": [thick(3) if index == chosen else 0 for index in places]}
    look = {"size": enlarged(15), "color": INK, "opacity": 1, "line": ring}
    dots = scatter(places, [0] * len(places), "markers", marker=look, hoverinfo="skip")
    layout = plain_layout(HEIGHT) | {"shapes": lines, "annotations": words, "showlegend": False}
    layout["margin"] = {"l": 8, "r": 8, "t": 4, "b": 4}
    layout["xaxis"] = {"range": [-0.6, max(len(nodes), 2) - 0.4], "visible": False}
    layout["yaxis"] = {"range": [-1, 1], "visible": False}
    names = [f"{node.name} {node.below}".strip() for node in nodes[1:]]
    gave = floats([node.gave for node in nodes[1:]])
    values = Values(kind="bars", numbers=gave, headings=("stop",), value="contribution", rows=names)
    return Chart([dots], layout, (values,) if names else ())


def _signed(number: float) -> str:
    return f"+{written(number)}" if number > 0 else written(number)


def _words(text: str, x: float, shift: float, anchor: str) -> dict[str, object]:
    at = {"x": x, "y": 0, "xanchor": "center", "yanchor": anchor, "yshift": enlarged(shift)}
    return at | {"text": text, "font": {"size": letters(14)}, "showarrow": False}
