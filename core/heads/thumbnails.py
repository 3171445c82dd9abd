"""A small picture of every head's weights, made without ever holding the weights of all heads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from core.capturing.capture import Capture
from core.capturing.rows import row_blocks
from core.models.calls import Call
from core.models.modules import Kind

SIDE = 24  # cells of a small picture, per side


@dataclass(frozen=True, eq=False)
class Thumbnails:
    """weights  [layers, heads, rows, columns] float32: of each block of cells the largest weight, NaN where all are masked
    row_block, column_block  how many queries and keys a cell stands for
    """

    weights: NDArray[np.float32]
    row_block: int
    column_block: int


def thumbnails(
    capture: Capture, kind: Kind | None = None, *, side: int = SIDE, on_progress: Callable[[int], None] | None = None
) -> Thumbnails:
    """Every head of a capture in at most `side` by `side` cells.

    on_progress: called after every layer with how many are done; what it raises stops the work.
    """
    kind = capture.kinds[0] if kind is None else kind
    queries, keys = (len(tokens) for tokens in capture.tokens(kind))
    row_block, column_block = -(-queries // side), -(-keys // side)
    layers = []
    for layer, call in enumerate(capture.calls[kind]):
        rows = [
            _strongest(call, range(start, min(start + row_block, queries)), column_block)
            for start in range(0, queries, row_block)
        ]
        layers.append(torch.stack(rows, dim=1))
        if on_progress is not None:
            on_progress(layer + 1)
    return Thumbnails(torch.stack(layers).float().numpy(force=True), row_block, column_block)


def _strongest(call: Call, queries: range, column_block: int) -> torch.Tensor:
    """The largest weight of these queries in each block of keys: [heads, columns]."""
    heads, keys = call.query.shape[1], call.key.shape[2]
    columns = -(-keys // column_block)
    strongest = torch.full((heads, columns * column_block), -1.0, dtype=torch.float64)
    for rows in row_blocks(call, rows=queries):
        highest = rows.weights.masked_fill(~rows.allowed, -1).amax(dim=1)
        part = strongest[:, : highest.shape[1]]
        torch.maximum(part, highest.double(), out=part)
    pooled = strongest.reshape(heads, columns, column_block).amax(dim=2)
    return pooled.masked_fill(pooled < 0, torch.nan)
