"""Word order: how attention learns positions (sinusoids, rotations, biases), and that it cannot know them otherwise."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..attention.masks import causal, grid
from ..attention.sources import embed
from ..attention.trace import Array, AttentionTrace, attend
from ..capturing.capture import Capture
from ..capturing.layer_labels import layer_numbers
from ..errors import InputError, check_index
from ..models.devices import at_hand
from ..models.model import Model
from ..models.modules import Kind

BASE = 10_000.0  # Vaswani et al. 2017 and Su et al. 2021; SmolLM2 uses 100,000

# --- sinusoids, added to the tokens


def sinusoidal(count: int, d_model: int) -> Array:
    """The sinusoidal encoding of positions 0 to count - 1 (Vaswani et al. 2017, section 3.5): [count, d_model] in [-1, 1].

    PE[p, 2i] = sin(p · ω_i), PE[p, 2i + 1] = cos(p · ω_i), ω_i = 10000^(-2i / d_model) radians per token.
    """
    angles = np.outer(np.arange(count), frequencies(d_model))  # [count, d_model / 2]
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(count, d_model)


def frequencies(width: int, base: float = BASE) -> Array:
    """ω_i = base^(-2i / width) for every pair of dimensions, in radians per token: [width / 2] in (0, 1].

    A pair repeats after 2π / ω_i tokens, its wavelength. Raises InputError if width is odd, or base is not above 1.
    """
    if width < 2 or width % 2:
        raise InputError(f"The width is {width}; dimensions are used in pairs, so it has to be even.", field="width")
    if not base > 1:
        raise InputError(f"The base is {base}; it has to be above 1.", field="base")
    return base ** (-np.arange(0, width, 2) / width)


def shift_map(k: int, d_model: int) -> Array:
    """The matrix M with PE[p + k] = M @ PE[p] for every p: [d_model, d_model] (Vaswani et al. 2017, section 3.5).

    One 2 × 2 rotation by k · ω_i for each pair of dimensions: sin(a + b) and cos(a + b) written as a matrix.
    """
    angles = k * frequencies(d_model)
    matrix = np.zeros((d_model, d_model))
    sine, cosine = np.arange(0, d_model, 2), np.arange(1, d_model, 2)
    matrix[sine, sine] = matrix[cosine, cosine] = np.cos(angles)
    matrix[sine, cosine] = np.sin(angles)
    matrix[cosine, sine] = -np.sin(angles)
    return matrix


@dataclass(frozen=True, eq=False)
class Shift:
    """The encoding of one position moved by k tokens."""

    matrix: Array  # [d_model, d_model] `shift_map`
    target: Array  # [d_model] PE[p + k]
    moved: Array  # [d_model] matrix @ PE[p]
    residual: float  # max |PE[p + k] - matrix @ PE[p]| over every p from 0 to 999: rounding alone


def shift(position: int, k: int, d_model: int) -> Shift:
    """Move the encoding of one position by k tokens with `shift_map`, and measure its error over all positions."""
    matrix = shift_map(k, d_model)
    encodings = sinusoidal(1000 + k, d_model)
    moved = encodings[:1000] @ matrix.T
    residual = float(np.abs(encodings[k:] - moved).max())
    return Shift(matrix, encodings[position + k], moved[position], residual)


def sinusoid_scores(count: int, d_model: int) -> Array:
    """PE[p] · PE[q] for all pairs of positions: [count, count]. It is Σ cos((p - q) · ω_i): only the distance counts."""
    encodings = sinusoidal(count, d_model)
    return attend(encodings, encodings, encodings).raw


def diagonal_spread(scores: Array) -> float:
    """The largest difference between two scores [n, n] of equal distance: 0 if scores depend on the distance only."""
    count = len(scores)
    return max(float(np.ptp(np.diagonal(scores, offset))) for offset in range(-count + 1, count))


# --- rotations, applied to queries and keys


def rotate(vectors: ArrayLike, positions: ArrayLike, base: float = BASE) -> Array:
    """Rotary position embedding (Su et al. 2021, equation 34): each pair of dimensions turns by position · ω_i.

    vectors    [n, d]  queries or keys, d even
    positions  [n]     any numbers, also negative ones, which turn back
    returns    [n, d]  vectors of the same lengths

    Dimension i is paired with i + d/2, as in Llama; Su et al. pair 2i with 2i + 1, which is the same in another order.
    """
    matrix = np.asarray(vectors, dtype=np.float64)
    angles = np.outer(np.asarray(positions, dtype=np.float64), frequencies(matrix.shape[1], base))  # [n, d / 2]
    first, second = np.split(matrix, 2, axis=1)
    cosine, sine = np.cos(angles), np.sin(angles)
    return np.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=1)


@dataclass(frozen=True, eq=False)
class RotaryScores:
    """The scores of one query vector and one key vector at different distances, at two places in a text."""

    distances: NDArray[np.integer]  # [n] query position - key position, in tokens
    here: Array  # [n] with the query at position n - 1
    shifted: Array  # [n] with both positions later by `shift`
    difference: float  # max |here - shifted|: rounding alone, because only the distance counts


def rotary_scores(*, width: int, count: int, shift: int, base: float = BASE, seed: int = 0) -> RotaryScores:
    """q · k after rotation, for a random query and a key that is the same vector with a little noise.

    width  d_k, even
    count  number of distances, from 0
    shift  number of tokens by which both positions move

    Since query and key are alike, the score at distance 0 is high.
    """
    rng = np.random.default_rng(seed)
    query = rng.standard_normal((1, width))
    key = query + 0.25 * rng.standard_normal((1, width))
    distances = np.arange(count)

    def with_query_at(place: int) -> Array:
        keys = rotate(np.repeat(key, count, axis=0), place - distances, base)
        return attend(rotate(query, [place], base), keys, keys).raw[0]

    here, shifted = with_query_at(count - 1), with_query_at(count - 1 + shift)
    return RotaryScores(distances, here, shifted, float(np.abs(here - shifted).max()))


# --- biases, added to the scores


def alibi_slopes(heads: int) -> Array:
    """ALiBi's slope of each head, per token of distance: [heads] in (0, 1) (Press et al. 2021, section 3).

    2^(-8i / heads), i = 1 to heads, for a power of two. Otherwise, as in the authors' code: the slopes of the next smaller
    power of two, then every other slope of the next larger one until there are enough.
    """
    if heads < 1:
        raise InputError(f"There are {heads} heads; at least one is needed.", field="heads")
    power = 1 << (heads.bit_length() - 1)
    slopes = 2.0 ** (-8 * np.arange(1, power + 1) / power)
    between = 2.0 ** (-8 * np.arange(1, 2 * power + 1, 2) / (2 * power))
    return np.concatenate([slopes, between[: heads - power]])


def alibi_bias(count: int, slope: float) -> Array:
    """-slope · distance for each query and key: [count, count], at most 0. Press et al. use it under a causal mask."""
    return -slope * np.abs(relative_positions(count)).astype(np.float64)


def relative_positions(count: int) -> NDArray[np.int64]:
    """Key position - query position: [count, count], negative where the key came before."""
    places = np.arange(count)
    return places[None, :] - places[:, None]


def alibi_head(count: int, heads: int, head: int) -> AttentionTrace:
    """A head with ALiBi's bias and no other scores, under the causal mask of Press et al."""
    slopes = alibi_slopes(heads)
    check_index(head, heads, "head")
    nothing = np.zeros((count, 1))  # every score is 0
    return attend(nothing, nothing, nothing, bias=alibi_bias(count, slopes[head]), mask=grid(causal, count, count))


