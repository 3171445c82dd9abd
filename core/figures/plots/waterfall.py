"""Two plots of one weight: the steps from products to the weight, and what it passes on."""

from __future__ import annotations

import math
from typing import Any

from ...attention.ledger import Ledger
from ..chart import Chart, Values, bar, bar_values, floats, numbered
from ..palette import ABOVE, BELOW, GRID, TOTAL
from ..theme import LETTER, enlarged, letters, template

HEIGHT = 240  # pixels of each
_PRODUCTS_WIDTH = 8.0  # the products share this much room, however many they are; every later step has 1


def waterfall(cell: Ledger) -> Chart:
    """Left: from 0 over every product q_d · k_d to their sum, then scale, cap, bias and mask, and the row's maximum.
    Right, on an axis from 0 to 1: e to that power, and its share of the row's sum, the weight.

    A forbidden pair ends at its score before the mask: −∞ has no place on an axis.
    """
    steps = _steps(cell)
    count = len(cell.products)
    width = _PRODUCTS_WIDTH / count
    later = [_PRODUCTS_WIDTH + 1 + index for index in range(len(steps))]
    steps_of_score = {
        "type": "waterfall",
        "x": [(d + 0.5) * width for d in range(count)] + later,
        "y": cell.products.tolist() + [value for _, value, _ in steps],
        "measure": ["relative"] * count + [measure for _, _, measure in steps],
        "width": [width * 0.9] * count + [0.8] * len(steps),
        "customdata": [f"dimension {d}" for d in range(count)] + [name for name, _, _ in steps],
        "increasing": {"marker": {"color": ABOVE}},
        "decreasing": {"marker": {"color": BELOW}},
        "totals": {"marker": {"color": TOTAL}},
        "connector": {"visible": False},
        "hovertemplate": "%{customdata}: <b>%{delta:.5g}</b><br>so far <b>%{final:.5g}</b><extra></extra>",
    }
    look = {"marker": {"color": [TOTAL, ABOVE]}, "hovertemplate": "%{x}: <b>%{y:.5g}</b><extra></extra>"}
    share = bar(["e^x", "weight"], [cell.exponential, cell.weight], width=0.6, xaxis="x2", yaxis="y2", **look)
    slanted = {"tickangle": -45, "tickfont": {"size": letters(12)}}
    texts = [f"{count} products", *(name for name, _, _ in steps)]
    below = letters(12) * (1.5 + LETTER * max(map(len, texts)) * math.sqrt(0.5))
    layout = _layout(below=below)
    layout["xaxis"] = slanted | {"domain": [0, 0.78], "tickvals": [_PRODUCTS_WIDTH / 2, *later], "ticktext": texts}
    layout["xaxis2"] = slanted | {"domain": [0.88, 1], "anchor": "y2"}
    layout["yaxis2"] = {"anchor": "x2", "range": [0, 1.02], "nticks": 3, "tickfont": {"size": letters(12)}}
    return Chart([steps_of_score, share], layout, _values(cell, steps))


def _steps(cell: Ledger) -> list[tuple[str, float, str]]:
    """The steps after the products: a name, what it adds or the sum so far, and "relative" or "total"."""
    steps = [("q·k", cell.raw, "total"), ("× scale", cell.scaled - cell.raw, "relative")]
    if cell.capped != cell.scaled:
        steps.append(("soft cap", cell.capped - cell.scaled, "relative"))
    if cell.bias:
        steps.append(("+ bias", cell.bias, "relative"))
    steps.append(("score", cell.capped + cell.bias, "total"))
    if math.isfinite(cell.masked):
        steps += [("− row max", -cell.row_maximum, "relative"), ("shifted", cell.shifted, "total")]
    return steps


def _values(cell: Ledger, steps: list[tuple[str, float, str]]) -> tuple[Values, Values]:
    """The number that each step adds; then the sums on the way and the weight."""
    added = {f"dimension {index}": product for index, product in enumerate(cell.products.tolist())}
    added |= {name: number for name, number, measure in steps if measure == "relative"}
    sums = {name: number for name, number, measure in steps if measure == "total"}
    sums |= {"e^x": cell.exponential, "weight": cell.weight}
    return (
        Values(kind="steps", headings=("",), value="adds", numbers=floats([*added.values()]), rows=[*added]),
        Values(kind="steps", part="sums", headings=("sum",), numbers=floats([*sums.values()]), rows=[*sums]),
    )


def passed_on(cell: Ledger) -> Chart:
    """Draw the value vector of the key, and the part of it that reaches the output of the query."""
    groups, size = {"value": cell.value, "weight × value": cell.contribution}, cell.value.size
    pointing = "%{fullData.name}, dimension %{x}: <b>%{y:.5g}</b><extra></extra>"
    traces = [
        bar(list(range(size)), numbers, name=name, marker={"color": colour}, hovertemplate=pointing)
        for (name, numbers), colour in zip(groups.items(), (GRID, ABOVE), strict=True)
    ]
    layout = _layout(above=enlarged(30), below=enlarged(46))
    layout |= {"barmode": "overlay", "showlegend": True, "legend": {"itemclick": False}}
    title = {"text": "dimension", "standoff": 4}
    layout["xaxis"] = {"title": title, "range": [-0.5, size - 0.5], "dtick": max(1, round(size / 8))}
    return Chart(traces, layout, bar_values(numbered(size), groups, heading="dimension"))


def _layout(*, above: float = 8, below: float) -> dict[str, Any]:
    """Return the layout of both plots. With Plotly's own margins, each takes up to 1.6 times as long: it is drawn twice."""
    left = 8 + 7 * LETTER * letters(14)  # room for a number such as −0.0005
    margin = {"l": left, "r": 8, "t": above, "b": below, "autoexpand": False}
    return {"template": template(), "height": HEIGHT, "margin": margin, "showlegend": False}
