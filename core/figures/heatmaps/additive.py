"""A mask as the matrix M that is added to the scores: 0 where a query may attend to a key, −∞ where not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..chart import Chart
from ..palette import ALLOWED, text_on
from ..theme import letters
from .heatmap import WIDTH, Axis, heatmap, printed_in

MAX_PRINTED = 12  # keys: beyond that the numbers do not fit into their cells


def additive_mask(
    added: NDArray[np.floating], queries: Sequence[str], keys: Sequence[str], *, height: int = 340, width: int = WIDTH
) -> Chart:
    """Draw M [queries, keys] of 0 and -inf: each cell in the colour of its meaning, with its number where that fits."""
    forbidden = np.isneginf(added)
    chart = heatmap(
        np.where(forbidden, 0.0, 1.0),
        Axis("query", queries),
        Axis("key", keys),
        name="mask",
        scale="permission",
        forbidden=forbidden,
        height=height,
        width=width,
    )
    if max(added.shape) <= MAX_PRINTED:
        size = letters(15 if len(keys) <= 9 else 12)
        for text, cells, colour in (("−∞", forbidden, None), ("0", ~forbidden, text_on([ALLOWED])[0])):
            texts = [f"<b>{text}</b>"] * int(cells.sum())
            chart.traces.append(printed_in(cells, texts, {"size": size, "color": colour}))
    return chart
