"""Certificates: a comparison of a head's output with the model's own, in units of the rounding error."""

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

# The largest difference that counts as agreement, in units of rounding, by the dtype of the model. Measured on every head of
# both offline models: in float32 at most 5.4, and at least 370 if the scale is wrong by one percent. In half precision weights
# and output are rounded once each, which is 1 unit at most; measured: 0.93.
ALLOWED_ROUNDING = {"float32": 20.0, "float64": 20.0, "float16": 1.25, "bfloat16": 1.25}


class Identity(Protocol):
    """The identity of a model: a `Model`, or its description in a file."""

    @property
    def name(self) -> str: ...
    @property
    def revision(self) -> str: ...
    @property
    def dtype(self) -> str: ...


@dataclass(frozen=True)
class Certificate:
    """The comparison of one head's trace with what the model itself computed.

    cells       number of compared numbers: the entries of the head's output [queries, d_v]
    difference  the largest absolute difference
    rounding    the largest difference in units of what one rounding error in `dtype` can change (see `certify`)
    left_out    number of queries that may attend to nothing; they are not compared, as every implementation differs there
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

    @property
    def holds(self) -> bool:
        """Whether the trace agrees with the model."""
        return self.rounding <= self.allowed

    @property
    def allowed(self) -> float:
        """The largest `rounding` that counts as agreement."""
        return ALLOWED_ROUNDING[self.dtype]

    @property
    def traced_in(self) -> str:
        """The precision of the trace: float32 holds every float16 and bfloat16 exactly."""
        return "float64" if self.dtype == "float64" else "float32"


def certify(trace: AttentionTrace, output: NDArray[np.floating], model: Model) -> Certificate:
    """Compare a trace with the output [queries, d_v] that the model's own attention returned for the same head.

    The unit of rounding: a relative error ε in a score s shifts it by ε·|s|, which changes its weight by that factor. So one
    unit is (ε + ε' · max |s| of the row) · Σ weight · |value|, with the rounding error ε of the model's dtype and ε' of its
    scores (see `_Rounding`). By this unit a head that attends to a single key, whose output hardly depends on its scores, is
    measured as strictly as any other.
    """
    return _certificate([_compare_trace(trace, output, model)], model, trace.scale, describe(trace.mask))


def certify_call(call: Call, head: int, model: Model) -> Certificate:
    """Compare a head of a captured layer in blocks of rows, so that a long text needs no more memory (see `certify`)."""
    key_head = head // call.group
    value, output = wide(call.value[0, key_head]), wide(call.output[0, :, head])
    rounding, blocks = _Rounding.of(model, call), []
    for rows in row_blocks(call, head):
        weights, reached = rows.weights[0], value[: rows.allowed.shape[2]]
        theirs, ours = output[rows.start : rows.stop], weights @ reached
        instead = head_edit(call, head, range(rows.start, rows.stop)).output
        if instead is not None:
            ours = put_in(ours, torch.as_tensor(instead, device=ours.device))
        blocks.append(_compare(rows.allowed[0], rows.masked[0], weights, reached, ours, theirs, rounding))
    return _certificate(blocks, model, head_scale(call, head), _mask_in_words(call, head))


def certified_overview(
    head: Head, call: Call, number: int, model: Model, max_cells: int = MAX_CELLS
) -> tuple[Overview, Certificate]:
    """The overview of head `number` of a captured layer and the certificate of these numbers, from one sweep."""
    output = wide(call.output[0, :, number]).numpy(force=True)
    return certified_head(head, output, model, _mask_in_words(call, number), max_cells)


def certified_head(
    head: Head, output: NDArray[np.floating], model: Identity, mask: str, max_cells: int = MAX_CELLS
) -> tuple[Overview, Certificate]:
    """The overview of a head and its certificate, from one sweep.

    output  [queries, d_v], what the model's own attention returned for this head
    mask    the mask in words
    """
    blocks: list[_Compared] = []

    def compare(rows: range, trace: AttentionTrace) -> None:
        blocks.append(_compare_trace(trace, output[rows.start : rows.stop], model))

    overview = head.overview(max_cells, watch=compare)
    return overview, _certificate(blocks, model, head.scale, mask)


class _Rounding(NamedTuple):
    """The relative rounding errors of a model's attention: of its weights and output, and of its scores.

    torch's fused attention keeps the scores of a float16 or bfloat16 model in float32. Architectures with soft caps or sinks
    compute attention in their own code, which also rounds the scores.
    """

    result: float
    scores: float

    @classmethod
    def of(cls, model: Identity, head: Call | AttentionTrace) -> _Rounding:
        own = torch.finfo(getattr(torch, model.dtype)).eps
        is_eager = head.softcap is not None or head.sinks is not None
        return cls(own, own if is_eager else min(own, torch.finfo(torch.float32).eps))


class _Compared(NamedTuple):
    """The comparison of some rows; the fields are those of `Certificate`."""

    cells: int
    difference: float
    rounding: float
    left_out: int


def _compare_trace(trace: AttentionTrace, theirs: NDArray[np.floating], model: Identity) -> _Compared:
    return _compare(
        trace.mask, trace.masked, trace.weights, trace.value, trace.output, theirs, _Rounding.of(model, trace)
    )


def _compare(
    allowed: Any, masked: Any, weights: Any, value: Any, ours: Any, theirs: Any, rounding: _Rounding
) -> _Compared:
    """Compare our output [rows, d_v] of some rows [rows, keys] of a head with the model's own; NumPy or torch."""
    xp = array_namespace(weights)
    attending = xp.any(allowed, axis=1)
    difference = xp.abs(ours - theirs)[attending]
    largest_score = xp.max(xp.abs(xp.where(allowed, masked, 0)), axis=1, keepdims=True)
    unit = (rounding.result + rounding.scores * largest_score) * (weights @ xp.abs(value))
    units = difference / xp.maximum(unit[attending], xp.asarray(xp.finfo(unit.dtype).smallest_normal, dtype=unit.dtype))
    cells = int(np.prod(difference.shape))
    worst = (float(xp.max(difference)), float(xp.max(units))) if cells else (0.0, 0.0)
    return _Compared(cells, *worst, int(xp.sum(~attending)))


def _certificate(blocks: Sequence[_Compared], model: Identity, scale: float, mask: str) -> Certificate:
    return Certificate(
        cells=sum(block.cells for block in blocks),
        difference=max(block.difference for block in blocks),
        rounding=max(block.rounding for block in blocks),
        left_out=sum(block.left_out for block in blocks),
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
