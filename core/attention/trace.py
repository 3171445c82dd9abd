"""Scaled dot-product attention, one stage at a time.

Vaswani et al. 2017, "Attention Is All You Need", equation 1: softmax(Q Kᵀ / √d_k) V. Rows are queries (who looks), columns
are keys (who is looked at).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError
from .masks import Predicate, describe, grid
from .shaping import BY_PAIR, Shaped, Shaping, checked, frozen

Array = NDArray[np.floating]
Weighing = Literal["softmax", "hardmax", "sigmoid"]


def softmax(scores: Any, *, sinks: Any = None) -> Any:
    """Turn each row of scores into weights: e^score / Σ e^score.

    scores    [..., keys], any real number or -inf; a NumPy array or a torch tensor, and so is the result
    sinks     one more score that takes its share of every row but belongs to no key (gpt-oss, Agarwal et al. 2025): a number,
              or one a row [..., 1]
    returns   [..., keys] in [0, 1]; a row sums to 1, to less than 1 with a sink, and to 0 if all its scores are -inf

    Subtracting the row's maximum first changes nothing (softmax(x + c) = softmax(x)) and keeps e^x from overflowing.
    """
    xp = array_namespace(scores)
    highest = xp.max(scores, axis=-1, keepdims=True)
    if sinks is not None:
        sinks = xp.astype(sinks, scores.dtype) if hasattr(sinks, "dtype") else xp.asarray(sinks, dtype=scores.dtype)
        highest = xp.maximum(highest, sinks)
    highest = xp.where(xp.isinf(highest), 0, highest)  # an all -inf row: -inf minus -inf would be NaN
    exponentials = xp.exp(scores - highest)
    total = xp.sum(exponentials, axis=-1, keepdims=True)
    if sinks is not None:
        total = total + xp.exp(sinks - highest)
    return exponentials / xp.where(total == 0, 1, total)


def hardmax(scores: Any, *, sinks: Any = None) -> Any:
    """Each row's whole weight on its highest score, shared by those that are equally high: softmax at temperature 0.

    Shapes as in `softmax`. A sink that is higher than all scores takes the row's weight.
    """
    highest = array_namespace(scores).max(scores, axis=-1, keepdims=True)
    is_highest = scores == highest
    if sinks is not None:
        is_highest = is_highest & (highest >= sinks)
    return softmax(forbid(scores, is_highest))


def sigmoid(scores: Any, *, sinks: Any = None) -> Any:  # noqa: ARG001 - what takes no share needs no sink
    """Every key for itself: 1 / (1 + e^(ln n - score)), with n keys that the row may attend to. A row need not sum to 1.

    Ramapuram et al. 2024, https://arxiv.org/abs/2409.04431, with their bias of -ln n. Shapes as in `softmax`.
    """
    xp = array_namespace(scores)
    choices = xp.sum(xp.astype(~xp.isinf(scores), scores.dtype), axis=-1, keepdims=True)
    # e^-x of a very negative x would overflow: the lower half is e^x / (1 + e^x).
    shifted = scores - xp.log(xp.where(choices == 0, 1, choices))
    small = xp.exp(-xp.abs(shifted))
    return xp.where(shifted >= 0, 1 / (1 + small), small / (1 + small))


WEIGHINGS = {"softmax": softmax, "hardmax": hardmax, "sigmoid": sigmoid}


def put_in(own: Any, instead: Any) -> Any:
    """The rows of `instead` [..., rows, columns], and those of `own` where they are NaN. NumPy arrays or torch tensors."""
    xp = array_namespace(own)
    return xp.where(xp.isnan(instead), own, xp.astype(instead, own.dtype))


def forbid(scores: Any, mask: Any) -> Any:
    """Set scores to -inf where the mask is False. NumPy arrays or torch tensors."""
    xp = array_namespace(scores)
    return xp.where(mask, scores, -xp.inf)


@dataclass(frozen=True, eq=False)
class Instead:
    """Replacements that an edit puts in the place of stages.

    weights  [queries, keys], rows of NaN where the weights stay as they are; or None
    output   [queries, d_v], likewise
    """

    weighing: Weighing = "softmax"
    weights: Array | None = None
    output: Array | None = None

    def rows(self, part: slice) -> Instead:
        """The replacements of some queries."""
        weights, output = (None if whole is None else whole[part] for whole in (self.weights, self.output))
        return Instead(self.weighing, weights, output)


AS_IT_IS = Instead()


@dataclass(frozen=True, eq=False, repr=False)
class AttentionTrace(Shaped):
    """One attention head at work: its inputs, and every stage that follows from them.

    query   [queries, d_k]      key  [keys, d_k]      value  [keys, d_v]
    shaping its scale, mask, bias, soft cap and sinks, which are attributes of the trace too: `trace.scale`
    instead what an edit puts in the place of the softmax, of weights or of the output

    Make one with `attend`, which checks all this. Stages are computed when first looked at and kept; every array is read-only.
    """

    query: Array
    key: Array
    value: Array
    shaping: Shaping
    instead: Instead = AS_IT_IS

    def __repr__(self) -> str:
        return f"<AttentionTrace: {self.in_words}>"

    @property
    def in_words(self) -> str:
        """Its shapes, its scale, its mask, and whether it has a bias."""
        queries, keys = self.shape
        words = f"{queries:,} queries × {keys:,} keys, d_k {self.key.shape[1]}, d_v {self.value.shape[1]}"
        bias = ", with a bias" if self.bias.any() else ""
        return f"{words}, scale {self.scale:.4g}, mask: {describe(self.mask)}{bias}"

    @cached_property
    def raw(self) -> Array:
        """Query-key affinities q · k: [queries, keys], any real number."""
        return frozen(self.query @ self.key.T)

    @cached_property
    def scaled(self) -> Array:
        """raw × scale: [queries, keys]."""
        return frozen(self.raw * self.scale)

    @cached_property
    def masked(self) -> Array:
        """The input of the softmax: [queries, keys], scaled scores with soft cap and bias; -inf where forbidden."""
        return frozen(forbid(self.shaping.biased(self.scaled), self.mask))

    @cached_property
    def weights(self) -> Array:
        """softmax(masked) by row: [queries, keys] in [0, 1]; exactly 0 where forbidden."""
        weights = WEIGHINGS[self.instead.weighing](self.masked, sinks=self.sinks)
        return frozen(weights if self.instead.weights is None else put_in(weights, self.instead.weights))

    @cached_property
    def output(self) -> Array:
        """weights @ value: [queries, d_v], for each query the average of the values it attends to."""
        output = self.weights @ self.value
        return frozen(output if self.instead.output is None else put_in(output, self.instead.output))

    @property
    def shape(self) -> tuple[int, int]:
        """(queries, keys)."""
        return self.query.shape[0], self.key.shape[0]

    @property
    def empty_rows(self) -> NDArray[np.bool_]:
        """[queries] bool: the queries that may attend to nothing, whose weights are all 0."""
        return np.logical_not(self.mask.any(axis=1))

    def rows(self, rows: range) -> AttentionTrace:
        """The trace of these queries alone: what a query does depends on no other query. Its inputs are views of these. Raises
        InputError for rows that are not there."""
        part = part_of(rows, self.shape[0], "queries")
        if len(rows) == self.shape[0]:
            return self  # with the stages that it has worked out already
        shaping = self.shaping.each(BY_PAIR, lambda whole: whole[part])
        return replace(self, query=self.query[part], shaping=shaping, instead=self.instead.rows(part))

    def reached(self) -> AttentionTrace:
        """The trace without the keys after the last one that a query may attend to, on which its output does not depend."""
        last = int(np.flatnonzero(self.mask.any(axis=0)).max(initial=0))
        trace = self.of_keys(slice(last + 1))
        # As `cached_property` keeps it: there is no need to compute it again.
        vars(trace)["raw"] = self.raw[:, : last + 1]
        return trace

    def of_keys(self, keys: slice) -> AttentionTrace:
        """The trace of these keys alone, as if there were no others."""
        shaping, instead = self.shaping.each(BY_PAIR, lambda whole: whole[:, keys]), self.instead
        if instead.weights is not None:
            instead = replace(instead, weights=instead.weights[:, keys])
        return replace(self, key=self.key[keys], value=self.value[keys], shaping=shaping, instead=instead)

    def changed(self, *, scale: float | None = None, mask: Predicate | ArrayLike | None = None) -> AttentionTrace:
        """The head with another scale, another mask (a predicate, or [queries, keys] bool), or both; None keeps its own, and an
        edit stays. Errors as in `attend`."""
        if callable(mask):
            mask = np.broadcast_to(grid(mask, *self.shape), self.shape)
        changes = {"scale": scale, "mask": mask}
        shaping = vars(self.shaping) | {name: change for name, change in changes.items() if change is not None}
        return replace(attend(self.query, self.key, self.value, **shaping), instead=self.instead)


def attend(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    *,
    mask: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: float | None = None,
) -> AttentionTrace:
    """One head of attention over plain arrays.

    query   [queries, d_k]      key  [keys, d_k]      value  [keys, d_v]
    mask    [queries, keys] of True (may attend) and False; None: every pair may
    bias    [queries, keys] added to the scaled scores; -inf forbids the pair, as in torch's attn_mask; None: nothing
    scale   None: 1/√d_k
    softcap, sinks: see `core.attention.shaping.Shaping`

    Floating inputs keep their precision (float16, float32, float64); whole numbers become float64.
    Raises InputError naming the matrix and both shapes where something does not fit.
    """
    query, key, value = _matrix(query, "query"), _matrix(key, "key"), _matrix(value, "value")
    dtype = np.result_type(query, key, value)
    if query.shape[1] != key.shape[1]:
        why = "columns (d_k), because each score is a dot product of one row of each"
        raise _misfit("query", query, "key", key, why)
    if value.shape[0] != key.shape[0]:
        raise _misfit("key", key, "value", value, "rows, one for each position that can be attended to")
    given = Shaping(1 / float(np.sqrt(query.shape[1])) if scale is None else scale, mask, bias, softcap, sinks)
    shaping = checked(given, (query.shape[0], key.shape[0]), dtype)
    trace = AttentionTrace(frozen(query.astype(dtype)), frozen(key.astype(dtype)), frozen(value.astype(dtype)), shaping)
    _refuse_overflow(trace, 0.0 if bias is None else float(np.abs(shaping.bias).max()))
    return trace


def _matrix(array: ArrayLike, name: str) -> Array:
    try:
        matrix = np.array(array)
    except ValueError:
        raise InputError(f"The rows of {name} differ in length; every row needs as many numbers.", field=name) from None
    if matrix.ndim != 2 or 0 in matrix.shape:
        problem = f"has the shape {matrix.shape}; a matrix with at least one row and one column is needed."
    elif matrix.dtype.kind not in "buif":
        problem = f"holds {matrix.dtype} values; real numbers are needed."
    elif not np.isfinite(matrix).all():
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        where = f"{matrix[row, column]} in row {row}, column {column} (counted from 0)"
        problem = f"has {where}; every entry has to be a finite number."
    else:
        return matrix if matrix.dtype.kind == "f" else matrix.astype(np.float64)
    raise InputError(f"{name.capitalize()} {problem}", field=name)


def _refuse_overflow(trace: AttentionTrace, largest_bias: float) -> None:
    """Every score has to be finite in the inputs' precision, or the softmax would be inf - inf."""
    limit = np.finfo(trace.query.dtype).max
    largest = float(np.abs(trace.query).max()) * float(np.abs(trace.key).max()) * trace.query.shape[1]
    if largest * max(1.0, abs(trace.scale)) + largest_bias < float(limit):
        return
    with np.errstate(over="ignore", invalid="ignore"):
        scores = trace.query @ trace.key.T
        finite = np.isfinite(scores).all() and np.isfinite(scores * trace.scale + trace.bias).all()
    if not finite:
        raise InputError(
            f"Some scores are too large for {trace.query.dtype}: the products of query and key go beyond {limit:.3g}. "
            f"Use smaller numbers.",
            field="query",
        )


def part_of(places: range, length: int, what: str) -> slice:
    """The slice of some places, one after another, among so many. Raises InputError naming `what` is not there."""
    if not (places.step == 1 and 0 <= places.start < places.stop <= length):
        raise InputError(f"There are no {what} {places}: they run from 0 to {length - 1}.", field=what)
    return slice(places.start, places.stop)


def _misfit(first: str, one: Array, second: str, other: Array, what: str) -> InputError:
    sizes = "{} is {} × {} and {} is {} × {}".format(first.capitalize(), *one.shape, second, *other.shape)
    return InputError(f"{sizes}: they need the same number of {what}. Change one of them.", field=second)
