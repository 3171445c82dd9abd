"""The pictures of the pages as Plotly figures, for a notebook or a paper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from ..attention.head import Head
from ..attention.stages import BY_KEY
from ..attention.trace import AttentionTrace
from ..errors import InputError
from ..figures.heatmaps import views

Tokens = tuple[Sequence[str], Sequence[str]]
LEGIBLE = 30  # pixels of a row of heads


def stage_figure(
    trace: AttentionTrace | Head,
    stage: str = "weights",
    *,
    tokens: Tokens | None = None,
    cell: tuple[int, int] | None = None,
) -> go.Figure:
    """One stage of a head as a heatmap, as the page "Step by step" draws it.

    trace   a trace, or a `Head` from `capture.head(layer, head)`, which needs less memory for a long text
    stage   "query", "key", "value", "raw", "scaled", "mask", "masked", "weights" or "output"
    tokens  (query tokens, key tokens), from `capture.tokens(kind)`; None: positions
    cell    the (query, key) to frame; None: the strongest pair, with which the page opens

    Beyond 256 queries or keys each drawn cell is the strongest of several. Raises InputError for an unknown stage, a cell
    outside the stage, and tokens that do not fit.
    """
    if stage not in BY_KEY:
        raise InputError(f"There is no stage {stage!r}. Choose one of: {', '.join(BY_KEY)}.", field="stage")
    head = trace if isinstance(trace, Head) else Head.of(trace)
    query_tokens, key_tokens = tokens or (None, None)
    for name, given, count in zip(("query", "key"), (query_tokens, key_tokens), head.shape, strict=True):
        if given is not None and len(given) != count:
            why = f"There are {len(given)} {name} tokens for {count}; give (query tokens, key tokens), one for each."
            raise InputError(why, field="tokens")
    overview = head.overview()
    if cell is None:
        cell = head.strongest(overview)
    else:
        head.explain(*cell)  # raises where there is no such cell
    return views.stage_heatmap(BY_KEY[stage], overview.matrices, query_tokens, key_tokens, pin=cell).figure


def heads_figure(values: pd.DataFrame | ArrayLike, name: str, *, head: tuple[int, int] | None = None) -> go.Figure:
    """One number of every head as a grid of layers and heads, as the page "Heads" draws it.

    values  a table with the columns layer, head and `name`, such as from `head_metrics` and `head_effects`; or [layers, heads],
            such as from `match_heads`
    name    the column, and the name of the number
    head    (layer, head) to frame; None: the head whose number is farthest from 0

    With numbers below 0 the scale has two colours that meet at 0. Raises InputError for a column that does not exist.
    """
    if isinstance(values, pd.DataFrame):
        if missing := [column for column in ("layer", "head", name) if column not in values]:
            there = ", ".join(map(str, values.columns))
            raise InputError(f"The table has no column {missing[0]!r}, only: {there}.", field="name")
        values = values.pivot(index="layer", columns="head", values=name)
    grid = np.asarray(values, dtype=np.float64)
    if head is None:
        layer, number = np.unravel_index(np.nan_to_num(np.abs(grid)).argmax(), grid.shape)
        head = int(layer), int(number)
    signed = bool((np.nan_to_num(grid) < 0).any())
    height = max(400, min(LEGIBLE * len(grid), 900))
    return views.metric_grid(grid, name, signed=signed, chosen=head, height=height).figure