def t5_buckets(
    relative: ArrayLike, *, bidirectional: bool = True, buckets: int = 32, farthest: int = 128
) -> NDArray[np.int64]:
    """The bucket of T5's learned biases for each pair (Raffel et al. 2020, section 2.1): whole numbers in [0, buckets).

    relative       key position - query position, any shape
    bidirectional  encoder: half of the buckets for earlier keys, the other half for later ones; decoder: later keys share 0
    farthest       the distance from which all keys share the last bucket

    Half of a side's buckets stand for one distance each; the others grow with the logarithm of the distance.
    """
    relative = np.asarray(relative)
    buckets = buckets // 2 if bidirectional else buckets
    after = np.where(relative > 0, buckets, 0) if bidirectional else 0
    distance = np.abs(relative) if bidirectional else np.maximum(-relative, 0)
    exact = buckets // 2
    # In float32 as in T5: at distances on a boundary, rounding decides.
    growth = np.log(np.maximum(distance, 1).astype(np.float32) / np.float32(exact))
    steps = (growth / np.float32(np.log(farthest / exact)) * np.float32(buckets - exact)).astype(np.int64)
    return after + np.where(distance < exact, distance, np.minimum(exact + steps, buckets - 1))


# --- the same words in two orders

Heads = Callable[[Array], tuple[Array, Array, Array]]


