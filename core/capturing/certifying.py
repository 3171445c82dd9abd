"""Certificates: a comparison of a head's output with the model's own, in units of the rounding error.

A relative error ε in a score s shifts it by ε·|s|, which changes its weight by that factor. So one unit is
(ε + ε' · max |s| of the row) · Σ weight · |value|, with the rounding error ε of the model's dtype and ε' of its scores. By this
unit a head that attends to a single key, whose output hardly depends on its scores, is measured as strictly as any other. Where
the products of a score cancel each other, their sum is small and its error is not: then √Σ(q·k)² is taken for |s|. And below
the smallest normal number, which is 6·10⁻⁵ in float16, errors of weights no longer shrink with them: √Σ value² of them is
added.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple
from weakref import ref

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import pad

from ..attention.head import Head
from ..attention.masks import describe_rows
from ..attention.rowwise import Overview
from ..attention.shaping import Shaping
from ..attention.trace import Array, AttentionTrace
from ..models.calls import Call
from ..models.checkups import fault_in, fault_of
from ..models.model import Model, RecordedModel
from ..models.modules import Kind
from ..units import small_number
from .calls.rows import permissions
from .rounding import OF_HEADS

# A bias of at most this much is meant as a mask, but forbids nothing: older code adds -10,000.
AS_MASK = -5_000.0

CHECKED = "scores, mask, softmax and output of this head, computed again from the queries, keys and values that the model used"
NOT_CHECKED = (
    "how the model made these queries, keys and values, what it does with the output (W_O and all that follows), and whether "
    "its weights are the right ones"
)


class Origin(NamedTuple):
    """The head of a model that a head apart from its pass is. `name`, `revision` and `dtype` are the model's."""

    name: str
    revision: str
    dtype: str
    kind: Kind
    layer: int
    head: int


@dataclass(frozen=True)
class Certificate:
    """The comparison of one head's output, from the queries, keys and values of the pass, with what the model's own attention
    returned. `CHECKED` and `NOT_CHECKED` say what it covers.

    cells       number of compared numbers: the entries of the head's output [queries, d_v]
    difference  the largest absolute difference
    rounding    the largest difference in units of what one rounding error in `dtype` can change
    left_out    number of queries that may attend to nothing; they are not compared, as every implementation differs there
    mask        in words, with what is added to scores in the place of a mask
    found       gives what the check-up of the model has found wrong by now, in a sentence, "" for nothing
    dtype       of the model. The trace is in float32, or in float64 if the model is
    """

    cells: int
    difference: float
    rounding: float
    left_out: int
    model: str
    revision: str
    dtype: str
    scale: float
    mask: str
    found: Callable[[], str] = field(default=str, repr=False, compare=False)

    def __str__(self) -> str:
        """What was compared, what came of it, and what was not compared."""
        agrees = "Agrees" if self.agrees else "Does not agree"
        fault = f"Not to be relied on. {self.fault} " if self.fault else ""
        return (
            f"{fault}{agrees} with {self.model}: {self.cells:,} output numbers from its Q, K and V, largest difference "
            f"{small_number(self.difference)}, {self.rounding:.2g} units of rounding where {self.allowed:g} are allowed. "
            f"Checked: {CHECKED}. Not checked: {NOT_CHECKED}."
        )

    @property
    def holds(self) -> bool:
        """Whether the trace agrees with the model, and the model's check-up has not failed."""
        return self.agrees and not self.fault

    @property
    def agrees(self) -> bool:
        """Whether the trace agrees with the model's attention, however the model was run."""
        return self.rounding <= self.allowed

    @property
    def fault(self) -> str:
        """What the model's check-up has found wrong by now, in a sentence; "" if it holds, or if none was made."""
        return self.found()

    @property
    def allowed(self) -> float:
        """The largest `rounding` that counts as agreement."""
        return OF_HEADS[self.dtype]

    @property
    def traced_in(self) -> str:
        """The precision of the trace: float32 holds every float16 and bfloat16 exactly."""
        return "float64" if self.dtype == "float64" else "float32"


def certify(head: Head, output: Array, model: Model | Origin, mask: str) -> Certificate:
    """Compare a head with its output [queries, d_v] in the model's own attention, in blocks of rows: a long text needs no more
    memory. mask: in words"""
    rounding = _rounding(model, head.shaping(range(1)))
    blocks = [_compare(head.trace(rows).reached(), output, rows, rounding) for rows in head.blocks()]
    return _certificate(blocks, model, head.scale, mask)


def certified_head(head: Head, output: Array, model: Model | Origin, mask: str) -> tuple[Overview, Certificate]:
    """The overview of a head and its certificate, from one sweep; output and mask as in `certify`."""
    rounding, blocks = _rounding(model, head.shaping(range(1))), []

    def compare(rows: range, trace: AttentionTrace) -> None:
        blocks.append(_compare(trace, output, rows, rounding))

    overview = head.overview(watch=compare)
    return overview, _certificate(blocks, model, head.scale, mask)


