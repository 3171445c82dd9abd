"""Why scores are divided by √d_k: how dot products spread, and what that does to the softmax and its gradients.

Vaswani et al. 2017, section 3.2.1 and footnote 4 (https://arxiv.org/abs/1706.03762). Random matrices and the heads of a
pretrained model are measured by the same statistics.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn.functional import layer_norm, scaled_dot_product_attention

from ..attention.sources import DISTRIBUTIONS
from ..attention.trace import Array, AttentionTrace, attend, softmax
from ..capturing.calls.rows import row_blocks
from ..capturing.capture import Capture
from ..errors import InputError
from ..models.calls import Call
from ..models.modules import Kind
from ..progress import OnProgress, stop_point
from ..threads import side_by_side

POWERS_OF_TWO = tuple(2**power for power in range(13))  # 1 to 4,096
Measured = TypeVar("Measured")
NEARLY_ALL = 0.99  # a row with a weight above this looks at one key only


def growing_product(n: int) -> tuple[Array, Array]:
    """How (1, 2 ... n) · (3, 4 ... n + 2) grows with the number of its terms, n from 1 to 64.

    Returns the product of each pair of entries, [n], and the dot product of the first 1, 2 ... n entries, [n]: 11, 50 and 133
    for n = 2, 4 and 6.
    """
    if not 1 <= n <= 64:
        raise InputError(f"The number of dimensions is {n}; it has to be from 1 to 64.", field="n")
    query, key = np.arange(1.0, n + 1), np.arange(3.0, n + 3)
    totals = [attend(query[None, :m], key[None, :m], [[1.0]]).raw[0, 0] for m in range(1, n + 1)]
    return query * key, np.array(totals)


class RowStatistics(NamedTuple):
    """Statistics of the rows of a head's scores and weights. Every field has the same shape, with one entry a head.

    Rows with nothing to attend to are left out. A row with a single key counts: its weight is 1 at any scale.
    """

    spread: Array  # standard deviation of the scaled scores of allowed pairs
    entropy: Array  # mean over rows of -Σ p ln p, in nats: 0 if one key has all the weight, ln n if n share it evenly
    largest: Array  # mean over rows of the largest weight, in [0, 1]
    near_one: Array  # the share of rows with a weight above .99, in [0, 1]
    jacobian: Array  # mean over rows of the Frobenius norm of diag(p) - p pᵀ, in [0, 0.71]


def row_statistics(trace: AttentionTrace) -> RowStatistics:
    """The statistics of one head; every field is an array of shape []."""
    return _statistics([(trace.scaled, trace.weights, trace.mask)])


def _statistics(blocks: Iterable[tuple[Array, Array, NDArray[np.bool_]]]) -> RowStatistics:
    """The statistics [...] of heads, from blocks of rows: (scaled scores, weights, mask), each [..., rows, keys]."""
    per_row, moments = [], []
    for scaled, weights, mask in blocks:
        weights = weights.astype(np.float64)
        largest = weights.max(axis=-1)
        measured = np.stack([entropy(weights), largest, largest > NEARLY_ALL, jacobian_norm(weights)])
        per_row.append(np.where(mask.any(axis=-1), measured, np.nan))
        moments.append(_moments(scaled.astype(np.float64), mask))
    rows = np.concatenate(per_row, axis=-1)
    if np.isnan(rows).all(axis=-1).any():
        raise InputError("Every row of this head is masked; there is nothing to measure.", field="mask")
    return RowStatistics(*(np.asarray(number) for number in (_spread(moments), *np.nanmean(rows, axis=-1))))


def _moments(scores: Array, mask: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
    """The count of allowed scores, their mean, and the sum of their squared differences from it: each [...]."""
    count = mask.sum(axis=(-2, -1))
    mean = np.where(mask, scores, 0).sum(axis=(-2, -1)) / np.maximum(count, 1)
    squares = np.where(mask, scores - mean[..., None, None], 0) ** 2
    return count, mean, squares.sum(axis=(-2, -1))


def _spread(moments: Sequence[tuple[Array, Array, Array]]) -> Array:
    """The standard deviation of the scores of all blocks from the moments of each: within blocks and between them."""
    counts, means, squares = (np.stack(part) for part in zip(*moments, strict=True))
    total = counts.sum(axis=0)
    mean = (counts * means).sum(axis=0) / total
    return np.sqrt((squares + counts * (means - mean) ** 2).sum(axis=0) / total)


def entropy(weights: Array) -> Array:
    """-Σ p ln p of each row, in nats: [..., keys] to [...] in [0, ln keys] (Shannon 1948, section 6)."""
    safe = np.where(weights > 0, weights, 1)
    return -(weights * np.log(safe)).sum(axis=-1)


def softmax_jacobian(weights: ArrayLike) -> Array:
    """The derivative of each weight with respect to each score, diag(p) - p pᵀ: [keys] to [keys, keys].

    Symmetric, every row sums to 0, eigenvalues in [0, 1/2] (Goodfellow et al. 2016, Deep Learning, section 6.2.2.3).
    """
    row = np.asarray(weights, dtype=np.float64)
    return np.diag(row) - np.outer(row, row)


def jacobian_norm(weights: Array) -> Array:
    """The Frobenius norm of diag(p) - p pᵀ without building it: √(Σ p² - 2 Σ p³ + (Σ p²)²), [..., keys] to [...]."""
    squares = weights * weights
    total, cubes = squares.sum(axis=-1), (squares * weights).sum(axis=-1)
    return np.sqrt(np.maximum(total - 2 * cubes + total**2, 0))  # rounding can leave -1e-17 when one weight is 1


GROWING = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # d_k


class ScoreDistribution(NamedTuple):
    """Whole numbers, and the share of the scores of a head near each, in [0, 1]: three arrays [n]."""

    scores: Array
    unscaled: Array
    scaled: Array


@dataclass(frozen=True, eq=False)
class RandomHead:
    """One random head, without and with the scale 1/√d_k."""

    unscaled: AttentionTrace
    scaled: AttentionTrace

    @property
    def spreads(self) -> tuple[float, float]:
        """The standard deviation of its scores, unscaled and scaled: about √d_k and 1."""
        return float(row_statistics(self.unscaled).spread), float(row_statistics(self.scaled).spread)

    @property
    def largest(self) -> tuple[float, float]:
        """The mean over its rows of the largest weight, unscaled and scaled."""
        return float(row_statistics(self.unscaled).largest), float(row_statistics(self.scaled).largest)

    def distribution(self) -> ScoreDistribution:
        """How often each score from -60 to 60 occurs, rounded to a whole number."""
        edges = np.arange(-60.5, 61)
        unscaled, scaled = (
            np.histogram(trace.scaled, edges)[0] / trace.scaled.size for trace in (self.unscaled, self.scaled)
        )
        return ScoreDistribution((edges[1:] + edges[:-1]) / 2, unscaled, scaled)


def random_head(d_k: int, *, queries: int = 512, keys: int = 8, seed: int = 0) -> RandomHead:
    """A head whose queries and keys have `d_k` standard normal entries, from 1 to 512.

    With a smaller d_k they are the first entries of the same vectors, so that a head grows.
    """
    if not 1 <= d_k <= GROWING[-1]:
        raise InputError(f"d_k is {d_k}; it has to be from 1 to {GROWING[-1]}.", field="d_k")
    rng = np.random.default_rng(seed)
    query, key = (rng.standard_normal((rows, GROWING[-1]))[:, :d_k] for rows in (queries, keys))
    scaled = attend(query, key, np.zeros((keys, 1)))
    return RandomHead(scaled.changed(scale=1.0), scaled)


class Saturation(NamedTuple):
    """A row of scores and the same row divided, each with its weights: four arrays [keys]."""

    scores: Array
    weights: Array
    divided_scores: Array
    divided_weights: Array


def divided(scores: Sequence[float], divisor: float) -> Saturation:
    """The weights before and after dividing the scores: [14, 10] gives [0.982, 0.018], its half [7, 5] [0.881, 0.119]."""
    if not divisor > 0:
        raise InputError(f"The divisor is {divisor}; it has to be above 0.", field="divisor")
    row = np.asarray(scores, dtype=np.float64)
    return Saturation(row, softmax(row), row / divisor, softmax(row / divisor))


@dataclass(frozen=True, eq=False)
class Sweep(Generic[Measured]):
    """Random heads of growing d_k, each without and with the scale 1/√d_k."""

    d_k: NDArray[np.int_]  # [sizes]
    unscaled: Measured  # what was measured, of shape [repeats, sizes]
    scaled: Measured

    @property
    def theory(self) -> Array:
        """√d_k [sizes]: the spread of unscaled scores if the entries of q and k are independent with variance 1."""
        return np.sqrt(self.d_k)

    def at_last(self, name: str) -> tuple[float, float]:
        """The mean of a statistic at the last d_k, unscaled and scaled."""
        unscaled, scaled = (float(getattr(of, name)[:, -1].mean()) for of in (self.unscaled, self.scaled))
        return unscaled, scaled


def sweep(
    sizes: Sequence[int] = POWERS_OF_TWO,
    *,
    queries: int = 64,
    keys: int = 64,
    repeats: int = 8,
    distribution: str = "normal",
    deviation: float = 1.0,
    seed: int = 0,
) -> Sweep[RowStatistics]:
    """Measure random heads: `repeats` draws for every d_k in `sizes`, of `queries` rows and `keys` columns each.

    distribution  of the entries of q and k, all with mean 0: "normal", "uniform" or "sign" (±1)
    deviation     their standard deviation; theory: that of q · k is deviation² · √d_k
    """
    if distribution not in DISTRIBUTIONS:
        allowed = ", ".join(DISTRIBUTIONS)
        raise InputError(f"There is no distribution {distribution!r}. Choose one of: {allowed}.", field="distribution")
    if not 0 < deviation <= 100:
        why = f"The standard deviation is {deviation}; it has to be above 0, at most 100."
        raise InputError(why, field="deviation")
    if min(sizes, default=0) < 1:
        raise InputError("Every d_k has to be a whole number from 1.", field="d_k")
    rng = np.random.default_rng(seed)
    draw = DISTRIBUTIONS[distribution]
    unscaled, scaled = [], []
    for _ in range(repeats):
        for d_k in sizes:
            stop_point()
            query, key = (deviation * draw(rng, (rows, d_k)) for rows in (queries, keys))
            trace = attend(query, key, np.zeros((keys, 1)))
            scaled.append(row_statistics(trace))
            unscaled.append(row_statistics(trace.changed(scale=1.0)))
    shape = (repeats, len(sizes))
    return Sweep(np.array(sizes), _stacked(unscaled, shape), _stacked(scaled, shape))


def example_row(d_k: int, *, scaled: bool, keys: int = 6, seed: int = 0) -> Array:
    """The scores of one random query and `keys` random keys: [keys].

    A larger d_k adds dimensions to the same vectors, up to 4,096 of them.
    """
    if not 1 <= d_k <= POWERS_OF_TWO[-1]:
        raise InputError(f"d_k is {d_k}; it has to be from 1 to {POWERS_OF_TWO[-1]:,}.", field="d_k")
    numbers = np.random.default_rng(seed).standard_normal((keys + 1, POWERS_OF_TWO[-1]))[:, :d_k]
    trace = attend(numbers[:1], numbers[1:], np.zeros((keys, 1)))
    return (trace.scaled if scaled else trace.raw)[0]


@dataclass(frozen=True, eq=False)
class ModelScores:
    """Statistics of every head of one pass of a model, with its own scale and without a scale."""

    d_k: int  # size of a query
    scale: float  # the model's own factor of raw scores
    with_scale: RowStatistics  # of shape [layers, heads]
    without_scale: RowStatistics  # with a scale of 1: as if the raw scores went into the softmax

    @property
    def theory(self) -> float:
        """√d_k: the spread of unscaled scores if the entries of q and k were independent with variance 1."""
        return float(np.sqrt(self.d_k))


def model_scores(capture: Capture, kind: Kind | None = None, *, on_progress: OnProgress | None = None) -> ModelScores:
    """Measure all heads of a pass, in blocks of rows."""

    def both(call: Call) -> tuple[RowStatistics, RowStatistics]:
        return _statistics(_stages(call)), _statistics(_stages(call.reshaped(scale=1.0)))

    with_scale, without_scale = zip(*side_by_side(both, capture.each_layer(kind), on_progress), strict=True)
    first, shape = capture.layer_call(0, kind), (capture.layers(kind), capture.heads(kind))
    return ModelScores(
        d_k=first.query.shape[3],
        scale=first.scale,
        with_scale=_stacked(with_scale, shape),
        without_scale=_stacked(without_scale, shape),
    )


def _stages(call: Call) -> Iterator[tuple[Array, Array, NDArray[np.bool_]]]:
    """(scaled scores, weights, mask) of all heads of a layer, in blocks of rows."""
    for rows in row_blocks(call):
        yield rows.scaled.numpy(force=True), rows.weights.numpy(force=True), rows.allowed.numpy(force=True)


def over_heads(statistics: RowStatistics) -> RowStatistics:
    """The means over all heads, but the median of the spread: a few heads spread far more than the rest."""
    means = RowStatistics(*(np.asarray(numbers.mean()) for numbers in statistics))
    return means._replace(spread=np.asarray(np.median(statistics.spread)))


def _stacked(statistics: Iterable[RowStatistics], shape: tuple[int, ...]) -> RowStatistics:
    return RowStatistics(*(np.array(numbers).reshape(shape) for numbers in zip(*statistics, strict=True)))


# --- gradients with and without the scale, by automatic differentiation, through one head and through a stack of layers. All
# weights are random: this is the start of training, and says nothing about its course.

Around = Literal["nothing", "normalise before", "normalise after"]
AROUND: tuple[Around, ...] = get_args(Around)

D_MODEL = 128  # of the single head; its queries and keys have d_k numbers
TOKENS = 64
STACK_TOKENS = 32
MAX_LAYERS = 24
WIDTHS = (16, 32, 64)

# Gradients below this are rounding errors of float64 relative to the gradient of length 1 that enters at the top.
ROUNDING = 1e-16


def autograd_norm(scores: ArrayLike) -> float:
    """The Frobenius norm of the derivative that `jacobian_norm` is about, by torch's autograd, to compare with it."""
    row = torch.tensor(np.asarray(scores), dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda x: torch.softmax(x, dim=0), row)
    assert isinstance(jacobian, Tensor)
    return float(jacobian.norm())


