"""A path from an answer back to the text: a dot for each stop, and between two of them what was handed on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..chart import Chart, scatter
from ..labels import escaped
from ..palette import ABOVE, BELOW, INK, PIN
from ..theme import enlarged, letters, plain_layout, thick
from ..values import Values, floats, written

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
