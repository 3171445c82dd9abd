"""Curves over a common axis, labels for logarithmic axes, and measured numbers with their intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from textwrap import shorten
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..chart import Chart, Layout, Values, bar_values, floats, scatter
from ..labels import without_effect
from ..palette import ABOVE, BELOW, GRID, INK, SERIES, TOTAL
from ..theme import enlarged, letters, plain_layout, thick

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


# --- measured numbers with their intervals, a row each, beside numbers to compare them with

ROW = 46  # pixels of a row, with its name
LETTERS = 56  # of a name: what a phone shows
LOOKS = ((BELOW, "circle"), (ABOVE, "x"), (TOTAL, "diamond-open"))  # of a group, by colour and by mark
MARKS = ("line-ns", "triangle-up-open")


def intervals(
    names: Sequence[str],
    groups: Mapping[str, Sequence[int]],
    ends: tuple[ArrayLike, ArrayLike, ArrayLike],
    *,
    x: str,
    form: str,
    marks: Mapping[str, ArrayLike] | None = None,
    limits: tuple[float, float] | None = None,
) -> Chart:
    """Draw a dot with a line from its lower to its upper end in each row, under the row's name.

    groups  three at most: name -> the rows that belong to it; they are told apart by colour and by mark
    ends    [rows] lower end, number, upper end; NaN where not known
    form    of the numbers when pointing at them, as d3 writes it
    marks   two at most: name -> [rows] a number to compare the row's with
    limits  both ends of the axis; None: whatever is drawn
    """
    low, middle, high = (np.asarray(end, np.float64) for end in ends)
    full = [without_effect(name) for name in names]
    traces = []
    for (group, rows), (colour, symbol) in zip(groups.items(), LOOKS, strict=False):
        at = list(rows)
        numbers = np.stack([low, high], axis=1)[at].tolist()
        pointing = "%{customdata[0]}<br>" + group
        pointing += f": <b>%{{x:{form}}}</b> (%{{customdata[1]:{form}}} to %{{customdata[2]:{form}}})<extra></extra>"
        look = {
            "name": group,
            "marker": {
                "color": colour,
                "symbol": symbol,
                "size": enlarged(11),
                "opacity": 1,
                "line": {"width": thick(2), "color": colour},
            },
            "error_x": _line(high[at] - middle[at], middle[at] - low[at], colour),
            "customdata": [[full[row], *ends] for row, ends in zip(at, numbers, strict=True)],
            "hovertemplate": pointing,
            "cliponaxis": False,
        }
        traces.append(scatter(middle[at], at, "markers", **look))
    for (mark, values), symbol in zip((marks or {}).items(), cycle(MARKS), strict=False):
        look = {"symbol": symbol, "size": enlarged(13), "color": INK, "line": {"width": thick(2), "color": INK}}
        pointing = f"%{{customdata}}<br>{mark}: <b>%{{x:{form}}}</b><extra></extra>"
        of = {"name": mark, "marker": look, "customdata": full, "hovertemplate": pointing, "cliponaxis": False}
        traces.append(scatter(np.asarray(values, np.float64), list(range(len(names))), "markers", **of))
    layout: Layout = plain_layout(len(names) * enlarged(ROW) + enlarged(96))
    layout["showlegend"] = len(traces) > 1
    layout["xaxis"] |= {"title": {"text": x}, "nticks": 6, "tickformat": form, "showgrid": True, "gridcolor": GRID}
    layout["xaxis"] |= {"zeroline": True, "zerolinecolor": INK}
    layout["xaxis"] |= {} if limits is None else {"range": list(limits)}
    layout["yaxis"] |= {"range": [len(names) - 0.6, -0.75], "showgrid": False, "zeroline": False, "tickvals": []}
    layout["annotations"] = [
        {
            "text": without_effect(shorten(name, LETTERS, placeholder="…")),
            "x": 0,
            "xref": "x domain",
            "xanchor": "left",
            "y": row,
            "xshift": enlarged(6),
            "yshift": enlarged(18),
            "font": {"size": letters(13)},
        }
        for row, name in enumerate(names)
    ]
    values = bar_values(list(names), {"number": middle, **(marks or {})}, heading="", value=x)
    return Chart(traces, layout, values)


def _line(above: NDArray[np.floating], below: NDArray[np.floating], colour: str) -> dict[str, Any]:
    look: dict[str, Any] = {"type": "data", "symmetric": False, "color": colour, "thickness": thick(3), "width": 0}
    return look | {"array": above, "arrayminus": below}
