"""Lines, points and bars in the one visual language of the pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from .chart import Chart
from .labels import axis_labels, short
from .palette import SERIES
from .theme import enlarged, template, thick
from .values import Values, bar_values, floats

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
    """Curves over a common axis. `x` and `y` name the axes with their units; pointing at a place tells every curve.

    powers_of_ten  the vertical axis holds exponents of 10, and its numbers are written as 10⁻³
    """
    traces = [
        go.Scatter(
            x=np.asarray(one.x),
            y=np.asarray(one.y),
            name=one.name,
            mode={"measured": "markers+lines", "line": "lines", "theory": "lines"}[one.kind],
            line={"color": colour, "width": thick(2), "dash": "dash" if one.kind == "theory" else "solid"},
            marker={"size": enlarged(8), "color": colour},
            error_y=None
            if one.error is None
            else {"array": np.asarray(one.error), "color": colour, "thickness": thick(1.2)},
            hovertemplate="%{y:.5g}",
        )
        for one, colour in zip(series, _colours(len(series)), strict=True)
    ]
    layout = plain_layout(height) | {"hovermode": "x unified", "showlegend": len(series) > 1}
    layout["xaxis"] |= {"title": {"text": x}, "type": "log" if log_x else "linear"}
    layout["yaxis"] |= {"title": {"text": y}, "type": "log" if log_y else "linear"}
    if powers_of_ten:
        layout["yaxis"] |= {"tickprefix": "10<sup>", "ticksuffix": "</sup>"}
    values = tuple(
        Values(
            kind="line",
            part=one.name,
            headings=(x.partition(" (")[0],),  # without its unit
            value=y or one.name,
            numbers=floats(one.y),
            x=floats(one.x),
            prefix="10^" if powers_of_ten else "",
        )
        for one in series
    )
    return Chart(go.Figure(traces, layout), values)


def bars(
    names: Sequence[str],
    groups: Mapping[str, ArrayLike],
    *,
    y: str,
    x: str = "",
    printed: bool = True,
    limits: tuple[float, float] | None = None,
    height: int = 320,
) -> Chart:
    """One bar a name and group, with its number on it. Names are shown as they are, also when one occurs twice."""
    places = list(range(len(names)))
    labels = axis_labels(names)
    traces = [
        go.Bar(
            x=places,
            y=np.asarray(values),
            name=group,
            marker={"color": colour},
            customdata=labels,
            texttemplate="%{y:.3f}" if printed else None,
            hovertemplate="%{customdata}: <b>%{y:.6g}</b>",
        )
        for (group, values), colour in zip(groups.items(), _colours(len(groups)), strict=True)
    ]
    layout = plain_layout(height) | {"showlegend": len(groups) > 1, "barmode": "group"}
    layout["xaxis"] |= {
        "tickmode": "array",
        "tickvals": places,
        "ticktext": labels,
        "title": {"text": x},
    }
    layout["yaxis"] |= {"title": {"text": y}, "range": list(limits or room_for(groups.values()))}
    return Chart(go.Figure(traces, layout), bar_values([short(name) for name in names], groups, heading=x, value=y))


def room_for(groups: Iterable[ArrayLike], share: float = 0.12) -> tuple[float, float]:
    """A range that holds 0, every bar, and a number beyond the end of each: above positive ones, below negative ones.

    share  how much of the bars' range a number takes
    """
    values = np.nan_to_num(np.concatenate([np.ravel(np.asarray(group, dtype=np.float64)) for group in groups]))
    lowest, highest = min(0.0, float(values.min(initial=0))), max(0.0, float(values.max(initial=0)))
    room = (highest - lowest or 1.0) * share
    return lowest - room * (lowest < 0), highest + room * (highest > 0 or lowest == 0)


def plain_layout(height: int) -> dict[str, Any]:
    """What every chart starts from: room above for the legend, and at the sides as much as the labels need."""
    return {
        "template": template(),
        "height": height,
        "margin": {"l": 8, "r": 16, "t": enlarged(34), "b": 8},
        "xaxis": {"automargin": True},
        "yaxis": {"automargin": True},
    }


def label_log_axes(figure: go.Figure, *, x: Sequence[float] = THIRDS) -> None:
    """Put plain numbers at these places of the axes that are logarithmic, where Plotly would shorten 20 to a small 2.

    Places outside the picture are not drawn.
    """
    for update, places in ((figure.update_xaxes, x), (figure.update_yaxes, THIRDS)):
        labels = [f"{place:,g}" for place in places]
        update(selector={"type": "log"}, tickmode="array", tickvals=list(places), ticktext=labels)


def _colours(count: int) -> list[str]:
    return [SERIES[place % len(SERIES)] for place in range(count)]
