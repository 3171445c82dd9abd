"""Lines over a heatmap, between its parts."""

from __future__ import annotations

from collections.abc import Sequence

from ..chart import Chart
from ..palette import INK, ON_ANY_CELL
from ..theme import enlarged, letters, thick
from .frames import cells_of, over_cells


def with_borders(
    chart: Chart, *, columns: Sequence[int] = (), rows: Sequence[int] = (), names: Sequence[str] = ()
) -> Chart:
    """Draw a frame around the heatmap and lines before these columns and rows, and write the names of the parts above.

    names  one for each part, so one more than there are columns, or none
    """
    layout = chart.layout
    shapes, whole = layout["shapes"], cells_of(layout)
    # In the axes' own numbers: axes that nothing is drawn on, not even a frame, do not show their labels.
    shapes.append(over_cells(*whole, line={"color": INK, "width": thick(1)}))
    for casing in ON_ANY_CELL:
        line = casing | {"width": thick(casing["width"])}
        shapes += [over_cells(whole[0], range(column, column), type="line", line=line) for column in columns]
        shapes += [over_cells(range(row, row), whole[1], type="line", line=line) for row in rows]
    ends = [0, *columns, len(whole[1])]
    above = {"y": 1, "xref": "x", "yref": "y domain", "yanchor": "bottom", "font": {"size": letters(12)}}
    if names:
        layout["annotations"] = [
            above | {"text": name, "x": (start + end - 1) / 2}
            for name, start, end in zip(names, ends, ends[1:], strict=False)
        ]
        layout["margin"]["t"] = max(enlarged(26, 12), layout["margin"]["t"])
    return chart
