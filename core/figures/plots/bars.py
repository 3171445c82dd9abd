"""Bar charts: a number for each name in one group or in several; side by side, in panels, or horizontal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...units import small_number
from ..chart import Chart, Layout, Trace, axis_ending, bar
from ..labels import axis_labels, short, without_markup
from ..palette import ABOVE, GRID, INK, SERIES, TOTAL, text_on
from ..theme import enlarged, letters, plain_layout, template, thick
from ..values import Values, bar_values

PANEL_TITLE = 26  # pixels above each panel
PANEL_LABELS = 46  # pixels below the last one
ROW = 34  # pixels of the bars of a token
LOG_ROW = 30  # pixels of a bar on a logarithmic axis
MARK = 20  # pixels for the words of a mark
NUMBER = 22  # pixels of a number beyond the end of its bar
AROUND = 72  # pixels above and below the bars: the legend, and their names

Groups = Mapping[str, ArrayLike]  # the name of a group -> a number for each bar


def bar_trace(
    names: Sequence[str],
    numbers: ArrayLike,
    group: str,
    colour: str | Sequence[str],
    *,
    printed: str | None = None,
    hover: str = ".6g",
    horizontal: bool = False,
    names_group: bool = True,
) -> Trace:
    """Return a bar for each name, at 0, 1, 2 ... Names are tokens; the same one may occur twice.

    colour       of all bars, or one for each
    printed      format of the numbers on the bars; None: no numbers
    hover        format of a number when pointing at its bar
    names_group  whether pointing at a bar also names its group
    """
    places, length = list(range(len(names))), "x" if horizontal else "y"
    return bar(
        *((numbers, places) if horizontal else (places, np.asarray(numbers))),
        orientation="h" if horizontal else None,
        name=group,
        marker={"color": colour},
        customdata=axis_labels(names),
        text=None if printed is None else [_printed(value, printed) for value in np.asarray(numbers).tolist()],
        hovertemplate=f"%{{customdata}}: <b>%{{{length}:{hover}}}</b>" + ("" if names_group else "<extra></extra>"),
    )


def _printed(value: float, form: str) -> str:
    """A number on its bar, with a real minus sign; nothing for NaN."""
    return "" if np.isnan(value) else f"{value:z{form}}".replace("-", "−")


def _traces(
    names: Sequence[str], groups: Groups, colours: Sequence[str | Sequence[str]] = SERIES, **look: Any
) -> list[Trace]:
    return [
        bar_trace(names, numbers, group, colour, **look)
        for (group, numbers), colour in zip(groups.items(), cycle(colours), strict=False)
    ]


def named_places(names: Sequence[str]) -> dict[str, Any]:
    """Return the ticks of the axis along which the bars of these names stand."""
    return {"tickvals": list(range(len(names))), "ticktext": axis_labels(names)}


def _values(names: Sequence[str], groups: Groups, **words: str) -> tuple[Values, ...]:
    return bar_values([short(name) for name in names], groups, **words)


def bars(
    names: Sequence[str],
    groups: Groups,
    *,
    y: str,
    x: str = "",
    printed: bool = True,
    limits: tuple[float, float] | None = None,
    height: int = 320,
    colours: Sequence[str | Sequence[str]] = SERIES,
) -> Chart:
    """Draw a bar for each name and group, the groups side by side. Names are tokens; the same one may occur twice.

    colours  one for each group, or one for each of its bars
    """
    traces = _traces(names, groups, colours, printed=".3f" if printed else None)
    layout = plain_layout(height) | {"showlegend": len(groups) > 1, "barmode": "group"}
    layout["xaxis"] |= named_places(names) | {"title": {"text": x}}
    number = enlarged(NUMBER)
    share = number / max(number, height - enlarged(AROUND) - 2 * number)
    layout["yaxis"] |= {"title": {"text": y}, "range": list(limits or room_for(groups.values(), share))}
    return Chart(traces, layout, _values(names, groups, heading=x, value=y))


def bar_panels(names: Sequence[str], panels: Groups, *, x: str, printed: bool = True, panel: int = 150) -> Chart:
    """Draw a panel of bars for each title, one below the other; all panels share their range and their names.

    panel  height of each panel in pixels, with its title
    """
    limits = room_for(panels.values(), 0.2)
    above, below = enlarged(PANEL_TITLE), enlarged(PANEL_LABELS)
    area = len(panels) * enlarged(panel) - above  # without the first title, which lies in the margin
    layout: Layout = {
        "template": template(),
        "height": area + above + below,
        "margin": {"l": 8, "r": 16, "t": above, "b": below},
        "showlegend": False,
        "annotations": [],
    }
    scale = {"range": list(limits), "nticks": 4, "automargin": True}
    traces = _traces(names, panels, printed=".3f" if printed else None, names_group=False)
    for index, (title, trace) in enumerate(zip(panels, traces, strict=True)):
        number, bottom = axis_ending(index), (len(panels) - 1 - index) * enlarged(panel) / area
        top = bottom + (enlarged(panel) - above) / area
        shared = {"matches": f"x{len(panels)}", "showticklabels": False} if bottom else {"title": {"text": x}}
        trace |= {"xaxis": f"x{number}", "yaxis": f"y{number}"}
        layout[f"xaxis{number}"] = named_places(names) | {"anchor": f"y{number}"} | shared
        layout[f"yaxis{number}"] = {"anchor": f"x{number}", "domain": [bottom, top]} | scale
        at = {"x": 0, "xanchor": "left", "xref": "paper", "y": top, "yanchor": "bottom", "yref": "paper"}
        layout["annotations"].append(at | {"text": title, "font": {"size": letters(14)}})
    groups = {without_markup(title): values for title, values in panels.items()}
    return Chart(traces, layout, _values(names, groups, heading=x))


def share_bars(names: Sequence[str], groups: Mapping[str, NDArray[np.floating]]) -> Chart:
    """Draw shares from 0 to 1 as horizontal bars with their numbers. Names are tokens; the same one may occur twice.

    groups  one or two: the name of a group -> a share for each token
    """
    bars = _traces(names, groups, (TOTAL, ABOVE), horizontal=True, printed=".1%", hover=".4%")
    legend = enlarged(34) if len(groups) > 1 else 8
    layout = plain_layout(enlarged(26) + legend + enlarged(ROW) * len(names))
    layout |= {"barmode": "group", "bargap": 0.25, "showlegend": len(groups) > 1, "legend": {"traceorder": "normal"}}
    layout["margin"] |= {"t": legend, "r": enlarged(48), "b": enlarged(28)}
    highest = max(float(np.max(values, initial=0)) for values in groups.values())
    layout["xaxis"] = {"range": [0, highest * 1.12 or 1], "tickformat": ".0%", "nticks": 5}
    layout["yaxis"] |= named_places(names) | {"range": [len(names) - 0.5, -0.5], "showgrid": False}
    return Chart(bars, layout, _values(names, groups))


class Mark(NamedTuple):
    """A number to compare the bars with: a line across the chart with words at its upper end."""

    words: str
    value: float
    colour: str = INK


def log_bars(
    names: Sequence[str],
    groups: Groups,
    *,
    x: str,
    limits: tuple[float, float],
    written: Callable[[float], str] = small_number,
    marks: Sequence[Mark] = (),
    colours: Sequence[str] = SERIES,
) -> Chart:
    """Draw numbers of very different size as horizontal bars on a logarithmic axis, each with its number at its end.

    groups  a number for each name; 0 is written but has no bar, NaN leaves the place empty
    limits  both ends of the axis, above 0
    written  how the numbers are written
    """
    low, high = np.log10(limits)
    lonely = bool((np.sum([np.isfinite(np.asarray(values)) for values in groups.values()], axis=0) <= 1).all())
    traces = []
    for (group, values), colour in zip(groups.items(), colours, strict=False):
        numbers = np.asarray(values, dtype=np.float64).tolist()
        trace = bar(
            [None if np.isnan(value) else max(value, limits[0]) for value in numbers],
            axis_labels(names),
            orientation="h",
            name=group,
            marker={"color": colour},
            text=["" if np.isnan(value) else written(value) for value in numbers],
            textposition="auto",
            insidetextanchor="end",
            insidetextfont={"color": text_on([colour])[0]},
            hovertemplate="%{y}, " + group + ": <b>%{text}</b><extra></extra>",
        )
        traces.append(trace)
    top = enlarged(34) + enlarged(MARK) * len(marks)
    lines = len(names) * (1 if lonely else len(groups))
    layout = plain_layout(lines * enlarged(LOG_ROW) + top + enlarged(62))
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
    layout["yaxis"] |= {"autorange": "reversed", "showgrid": False, "nticks": len(names), "ticksuffix": " "}
    layout["shapes"] = [
        full_height(mark.value, mark.value, line={"color": mark.colour, "width": thick(2), "dash": "dot"})
        for mark in marks
    ]
    layout["annotations"] = [
        _mark_words(mark, index, right=np.log10(mark.value) > (low + high) / 2) for index, mark in enumerate(marks)
    ]
    return Chart(traces, layout, _values(names, groups, value=x))


def full_height(left: float, right: float, **look: Any) -> dict[str, Any]:
    """Return a rectangle from the bottom of a plot to its top; a line where left and right are the same."""
    sides = {"x0": float(left), "x1": float(right), "y0": 0, "y1": 1}
    return {"type": "line" if left == right else "rect", "xref": "x", "yref": "paper"} | sides | look


def _mark_words(mark: Mark, index: int, *, right: bool) -> dict[str, object]:
    at = {"x": np.log10(mark.value), "xanchor": "right" if right else "left", "y": 1, "yanchor": "bottom"}
    return at | {"text": mark.words, "xref": "x", "yref": "paper", "yshift": enlarged(MARK) * index}


def room_for(groups: Iterable[ArrayLike], share: float) -> tuple[float, float]:
    """Return a range that holds 0, every bar, and a number beyond its end.

    share  part of the bars' range that a number takes
    """
    values = np.nan_to_num(np.concatenate([np.ravel(np.asarray(group, dtype=np.float64)) for group in groups]))
    lowest, highest = min(0.0, float(values.min(initial=0))), max(0.0, float(values.max(initial=0)))
    room = (highest - lowest or 1.0) * share
    return lowest - room * (lowest < 0), highest + room * (highest > 0 or lowest == 0)
