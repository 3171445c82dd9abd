"""A heatmap of one stage of a head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...attention.rowwise import Pooled
from ...attention.stages import BY_KEY, Stage
from ..chart import Chart
from ..palette import largest
from .heatmap import WIDTH, Axis, pooled_heatmap


def stage_heatmap(
    stage: Stage,
    stages: Mapping[str, Pooled],
    query_tokens: Sequence[str] | None,
    key_tokens: Sequence[str] | None,
    *,
    pin: tuple[int, int] | None,
    limit: float | None = None,
    height: int = 420,
    width: int = WIDTH,
) -> Chart:
    """Draw one stage as a heatmap with the pinned (query, key) marked.

    stages  each stage by its key, pooled or a window of it
    query_tokens, key_tokens, pin: those of the window, counted from its first; None: numbers
    limit   fixes the colour range (see `colour_limit`)
    """
    drawn = stages[stage.key]
    start_row, start_column = drawn.start
    query, key = pin or (None, None)
    queries = Axis("query", query_tokens, query, start=start_row)
    keys = Axis("key", key_tokens, key, start=start_row if stage.rows == "key" else start_column)
    beside = stage.beside
    return pooled_heatmap(
        drawn,
        queries if stage.rows == "query" else keys,
        keys if stage.columns == "key" else Axis("dimension"),
        name=stage.noun,
        scale=stage.scale,
        limit=limit,
        hover=None if beside is None else (BY_KEY[beside].noun, stages[beside].values),
        height=height,
        width=width,
    )


def colour_limit(stage: Stage, *drawn: Pooled) -> float | None:
    """Return the colour range that suits all of these pictures of a stage: the largest number, None for permissions."""
    if stage.scale == "permission":
        return None
    return largest(np.concatenate([pooled.values.ravel() for pooled in drawn]))
