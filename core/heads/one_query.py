"""One query in all heads at once: where each of them looks from there."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from ..attention.trace import part_of
from ..capturing.capture import Capture
from ..capturing.rows import row_blocks
from ..models.modules import Kind


def one_query(capture: Capture, query: int, kind: Kind | None = None) -> NDArray[np.float32]:
    """The weights of one query in every head: [layers, heads, keys]. Raises InputError where there is no such query."""
    (queries, keys), rows = capture.shape(kind), range(query, query + 1)
    part_of(rows, queries, "query")
    weights = np.zeros((capture.layers(kind), capture.heads(kind), keys), dtype=np.float32)
    with torch.inference_mode():
        for of_layer, call in zip(weights, capture.each_layer(kind), strict=True):
            (block,) = row_blocks(call, rows=rows)
            of_heads = block.weights[:, 0].numpy(force=True)
            of_layer[: len(of_heads), : of_heads.shape[1]] = of_heads
    return weights
