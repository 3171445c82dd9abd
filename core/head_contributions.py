"""What each head of a real layer adds to what the layer's attention returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.attention import Array
from core.capturing import Capture, Kind
from core.heads import lengths
from core.projections import head_weights


@dataclass(frozen=True, eq=False)
class HeadContributions:
    """One layer's heads, in float64. A head's contribution is weights @ value @ W_O, with its own rows of W_O.

    total       [queries, d_model] the sum of the contributions: what the attention block returns, less its bias b_O
    bias        [d_model] b_O
    lengths     [heads, queries] the Euclidean length of each contribution
    along       [heads, queries] its length in the direction of the total, negative if it points away from it; the heads' add
                up to the length of the total
    difference  the largest |total - concatenation @ W_O|
    """

    total: Array
    bias: Array
    lengths: Array
    along: Array
    difference: float


def head_contributions(capture: Capture, layer: int, kind: Kind | None = None) -> HeadContributions:
    """The contributions of all heads of a layer, which are independent of each other and add up (Elhage et al. 2021, "A
    Mathematical Framework for Transformer Circuits", https://transformer-circuits.pub/2021/framework).

    Errors as in `Capture.trace` and `head_weights`.
    """
    heads = range(capture.heads(kind))
    outputs = [capture.trace(layer, head, kind).output.astype(np.float64) for head in heads]
    weights = [head_weights(capture.model, layer, head, kind) for head in heads]
    pieces = [matrices.W_O.astype(np.float64) for matrices in weights]
    contributions = [output @ piece for output, piece in zip(outputs, pieces, strict=True)]
    stacked = np.stack(contributions)
    total = stacked.sum(axis=0)
    joined = np.concatenate(outputs, axis=1) @ np.concatenate(pieces, axis=0)
    length, along = lengths(stacked)
    return HeadContributions(
        total, weights[0].b_O.astype(np.float64), length, along, float(np.abs(total - joined).max())
    )
