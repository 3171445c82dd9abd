"""What a real model does about positions: the bands of its rotation, or the vectors it has learned.

A band is a pair of dimensions of queries and keys that turns at one speed (Su et al. 2021, "RoFormer", equation 34). A score
is the sum of what its bands add, so it can be asked what the fast and the slow ones add, here and at other distances.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.attention import Array
from core.capturing import Capture, Kind
from core.models import Model


@dataclass(frozen=True, eq=False)
class Rotary:
    """How a layer rotates its queries and keys.

    frequencies  [bands]     radians per token
    pairs        [bands, 2]  the two dimensions of each band: in Llama i and i + d_k/2, in Cohere 2i and 2i + 1
    """

    frequencies: Array
    pairs: NDArray[np.integer]

    @property
    def wavelengths(self) -> Array:
        """[bands]: after how many tokens a band has turned once around."""
        return 2 * np.pi / self.frequencies


def rotary_of(capture: Capture, layer: int, kind: Kind | None = None) -> Rotary | None:
    """The frequencies and pairs that the model's own code uses in this layer; None if it rotates nothing there."""
    network = capture.model.network
    module = capture.calls[kind or capture.kinds[0]][layer].module
    rotate_half = getattr(sys.modules[type(module).__module__], "rotate_half", None)
    if rotate_half is None or not getattr(module, "use_rope", True):
        return None
    layer_types = getattr(network.config.get_text_config(), "layer_types", None)
    names = {"inv_freq"} | ({f"{layer_types[layer]}_inv_freq"} if layer_types else set())
    found = [buffer for name, buffer in network.named_buffers() if name.rpartition(".")[-1] in names]
    if not found:
        return None
    frequencies = found[0].numpy(force=True).astype(np.float64)
    # x becomes x · cos + rotate_half(x) · sin: numbering the dimensions from 1 shows which is turned into which.
    numbers = found[0].new_ones(2 * len(frequencies)).cumsum(0)
    partners = rotate_half(numbers).numpy(force=True).astype(int)
    first = np.flatnonzero(partners < 0)
    return Rotary(frequencies, np.stack([first, -partners[first] - 1], axis=1))


@dataclass(frozen=True, eq=False)
class Bands:
    """The raw score of one query and one key, band by band.

    parts        [bands]  what each band adds to q · k
    unrotated    what dimensions outside all bands add (models that rotate only part of a head)
    at_distance_0  [bands]  what the same two vectors would add if the key stood at the query's own position: content alone
    wavelengths  [bands]  in tokens
    distance     query position - key position
    """

    parts: Array
    unrotated: float
    at_distance_0: Array
    wavelengths: Array
    distance: int
    _products: NDArray[np.complexfloating]

    @property
    def score(self) -> float:
        """q · k: the sum of all parts."""
        return float(self.parts.sum()) + self.unrotated

    def score_at(self, distances: ArrayLike) -> Array:
        """What q · k would be if the same two tokens stood this many positions apart: [distances]."""
        turns = np.outer(np.asarray(distances) - self.distance, 2 * np.pi / self.wavelengths)
        return (self._products * np.exp(1j * turns)).real.sum(axis=1) + self.unrotated

    def by_distance(self, farthest: int) -> tuple[NDArray[np.integer], Array]:
        """Distances 0 to `farthest`, on the side where the key is, and the score at each."""
        distances = np.arange(farthest + 1) * (-1 if self.distance < 0 else 1)
        return distances, self.score_at(distances)


def bands(query: Array, key: Array, distance: int, rotary: Rotary) -> Bands:
    """Take the score of a captured query [d_k] and key [d_k] apart. Both are as the model used them: already rotated.

    As complex numbers, band i of the pair is q · conj(k) = (unrotated q · conj k) · e^(i ω distance), and adds its real part.
    """
    first, second = rotary.pairs.T
    wide_query, wide_key = query.astype(np.float64), key.astype(np.float64)
    products = (wide_query[first] + 1j * wide_query[second]) * (wide_key[first] - 1j * wide_key[second])
    rest = np.setdiff1d(np.arange(query.size), rotary.pairs)
    return Bands(
        parts=products.real,
        unrotated=float(wide_query[rest] @ wide_key[rest]),
        at_distance_0=(products * np.exp(-1j * distance * rotary.frequencies)).real,
        wavelengths=rotary.wavelengths,
        distance=distance,
        _products=products,
    )


def learned_positions(model: Model) -> Array | None:
    """The vectors that the model adds to its tokens, one a position: [positions, d_model]; None if it has none (BERT has)."""
    for name, module in model.network.named_modules():
        if name.rpartition(".")[-1] in ("position_embeddings", "embed_positions", "wpe") and hasattr(module, "weight"):
            return module.get_parameter("weight").numpy(force=True).astype(np.float64)
    return None


def cosines(vectors: Array) -> Array:
    """How alike the directions of the rows are: [n, n] in [-1, 1], 1 on the diagonal."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(vectors.dtype).tiny)
    return unit @ unit.T
