"""The stages of a trace in their order: what each is called, its formula with the live numbers, and its array."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from core.attention.ledger import Ledger
from core.attention.trace import AttentionTrace


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One picture of the computation.

    key         the attribute of a trace that holds its array
    name        how a person calls it
    noun        what one number of it is called
    sentence    what happens here, in one sentence
    rows        what a row is: "query" or "key"
    columns     what a column is: "key" or "dimension"
    scale       "signed" numbers around 0, a "share" from 0 to 1, or a "permission" of 1 and 0
    formula     LaTeX with the numbers of a trace and of the pinned cell
    after_mask  whether a forbidden pair is told apart: Q, K, V and the scores before the mask exist for every pair
    beside      the key of a stage whose number one wants to see beside this one, or None
    """

    key: str
    name: str
    noun: str
    sentence: str
    rows: Literal["query", "key"]
    columns: Literal["key", "dimension"]
    scale: Literal["signed", "share", "permission"]
    formula: Callable[[AttentionTrace, Ledger], str]
    after_mask: bool = False
    beside: str | None = None

    def values(self, trace: AttentionTrace) -> NDArray:
        """The array of a trace, [rows, columns]."""
        return getattr(trace, self.key)


def number(value: float) -> str:
    """Four significant digits, −∞ where forbidden."""
    if np.isneginf(value):
        return "−∞"
    return f"{value:.4g}".replace("e-0", "e-").replace("e+0", "e+").replace("-", "−")


def _latex(value: float) -> str:
    return number(value).replace("−∞", r"-\infty").replace("−", "-")


def _matrix(name: str, array: NDArray) -> str:
    return rf"{name} : {array.shape[0]} \times {array.shape[1]}"


def _scale(trace: AttentionTrace) -> str:
    d_k = trace.query.shape[1]
    if np.isclose(trace.scale, d_k**-0.5, rtol=1e-6):
        return rf"\frac{{1}}{{\sqrt{{d_k}}}} = \frac{{1}}{{\sqrt{{{d_k}}}}} = {_latex(trace.scale)}"
    return rf"\text{{scale}} = {_latex(trace.scale)}"


def _raw(trace: AttentionTrace, cell: Ledger) -> str:
    return (
        rf"S = Q K^\top,\quad q_{{{cell.query}}} \cdot k_{{{cell.key}}}"
        rf" = \sum_{{d=1}}^{{{trace.query.shape[1]}}} q_d\,k_d = {_latex(cell.raw)}"
    )


def _scaled(trace: AttentionTrace, cell: Ledger) -> str:
    return rf"S \times {_scale(trace)},\quad {_latex(cell.raw)} \times {_latex(cell.scale)} = {_latex(cell.scaled)}"


def _mask(trace: AttentionTrace, cell: Ledger) -> str:
    forbidden = trace.mask.size - int(trace.mask.sum())
    here = "0" if cell.allowed else r"-\infty"
    return (
        rf"M_{{ij}} = 0 \text{{ or }} -\infty\ ({forbidden:,} \text{{ of }} {trace.mask.size:,} \text{{ pairs}}),"
        rf"\quad M_{{{cell.query},{cell.key}}} = {here}"
    ).replace(",\\text", r"\text")


def _masked(trace: AttentionTrace, cell: Ledger) -> str:
    parts = [_latex(cell.capped)]
    if cell.bias:
        parts.append(rf"({_latex(cell.bias)})")
    parts.append("0" if cell.allowed else r"(-\infty)")
    cap = r"\text{softcap}" if trace.softcap is not None else ""
    bias = " + B" if np.any(trace.bias) else ""
    return rf"{cap}(S \times {_latex(trace.scale)}){bias} + M,\quad {' + '.join(parts)} = {_latex(cell.masked)}"


def _weights(trace: AttentionTrace, cell: Ledger) -> str:
    if not trace.mask[cell.query].any():
        return r"\text{this query may attend to nothing: its weights are all } 0"
    return (
        r"W_{ij} = \frac{e^{S_{ij}}}{\sum_j e^{S_{ij}}},\quad"
        rf"\frac{{e^{{{_latex(cell.masked)} - ({_latex(cell.row_maximum)})}}}}{{{_latex(cell.row_sum)}}}"
        rf" = \frac{{{_latex(cell.exponential)}}}{{{_latex(cell.row_sum)}}} = {_latex(cell.weight)}"
    )


def _output(trace: AttentionTrace, cell: Ledger) -> str:
    total = rf"o_{{{cell.query}}} = \sum_{{j=0}}^{{{trace.shape[1] - 1}}} w_j\,v_j"
    return rf"O = W V,\quad {total},\quad {_matrix('O', trace.output)}"


INPUTS = (
    Stage(
        key="query",
        name="Query",
        noun="query",
        sentence="What each position looks for.",
        rows="query",
        columns="dimension",
        scale="signed",
        formula=lambda trace, _: _matrix("Q", trace.query),
    ),
    Stage(
        key="key",
        name="Key",
        noun="key",
        sentence="What each position offers to be found by.",
        rows="key",
        columns="dimension",
        scale="signed",
        formula=lambda trace, _: _matrix("K", trace.key),
    ),
    Stage(
        key="value",
        name="Value",
        noun="value",
        sentence="What each position passes on when it is attended to.",
        rows="key",
        columns="dimension",
        scale="signed",
        formula=lambda trace, _: _matrix("V", trace.value),
    ),
)

STEPS = (
    Stage(
        key="raw",
        name="Raw scores",
        noun="raw score",
        sentence="Every query meets every key: multiply dimension by dimension and add up.",
        rows="query",
        columns="key",
        scale="signed",
        formula=_raw,
        beside="weights",
    ),
    Stage(
        key="scaled",
        name="Scaled",
        noun="scaled score",
        sentence="The same scores, made smaller so that the softmax does not saturate.",
        rows="query",
        columns="key",
        scale="signed",
        formula=_scaled,
        beside="weights",
    ),
    Stage(
        key="mask",
        name="Mask",
        noun="mask",
        sentence="Which keys each query may look at.",
        rows="query",
        columns="key",
        scale="permission",
        formula=_mask,
        after_mask=True,
    ),
    Stage(
        key="masked",
        name="Masked",
        noun="masked score",
        sentence="Forbidden pairs are set to −∞, so that e to that power is exactly 0.",
        rows="query",
        columns="key",
        scale="signed",
        formula=_masked,
        after_mask=True,
        beside="weights",
    ),
    Stage(
        key="weights",
        name="Softmax",
        noun="weight",
        sentence="Each row becomes weights that add up to 1.",
        rows="query",
        columns="key",
        scale="share",
        formula=_weights,
        after_mask=True,
        beside="masked",
    ),
    Stage(
        key="output",
        name="Output",
        noun="output",
        sentence="Each query receives the values, averaged with its weights.",
        rows="query",
        columns="dimension",
        scale="signed",
        formula=_output,
    ),
)

STAGES = INPUTS + STEPS
BY_KEY = {stage.key: stage for stage in STAGES}
