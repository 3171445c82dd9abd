"""Lines over a heatmap where one part of it ends and the next begins."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from core.figures.palette import INK


def with_borders(
    figure: go.Figure,
    *,
    columns: Sequence[int] = (),
    rows: Sequence[int] = (),
    names: Sequence[str] = (),
    colour: str = "#1d2430",
) -> go.Figure:
    """The figure in a frame, with lines before these columns and rows, and the parts between them named above.

    A part's name stands in its middle: there is one name more than there are columns, or none.
    """
    line = {"color": colour, "width": 2}
    figure.add_shape(type="rect", x0=0, x1=1, y0=0, y1=1, xref="x domain", yref="y domain", line=line | {"width": 1})
    for column in columns:
        figure.add_shape(
            type="line", x0=column - 0.5, x1=column - 0.5, y0=0, y1=1, xref="x", yref="y domain", line=line
        )
    for row in rows:
        figure.add_shape(type="line", x0=0, x1=1, y0=row - 0.5, y1=row - 0.5, xref="x domain", yref="y", line=line)
    ends = [0, *columns, round(figure.layout.xaxis.range[1] + 0.5)]
    for name, start, end in zip(names, ends, ends[1:], strict=False):
        figure.add_annotation(
            text=name,
            x=(start + end - 1) / 2,
            y=1,
            xref="x",
            yref="y domain",
            yanchor="bottom",
            showarrow=False,
            font={"size": 12, "color": INK},
        )
    if names:
        figure.update_layout(margin_t=max(26, figure.layout.margin.t))
    return figure