def _rotary(x: Array, project: Heads) -> AttentionTrace:
    query, key, value = project(x)
    places = np.arange(len(x))
    return attend(rotate(query, places), rotate(key, places), value)


ORDER_FROM: dict[str, Callable[[Array, Heads], AttentionTrace]] = {
    "Nothing": lambda x, project: attend(*project(x)),
    "Sinusoids": lambda x, project: attend(*project(x + sinusoidal(*x.shape))),
    "Rotary": _rotary,
    "ALiBi": lambda x, project: attend(*project(x), bias=alibi_bias(len(x), slope=0.5)),
    "Causal mask": lambda x, project: attend(*project(x), mask=grid(causal, len(x), len(x))),
}


@dataclass(frozen=True, eq=False)
class Shuffled:
    """One untrained head that reads the same tokens in two orders."""

    order: NDArray[np.integer]  # [n] position j of the new order has the token of position order[j]
    tokens: tuple[str, ...]  # in the old order
    shuffled_tokens: tuple[str, ...]  # in the new order
    before: AttentionTrace
    after: AttentionTrace
    difference: float  # max |after.output[j] - before.output[order[j]]|: how much a token's output depends on the order

    @property
    def largest_weight(self) -> float:
        """The largest weight in both orders, for a shared colour range."""
        return float(max(self.before.weights.max(), self.after.weights.max()))


def shuffle(text: str, order_from: str = "Nothing", *, seed: int = 0, d_model: int = 32, d_head: int = 8) -> Shuffled:
    """Attend to the words of a text in their order and in a random one.

    order_from  a name in ORDER_FROM: what depends on positions. With "Nothing", attention is permutation equivariant (Lee et
                al. 2019, "Set Transformer", property 1): each output moves with its token and does not change. A causal mask
                is enough to break that.
    seed        of the random order

    Raises InputError if order_from is unknown, and for a text that `embed` refuses.
    """
    if order_from not in ORDER_FROM:
        raise InputError(f"There is no {order_from!r}. Choose one of: {', '.join(ORDER_FROM)}.", field="order_from")
    tokens, x = embed(text, d_model=d_model)
    w_q, w_k, w_v = np.random.default_rng(0).standard_normal((3, d_model, d_head)) / np.sqrt(d_model)
    order = np.random.default_rng(seed).permutation(len(tokens))

    def project(rows: Array) -> tuple[Array, Array, Array]:
        return rows @ w_q, rows @ w_k, rows @ w_v

    before, after = ORDER_FROM[order_from](x, project), ORDER_FROM[order_from](x[order], project)
    difference = float(np.abs(after.output - before.output[order]).max())
    return Shuffled(order, tokens, tuple(tokens[place] for place in order), before, after, difference)


# --- positions in a real model: the bands of its rotation, or its learned vectors. A band is a pair of dimensions of queries
# and keys that turns at one speed (Su et al. 2021, "RoFormer", equation 34). A score is a sum over its bands, so the parts of
# fast and of slow bands can be compared, at the pair's own distance and at others.


@dataclass(frozen=True, eq=False)
class Rotary:
    """The rotation of a layer's queries and keys."""

    frequencies: Array  # [bands] radians per token
    # [bands, 2] the dimensions of each band: in Llama i and i + d_k/2, in Cohere 2i and 2i + 1.
    pairs: NDArray[np.integer]

    @property
    def wavelengths(self) -> Array:
        """The number of tokens after which each band has turned once: [bands]."""
        return 2 * np.pi / self.frequencies


