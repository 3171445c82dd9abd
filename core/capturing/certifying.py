"""Certificates: a comparison of a head's output with the model's own, in units of the rounding error.

A relative error ε in a score s shifts it by ε·|s|, which changes its weight by that factor. So one unit is
(ε + ε' · max |s| of the row) · Σ weight · |value|, with the rounding error ε of the model's dtype and ε' of its scores. By this
unit a head that attends to a single key, whose output hardly depends on its scores, is measured as strictly as any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

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
from .edited import edit_of
from .rows import permissions, row_blocks

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
    rounding    the largest difference in units of what one rounding error in `dtype` can change
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


def certify_call(call: Call, head: int, model: Model) -> Certificate:
    """Compare a head of a captured layer in blocks of rows, so that a long text needs no more memory."""
    value, output = wide(call.value[0, head // call.group]), wide(call.output[0, :, head])
    edit, rounding, blocks = edit_of(call, head), _rounding(model, call), []
    for rows in row_blocks(call, head):
        weights, reached = rows.weights[0], value[: rows.allowed.shape[2]]
        theirs, ours = output[rows.start : rows.stop], weights @ reached
        given = edit.output_of(range(rows.start, rows.stop), value.shape[1])
        if given is not None:
            ours = put_in(ours, torch.as_tensor(given, device=ours.device))
        blocks.append(_compare(rows.allowed[0], rows.masked[0], weights, reached, ours, theirs, rounding))
    return _certificate(blocks, model, edit.scale(call.scale), mask_in_words(call, head))


def certified_head(
    head: Head, output: NDArray[np.floating], model: Identity, mask: str, max_cells: int = MAX_CELLS
) -> tuple[Overview, Certificate]:
    """The overview of a head and its certificate, from one sweep.

    output  [queries, d_v], what the model's own attention returned for this head
    mask    the mask in words
    """
    rounding, blocks = _rounding(model, head), []

    def compare(rows: range, trace: AttentionTrace) -> None:
        theirs, ours = output[rows.start : rows.stop], trace.output
        blocks.append(_compare(trace.mask, trace.masked, trace.weights, trace.value, ours, theirs, rounding))

    overview = head.overview(max_cells, watch=compare)
    return overview, _certificate(blocks, model, head.scale, mask)


def _rounding(model: Identity, head: Call | Head) -> tuple[float, float]:
    """The relative rounding errors of a model's attention: of its weights and output, and of its scores.

    torch's fused attention keeps the scores of a float16 or bfloat16 model in float32. Architectures with soft caps or sinks
    compute attention in their own code, which also rounds the scores.
    """
    own = torch.finfo(getattr(torch, model.dtype)).eps
    is_eager = head.softcap is not None or head.sinks is not None
    return own, own if is_eager else min(own, torch.finfo(torch.float32).eps)


def _compare(
    allowed: Any, masked: Any, weights: Any, value: Any, ours: Any, theirs: Any, rounding: tuple[float, float]
) -> tuple[int, float, float, int]:
    """Compare our output [rows, d_v] of some rows [rows, keys] of a head with the model's own; NumPy or torch.

    Returns the first four numbers of a `Certificate`.
    """
    xp = array_namespace(weights)
    attending = xp.any(allowed, axis=1)
    difference = xp.abs(ours - theirs)[attending]
    largest_score = xp.max(xp.abs(xp.where(allowed, masked, 0)), axis=1, keepdims=True)
    of_result, of_scores = rounding
    unit = (of_result + of_scores * largest_score) * (weights @ xp.abs(value))
    units = difference / xp.maximum(unit[attending], xp.asarray(xp.finfo(unit.dtype).smallest_normal, dtype=unit.dtype))
    cells = int(np.prod(difference.shape))
    worst = (float(xp.max(difference)), float(xp.max(units))) if cells else (0.0, 0.0)
    return cells, *worst, int(xp.sum(~attending))


def _certificate(
    blocks: Iterable[tuple[int, float, float, int]], model: Identity, scale: float, mask: str
) -> Certificate:
    cells, differences, roundings, left_out = zip(*blocks, strict=True)
    compared = sum(cells), max(differences), max(roundings), sum(left_out)
    return Certificate(*compared, model.name, model.revision, model.dtype, scale, mask)


def mask_in_words(call: Call, head: int) -> str:
    """The mask of one head in words, as `core.attention.masks.describe` says it."""
    if call.parts is not None:
        return f"within {int(call.parts.max()) + 1} parts"
    if call.mask is None:
        return "causal" if call.causal else "none"
    allowed, _ = permissions(call, slice(head, head + 1), range(call.query.shape[2]))
    missing = call.key.shape[2] - allowed.shape[2]
    return describe(np.pad(allowed[0].numpy(force=True), ((0, 0), (0, missing))))
