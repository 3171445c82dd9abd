"""Curves over a common axis, and labels for logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ..chart import Chart, Layout, Values, floats, scatter
from ..palette import SERIES
from ..theme import enlarged, plain_layout, thick

MARKED = 48  # points of a curve up to which each is marked: more lie on each other, and are slow to draw
# A third of a power of ten apart on a logarithmic axis, from far below to far above anything drawn.
THIRDS = tuple(float(f"{digit}e{power}") for power in range(-9, 10) for digit in (1, 3))


@dataclass(frozen=True, eq=False)
class Series:
    """One line of a chart. `error` is one standard error up and down; "theory" is dashed and has no points."""

    name: str
    x: ArrayLike
    y: ArrayLike
    error: ArrayLike | None = None
    kind: Literal["measured", "line", "theory"] = "line"


def lines(
    series: Sequence[Series],
    *,
    x: str,
    y: str,
    log_x: bool = False,
    log_y: bool = False,
    powers_of_ten: bool = False,
    height: int = 380,
) -> Chart:
    """Draw curves over a common axis. `x` and `y` name the axes with their units; pointing at a place shows every curve.

    powers_of_ten  the vertical axis holds exponents of 10, and its numbers are written as 10⁻³
    """
    width = thick(1.2)
    traces = [
        scatter(
            np.asarray(curve.x),
            np.asarray(curve.y),
            "markers+lines" if curve.kind == "measured" and np.size(curve.x) <= MARKED else "lines",
            name=curve.name,
            line={"color": colour, "width": thick(2), "dash": "dash" if curve.kind == "theory" else "solid"},
            marker={"size": enlarged(8), "color": colour},
            error_y=None if curve.error is None else {"array": curve.error, "color": colour, "thickness": width},
            hovertemplate="%{y:.5g}",
        )
        for curve, colour in zip(series, cycle(SERIES), strict=False)
    ]
    layout = plain_layout(height) | {"hovermode": "x unified", "showlegend": len(series) > 1}
    layout["xaxis"] |= {"title": {"text": x}, "type": "log" if log_x else "linear"}
    layout["yaxis"] |= {"title": {"text": y}, "type": "log" if log_y else "linear"}
    if powers_of_ten:
        layout["yaxis"] |= {"tickprefix": "10<sup>", "ticksuffix": "</sup>"}
    values = tuple(
        Values(
            kind="line",
            part=curve.name,
            headings=(x.partition(" (")[0],),  # without its unit
            value=y or curve.name,
            numbers=floats(curve.y),
            x=floats(curve.x),
            prefix="10^" if powers_of_ten else "",
        )
        for curve in series
    )
    return Chart(traces, layout, values)


def label_log_axes(layout: Layout, *, x: Sequence[float] = THIRDS) -> None:
    """Write plain numbers at these places of logarithmic axes, where Plotly would shorten 20 to a small 2.

    Places outside the figure are not drawn.
    """
    for axis, places in (("xaxis", x), ("yaxis", THIRDS)):
        if layout[axis].get("type") == "log":
            layout[axis] |= {"tickvals": list(places), "ticktext": [f"{place:,g}" for place in places]}
