"""Do our numbers agree with the model's own? A comparison of every head's output, in units of what rounding explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from array_api_compat import array_namespace
from numpy.typing import NDArray

from ..attention.head import Head
from ..attention.masks import describe
from ..attention.rowwise import MAX_CELLS, Overview
from ..attention.trace import AttentionTrace, put_in
from ..models.calls import Call, wide
from ..models.model import Model
from .rows import head_edit, head_scale, permissions, row_blocks

# How many units of rounding still count as agreement, by the dtype of the model. Measured on every head of both offline models:
# in float32 at most 5.4, and at least 370 once the scale is off by one percent. In half precision, where weights and output
# are rounded once each, the sum of both is 1 at most, and measured 0.93.
ALLOWED_ROUNDING = {"float32": 20.0, "float64": 20.0, "float16": 1.25, "bfloat16": 1.25}


class Named(Protocol):
    """What a certificate says of a model: a `Model`, or what a file has kept of one."""

    @property
    def name(self) -> str: ...
    @property
    def revision(self) -> str: ...
    @property
    def dtype(self) -> str: ...


@dataclass(frozen=True)
class Certificate:
    """How far one head's trace is from what the model itself computed.

    cells       how many numbers were compared: the entries of the head's output [queries, d_v]
    difference  the largest absolute difference between them
    rounding    the largest difference in units of what one rounding error in `dtype` can do to that number (see `certify`)
    left_out    queries that may attend to nothing, which every implementation treats differently
    dtype       of the model. The trace is computed from the very numbers that it gave, in float32 or its own float64
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

    @property
    def holds(self) -> bool:
        return self.rounding <= self.allowed

    @property
    def allowed(self) -> float:
        """The most rounding that counts as agreement, in the same units."""
        return ALLOWED_ROUNDING[self.dtype]

    @property
    def traced_in(self) -> str:
        """The precision of the trace: float32 holds every float16 and bfloat16 exactly."""
        return "float64" if self.dtype == "float64" else "float32"


def certify(trace: AttentionTrace, output: NDArray[np.floating], model: Model) -> Certificate:
    """Compare a trace with the output [queries, d_v] that the model's own attention returned for the same head.

    What rounding can do to an output number: a relative error ε in a score s shifts it by ε·|s|, which changes its weight by
    that factor; so one unit is (ε + ε' · max |s| of the row) · Σ weight · |value|, where ε is that of the model's dtype and
    ε' that of its scores (see `_Rounding`). A head that leans on a single key, whose output hardly depends on its scores, is
    thereby held to the same standard as any other.
    """
    return _certificate([_compare_trace(trace, output, model)], model, trace.scale, describe(trace.mask))


def certify_call(call: Call, head: int, model: Model) -> Certificate:
    """The same for a head of a captured layer, some rows at a time, so that a long text needs no more memory."""
    key_head = head // call.group
    value, output = wide(call.value[0, key_head]), wide(call.output[0, :, head])
    rounding, found = _Rounding.of(model, call), []
    for rows in row_blocks(call, head):
        weights, reached = rows.weights[0], value[: rows.allowed.shape[2]]
        theirs, ours = output[rows.start : rows.stop], weights @ reached
        instead = head_edit(call, head, range(rows.start, rows.stop)).output
        if instead is not None:
            ours = put_in(ours, torch.as_tensor(instead, device=ours.device))
        found.append(_compare(rows.allowed[0], rows.masked[0], weights, reached, ours, theirs, rounding))
    return _certificate(found, model, head_scale(call, head), _mask_in_words(call, head))


def certified_overview(
    head: Head, call: Call, number: int, model: Model, max_cells: int = MAX_CELLS
) -> tuple[Overview, Certificate]:
    """The overview of the head `number` of a captured layer and the certificate of these very numbers, from one sweep."""
    output = wide(call.output[0, :, number]).numpy(force=True)
    return certified_head(head, output, model, _mask_in_words(call, number), max_cells)


def certified_head(
    head: Head, output: NDArray[np.floating], model: Named, mask: str, max_cells: int = MAX_CELLS
) -> tuple[Overview, Certificate]:
    """The same of any head beside the output [queries, d_v] that a model's own attention returned for it; mask: in words."""
    found = []

    def compare(rows: range, trace: AttentionTrace) -> None:
        found.append(_compare_trace(trace, output[rows.start : rows.stop], model))

    overview = head.overview(max_cells, watch=compare)
    return overview, _certificate(found, model, head.scale, mask)


class _Rounding(NamedTuple):
    """The relative rounding errors of a model's attention: ε of its weights and output, and ε of its scores.

    torch's fused attention keeps the scores of a float16 or bfloat16 model in float32; architectures that compute soft caps
    or sinks in code of their own round them as well.
    """

    result: float
    scores: float

    @classmethod
    def of(cls, model: Named, head: Call | AttentionTrace) -> _Rounding:
        own = torch.finfo(getattr(torch, model.dtype)).eps
        by_itself = head.softcap is not None or head.sinks is not None
        return cls(own, own if by_itself else min(own, torch.finfo(torch.float32).eps))


class _Compared(NamedTuple):
    cells: int
    difference: float
    rounding: float
    left_out: int


def _compare_trace(trace: AttentionTrace, theirs: NDArray[np.floating], model: Named) -> _Compared:
    return _compare(
        trace.mask, trace.masked, trace.weights, trace.value, trace.output, theirs, _Rounding.of(model, trace)
    )


def _compare(
    allowed: Any, masked: Any, weights: Any, value: Any, ours: Any, theirs: Any, rounding: _Rounding
) -> _Compared:
    """Some rows [rows, keys] of a head, whose output [rows, d_v] is ours, against the model's; NumPy or torch."""
    xp = array_namespace(weights)
    attending = xp.any(allowed, axis=1)
    difference = xp.abs(ours - theirs)[attending]
    largest_score = xp.max(xp.abs(xp.where(allowed, masked, 0)), axis=1, keepdims=True)
    unit = (rounding.result + rounding.scores * largest_score) * (weights @ xp.abs(value))
    units = difference / xp.maximum(unit[attending], xp.asarray(xp.finfo(unit.dtype).smallest_normal, dtype=unit.dtype))
    cells = int(np.prod(difference.shape))
    worst = (float(xp.max(difference)), float(xp.max(units))) if cells else (0.0, 0.0)
    return _Compared(cells, *worst, int(xp.sum(~attending)))


def _certificate(found: Sequence[_Compared], model: Named, scale: float, mask: str) -> Certificate:
    return Certificate(
        cells=sum(part.cells for part in found),
        difference=max(part.difference for part in found),
        rounding=max(part.rounding for part in found),
        left_out=sum(part.left_out for part in found),
        model=model.name,
        revision=model.revision,
        dtype=model.dtype,
        scale=scale,
        mask=mask,
    )


def _mask_in_words(call: Call, head: int) -> str:
    if call.mask is None:
        return "causal" if call.causal else "none"
    allowed, _ = permissions(call, slice(head, head + 1), range(call.query.shape[2]))
    missing = call.key.shape[2] - allowed.shape[2]
    return describe(np.pad(allowed[0].numpy(force=True), ((0, 0), (0, missing))))
