"""How far back a layer can reach: steps, path lengths and operations, and how much gradient arrives.

Vaswani et al. 2017, section 4 and table 1; Hochreiter and Schmidhuber 1997 and Pascanu et al. 2013 for recurrent layers.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from ..attention.trace import Array, AttentionTrace, attend
from ..averages import log_mean_and_error
from ..capturing.calls.rows import row_blocks
from ..capturing.capture import Capture
from ..errors import InputError
from ..models.calls import Call
from ..models.modules import Kind
from ..progress import OnProgress, stop_point
from ..threads import side_by_side

LONGEST = 512
MAX_QUERIES = 256

# --- table 1


@dataclass(frozen=True, eq=False)
class Costs:
    """The costs of one layer of each kind for a text of n tokens (Vaswani et al. 2017, table 1). Every array is [lengths].

    Sequential operations must follow one another; they are the most steps between two positions. The others are
    multiplications, up to a constant factor.
    """

    lengths: NDArray[np.integer]
    recurrent_sequential: NDArray[np.integer]  # n
    attention_sequential: NDArray[np.integer]  # 1
    recurrent_operations: Array  # n d²
    attention_operations: Array  # n² d
    crossing: int  # the length n with equally many operations: n = d


def costs(lengths: ArrayLike, width: int) -> Costs:
    """The costs for texts of these lengths and vectors of this width (d)."""
    n = np.asarray(lengths)
    wide = n.astype(np.float64)
    return Costs(
        lengths=n,
        recurrent_sequential=n,
        attention_sequential=np.ones_like(n),
        recurrent_operations=wide * width**2,
        attention_operations=wide**2 * width,
        crossing=width,
    )


# --- measured gradients


@dataclass(frozen=True, eq=False)
class Reach:
    """How strongly the last position's output depends on the input at each distance before it."""

    distances: NDArray[np.integer]  # [n] 0 for the last position itself
    norms: Array  # [seeds, n] ‖∂ out_last / ∂ x_p‖, the Frobenius norm of the Jacobian

    @property
    def log10(self) -> Array:
        """The mean of log10 of the norms over the seeds: [n]."""
        return log_mean_and_error(self.norms)[0]

    @property
    def log10_error(self) -> Array:
        """The standard error of this mean: [n]."""
        return log_mean_and_error(self.norms)[1]


Layer = Callable[[torch.Tensor], torch.Tensor]


def reach(make: Callable[[], Layer], *, length: int, width: int, seeds: int) -> Reach:
    """Measure ∂ out_last / ∂ x_p by torch's autograd, for a new layer and a random input per seed.

    make     builds a layer from [batch, length, width] to the same shape, with torch's random numbers (float64)
    length   number of tokens, 2 to LONGEST
    seeds    number of layers and inputs, from seed 0, at least 2
    """
    if not 2 <= length <= LONGEST:
        raise InputError(f"The length is {length}; it has to be from 2 to {LONGEST} tokens.", field="length")
    if seeds < 2:
        raise InputError(f"With {seeds} seeds there is no spread to show; at least 2 are needed.", field="seeds")
    rows = []
    for seed in range(seeds):
        stop_point()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layer = make()
            tokens = torch.randn(1, length, width, dtype=torch.float64)
        rows.append(_jacobian_norms(layer, tokens))
    return Reach(np.arange(length), np.stack(rows)[:, ::-1])


def _jacobian_norms(layer: Layer, tokens: torch.Tensor) -> Array:
    """‖∂ out_last / ∂ x_p‖ for every p: [length]."""
    width = tokens.shape[-1]
    # With one copy of the input for each output number, a single backward pass gives the whole Jacobian.
    copies = tokens.expand(width, -1, -1).clone().requires_grad_()
    last = layer(copies)[:, -1]  # [width, width]
    (jacobian,) = torch.autograd.grad(last, copies, torch.eye(width, dtype=tokens.dtype))  # [width, length, width]
    return jacobian.norm(dim=(0, 2)).numpy()


