"""Two heads and their difference as three heatmaps, on the same axes and in the same colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...attention.rowwise import Pooled
from ..chart import Chart
from ..palette import largest
from .heatmap import Axis, pooled_heatmap

Part = Literal["first", "second", "difference"]


@dataclass(frozen=True)
class ComparedAxis:
    """One side of all three heatmaps."""

    tokens: Mapping[Part, Sequence[str]]  # a text for each place of the common axis, or of its drawn window
    gaps: Mapping[Part, list[int]]  # the places that its text lacks; for the difference those that either text lacks
    pinned: int | None  # the marked place
    start: int = 0  # number of the first place


def compared_heatmaps(
    pictures: dict[Part, Pooled],
    queries: ComparedAxis,
    keys: ComparedAxis,
    *,
    divergence: NDArray[np.floating],
    limits: tuple[float, float],
    height: int,
    width: int,
) -> dict[Part, Chart]:
    """Draw the three heatmaps: both weights in one colour range from 0 up, the difference in colours around 0.

    divergence  [rows] shown when pointing at a row; of rows that are drawn as one, the largest
    limits      the weight and the difference with the strongest colour
    height, width  of one of them in pixels, the width as in `heatmap`
    """
    notes = _notes(divergence, pictures["difference"].row_block)
    charts: dict[Part, Chart] = {}
    for part, cells in pictures.items():
        signed = part == "difference"
        charts[part] = pooled_heatmap(
            replace(cells, values=cells.values.astype(np.float32)),
            Axis("query", queries.tokens[part], queries.pinned, notes, queries.start, queries.gaps[part]),
            Axis("key", keys.tokens[part], keys.pinned, start=keys.start, gaps=keys.gaps[part]),
            name="difference" if signed else "weight",
            scale="signed" if signed else "share",
            limit=limits[signed],
            gap_name="in one text only" if signed else "not in this text",
            height=height,
            width=width,
            printed=0,
        )
    # Legends differ in height, and labels in length: cells should not.
    margins = [chart.layout["margin"] for chart in charts.values()]
    widest = {side: max(margin[side] for margin in margins) for side in ("l", "t", "b")}
    for margin in margins:
        margin |= widest
    return charts


def strongest_colours(pictures: dict[Part, Pooled]) -> tuple[float, float]:
    """Return the `limits` of these pictures: the largest weight and the largest difference; 1 where all are 0."""
    weights = np.concatenate([pictures["first"].values.ravel(), pictures["second"].values.ravel()])
    return largest(weights), largest(pictures["difference"].values)


def _notes(divergence: NDArray[np.floating], block: int) -> list[str]:
    parts = np.split(divergence, range(block, len(divergence), block))
    return [
        "" if np.isnan(part).all() else f"<br>divergence {np.nanmax(part):.3f} nats{' at most' if block > 1 else ''}"
        for part in parts
    ]
