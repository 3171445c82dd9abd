"""How one weight came about: every number between a query, a key and what the key's value adds to the output."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.attention.trace import Array, AttentionTrace
from core.errors import InputError


@dataclass(frozen=True, eq=False)
class Ledger:
    """One cell of a trace, recomputed from its inputs in float64.

    products      [d_k]: query × key, dimension by dimension; their sum is `raw`
    raw           q · k
    scaled        raw × scale
    capped        after the model's soft cap; equal to `scaled` where there is none
    masked        capped + bias, or -inf where the pair is forbidden
    row_maximum   the largest masked score of this query (of a sink too), 0 where the query may attend to nothing
    shifted       masked - row_maximum: at most 0
    exponential   e^shifted, in [0, 1]
    row_sum       Σ of the exponentials of this query's row, a sink's included
    weight        exponential / row_sum, in [0, 1]
    contribution  [d_v]: weight × value, this key's share in the query's output
    """

    query: int
    key: int
    products: Array
    raw: float
    scale: float
    scaled: float
    capped: float
    bias: float
    allowed: bool
    masked: float
    row_maximum: float
    shifted: float
    exponential: float
    row_sum: float
    weight: float
    value: Array
    contribution: Array


def explain(trace: AttentionTrace, query: int, key: int) -> Ledger:
    """Recompute the cell (query, key) step by step. Raises InputError for positions outside the trace."""
    queries, keys = trace.shape
    if not (0 <= query < queries and 0 <= key < keys):
        raise InputError(
            f"There is no cell ({query}, {key}): queries run from 0 to {queries - 1}, keys from 0 to {keys - 1}.",
            field="cell",
        )
    q = trace.query[query].astype(np.float64)
    products = q * trace.key[key].astype(np.float64)
    raw = math.fsum(products)
    scaled = raw * trace.scale
    bias = float(trace.bias[query, key])
    allowed = bool(trace.mask[query, key])
    masked = _cap(scaled, trace.softcap) + bias if allowed else -math.inf

    row = _cap(trace.key.astype(np.float64) @ q * trace.scale, trace.softcap) + trace.bias[query]
    row = np.where(trace.mask[query], row, -np.inf)
    row[key] = masked
    scores = row if trace.sinks is None else np.append(row, trace.sinks)
    row_maximum = float(scores.max()) if np.isfinite(scores).any() else 0.0
    row_sum = math.fsum(np.exp(scores - row_maximum))
    exponential = math.exp(masked - row_maximum)
    weight = exponential / row_sum if row_sum else 0.0

    value = trace.value[key].astype(np.float64)
    return Ledger(
        query=query,
        key=key,
        products=products,
        raw=raw,
        scale=trace.scale,
        scaled=scaled,
        capped=float(_cap(scaled, trace.softcap)),
        bias=bias,
        allowed=allowed,
        masked=masked,
        row_maximum=row_maximum,
        shifted=masked - row_maximum,
        exponential=exponential,
        row_sum=row_sum,
        weight=weight,
        value=value,
        contribution=weight * value,
    )


def strongest_pair(trace: AttentionTrace) -> tuple[int, int]:
    """A (query, key) worth looking at first: the largest weight between two different positions away from both ends.

    The ends are where special tokens stand and where many heads park their attention; a small trace has only ends, and
    there the largest weight of all is taken.
    """
    return strongest_cell(trace.weights)


def strongest_cell(weights: NDArray[np.floating]) -> tuple[int, int]:
    """The same for any table [queries, keys] of numbers, also one whose cells stand for several; NaN is no number."""
    weights = np.where(np.isnan(weights), -np.inf, weights)
    queries, keys = weights.shape
    inner = weights[1:-1, 1:-1].copy()
    if inner.size < 2:
        query, key = np.unravel_index(weights.argmax(), weights.shape)
        return int(query), int(key)
    if queries == keys:
        np.fill_diagonal(inner, -np.inf)
    query, key = np.unravel_index(inner.argmax(), inner.shape)
    return int(query) + 1, int(key) + 1


def _cap(score: Array | float, softcap: float | None) -> Any:
    return score if softcap is None else softcap * np.tanh(score / softcap)
