"""How one number came about: every step between a query, a key and its weight, and the sum that an output is."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ..errors import InputError, edits_error
from .shaping import BY_PAIR, Shaped, Shaping
from .stages import number
from .trace import Array, AttentionTrace


@dataclass(frozen=True, eq=False, repr=False)
class Ledger(Shaped):
    """One cell of a trace, recomputed from its inputs in float64.

    products      [d_k]: query × key, dimension by dimension; their sum is `raw`
    scaled        raw × scale
    shaping       what shapes this score; its scale, bias and softcap are attributes of the ledger too
    capped        after the soft cap; equal to `scaled` without one
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
    shaping: Shaping
    scaled: float
    capped: float
    masked: float
    row_maximum: float
    shifted: float
    exponential: float
    row_sum: float
    weight: float
    value: Array
    contribution: Array

    @property
    def allowed(self) -> bool:
        """Whether the query may attend to the key."""
        return self.mask

    def __repr__(self) -> str:
        words = f"{self.raw:.4g} × {self.scale:.4g} = {self.scaled:.4g}, weight {self.weight:.4g}"
        return f"<Ledger of query {self.query}, key {self.key}: {words}>"


def lines(cell: Ledger, *, has_bias: bool) -> list[tuple[str, str]]:
    """The arithmetic of a cell, from the products to the value: (step, numbers) a line. has_bias: give it also if it is 0."""
    lengths = (number(float(np.linalg.norm(vector))) for vector in (cell.value, cell.contribution))
    return [
        (f"q · k, sum of {len(cell.products)} products", number(cell.raw)),
        ("× scale", f"× {number(cell.scale)} = {number(cell.scaled)}"),
        *((f"{name} {value:g}", number(cell.capped)) for name, value in cell.shaping.caps.items()),
        *([("+ bias", number(cell.bias))] if has_bias else []),
        ("+ mask", f"{'+ 0' if cell.allowed else '+ (−∞)'} = {number(cell.masked)}"),
        ("− row maximum", f"− ({number(cell.row_maximum)}) = {number(cell.shifted)}"),
        ("e to that power", number(cell.exponential)),
        ("÷ row sum", f"÷ {number(cell.row_sum)}"),
        ("= weight", number(cell.weight)),
        ("× value", "length {} → {}".format(*lengths)),
    ]


def explain(trace: AttentionTrace, query: int, key: int) -> Ledger:
    """Recompute the cell (query, key) step by step. Raises InputError for positions outside the trace, and where an edit has
    put something else in the softmax's place."""
    refuse_outside(trace.shape, query, key)
    if trace.instead.weighing != "softmax" or trace.instead.weights is not None:
        raise edits_error("These weights are not the softmax of the scores: an edit has set them.")
    q, value = trace.query[query].astype(np.float64), trace.value[key].astype(np.float64)
    products = q * trace.key[key].astype(np.float64)
    raw = math.fsum(products)
    scaled = raw * trace.scale
    of_row = trace.shaping.each(BY_PAIR, lambda whole: whole[query])
    shaping = of_row.each(BY_PAIR, lambda row: row[key].item())
    capped = float(shaping.capped(np.float64(scaled)))
    masked = capped + shaping.bias if shaping.mask else -math.inf

    row = of_row.biased(trace.key.astype(np.float64) @ q * trace.scale)
    row = np.where(trace.mask[query], row, -np.inf)
    row[key] = masked
    scores = row if trace.sinks is None else np.append(row, trace.sinks)
    row_maximum = float(scores.max()) if np.isfinite(scores).any() else 0.0
    row_sum = math.fsum(np.exp(scores - row_maximum))
    exponential = math.exp(masked - row_maximum)
    weight = exponential / row_sum if row_sum else 0.0
    return Ledger(
        query=query,
        key=key,
        products=products,
        raw=raw,
        shaping=shaping,
        scaled=scaled,
        capped=capped,
        masked=masked,
        row_maximum=row_maximum,
        shifted=masked - row_maximum,
        exponential=exponential,
        row_sum=row_sum,
        weight=weight,
        value=value,
        contribution=weight * value,
    )


@dataclass(frozen=True, eq=False)
class OutputSum:
    """The output of one query as a sum over all keys that it may attend to: Σ weight × value, in float64.

    keys     positions of the largest weights, the largest first
    weights  [len(keys)] in [0, 1]
    terms    [len(keys), d_v]: weight × value of these keys
    rest_count, rest_weight, rest_term  how many other keys there are, the sum of their weights, and of their terms [d_v]
    total    [d_v]: the query's output, the sum of all terms and of rest_term; 0 where it may attend to nothing
    """

    query: int
    keys: tuple[int, ...]
    weights: Array
    terms: Array
    rest_count: int
    rest_weight: float
    rest_term: Array
    total: Array


def sum_of(trace: AttentionTrace, query: int, most: int = 8) -> OutputSum:
    """The output of one query of a trace, with the terms of its `most` largest weights, of equal ones that of the earlier key
    first. Raises InputError for a query outside the trace, and where an edit has put something else in the output's place."""
    refuse_outside(trace.shape, query)
    if trace.instead.output is not None:
        raise edits_error("This output is not the sum over the keys: an edit has set it.")
    row = trace.rows(range(query, query + 1))
    # A trace of its own in float64, so that the weights come from the one softmax there is.
    inputs = {name: getattr(row, name).astype(np.float64) for name in ("query", "key", "value")}
    exact = replace(row, **inputs, shaping=row.shaping.each(("bias",), lambda bias: bias.astype(np.float64)))
    weights, allowed = exact.weights[0], exact.mask[0]
    order = np.argsort(np.where(allowed, -weights, np.inf), kind="stable")[: int(allowed.sum())]
    shown, others = order[:most], order[most:]
    rest = weights[others] @ exact.value[others]
    terms = weights[shown, None] * exact.value[shown]
    total, rest_weight = terms.sum(axis=0) + rest, float(weights[others].sum())
    return OutputSum(query, tuple(shown.tolist()), weights[shown], terms, len(others), rest_weight, rest, total)


def refuse_outside(shape: tuple[int, int], query: int, key: int = 0) -> None:
    """Raise InputError unless (query, key) is a cell of a table of this shape."""
    queries, keys = shape
    if not (0 <= query < queries and 0 <= key < keys):
        where = f"queries run from 0 to {queries - 1}, keys from 0 to {keys - 1}."
        raise InputError(f"There is no cell ({query}, {key}): {where}", field="cell")
