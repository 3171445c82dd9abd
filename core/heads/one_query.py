"""One query in all heads at once: where each of them looks from there, and how much it gives to one key."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from ..attention.trace import part_of
from ..capturing.calls.rows import Rows, row_blocks
from ..capturing.capture import Capture
from ..capturing.weights_only import WeightRows
from ..errors import check_index
from ..models.modules import Kind
from .quantities import Pass


@torch.inference_mode()
def one_query(capture: Capture, query: int, kind: Kind | None = None) -> NDArray[np.float32]:
    """The weights of one query in every head: [layers, heads, keys]. Raises InputError where there is no such query."""
    _, keys = capture.shape(kind)
    weights = np.zeros((capture.layers(kind), capture.heads(kind), keys), dtype=np.float32)
    for of_layer, rows in zip(weights, _rows_of(capture, query, kind), strict=True):
        of_heads = rows.weights[:, 0].numpy(force=True)
        of_layer[: len(of_heads), : of_heads.shape[1]] = of_heads
    return weights


@torch.inference_mode()
def pair_weights(passed: Pass, query: int, key: int, kind: Kind | None = None) -> NDArray[np.float32]:
    """The weight of one pair of tokens in every head: [layers, heads], how much the query gives to the key.

    passed  from `capture` or `attention_weights`

    NaN where the query may not attend to the key; 0 there if the model exposes only its weights, because its mask is unknown.
    Only the row of this query is computed. Raises InputError (field "query" or "key") where there is no such token.
    """
    check_index(key, passed.shape(kind)[1], "key")
    weights = np.full((passed.layers(kind), passed.heads(kind)), np.nan, dtype=np.float32)
    for of_layer, rows in zip(weights, _rows_of(passed, query, kind), strict=True):
        if key < rows.allowed.shape[2]:  # a row ends with the last key that any head may attend to
            of_heads = torch.where(rows.allowed[:, 0, key], rows.weights[:, 0, key], torch.nan)
            of_layer[: len(of_heads)] = of_heads.numpy(force=True)
    return weights


def _rows_of(passed: Pass, query: int, kind: Kind | None) -> Iterator[Rows | WeightRows]:
    """The row of one query in all heads, layer by layer."""
    rows = range(query, query + 1)
    part_of(rows, passed.shape(kind)[0], "query")
    if isinstance(passed, Capture):
        for call in passed.each_layer(kind):
            yield from row_blocks(call, rows=rows)
        return
    for blocks in passed.in_rows(kind):
        block = next(block for block in blocks if query < block.stop)
        yield WeightRows(query, block.weights[:, query - block.start, None])