class HeadGradients(NamedTuple):
    """Lengths of gradients, each [repeats, sizes]."""

    query: Array  # the mean over the rows of q of the length of that row's gradient
    median_query: Array  # the median over the rows
    key: Array
    median_key: Array
    W_Q: Array  # the Frobenius norm of the whole matrix's gradient


def head_gradients(
    sizes: Sequence[int] = POWERS_OF_TWO[:11], *, repeats: int = 8, seed: int = 0
) -> Sweep[HeadGradients]:
    """The gradients that reach q, k and W_Q of one head, `repeats` draws for every d_k in `sizes`.

    x = 64 tokens of 128 standard normal numbers; W_Q, W_K [128, d_k] and W_V [128, 64] normal with variance 1/128, so that
    q, k and v have variance 1; the gradient that arrives at the head's output is standard normal. No mask.
    """

    def measured(power: float) -> HeadGradients:
        seeds = [seed * 1_000_003 + repeat for repeat in range(repeats)]
        heads = [[_one_head(d_k, d_k**power, of_head) for d_k in sizes] for of_head in seeds]
        return HeadGradients(*np.array(heads).transpose(2, 0, 1))

    return Sweep(np.array(sizes), unscaled=measured(0.0), scaled=measured(-0.5))


def _one_head(d_k: int, scale: float, seed: int) -> list[float]:
    """The fields of `HeadGradients` for one random head."""
    stop_point()
    rng = torch.Generator().manual_seed(seed)
    x = _normal(rng, TOKENS, D_MODEL)
    W_V, W_Q, W_K = (_normal(rng, D_MODEL, size) / D_MODEL**0.5 for size in (64, d_k, d_k))
    query, key = (x @ W_Q).requires_grad_(), (x @ W_K).requires_grad_()
    output = scaled_dot_product_attention(query, key, x @ W_V, scale=scale)
    to_query, to_key = torch.autograd.grad(output, (query, key), grad_outputs=_normal(rng, TOKENS, 64))
    by_query, by_key = to_query.norm(dim=1), to_key.norm(dim=1)
    to_W_Q = x.T @ to_query  # the chain rule through q = x W_Q
    return [float(n) for n in (by_query.mean(), by_query.median(), by_key.mean(), by_key.median(), to_W_Q.norm())]


