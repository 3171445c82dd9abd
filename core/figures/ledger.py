"""How one score came about, as a waterfall: the products of query and key one by one, then what becomes of their sum."""

from __future__ import annotations

import math

import plotly.graph_objects as go

from core.figures.palette import ABOVE, BELOW, INK, TOTAL
from core.ledger import Ledger


def waterfall(cell: Ledger, *, height: int = 230) -> go.Figure:
    """From 0 over every product q_d · k_d to their sum, then scaling, cap and bias, down to the distance from the row's best.

    A forbidden pair ends at its score before the mask: −∞ has no place on an axis.
    """
    steps = [(f"d{d}", float(product)) for d, product in enumerate(cell.products)]
    measures = ["relative"] * len(steps)

    def total(name: str, value: float) -> None:
        steps.append((name, value))
        measures.append("total")

    def change(name: str, value: float) -> None:
        steps.append((name, value))
        measures.append("relative")

    total("q·k", cell.raw)
    change("× scale", cell.scaled - cell.raw)
    if cell.capped != cell.scaled:
        change("soft cap", cell.capped - cell.scaled)
    if cell.bias:
        change("+ bias", cell.bias)
    total("score", cell.capped + cell.bias)
    if math.isfinite(cell.masked):
        change("− row max", -cell.row_maximum)
        total("shifted", cell.shifted)

    figure = go.Figure(
        go.Waterfall(
            x=list(range(len(steps))),
            y=[value for _, value in steps],
            measure=measures,
            customdata=[name for name, _ in steps],
            increasing={"marker": {"color": ABOVE}},
            decreasing={"marker": {"color": BELOW}},
            totals={"marker": {"color": TOTAL}},
            connector={"visible": False},
            hovertemplate="%{customdata}: <b>%{delta:.5g}</b><br>so far <b>%{final:.5g}</b><extra></extra>",
        )
    )
    named = [(place, name) for place, (name, _) in enumerate(steps) if place >= len(cell.products)]
    figure.update_layout(
        template="none",
        height=height,
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": INK, "size": 13},
        showlegend=False,
        dragmode=False,
        bargap=0.15,
        xaxis={
            "tickmode": "array",
            "tickvals": [(len(cell.products) - 1) / 2] + [place for place, _ in named],
            "ticktext": [f"{len(cell.products)} products"] + [name for _, name in named],
            "showgrid": False,
            "zeroline": False,
            "automargin": True,
            "tickangle": -40,
        },
        yaxis={"zeroline": True, "zerolinecolor": INK, "gridcolor": "rgba(128,132,142,0.2)", "automargin": True},
    )
    return figure
