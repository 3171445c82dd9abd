"""A picture cut into patches, and how much one of them attends to each."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from PIL import Image

from core.figures.palette import INK, PIN, SEQUENTIAL


def on_picture(
    image: NDArray[np.uint8], weights: NDArray[np.floating], query: tuple[int, int] | None, *, height: int
) -> go.Figure:
    """The weights [rows, columns] of one query over the patches of an image [height, width, 3].

    query: the patch that looks, framed; None: a token that is no patch
    """
    rows, columns = weights.shape
    figure = go.Figure(
        go.Heatmap(
            z=weights.astype(np.float32),
            xaxis="x2",
            yaxis="y2",
            zmin=0,
            colorscale=SEQUENTIAL,
            opacity=0.62,
            colorbar={"thickness": 12, "outlinewidth": 0, "ticks": "", "tickfont": {"size": 13, "color": INK}},
            hovertemplate="patch row <b>%{y}</b>, column <b>%{x}</b><br>weight <b>%{z:.6g}</b><extra></extra>",
        )
    )
    hidden = {"showgrid": False, "zeroline": False, "showticklabels": False, "ticks": ""}
    figure.update_layout(
        template="none",
        height=height,
        margin={"l": 8, "r": 66, "t": 8, "b": 8, "autoexpand": False},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": INK, "size": 14},
        dragmode=False,
        xaxis=hidden | {"range": [-0.5, columns - 0.5], "constrain": "domain"},
        yaxis=hidden | {"range": [rows - 0.5, -0.5], "scaleanchor": "x", "scaleratio": rows / columns},
        xaxis2=hidden | {"overlaying": "x", "matches": "x", "tickvals": list(range(columns))},
        yaxis2=hidden | {"overlaying": "y", "matches": "y", "tickvals": list(range(rows))},
        images=[
            {
                "source": Image.fromarray(image),
                "xref": "x",
                "yref": "y",
                "x": -0.5,
                "y": -0.5,
                "sizex": columns,
                "sizey": rows,
                "sizing": "stretch",
                "layer": "below",
            }
        ],
        meta={"rows": "patch_row", "columns": "patch_column", "row_block": 1, "column_block": 1},
    )
    if query is not None:
        row, column = query
        figure.add_shape(
            type="rect",
            x0=column - 0.5,
            x1=column + 0.5,
            y0=row - 0.5,
            y1=row + 0.5,
            line={"color": PIN, "width": 3},
        )
    return figure
