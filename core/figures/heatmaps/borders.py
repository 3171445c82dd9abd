"""Lines over a heatmap, between its parts."""

from __future__ import annotations

from collections.abc import Sequence

from ..chart import Chart
from ..palette import INK, ON_ANY_CELL
from ..theme import enlarged, letters, thick
from .frames import over_cells


def with_borders(
    chart: Chart, *, columns: Sequence[int] = (), rows: Sequence[int] = (), names: Sequence[str] = ()
) -> Chart:
    """Draw a frame around the heatmap and lines before these columns and rows, and write the names of the parts above.

    names  one for each part, so one more than there are columns, or none
    """
    figure = chart.figure
    layout = figure.to_plotly_json()["layout"]
    whole = range(round(layout["yaxis"]["range"][0] + 0.5)), range(round(layout["xaxis"]["range"][1] + 0.5))
    # In the axes' own numbers: axes that nothing is drawn on, not even a frame, do not show their labels.
    figure.add_shape(over_cells(*whole, line={"color": INK, "width": thick(1)}))
    for casing in ON_ANY_CELL:
        line = casing | {"width": thick(casing["width"])}
        for column in columns:
            figure.add_shape(over_cells(whole[0], range(column, column), type="line", line=line))
        for row in rows:
            figure.add_shape(over_cells(range(row, row), whole[1], type="line", line=line))
    ends = [0, *columns, len(whole[1])]
    above = {"y": 1, "xref": "x", "yref": "y domain", "yanchor": "bottom", "font": {"size": letters(12)}}
    for name, start, end in zip(names, ends, ends[1:], strict=False):
        figure.add_annotation(above, text=name, x=(start + end - 1) / 2)
    if names:
        figure.update_layout(margin_t=max(enlarged(26, 12), layout["margin"]["t"]))
    return chart
