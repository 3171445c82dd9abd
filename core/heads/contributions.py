"""The contribution of each head of a real layer to what the layer's attention returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..attention.trace import Array
from ..capturing.capture import Capture
from ..models.modules import Kind
from ..models.projections import HeadWeights, head_weights


@dataclass(frozen=True, eq=False)
class HeadContributions:
    """One layer's heads, in float64. A head's contribution is weights @ value @ W_O, with its own rows of W_O.

    total           [queries, d_model] the sum of the contributions: what the attention block returns, less its bias
    bias            [d_model] b_O
    lengths, along  [heads, queries], see `lengths`
    difference      the largest |total - concatenation @ W_O|
    """

    total: Array
    bias: Array
    lengths: Array
    along: Array
    difference: float


def head_contributions(capture: Capture, layer: int, kind: Kind | None = None) -> HeadContributions:
    """The contributions of all heads of a layer, which are independent of each other and add up (Elhage et al. 2021, "A
    Mathematical Framework for Transformer Circuits", https://transformer-circuits.pub/2021/framework)."""
    heads = range(capture.heads(kind))
    outputs = [capture.trace(layer, head, kind).output for head in heads]
    return add_up(outputs, [head_weights(capture.model, layer, head, kind) for head in heads])


def add_up(outputs: Sequence[Array], weights: Sequence[HeadWeights]) -> HeadContributions:
    """Add up contributions from the outputs [queries, d_head] and the matrices of all heads."""
    outputs = [output.astype(np.float64) for output in outputs]
    pieces = [matrices.W_O.astype(np.float64) for matrices in weights]
    contributions = np.stack([output @ piece for output, piece in zip(outputs, pieces, strict=True)])
    total, bias = contributions.sum(axis=0), weights[0].b_O.astype(np.float64)
    joined = np.concatenate(outputs, axis=1) @ np.concatenate(pieces, axis=0)
    return HeadContributions(total, bias, *lengths(contributions), float(np.abs(total - joined).max()))


def lengths(contributions: Array) -> tuple[Array, Array]:
    """The length of each head's contribution [heads, queries, d_model], and its length in the direction of their sum, negative
    where it points away from it: two of [heads, queries]. Over the heads the second add up to the length of the sum."""
    total = contributions.sum(axis=0)
    length = np.linalg.norm(total, axis=1, keepdims=True)
    direction = total / np.where(length == 0, 1, length)
    return np.linalg.norm(contributions, axis=2), (contributions * direction).sum(axis=2)