def rotary_of(capture: Capture, layer: int, kind: Kind | None = None) -> Rotary | None:
    """The rotation by the model's own code in a layer; None if the layer does not rotate its queries and keys."""
    network = capture.model.network
    module = capture.layer_call(layer, kind).module
    rotate_half = getattr(sys.modules[type(module).__module__], "rotate_half", None)
    if rotate_half is None or not getattr(module, "use_rope", True):
        return None
    layer_types = getattr(capture.model.text_config, "layer_types", None)
    own = {f"{layer_types[layer_numbers(capture, kind)[layer]]}_inv_freq"} if layer_types else set()
    names = {"inv_freq"} | own
    buffers = [buffer for name, buffer in network.named_buffers() if name.rpartition(".")[-1] in names]
    if not buffers:
        return None
    frequencies = buffers[0].cpu().double().numpy(force=True)
    # x becomes x · cos + rotate_half(x) · sin: dimensions numbered from 1 show the partner of each.
    numbers = buffers[0].new_ones(2 * len(frequencies)).cumsum(0)
    partners = rotate_half(numbers).numpy(force=True).astype(int)
    first = np.flatnonzero(partners < 0)
    return Rotary(frequencies, np.stack([first, -partners[first] - 1], axis=1))


@dataclass(frozen=True, eq=False)
class Bands:
    """The raw score of one query and one key, band by band."""

    products: NDArray[np.complexfloating]  # [bands] q · conj(k) of each band as complex numbers
    unrotated: float  # the part of dimensions outside all bands (in models that rotate only some dimensions)
    wavelengths: Array  # [bands] in tokens
    distance: int  # query position - key position

    @property
    def parts(self) -> Array:
        """The part of q · k of each band: [bands]."""
        return self.products.real

    @property
    def score(self) -> float:
        """q · k: the sum of all parts."""
        return float(self.parts.sum()) + self.unrotated

    @property
    def at_distance_0(self) -> Array:
        """The parts with the key at the query's own position, the content alone: [bands]."""
        return self._parts_at([0])[0]

    def score_at(self, distances: ArrayLike) -> Array:
        """q · k of the same two vectors at other distances: [distances]."""
        return self._parts_at(distances).sum(axis=1) + self.unrotated

    def _parts_at(self, distances: ArrayLike) -> Array:
        turns = np.outer(np.asarray(distances) - self.distance, 2 * np.pi / self.wavelengths)
        return (self.products * np.exp(1j * turns)).real

    def by_distance(self, farthest: int) -> tuple[NDArray[np.integer], Array]:
        """(distances 0 to `farthest` on the key's side of the query, the score at each)."""
        distances = np.arange(farthest + 1) * (-1 if self.distance < 0 else 1)
        return distances, self.score_at(distances)


def bands(query: Array, key: Array, distance: int, rotary: Rotary) -> Bands:
    """Divide the score of a captured query [d_k] and key [d_k], which are rotated already, into its bands.

    As complex numbers, band i of the pair is q · conj(k) = (unrotated q · conj k) · e^(i ω distance); the real part counts.
    """
    first, second = rotary.pairs.T
    wide_query, wide_key = query.astype(np.float64), key.astype(np.float64)
    products = (wide_query[first] + 1j * wide_query[second]) * (wide_key[first] - 1j * wide_key[second])
    rest = np.setdiff1d(np.arange(query.size), rotary.pairs)
    return Bands(products, float(wide_query[rest] @ wide_key[rest]), rotary.wavelengths, distance)


def learned_positions(model: Model) -> Array | None:
    """The learned vector of each position, [positions, d_model], as BERT has them; None for models without."""
    for name, module in model.network.named_modules():
        if name.rpartition(".")[-1] in ("position_embeddings", "embed_positions", "wpe") and hasattr(module, "weight"):
            return at_hand(module, "weight").cpu().double().numpy(force=True)
    return None


def cosines(vectors: Array) -> Array:
    """The cosine of each pair of rows: [n, n] in [-1, 1], 1 on the diagonal."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(vectors.dtype).tiny)
    return unit @ unit.T
