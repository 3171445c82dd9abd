"""A heatmap of a view of a head: of the whole text, pooled, or of a window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...attention.rowwise import Pooled
from ..chart import Chart
from ..palette import PIN
from ..theme import thick
from .frames import over_cells
from .heatmap import WIDTH, Axis, pooled_heatmap


def view_heatmap(
    cells: Pooled,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    removed: NDArray[np.floating] | None,
    name: str,
    signed: bool,
    pin: tuple[int, int] | None,
    marked: Sequence[int] = (),
    height: int,
    width: int = WIDTH,
) -> Chart:
    """Draw a view of these tokens, which are those of the cells.

    removed  [queries] share of each query that is left out; pointing at a row shows its mean. None: nothing is left out
    pin      the framed (query, key), counted from the first of these tokens; None: it lies outside
    marked   further queries whose rows are framed
    """
    notes = None
    if removed is not None:
        blocks = np.split(removed, range(cells.row_block, len(removed), cells.row_block))
        notes = [f"<br>left out {block.mean():.1%}" for block in blocks]
    query, key = pin or (None, None)
    chart = pooled_heatmap(
        replace(cells, values=cells.values.astype(np.float32)),
        Axis("query", query_tokens, query, notes, cells.start[0]),
        Axis("key", key_tokens, key, start=cells.start[1]),
        name=name,
        scale="signed" if signed else "share",
        height=height,
        width=width,
    )
    dotted = {"color": PIN, "width": thick(1), "dash": "dot"}
    whole = range(cells.shape[1])
    chart.layout["shapes"] += [over_cells(range(row, row + 1), whole, line=dotted) for row in marked]
    return chart
