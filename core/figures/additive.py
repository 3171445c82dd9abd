"""A mask as the matrix M that is added to the scores: 0 where a query may attend to a key, −∞ where not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from .heatmap import WIDTH, Axis, heatmap
from .palette import INK
from .theme import letters

MAX_PRINTED = 16  # keys: beyond that the numbers do not fit into their cells


def additive_mask(
    added: NDArray[np.floating], queries: Sequence[str], keys: Sequence[str], *, height: int = 340, width: int = WIDTH
) -> go.Figure:
    """M [queries, keys] of 0 and -inf, each cell in the colour of its meaning and with its number while there is room."""
    forbidden = np.isneginf(added)
    figure = heatmap(
        np.where(forbidden, 0.0, 1.0),
        Axis("query", tokens=queries),
        Axis("key", tokens=keys),
        name="mask",
        scale="permission",
        forbidden=forbidden,
        height=height,
        width=width,
    )
    if max(added.shape) <= MAX_PRINTED:
        rows, columns = np.indices(added.shape)
        figure.add_scatter(
            x=columns.ravel(),
            y=rows.ravel(),
            xaxis="x2",
            yaxis="y2",
            mode="text",
            text=np.where(forbidden, "<b>−∞</b>", "<b>0</b>").ravel(),
            textfont={
                "size": letters(15 if len(keys) <= 9 else 12),
                "color": np.where(forbidden, INK, "white").ravel(),
            },
            showlegend=False,
            hoverinfo="skip",
        )
    return figure
