"""Bar charts: a number for each name in one group or in several, side by side, in panels, or horizontal; a query's scores in
blocks of keys; the distribution of a number over many queries; and the steps of one weight.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...attention.ledger import Ledger
from ...units import small_number
from ..chart import Chart, Layout, Trace, Values, axis_ending, bar, bar_values, floats, head_values, numbered, scatter
from ..labels import MAX_LABELS, axis_labels, short, thinned, without_markup
from ..palette import ABOVE, BELOW, FORBIDDEN, GRID, INK, PIN, SERIES, TOTAL, text_on
from ..theme import PLAIN_AXIS, enlarged, letters, plain_layout, template, thick
from ..typeface import GAP, ems

PANEL_TITLE = 26  # pixels above each panel
PANEL_LABELS = 46  # pixels below the last one
ROW = 34  # pixels of the bars of a token
LOG_ROW = 30  # pixels of a bar on a logarithmic axis
MARK = 20  # pixels for the words of a mark
NUMBER = 22  # pixels of a number beyond the end of its bar
AROUND = 72  # pixels above and below the bars: the legend, and their names

Groups = Mapping[str, ArrayLike]  # the name of a group -> a number for each bar


def _traces(
    names: Sequence[str],
    groups: Groups,
    colours: Sequence[str | Sequence[str]] = SERIES,
    *,
    printed: str | None = None,
    hover: str = ".6g",
    horizontal: bool = False,
    names_group: bool = True,
) -> list[Trace]:
    """A bar for each name and group, at 0, 1, 2 ... Names are tokens; the same one may occur twice.

    colours      for each group one of all its bars, or one for each
    printed      format of the numbers on the bars; None: no numbers
    hover        format of a number when pointing at its bar
    names_group  whether pointing at a bar also names its group
    """
    places, length = list(range(len(names))), "x" if horizontal else "y"
    return [
        bar(
            *((numbers, places) if horizontal else (places, np.asarray(numbers))),
            orientation="h" if horizontal else None,
            name=group,
            marker={"color": colour},
            customdata=axis_labels(names),
            text=None if printed is None else [_printed(value, printed) for value in np.asarray(numbers).tolist()],
            hovertemplate=f"%{{customdata}}: <b>%{{{length}:{hover}}}</b>" + ("" if names_group else "<extra></extra>"),
        )
        for (group, numbers), colour in zip(groups.items(), cycle(colours), strict=False)
    ]


def _printed(value: float, form: str) -> str:
    """A number on its bar, with a real minus sign; nothing for NaN."""
    return "" if np.isnan(value) else f"{value:z{form}}".replace("-", "−")


def _ticks(names: Sequence[str]) -> dict[str, Any]:
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
    layout["xaxis"] |= _ticks(names) | {"title": {"text": x}}
    number = enlarged(NUMBER)
    share = number / max(number, height - enlarged(AROUND) - 2 * number)
    layout["yaxis"] |= {"title": {"text": y}, "range": list(limits or _room_for(groups.values(), share))}
    return Chart(traces, layout, _values(names, groups, heading=x, value=y))


def bar_panels(names: Sequence[str], panels: Groups, *, x: str, printed: bool = True, panel: int = 150) -> Chart:
    """Draw a panel of bars for each title, one below the other; all panels share their range and their names.

    panel  height of each panel in pixels, with its title
    """
    limits = _room_for(panels.values(), 0.2)
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
        layout[f"xaxis{number}"] = _ticks(names) | {"anchor": f"y{number}"} | shared
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
    layout["yaxis"] |= _ticks(names) | {"range": [len(names) - 0.5, -0.5], "showgrid": False}
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


def _room_for(groups: Iterable[ArrayLike], share: float) -> tuple[float, float]:
    """Return a range that holds 0, every bar, and a number beyond its end.

    share  part of the bars' range that a number takes
    """
    values = np.nan_to_num(np.concatenate([np.ravel(np.asarray(group, dtype=np.float64)) for group in groups]))
    lowest, highest = min(0.0, float(values.min(initial=0))), max(0.0, float(values.max(initial=0)))
    room = (highest - lowest or 1.0) * share
    return lowest - room * (lowest < 0), highest + room * (highest > 0 or lowest == 0)


MAX_BORDERS = 40  # more lines than that hide the bars


def running(scores: NDArray[np.floating], keys: Sequence[str], ends: Sequence[int], maximum: ArrayLike) -> Chart:
    """Draw a bar for each key, blocks in alternating colours, and a step for each block.

    scores   [keys] what enters the softmax; -inf where masked: no bar, a grey ground
    ends     [blocks] how many keys have been seen after each block
    maximum  [blocks] the largest score so far
    """
    known = np.where(np.isfinite(scores), scores, np.nan)
    block = np.searchsorted(ends, np.arange(len(keys)), side="right")
    colours = [(BELOW, TOTAL)[number % 2] for number in block]
    (bars,) = _traces(keys, {"score": known}, [colours], hover=".5g", names_group=False)
    edges = np.array([0, *ends]) - 0.5
    highest = np.where(np.isfinite(maximum), maximum, np.nan)
    line = {"shape": "hv", "color": ABOVE, "width": thick(3)}
    steps = scatter(edges, [*highest, highest[-1]], "lines", line=line, name="largest so far, m", hoverinfo="skip")
    layout = plain_layout(230) | {"showlegend": True, "bargap": 0.15}
    places = thinned(len(keys), max_labels=MAX_LABELS * 14 // letters(14))
    labels = axis_labels([keys[place] for place in places])
    layout["xaxis"] |= {"tickvals": places, "ticktext": labels, "range": [-0.5, len(keys) - 0.5]}
    layout["yaxis"] |= {"title": {"text": "score"}}
    grey = {"fillcolor": FORBIDDEN, "line": {"width": 0}, "layer": "below"}
    layout["shapes"] = [full_height(key - 0.5, key + 0.5, **grey) for key in np.flatnonzero(np.isneginf(scores))]
    if len(ends) <= MAX_BORDERS:
        dotted = {"color": TOTAL, "width": thick(1), "dash": "dot"}
        layout["shapes"] += [full_height(edge, edge, line=dotted) for edge in edges[1:-1]]
    values = bar_values([short(key) for key in keys], {"score": known})
    return Chart([bars, steps], layout, values)


BARS = 64  # at most: more are narrower than what they show
LEAST = 1e-4  # the lower end of the axis; a share below it is drawn as a stub
_THIS, _ALL = 1, 0  # rows of the strip above the bars


def distribution_bars(
    histogram: NDArray[np.integer],
    high: float,
    *,
    label: str,
    mean: float,
    quartiles: Sequence[float],
    means: NDArray[np.floating],
    chosen: tuple[int, int],
) -> Chart:
    """Draw shares of queries as bars, on a logarithmic axis so that rare ones are seen. Above them lie the middle half with
    the median and the mean, and the means of all heads.

    histogram  [parts] queries in equal parts from 0 to `high`
    quartiles  lower, median, upper
    means      [layers, heads], NaN where unknown
    chosen     the (layer, head) that the bars are about
    """
    shares, edges = _drawn(histogram, high)
    width = edges[1] - edges[0]
    ranges = [f"{low:.3g} to {low + width:.3g}" for low in edges[:-1]]
    bars = bar(
        (edges[:-1] + edges[1:]) / 2,
        np.where(shares > 0, np.maximum(shares, LEAST * 1.25), np.nan),
        width=width,
        marker={"color": BELOW, "line": {"width": 0}},
        customdata=ranges,
        hovertemplate="%{customdata}: <b>%{y:.3%}</b> of the queries<extra></extra>",
        textposition="none",
    )
    diamond = {"symbol": "diamond", "size": enlarged(10), "color": ABOVE, "opacity": 1}
    middle = scatter([mean], [_THIS], "markers", yaxis="y2", marker=diamond, hoverinfo="skip")
    end = max(edges[-1], float(np.nanmax(means, initial=0.0)))
    drawn = np.where(shares > 0, shares, np.nan)
    queries = bar_values(ranges, {"": drawn}, heading=label, value="share of queries")
    traces, values = [bars, _dots(means, chosen), middle], (*queries, head_values(means, "mean", part="mean"))
    return Chart(traces, _layout(label, end, quartiles), values)


def _dots(means: NDArray[np.floating], chosen: tuple[int, int]) -> Trace:
    """A tick for the mean of each head, a larger one for the chosen head."""
    heads = np.argwhere(np.isfinite(means))
    is_chosen = (heads == chosen).all(axis=1)
    line = {"width": np.where(is_chosen, thick(4), thick(1.5)), "color": np.where(is_chosen, PIN, INK)}
    tick = {"symbol": "line-ns", "size": np.where(is_chosen, enlarged(18), enlarged(12)), "line": line}
    pointing = "head %{customdata[0]}.%{customdata[1]}: mean <b>%{x:.4g}</b><extra></extra>"
    of = {"name": "mean", "customdata": heads.tolist(), "hovertemplate": pointing}
    return scatter(means[tuple(heads.T)], np.full(len(heads), _ALL), "markers", yaxis="y2", marker=tick, **of)


def _layout(label: str, end: float, quartiles: Sequence[float]) -> dict[str, Any]:
    """The bars below, a strip with the box of this head and the means of all heads above."""
    layout = plain_layout(300) | {"showlegend": False, "bargap": 0}
    layout["margin"] |= {"t": 8}
    layout["xaxis"] |= {"title": {"text": label}, "range": [-0.01 * end, end * 1.02 or 1], "nticks": 8}
    layout["yaxis"] |= {
        "title": {"text": "queries"},  # longer words would reach beside the strip
        "type": "log",
        "range": [np.log10(LEAST), 0.1],
        "tickvals": [0.0001, 0.001, 0.01, 0.1, 1],
        "ticktext": ["0.01%", "0.1%", "1%", "10%", "100%"],
        "domain": [0, 0.63],
    }
    layout["yaxis2"] = {
        "domain": [0.66, 1],
        "range": [_ALL - 0.6, _THIS + 0.6],
        "tickvals": [_ALL, _THIS],
        "ticktext": ["all heads", "this head"],
        "automargin": True,
        "tickfont": {"size": letters(13)},
        **PLAIN_AXIS,
    }
    low, median, upper = quartiles
    row = {"type": "rect", "yref": "y2", "y0": _THIS - 0.32, "y1": _THIS + 0.32}
    layout["shapes"] = [
        row | {"x0": low, "x1": upper, "fillcolor": BELOW, "opacity": 0.35, "line": {"width": 0}},
        row | {"x0": median, "x1": median, "line": {"color": BELOW, "width": thick(3)}},
    ]
    return layout


def _drawn(histogram: NDArray[np.integer], high: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return shares and edges of at most 64 parts, up to the last part that holds a query."""
    parts = len(histogram)
    last = int(np.flatnonzero(histogram)[-1]) + 1 if histogram.any() else parts
    step = -(-last // BARS)
    starts = np.arange(0, last, step)
    shares = np.add.reduceat(histogram[:last], starts) / max(int(histogram.sum()), 1)
    return shares, np.append(starts, starts[-1] + step) * high / parts


# --- one weight: the steps from products to the weight, and what it passes on

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
    below = letters(12) * (1.5 + max(map(ems, texts)) * math.sqrt(0.5))
    layout = _of_one_weight(below=below)
    layout["xaxis"] = slanted | {"domain": [0, 0.78], "tickvals": [_PRODUCTS_WIDTH / 2, *later], "ticktext": texts}
    layout["xaxis2"] = slanted | {"domain": [0.88, 1], "anchor": "y2"}
    layout["yaxis2"] = {"anchor": "x2", "range": [0, 1.02], "nticks": 3, "tickfont": {"size": letters(12)}}
    return Chart([steps_of_score, share], layout, _of_steps(cell, steps))


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


def _of_steps(cell: Ledger, steps: list[tuple[str, float, str]]) -> tuple[Values, Values]:
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
    layout = _of_one_weight(above=enlarged(30), below=enlarged(46))
    layout |= {"barmode": "overlay", "showlegend": True, "legend": {"itemclick": False}}
    title = {"text": "dimension", "standoff": 4}
    layout["xaxis"] = {"title": title, "range": [-0.5, size - 0.5], "dtick": max(1, round(size / 8))}
    return Chart(traces, layout, bar_values(numbered(size), groups, heading="dimension"))


def _of_one_weight(*, above: float = 8, below: float) -> dict[str, Any]:
    """Return the layout of both plots. With Plotly's own margins, each takes up to 1.6 times as long: it is drawn twice."""
    left = 8 + (ems("−0.0005") + GAP) * letters(14)
    margin = {"l": left, "r": 8, "t": above, "b": below, "autoexpand": False}
    return {"template": template(), "height": HEIGHT, "margin": margin, "showlegend": False}
