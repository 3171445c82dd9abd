"""What the scale does to learning: gradients by automatic differentiation, through one head and through a stack of layers.

Everything starts untrained, with random weights; nothing here is about how training goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn.functional import layer_norm, scaled_dot_product_attention

from core.attention import Array
from core.errors import InputError

Around = Literal["nothing", "normalise before", "normalise after"]
AROUND: tuple[Around, ...] = get_args(Around)

D_MODEL = 128  # of the single head; its queries and keys have d_k numbers
TOKENS = 64
STACK_TOKENS = 32
MOST_LAYERS = 24
WIDTHS = (16, 32, 64)

# Gradients below this are rounding errors of float64 relative to the gradient of length 1 that enters at the top.
ROUNDING = 1e-16


def autograd_jacobian(scores: ArrayLike) -> Array:
    """The derivative of each weight by each score, as torch finds it: [keys] to [keys, keys]."""
    row = torch.tensor(np.asarray(scores), dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda x: torch.softmax(x, dim=0), row)
    assert isinstance(jacobian, Tensor)
    return jacobian.numpy()


def autograd_norm(scores: ArrayLike) -> float:
    """The Frobenius norm of that derivative, to be compared with `core.scaling.jacobian_norm` of the weights."""
    return float(np.linalg.norm(autograd_jacobian(scores)))


class HeadGradients(NamedTuple):
    """Lengths of gradients, each [repeats, sizes].

    query, key                mean over the rows of q or k of the length of that row's gradient
    median_query, median_key  the same of the row in the middle
    W_Q                       the Frobenius norm of the whole matrix's gradient
    """

    query: Array
    median_query: Array
    key: Array
    median_key: Array
    W_Q: Array


@dataclass(frozen=True, eq=False)
class GradientSweep:
    """One head with growing d_k, without and with the scale 1/√d_k."""

    d_k: NDArray[np.int_]
    unscaled: HeadGradients
    scaled: HeadGradients


def head_gradients(
    sizes: Sequence[int] = tuple(2**power for power in range(11)), *, repeats: int = 8, seed: int = 0
) -> GradientSweep:
    """The gradients that reach q, k and W_Q of one head, `repeats` draws for every d_k in `sizes`.

    x = 64 tokens of 128 standard normal numbers; W_Q, W_K [128, d_k] and W_V [128, 64] normal with variance 1/128, so that
    q, k and v have variance 1; the gradient that arrives at the head's output is standard normal. No mask.
    """
    both: dict[bool, list[list[float]]] = {False: [], True: []}
    for repeat in range(repeats):
        for d_k in sizes:
            for scaled, found in both.items():
                rng = torch.Generator().manual_seed(seed * 1_000_003 + repeat)
                found.append(_one_head(d_k, d_k**-0.5 if scaled else 1.0, rng))
    unscaled, scaled = (
        HeadGradients(*np.array(found).reshape(repeats, len(sizes), -1).transpose(2, 0, 1)) for found in both.values()
    )
    return GradientSweep(np.array(sizes), unscaled, scaled)


def _one_head(d_k: int, scale: float, rng: torch.Generator) -> list[float]:
    x = _normal(rng, TOKENS, D_MODEL)
    W_V, W_Q, W_K = (_normal(rng, D_MODEL, size) / D_MODEL**0.5 for size in (64, d_k, d_k))
    query, key = (x @ W_Q).requires_grad_(), (x @ W_K).requires_grad_()
    output = _attention(query, key, x @ W_V, scale)
    to_query, to_key = torch.autograd.grad(output, (query, key), grad_outputs=_normal(rng, TOKENS, 64))
    by_query, by_key = to_query.norm(dim=1), to_key.norm(dim=1)
    to_W_Q = x.T @ to_query  # the chain rule through q = x W_Q
    return [float(n) for n in (by_query.mean(), by_query.median(), by_key.mean(), by_key.median(), to_W_Q.norm())]


@dataclass(frozen=True, eq=False)
class StackGradients:
    """Lengths of gradients in a stack, each [repeats, layers], the first layer first; at least 1e-16.

    W_Q     the Frobenius norm of the gradient of the layer's query projection
    inputs  the length of the gradient of what the layer reads, all tokens together
    """

    W_Q: Array
    inputs: Array


def stack_gradients(
    layers: int, *, scaled: bool, width: int = 64, around: Around = "normalise before", repeats: int = 8, seed: int = 0
) -> StackGradients:
    """Gradients in a stack of 1 to 24 untrained attention layers, from a random gradient of length 1 at its output.

    Each layer is one head without a mask, d_k = d_v = width, followed by W_O; all four projections are normal with variance
    1/width. It reads 32 tokens of `width` standard normal numbers. No feed-forward layers. `around` the attention A:
    "nothing" A(x), "normalise before" x + A(norm(x)) (GPT-2), "normalise after" norm(x + A(x)) (Vaswani et al. 2017,
    section 3.1; the names pre-LN and post-LN in Xiong et al. 2020, figure 1).
    """
    if not 1 <= layers <= MOST_LAYERS:
        raise InputError(f"The stack has {layers} layers; it can have 1 to {MOST_LAYERS}.", field="layers")
    if around not in AROUND:
        raise InputError(f"There is no {around!r}. Choose one of: {', '.join(AROUND)}.", field="around")
    scale = width**-0.5 if scaled else 1.0
    rng = torch.Generator().manual_seed(seed)
    # The repeats are a batch, each with projections of its own; layer by layer, so that a deeper stack keeps the first ones.
    x = _normal(rng, repeats, STACK_TOKENS, width).requires_grad_()
    arriving = _normal(rng, repeats, STACK_TOKENS, width)
    queries: list[Tensor] = []
    inputs: list[Tensor] = []
    for _ in range(layers):
        W_Q, W_K, W_V, W_O = (_normal(rng, repeats, width, width) / width**0.5 for _ in range(4))
        W_Q.requires_grad_()
        queries.append(W_Q)
        inputs.append(x)
        read = _normalised(x) if around == "normalise before" else x
        attended = _attention(read @ W_Q, read @ W_K, read @ W_V, scale) @ W_O
        x = attended if around == "nothing" else x + attended
        x = _normalised(x) if around == "normalise after" else x
    arriving = arriving / arriving.norm(dim=(1, 2), keepdim=True)
    found = torch.autograd.grad(x, (*queries, *inputs), grad_outputs=arriving)
    lengths = torch.stack([gradient.norm(dim=(1, 2)) for gradient in found], dim=1).numpy().clip(min=ROUNDING)
    return StackGradients(lengths[:, :layers], lengths[:, layers:])


def log_mean_and_error(repeated: Array) -> tuple[Array, Array]:
    """The mean of the base-10 logarithm over the first axis and its standard error, for lengths that differ by powers of 10."""
    logarithms = np.log10(repeated)
    return logarithms.mean(axis=0), logarithms.std(axis=0, ddof=1) / np.sqrt(len(repeated))


def _attention(query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
    return scaled_dot_product_attention(query, key, value, scale=scale)


def _normalised(x: Tensor) -> Tensor:
    return layer_norm(x, x.shape[-1:])


def _normal(rng: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=rng, dtype=torch.float64)
