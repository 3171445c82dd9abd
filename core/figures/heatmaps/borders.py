"""Lines over a heatmap, between its parts."""

from __future__ import annotations

from collections.abc import Sequence

from ..chart import Chart
from ..palette import INK, ON_ANY_CELL
from ..theme import enlarged, letters, thick


def with_borders(
    chart: Chart, *, columns: Sequence[int] = (), rows: Sequence[int] = (), names: Sequence[str] = ()
) -> Chart:
    """Draw a frame around the heatmap and lines before these columns and rows, and write the names of the parts above.

    names  one for each part, so one more than there are columns, or none
    """
    figure = chart.figure
    layout = figure.to_plotly_json()["layout"]
    right, bottom = layout["xaxis"]["range"][1], layout["yaxis"]["range"][0]
    # In the axes' own numbers: axes that nothing is drawn on, not even a frame, do not show their labels.
    figure.add_shape(type="rect", x0=-0.5, x1=right, y0=-0.5, y1=bottom, line={"color": INK, "width": thick(1)})
    for casing in ON_ANY_CELL:
        line = casing | {"width": thick(casing["width"])}
        for column in columns:
            figure.add_shape(type="line", x0=column - 0.5, x1=column - 0.5, y0=-0.5, y1=bottom, line=line)
        for row in rows:
            figure.add_shape(type="line", x0=-0.5, x1=right, y0=row - 0.5, y1=row - 0.5, line=line)
    ends = [0, *columns, round(right + 0.5)]
    for name, start, end in zip(names, ends, ends[1:], strict=False):
        figure.add_annotation(
            text=name,
            x=(start + end - 1) / 2,
            y=1,
            xref="x",
            yref="y domain",
            yanchor="bottom",
            font={"size": letters(12)},
        )
    if names:
        figure.update_layout(margin_t=max(enlarged(26, 12), layout["margin"]["t"]))
    return chart