def _rounding(model: Model | Origin, shaping: Shaping) -> tuple[float, float, float]:
    """The rounding errors of a model's attention: of its weights and output and of its scores, which are relative, and that of
    weights which are nearly 0, which is not.

    torch's fused attention keeps the scores of a float16 or bfloat16 model in float32. Architectures with soft caps or sinks
    compute attention in their own code, which also rounds the scores.
    """
    own = torch.finfo(getattr(torch, model.dtype))
    of_scores = min(own.eps, torch.finfo(torch.float32).eps) if shaping.is_plain else own.eps
    return own.eps, of_scores, own.eps * own.smallest_normal


def _compare(trace: AttentionTrace, output: Array, rows: range, rounding: tuple[float, ...]) -> tuple[float, ...]:
    """Compare the output of some rows of a head with the model's own [queries, d_v].

    Returns the first four numbers of a `Certificate`, then those of `_added`.
    """
    attending = ~trace.empty_rows
    difference = np.abs(trace.output - output[rows.start : rows.stop])[attending]
    products = np.sqrt(np.square(trace.query) @ np.square(trace.key).T) * abs(trace.scale)
    # However low its score, a key without weight adds nothing.
    sizes = np.where(trace.weights > 0, np.maximum(np.abs(trace.masked), products), 0)
    largest_score = sizes.max(axis=1, keepdims=True)
    of_result, of_scores, of_least = rounding
    unit = (of_result + of_scores * largest_score) * (trace.weights @ np.abs(trace.value))
    unit += of_least * np.sqrt(np.square(trace.value).sum(axis=0))
    units = difference / np.maximum(unit[attending], np.finfo(unit.dtype).smallest_normal)
    worst, worst_units = (float(part.max(initial=0)) for part in (difference, units))
    return difference.size, worst, worst_units, int(trace.empty_rows.sum()), *_added(trace, rows)


def _added(trace: AttentionTrace, rows: range) -> tuple[float, float, float, bool]:
    """What a bias adds in the place of a mask: its lowest and its highest number of at most `AS_MASK` (inf and -inf if there is
    none), the most of a row that goes there, and whether that is added to all later tokens, and to them alone."""
    if trace.bias.min() > AS_MASK:
        return np.inf, -np.inf, 0.0, trace.shape[1] <= rows.start + 1
    is_added = trace.mask & (trace.bias <= AS_MASK)
    is_later = trace.mask & (np.arange(trace.shape[1]) > np.array(rows)[:, None])
    added, share = trace.bias[is_added], (trace.weights * is_added).sum(axis=1).max()
    lowest, highest = float(added.min(initial=np.inf)), float(added.max(initial=-np.inf))
    return lowest, highest, float(share), bool((is_added == is_later).all())


def _certificate(blocks: Iterable[tuple[float, ...]], model: Model | Origin, scale: float, mask: str) -> Certificate:
    cells, difference, rounding, left_out, *added = map(np.array, zip(*blocks, strict=True))
    compared = int(cells.sum()), float(difference.max()), float(rounding.max()), int(left_out.sum())  # NaN stays NaN
    words = _with_added(mask, *added)
    return Certificate(*compared, model.name, model.revision, model.dtype, scale, words, _finder(model))


def _finder(model: Model | Origin) -> Callable[[], str]:
    """`Certificate.found`. Certificates are kept where the model may go, and must not hold it."""
    if isinstance(model, Origin):
        return str
    if isinstance(model, RecordedModel):
        return partial(fault_of, model)
    network = ref(model.network)
    return lambda: fault_in(network())


def _with_added(mask: str, lowest: NDArray, highest: NDArray, share: NDArray, is_later: NDArray) -> str:
    """The words for a mask, and for what a bias adds in its place (`_added`)."""
    if not np.isfinite(lowest).any():
        return mask
    low, high = small_number(lowest.min()), small_number(highest.max())
    added, keys = low if low == high else f"{low} to {high}", "later tokens" if is_later.all() else "some keys"
    most = (
        f"at most {small_number(share.max())}" if share.max() > 1e-6 else "less than 10⁻⁶" if share.any() else "nothing"
    )
    return f"{mask}, but {added} is added to {keys}: {most} of a row goes there"


def mask_in_words(call: Call, head: int) -> str:
    """The mask of one head in words, as `core.attention.masks.describe` says it, looked at a few rows at a time."""
    if call.parts is not None:
        return f"within {int(call.parts.max()) + 1} parts"
    if call.mask is None:
        return "causal" if call.causal else "none"

    def rows_of(rows: range) -> NDArray[np.bool_]:
        allowed, _ = permissions(call, slice(head, head + 1), rows)
        return pad(allowed[0], (0, call.key.shape[2] - allowed.shape[2])).numpy(force=True)

    return describe_rows(rows_of, call.query.shape[2])
