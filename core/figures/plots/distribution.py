"""The distribution of a number over many queries, and its mean among the means of all heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..chart import Chart, Trace, bar, scatter
from ..palette import ABOVE, BELOW, INK, PIN
from ..theme import PLAIN_AXIS, enlarged, letters, plain_layout, thick
from ..values import bar_values, head_values

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
        "title": {"text": "share of queries"},
        "type": "log",
        "range": [np.log10(LEAST), 0.1],
        "tickvals": [0.0001, 0.001, 0.01, 0.1, 1],
        "ticktext": ["0.01%", "0.1%", "1%", "10%", "100%"],
        "domain": [0, 0.7],
    }
    layout["yaxis2"] = {
        "domain": [0.75, 1],
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
