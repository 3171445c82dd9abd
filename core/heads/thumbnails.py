"""A small picture of every head's weights, made without ever holding the weights of all heads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from ..attention.pooling import Pooled, Pooling
from ..capturing.rows import Rows
from ..capturing.weights_only import GivenRows
from ..models.modules import Kind
from .quantities import Taken

SIDE = 24  # cells of a small picture, per side


def thumbnails(
    taken: Taken, kind: Kind | None = None, *, side: int = SIDE, on_progress: Callable[[int], None] | None = None
) -> Pooled:
    """The weights of every head of a pass in at most `side` by `side` cells: values [layers, heads, rows, columns] float32.

    on_progress: called after every layer with how many are done; what it raises stops the work.
    """
    shape = taken.shape(kind)
    layers = [_pooled(blocks, shape, side) for blocks in taken.in_rows(kind, on_progress)]
    return replace(
        layers[0],
        values=np.stack([layer.values for layer in layers]).astype(np.float32),
        allowed=np.stack([layer.allowed for layer in layers]),
    )


def _pooled(blocks: Iterable[Rows | GivenRows], shape: tuple[int, int], side: int) -> Pooled:
    pooling = Pooling(shape, side)
    for rows in blocks:
        allowed = rows.allowed.numpy(force=True)
        pooling.add(rows.start, rows.weights.numpy(force=True), allowed, allowed)
    return pooling.pooled()
