"""Numbers of very different size as bars on a logarithmic axis, from left to right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from .chart import Chart
from .charts import plain_layout
from .labels import escaped, short
from .palette import GRID, INK, SERIES, text_on
from .theme import enlarged, thick
from .values import bar_values

BAR = 30  # pixels
MARK = 20  # pixels for the words of a mark


@dataclass(frozen=True)
class Mark:
    """A number that the bars are compared with: a line across the chart with words at its upper end."""

    words: str
    value: float
    colour: str = INK


def log_bars(
    names: Sequence[str],
    groups: Mapping[str, ArrayLike],
    *,
    x: str,
    limits: tuple[float, float],
    number: str = ".3g",
    marks: Sequence[Mark] = (),
    colours: Sequence[str] = SERIES,
) -> Chart:
    """One bar a name and group with its number at its end.

    groups  a number for each name; 0 is written but has no bar, NaN leaves the place empty
    limits  both ends of the axis, above 0
    number  how the numbers are written
    """
    low, high = np.log10(limits)
    lonely = bool((np.sum([np.isfinite(np.asarray(values)) for values in groups.values()], axis=0) <= 1).all())
    traces = [
        go.Bar(
            orientation="h",
            y=[escaped(name) for name in names],
            x=[_drawn(value, limits[0]) for value in np.asarray(values, dtype=np.float64)],
            name=group,
            marker={"color": colour},
            text=[_written(value, number) for value in np.asarray(values, dtype=np.float64)],
            textposition="auto",
            insidetextanchor="end",
            insidetextfont={"color": text_on([colour])[0]},
            hovertemplate="%{y}, " + group + ": <b>%{text}</b><extra></extra>",
        )
        for (group, values), colour in zip(groups.items(), colours, strict=False)
    ]
    top = enlarged(34) + enlarged(MARK) * len(marks)
    lines = len(names) * (1 if lonely else len(groups))
    layout = plain_layout(lines * enlarged(BAR) + top + enlarged(62))
    layout |= {"barmode": "overlay" if lonely else "group", "showlegend": len(groups) > 1}
    layout["margin"] |= {"t": top}
    layout["legend"] = {"yref": "container", "yanchor": "top", "traceorder": "normal"}
    layout["xaxis"] |= {
        "type": "log",
        "range": [low, high],
        "title": {"text": x},
        "dtick": 1 if high - low < 5 else None,
        "nticks": 6,
        "exponentformat": "power",
        "showgrid": True,
        "gridcolor": GRID,
    }
    layout["yaxis"] |= {
        "autorange": "reversed",
        "showgrid": False,
        "nticks": len(names),
        "ticksuffix": " ",
    }
    layout["shapes"] = [_line(mark) for mark in marks]
    layout["annotations"] = [
        _words(mark, place, right=np.log10(mark.value) > (low + high) / 2) for place, mark in enumerate(marks)
    ]
    return Chart(go.Figure(traces, layout), bar_values([short(name) for name in names], groups, value=x))


def _written(value: float, number: str) -> str:
    if np.isnan(value):
        return ""
    return f"{value:{number}}" if value else "0"


def _drawn(value: float, low: float) -> float | None:
    return None if np.isnan(value) else max(value, low)


def _line(mark: Mark) -> dict[str, object]:
    return {
        "type": "line",
        "xref": "x",
        "yref": "paper",
        "x0": mark.value,
        "x1": mark.value,
        "y0": 0,
        "y1": 1,
        "line": {"color": mark.colour, "width": thick(2), "dash": "dot"},
    }


def _words(mark: Mark, place: int, *, right: bool) -> dict[str, object]:
    return {
        "text": mark.words,
        "xref": "x",
        "x": np.log10(mark.value),
        "xanchor": "right" if right else "left",
        "yref": "paper",
        "y": 1,
        "yanchor": "bottom",
        "yshift": enlarged(MARK) * place,
    }
