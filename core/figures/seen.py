"""The picture of a view: the whole text made small, or a window of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from core.figures.heatmap import Axis, pooled_heatmap
from core.figures.palette import PIN
from core.figures.pooling import Pooled


def seen_figure(
    values: NDArray[np.floating],
    allowed: NDArray[np.bool_],
    removed: NDArray[np.floating] | None,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    row_block: int,
    column_block: int,
    name: str,
    signed: bool,
    pin: tuple[int, int] | None,
    marked: Sequence[int] = (),
    start: tuple[int, int] = (0, 0),
    height: int,
) -> go.Figure:
    """Values [rows, columns] of a view of these tokens, one cell for `row_block` by `column_block` of them.

    removed  [queries] the share of each query that is left out, its mean over a row is shown when pointing at that; None:
             nothing is left out
    pin      the (query, key) that is framed; None: it lies outside
    marked   further queries whose rows are framed
    start    positions of the first query and the first key in the whole text
    """
    shape = (len(query_tokens), len(key_tokens))
    notes = None
    if removed is not None:
        parts = [removed[at : at + row_block] for at in range(0, len(removed), row_block)]
        notes = [f"<br>left out {part.mean():.1%}" for part in parts]
    query, key = (None, None) if pin is None else pin
    drawn = Pooled(
        values.astype(np.float32),
        np.arange(0, shape[0], row_block) + (row_block - 1) / 2,
        np.arange(0, shape[1], column_block) + (column_block - 1) / 2,
        row_block,
        column_block,
    )
    figure = pooled_heatmap(
        drawn,
        allowed,
        shape,
        Axis("query", query_tokens, query, notes, start[0]),
        Axis("key", key_tokens, key, start=start[1]),
        name=name,
        scale="signed" if signed else "share",
        height=height,
    )
    for row in marked:
        frame = {"y0": row - 0.5, "y1": row + 0.5, "x0": -0.5, "x1": shape[1] - 0.5}
        figure.add_shape(type="rect", line={"color": PIN, "width": 1, "dash": "dot"}, **frame)
    return figure
