"""A small picture of every head's weights, made without ever holding the weights of all heads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ..attention.pooling import Entries, Pooled
from ..attention.rowwise import Band, sweep
from ..capturing.calls.rows import Rows
from ..capturing.weights_only import WeightRows
from ..models.modules import Kind
from ..progress import OnProgress
from ..threads import side_by_side
from .quantities import Pass

SIDE = 24  # cells of a small picture, per side


def thumbnails(
    passed: Pass, kind: Kind | None = None, *, side: int = SIDE, on_progress: OnProgress | None = None
) -> Pooled:
    """The weights of every head of a pass in at most `side` by `side` cells: values [layers, heads, rows, columns] float32."""
    shape = passed.shape(kind)

    def small(blocks: Iterable[Rows | WeightRows]) -> Pooled:
        return sweep(map(_band, blocks), shape, side)[0]["weights"].pooled()

    layers = side_by_side(small, passed.in_rows(kind), on_progress)
    return replace(
        layers[0],
        values=np.stack([layer.values for layer in layers]).astype(np.float32),
        allowed=np.stack([layer.allowed for layer in layers]),
    )


def _band(rows: Rows | WeightRows) -> Band:
    return Band(rows.start, {"weights": Entries(rows.weights.numpy(force=True), rows.allowed.numpy(force=True))})
