"""Heatmaps of heads: a stage, a mask as the matrix M, a view of a text or of a window, and two heads with their difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...attention.rowwise import Pooled
from ...attention.stages import BY_KEY, Stage
from ..chart import Chart
from ..palette import ALLOWED, PIN, largest, text_on
from ..theme import letters, thick
from .frames import over_cells
from .heatmap import Axis, heatmap, printed_in


def stage_heatmap(
    stage: Stage,
    stages: Mapping[str, Pooled],
    query_tokens: Sequence[str] | None,
    key_tokens: Sequence[str] | None,
    *,
    pin: tuple[int, int] | None,
    **look: Any,
) -> Chart:
    """Draw one stage as a heatmap with the pinned (query, key) marked; `look` is that of `heatmap`.

    stages  each stage by its key, pooled or a window of it
    query_tokens, key_tokens  those of the whole; None: numbers
    """
    query, key = pin or (None, None)
    queries, keys, beside = Axis("query", query_tokens, query), Axis("key", key_tokens, key), stage.beside
    return heatmap(
        stages[stage.key],
        queries if stage.rows == "query" else keys,
        keys if stage.columns == "key" else Axis("dimension"),
        name=stage.noun,
        scale=stage.scale,
        hover=None if beside is None else (BY_KEY[beside].noun, stages[beside].values),
        **look,
    )


def colour_limit(stage: Stage, *drawn: Pooled) -> float | None:
    """Return the colour range that suits all of these pictures of a stage: the largest number, None for permissions."""
    if stage.scale == "permission":
        return None
    return largest(np.concatenate([pooled.values.ravel() for pooled in drawn]))


MAX_PRINTED = 12  # keys: beyond that the numbers do not fit into their cells


def additive_mask(added: NDArray[np.floating], queries: Sequence[str], keys: Sequence[str], **look: Any) -> Chart:
    """Draw M [queries, keys] of 0 and -inf: each cell in the colour of its meaning, with its number where that fits; `look` is
    that of `heatmap`."""
    forbidden = np.isneginf(added)
    chart = heatmap(
        np.where(forbidden, 0.0, 1.0),
        Axis("query", queries),
        Axis("key", keys),
        name="mask",
        scale="permission",
        forbidden=forbidden,
        **look,
    )
    if max(added.shape) <= MAX_PRINTED:
        size = letters(15 if len(keys) <= 9 else 12)
        for text, cells, colour in (("−∞", forbidden, None), ("0", ~forbidden, text_on([ALLOWED])[0])):
            texts = [f"<b>{text}</b>"] * int(cells.sum())
            chart.traces.append(printed_in(cells, texts, {"size": size, "color": colour}))
    return chart


def view_heatmap(
    cells: Pooled,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    removed: NDArray[np.floating] | None,
    name: str,
    signed: bool,
    pin: tuple[int, int],
    marked: Sequence[int] = (),
    **look: Any,
) -> Chart:
    """Draw a view, or a part of it; `look` is that of `heatmap`.

    query_tokens, key_tokens  those of the whole
    removed  [queries] share of each query that is left out; pointing at a row shows its mean. None: nothing is left out
    pin      the framed (query, key)
    marked   further queries whose rows are framed
    """
    notes = None
    if removed is not None:
        blocks = np.split(removed, range(cells.row_block, len(removed), cells.row_block))
        notes = [f"<br>left out {block.mean():.1%}" for block in blocks]
    chart = heatmap(
        replace(cells, values=cells.values.astype(np.float32)),
        Axis("query", query_tokens, pin[0], notes),
        Axis("key", key_tokens, pin[1]),
        name=name,
        scale="signed" if signed else "share",
        **look,
    )
    dotted = {"color": PIN, "width": thick(1), "dash": "dot"}
    whole = range(cells.shape[1])
    rows = [query - cells.start[0] for query in marked]
    chart.layout["shapes"] += [
        over_cells(range(row, row + 1), whole, line=dotted) for row in rows if row in range(cells.shape[0])
    ]
    return chart


PARTS = ("first", "second", "difference")


def compared_heatmaps(
    pictures: Mapping[str, Pooled],
    queries: Mapping[str, Axis],
    keys: Mapping[str, Axis],
    *,
    divergence: NDArray[np.floating],
    limits: tuple[float, float],
    **look: Any,
) -> dict[str, Chart]:
    """Draw the three heatmaps: both weights in one colour range from 0 up, the difference in colours around 0.

    pictures    by `PARTS`; queries and keys: the common axes of the whole, with the tokens and the gaps of each picture
    divergence  [rows] shown when pointing at a row; of rows that are drawn as one, the largest
    limits      the weight and the difference with the strongest colour
    look        that of `heatmap`, for each of them
    """
    notes = _notes(divergence, pictures["difference"].row_block)
    charts: dict[str, Chart] = {}
    for part in PARTS:
        cells, signed = pictures[part], part == "difference"
        charts[part] = heatmap(
            replace(cells, values=cells.values.astype(np.float32)),
            replace(queries[part], notes=notes),
            keys[part],
            name="difference" if signed else "weight",
            scale="signed" if signed else "share",
            limit=limits[signed],
            gap_name="in one text only" if signed else "not in this text",
            printed=0,
            **look,
        )
    # Legends differ in height, and labels in length: cells should not.
    margins = [chart.layout["margin"] for chart in charts.values()]
    widest = {side: max(margin[side] for margin in margins) for side in ("l", "t", "b")}
    for margin in margins:
        margin |= widest
    return charts


def strongest_colours(pictures: Mapping[str, Pooled]) -> tuple[float, float]:
    """Return the `limits` of these pictures: the largest weight and the largest difference; 1 where all are 0."""
    weights = np.concatenate([pictures["first"].values.ravel(), pictures["second"].values.ravel()])
    return largest(weights), largest(pictures["difference"].values)


def _notes(divergence: NDArray[np.floating], block: int) -> list[str]:
    parts = np.split(divergence, range(block, len(divergence), block))
    return [
        "" if np.isnan(part).all() else f"<br>divergence {np.nanmax(part):.3f} nats{' at most' if block > 1 else ''}"
        for part in parts
    ]
