"""Two plots of one weight: the steps from products to the weight, and what it passes on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ...attention.ledger import Ledger
from ..chart import Chart
from ..palette import ABOVE, BELOW, GRID, TOTAL
from ..theme import letters, plain_layout
from ..values import Values, bar_values, floats, numbered

_PRODUCTS_WIDTH = 8.0  # the products share this much room, however many they are; every later step has 1


def waterfall(cell: Ledger, *, height: int = 240) -> Chart:
    """Left: from 0 over every product q_d · k_d to their sum, then scale, cap, bias and mask, and the row's maximum.
    Right, on an axis from 0 to 1: e to that power, and its share of the row's sum, the weight.

    A forbidden pair ends at its score before the mask: −∞ has no place on an axis.
    """
    steps: list[tuple[str, float, str]] = [("q·k", cell.raw, "total"), ("× scale", cell.scaled - cell.raw, "relative")]
    if cell.capped != cell.scaled:
        steps.append(("soft cap", cell.capped - cell.scaled, "relative"))
    if cell.bias:
        steps.append(("+ bias", cell.bias, "relative"))
    steps.append(("score", cell.capped + cell.bias, "total"))
    if math.isfinite(cell.masked):
        steps += [("− row max", -cell.row_maximum, "relative"), ("shifted", cell.shifted, "total")]

    width = _PRODUCTS_WIDTH / len(cell.products)
    places = [(d + 0.5) * width for d in range(len(cell.products))]
    later = [_PRODUCTS_WIDTH + 1 + place for place in range(len(steps))]
    steps_of_score = go.Waterfall(
        x=places + later,
        y=cell.products.tolist() + [value for _, value, _ in steps],
        measure=["relative"] * len(places) + [measure for _, _, measure in steps],
        width=[width * 0.9] * len(places) + [0.8] * len(steps),
        customdata=[f"dimension {d}" for d in range(len(places))] + [name for name, _, _ in steps],
        increasing={"marker": {"color": ABOVE}},
        decreasing={"marker": {"color": BELOW}},
        totals={"marker": {"color": TOTAL}},
        connector={"visible": False},
        hovertemplate="%{customdata}: <b>%{delta:.5g}</b><br>so far <b>%{final:.5g}</b><extra></extra>",
    )
    share = go.Bar(
        x=["e^x", "weight"],
        y=[cell.exponential, cell.weight],
        width=0.6,
        marker={"color": [TOTAL, ABOVE]},
        hovertemplate="%{x}: <b>%{y:.5g}</b><extra></extra>",
    )
    figure = make_subplots(cols=2, column_widths=[0.78, 0.12], horizontal_spacing=0.1)
    figure.add_trace(steps_of_score, row=1, col=1).add_trace(share, row=1, col=2)
    figure.update_layout(_quiet(height))
    figure.update_xaxes(tickangle=-45, tickfont_size=letters(12))
    figure.update_xaxes(
        tickmode="array",
        tickvals=[_PRODUCTS_WIDTH / 2, *later],
        ticktext=[f"{len(places)} products", *(name for name, _, _ in steps)],
        col=1,
    )
    figure.update_yaxes(range=[0, 1.02], nticks=3, tickfont_size=letters(12), col=2)
    return Chart(figure, _values(cell, steps))


def _values(cell: Ledger, steps: list[tuple[str, float, str]]) -> tuple[Values, Values]:
    """The number that each step adds; then the sums on the way and the weight."""
    added = {f"dimension {place}": product for place, product in enumerate(cell.products.tolist())}
    added |= {name: number for name, number, measure in steps if measure == "relative"}
    sums = {name: number for name, number, measure in steps if measure == "total"}
    sums |= {"e^x": cell.exponential, "weight": cell.weight}
    return (
        Values(kind="steps", headings=("",), value="adds", numbers=floats([*added.values()]), rows=[*added]),
        Values(kind="steps", part="sums", headings=("sum",), numbers=floats([*sums.values()]), rows=[*sums]),
    )


def passed_on(cell: Ledger, *, height: int = 150) -> Chart:
    """Draw the value vector of the key, and the part of it that reaches the output of the query."""
    dimensions = np.arange(cell.value.size)
    figure = go.Figure(
        [
            go.Bar(x=dimensions, y=cell.value, name="value", marker={"color": GRID}, hovertemplate=_TELL),
            go.Bar(
                x=dimensions, y=cell.contribution, name="weight × value", marker={"color": ABOVE}, hovertemplate=_TELL
            ),
        ]
    )
    figure.update_layout(_quiet(height))
    figure.update_layout(
        barmode="overlay",
        showlegend=True,
        legend={"itemclick": False},
        xaxis={
            "title": {"text": "dimension", "standoff": 4},
            "range": [-0.5, cell.value.size - 0.5],
            "dtick": max(1, round(cell.value.size / 8)),
        },
    )
    groups = {"value": cell.value, "weight × value": cell.contribution}
    return Chart(figure, bar_values(numbered(cell.value.size), groups, heading="dimension"))


_TELL = "%{fullData.name}, dimension %{x}: <b>%{y:.5g}</b><extra></extra>"


def _quiet(height: int) -> dict[str, Any]:
    return plain_layout(height) | {"showlegend": False, "margin": {"l": 8, "r": 8, "t": 8, "b": 8}}