def rnn(width: int, gain: float = 1.0) -> Layer:
    """torch.nn.RNN with its own initialisation, uniform in ±1/√width, and its recurrent matrix times `gain`."""
    layer = torch.nn.RNN(width, width, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        layer.get_parameter("weight_hh_l0").mul_(gain)
    return lambda tokens: layer(tokens)[0]


def lstm(width: int, forget_bias: float = 0.0) -> Layer:
    """torch.nn.LSTM with its own initialisation, and `forget_bias` added to its forget gates (Gers et al. 2000)."""
    layer = torch.nn.LSTM(width, width, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        gates = layer.get_parameter("bias_ih_l0")  # [4 width]: input, forget, cell, output
        gates[width : 2 * width] += forget_bias
    return lambda tokens: layer(tokens)[0]


def attention(width: int) -> Layer:
    """torch.nn.MultiheadAttention with its own initialisation: one head, causal, no positions, nothing around it."""
    layer = torch.nn.MultiheadAttention(width, 1, batch_first=True, dtype=torch.float64)

    def run(tokens: torch.Tensor) -> torch.Tensor:
        later = torch.nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], dtype=tokens.dtype)
        return layer(tokens, tokens, tokens, attn_mask=later, is_causal=True, need_weights=False)[0]

    return run


def compare_reach(
    length: int, *, gain: float = 1.0, forget_bias: float = 0.0, width: int = 32, seeds: int = 5
) -> dict[str, Reach]:
    """`reach` of the three layers above with the same width."""
    makers: dict[str, Callable[[], Layer]] = {
        "RNN": lambda: rnn(width, gain),
        "LSTM": lambda: lstm(width, forget_bias),
        "attention": lambda: attention(width),
    }
    return {name: reach(make, length=length, width=width, seeds=seeds) for name, make in makers.items()}


# --- how far heads look


def _sampled(count: int) -> NDArray[np.integer]:
    """Up to MAX_QUERIES evenly spaced queries of `count`, rising."""
    return np.unique(np.linspace(0, count - 1, min(MAX_QUERIES, count)).round().astype(int))


def _far_and_total(weights: Array, queries: NDArray[np.integer], without_first: bool) -> tuple[Array, Array]:
    """Σ weight · |query - key| and Σ weight over all rows: [..., rows, keys] to two arrays [...]."""
    first = int(without_first)
    distances = np.abs(queries[:, None] - np.arange(first, weights.shape[-1]))
    weights = weights[..., first:].astype(np.float64)
    return (weights * distances).sum(axis=(-2, -1)), weights.sum(axis=(-2, -1))


def mean_distances(
    capture: Capture, kind: Kind | None = None, *, without_first: bool = False, on_progress: OnProgress | None = None
) -> Array:
    """How far each head looks, in tokens: Σ weight · |query - key| / Σ weight, [layers, heads].

    In a text of more than MAX_QUERIES tokens, that many evenly spaced queries are used.

    without_first  whether to leave out the first token as a key: many heads attend to it whatever it is (Xiao et al. 2023)

    Raises InputError for cross-attention, whose queries and keys are positions of different texts.
    """
    if (kind or capture.kinds[0]) == "cross":
        why = "Cross-attention looks from one text to another: there is no distance to measure."
        raise InputError(why, field="kind")
    layers = side_by_side(lambda call: _layer_distances(call, without_first), capture.each_layer(kind), on_progress)
    return np.stack(layers)


def _layer_distances(call: Call, without_first: bool) -> Array:
    """`mean_distances` of one layer: [heads]."""
    far = total = np.zeros(call.heads)
    queries = _sampled(call.query.shape[2])
    for neighbours in np.split(queries, np.flatnonzero(np.diff(queries) > 1) + 1):
        for rows in row_blocks(call, rows=range(neighbours[0], neighbours[-1] + 1)):
            weights = rows.weights.numpy(force=True)
            more_far, more = _far_and_total(weights, np.arange(rows.start, rows.stop), without_first)
            far, total = far + more_far, total + more
    return np.divide(far, total, out=np.zeros_like(far), where=total > 0)


def even_distance(trace: AttentionTrace, *, without_first: bool = False) -> float:
    """How far a head would look if it attended evenly to all keys that it may attend to; as in `mean_distances`."""
    queries = _sampled(trace.shape[0])
    even = attend(trace.query[queries], trace.key, trace.value, mask=trace.mask[queries], scale=0.0)
    far, total = _far_and_total(even.weights, queries, without_first)
    return float(far / total) if total > 0 else 0.0
