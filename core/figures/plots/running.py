"""One query's scores in blocks of keys, and the largest score so far."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..chart import Chart, scatter
from ..labels import MAX_LABELS, axis_labels, short, thinned
from ..palette import ABOVE, BELOW, FORBIDDEN, TOTAL
from ..theme import letters, plain_layout, thick
from ..values import bar_values
from .bars import bar_trace, full_height

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
    bars = bar_trace(keys, known, "score", colours, hover=".5g", names_group=False)
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