@dataclass(frozen=True, eq=False)
class StackGradients:
    """Lengths of gradients in a stack, each [repeats, layers], the first layer first; at least 1e-16."""

    W_Q: Array  # the Frobenius norm of the gradient of the layer's query projection
    inputs: Array  # the length of the gradient of the layer's input, all tokens together


def stack_gradients(
    layers: int, *, scaled: bool, width: int = 64, around: Around = "normalise before", repeats: int = 8, seed: int = 0
) -> StackGradients:
    """Gradients in a stack of 1 to 24 untrained attention layers, from a random gradient of length 1 at its output.

    Each layer is one head without a mask, d_k = d_v = width, followed by W_O; all four projections are normal with variance
    1/width. It reads 32 tokens of `width` standard normal numbers. There are no feed-forward layers.

    around  what a layer does around its attention A: "nothing" A(x), "normalise before" x + A(norm(x)) (GPT-2), or
            "normalise after" norm(x + A(x)) (Vaswani et al. 2017, section 3.1); pre-LN and post-LN in Xiong et al. 2020,
            figure 1
    """
    if not 1 <= layers <= MAX_LAYERS:
        raise InputError(f"The stack has {layers} layers; it can have 1 to {MAX_LAYERS}.", field="layers")
    if around not in AROUND:
        raise InputError(f"There is no {around!r}. Choose one of: {', '.join(AROUND)}.", field="around")
    scale = width**-0.5 if scaled else 1.0
    rng = torch.Generator().manual_seed(seed)
    # The repeats are a batch, each with its own projections, drawn layer by layer: a deeper stack has the same first layers.
    x = _normal(rng, repeats, STACK_TOKENS, width).requires_grad_()
    arriving = _normal(rng, repeats, STACK_TOKENS, width)
    queries, inputs = [], []
    for _ in range(layers):
        stop_point()
        W_Q, W_K, W_V, W_O = (_normal(rng, repeats, width, width) / width**0.5 for _ in range(4))
        W_Q.requires_grad_()
        queries.append(W_Q)
        inputs.append(x)
        read = layer_norm(x, [width]) if around == "normalise before" else x
        attended = scaled_dot_product_attention(read @ W_Q, read @ W_K, read @ W_V, scale=scale) @ W_O
        x = attended if around == "nothing" else x + attended
        x = layer_norm(x, [width]) if around == "normalise after" else x
    arriving = arriving / arriving.norm(dim=(1, 2), keepdim=True)
    gradients = torch.autograd.grad(x, (*queries, *inputs), grad_outputs=arriving)
    lengths = torch.stack([gradient.norm(dim=(1, 2)) for gradient in gradients], dim=1).numpy().clip(min=ROUNDING)
    return StackGradients(lengths[:, :layers], lengths[:, layers:])


def _normal(rng: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=rng, dtype=torch.float64)
