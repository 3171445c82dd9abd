"""The formula of each stage in LaTeX, with the numbers of one head and of one of its cells."""

import numpy as np
from numpy.typing import NDArray

from .head import Head
from .ledger import Ledger
from .rowwise import Overview
from .stages import number

LARGEST = 3  # terms of a row that are written out
_INFINITY = r"{-\infty}"  # in braces, or a narrow page breaks the line after the sign


def formula(stage_key: str, head: Head, overview: Overview, cell: Ledger) -> str:
    """The formula by which a stage follows from the one before, in general and for this cell (`head.explain(query, key)`)."""
    queries, keys = head.shape
    match stage_key:
        case "query" | "key" | "value":
            return _matrix(stage_key[0].upper(), getattr(head, stage_key))
        case "raw":
            return (
                rf"S = Q K^\top,\quad q_{{{cell.query}}} \cdot k_{{{cell.key}}}"
                rf" = \sum_{{d=1}}^{{{len(cell.products)}}} q_d\,k_d = {_latex(cell.raw)}"
            )
        case "scaled":
            scale, raw, scaled = _scale(head), _latex(cell.raw), _latex(cell.scaled)
            return rf"S \times {scale},\quad {raw} \times {_latex(cell.scale)} = {scaled}"
        case "mask":
            here = "0" if cell.allowed else _INFINITY
            counts = overview.row_numbers["forbidden"].sum(), queries * keys
            forbidden, pairs = (f"{count:,}".replace(",", "{,}") for count in counts)
            return (
                rf"M_{{ij}} = 0 \text{{ or }} {_INFINITY}\ ({forbidden} \text{{ of }} {pairs} \text{{ pairs}}),"
                rf"\quad M_{{{cell.query},{cell.key}}} = {here}"
            )
        case "masked":
            return _masked(head, cell)
        case "weights":
            return _weights(head, cell)
        case "output":
            total = rf"o_{{{cell.query}}} = \sum_{{j=0}}^{{{keys - 1}}} w_j\,v_j"
            return rf"O = W V,\quad {total},\quad {_matrix('O', overview.row_numbers['output'])}"
    raise ValueError(f"There is no stage {stage_key!r}.")


def added(head: Head) -> tuple[str, ...]:
    """Names of what changes the scaled scores besides the mask: "cap" for a soft cap, "B" for a bias."""
    last = head.shaping(range(head.shape[0] - 1, head.shape[0]))  # of the rows, the one that may attend to most
    names = {"cap": bool(last.caps), "B": bool(last.bias.any())}
    return tuple(name for name, is_there in names.items() if is_there)


def _masked(head: Head, cell: Ledger) -> str:
    bias = [rf"({_latex(cell.bias)})"] if cell.bias else []
    parts = [_latex(cell.capped), *bias, "0" if cell.allowed else f"({_INFINITY})"]
    names = added(head)
    cap = r"\text{softcap}" if "cap" in names else ""
    plus = " + B" if "B" in names else ""
    return rf"{cap}(S \times {_latex(head.scale)}){plus} + M,\quad {' + '.join(parts)} = {_latex(cell.masked)}"


def _weights(head: Head, cell: Ledger) -> str:
    row = head.trace(range(cell.query, cell.query + 1))
    if row.empty_rows[0]:
        return r"\text{this query may attend to nothing: its weights are all } 0"
    powers = np.sort(np.exp(row.masked[0].astype(np.float64) - cell.row_maximum))[::-1]
    terms = [_latex(power) for power in powers[:LARGEST] if power > 0]
    others = [r"\dots"] if powers[LARGEST:].any() or row.sinks is not None else []
    return (
        r"W_{ij} = \frac{e^{S_{ij}}}{\sum_j e^{S_{ij}}},\quad"
        rf"\frac{{e^{{{_latex(cell.masked)} - ({_latex(cell.row_maximum)})}}}}{{{' + '.join([*terms, *others])}}}"
        rf" = \frac{{{_latex(cell.exponential)}}}{{{_latex(cell.row_sum)}}} = {_latex(cell.weight)}"
    )


def _scale(head: Head) -> str:
    d_k = head.query.shape[1]
    if np.isclose(head.scale, d_k**-0.5, rtol=1e-6):
        return rf"\frac{{1}}{{\sqrt{{d_k}}}} = \frac{{1}}{{\sqrt{{{d_k}}}}} = {_latex(head.scale)}"
    return rf"\text{{scale}} = {_latex(head.scale)}"


def _matrix(name: str, array: NDArray) -> str:
    return rf"{name} : {array.shape[0]} \times {array.shape[1]}"


def _latex(value: float) -> str:
    return number(value).replace("−∞", _INFINITY).replace("−", "-")
