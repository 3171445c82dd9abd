"""The picture of one stage of a trace."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from core.attention.stages import Stage
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
    query, key = pin
    rows = Axis("query", query_tokens, query) if stage.rows == "query" else Axis("key", key_tokens, key)
    columns = Axis("key", key_tokens, key) if stage.is_pairwise else Axis("dimension")
    # Q, K, V and the scores before the mask exist for every pair; from the mask on a forbidden pair is grey.
    after_mask = stage.name in ("Mask", "Masked", "Softmax")
    hover = {"Softmax": ("masked score", trace.masked)}.get(stage.name)
    if stage.is_pairwise and stage.name in ("Raw scores", "Scaled", "Masked"):
        hover = ("weight", trace.weights)
    return heatmap(
        stage.values(trace).astype(float) if stage.scale == "permission" else stage.values(trace),
        rows,
        columns,
        name={"Softmax": "weight", "Output": "output"}.get(stage.name, stage.name.lower().removesuffix("s")),
        scale=stage.scale,
        limit=limit,
        forbidden=~trace.mask if after_mask else None,
        hover=hover,
        height=height,
        width=width,
        compact=compact,
    )


def colour_limit(stage: Stage, *traces: AttentionTrace) -> float | None:
    """The colour range that suits this stage in all of these traces: the largest finite number, None for permissions."""
    if stage.scale == "permission":
        return None
    largest = max(float(np.abs(_finite(stage.values(trace))).max(initial=0.0)) for trace in traces)
    return largest or None


def _finite(values):
    return values[np.isfinite(values)]
