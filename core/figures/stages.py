"""The picture of one stage of a trace."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from core.attention.stages import BY_KEY, Stage
from core.attention.trace import AttentionTrace
from core.figures.heatmap import WIDTH, Axis, heatmap


def stage_figure(
    stage: Stage,
    trace: AttentionTrace,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    pin: tuple[int, int],
    limit: float | None = None,
    height: int = 420,
    width: int = WIDTH,
    compact: bool = False,
) -> go.Figure:
    """One stage as a heatmap with the pinned (query, key) marked. `limit` fixes the colour range (see
    `colour_limit`)."""
    queries = Axis("query", tokens=query_tokens, pinned=pin[0])
    keys = Axis("key", tokens=key_tokens, pinned=pin[1])
    values = stage.values(trace)
    beside = None if stage.beside is None else BY_KEY[stage.beside]
    return heatmap(
        values.astype(float) if stage.scale == "permission" else values,
        queries if stage.rows == "query" else keys,
        keys if stage.columns == "key" else Axis("dimension"),
        name=stage.noun,
        scale=stage.scale,
        limit=limit,
        forbidden=~trace.mask if stage.after_mask else None,
        hover=None if beside is None else (beside.noun, beside.values(trace)),
        height=height,
        width=width,
        compact=compact,
    )


def colour_limit(stage: Stage, *traces: AttentionTrace) -> float | None:
    """The colour range that suits this stage in all of these traces: the largest finite number, None for permissions."""
    if stage.scale == "permission":
        return None
    numbers = np.concatenate([stage.values(trace).ravel() for trace in traces])
    return float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0)) or None
