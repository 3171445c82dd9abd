"""One attention call inside a forward pass: the queries, keys and values that the model itself used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Kind = Literal["self", "encoder", "decoder", "cross"]


@dataclass(frozen=True, eq=False)
class Call:
    """One attention call inside a forward pass, as torch tensors of batch size 1.

    query   [1, heads, queries, d_k]     after rotary embedding and normalisation, as the scores are computed from it
    key     [1, key_heads, keys, d_k]    key_heads divides heads: several query heads share one (grouped-query attention)
    value   [1, key_heads, keys, d_v]
    mask    [1, 1 or heads, queries, keys] bool (True: may attend) or additive; None: every pair, or causal if `causal`
    bias    [1, heads, queries, keys] added to the scaled scores, or None
    output  [1, queries, heads, d_v]     what the model's own attention returned, before W_O
    sliding_window  how far the layer looks: to keys less than so many tokens away. `mask` says so already
    """

    module: torch.nn.Module
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    causal: bool
    scale: float
    bias: Tensor | None
    softcap: float | None
    sinks: Tensor | None
    output: Tensor
    sliding_window: int | None = None


def permissions(call: Call, heads: slice, rows: range) -> tuple[Tensor, Tensor | None]:
    """Which keys some query rows may attend to, and what is added to their scores.

    Returns (allowed [1 or heads, rows, keys'] bool, bias [1 or heads, rows, keys'] or None), where keys' ends with the last
    key that one of these rows may attend to: in a causal layer the rest, half of all the work, need never be done.
    """
    start, stop, keys = rows.start, rows.stop, call.key.shape[2]
    bias = None if call.bias is None else wide(_rows_of(call.bias, heads, start, stop, keys))
    if call.mask is None:
        reach = min(stop, keys) if call.causal else keys
        query = torch.arange(start, stop, device=call.query.device)[:, None]
        key = torch.arange(reach, device=call.query.device)
        allowed = key <= (query if call.causal else reach)
        return allowed.expand(1, stop - start, reach), _cut(bias, reach)
    given = _rows_of(call.mask, heads, start, stop, keys)
    if given.dtype == torch.bool:
        allowed = given
    else:
        # An additive mask is two things: entries near the lowest number forbid, the others are a bias.
        allowed = given > torch.finfo(given.dtype).min / 2
        rest = wide(given.masked_fill(~allowed, 0))
        bias = rest if bias is None else bias + rest
    reached = allowed.any(dim=1).any(dim=0).nonzero()
    reach = int(reached[-1]) + 1 if len(reached) else 1
    return allowed[..., :reach], _cut(bias, reach)


def wide(tensor: Tensor) -> Tensor:
    """In float32, which holds every float16 and bfloat16 exactly, or in float64 if the model runs in it."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def _rows_of(tensor: Tensor, heads: slice, start: int, stop: int, keys: int) -> Tensor:
    """The part [1 or heads, rows, keys] of [1, 1 or heads, 1 or queries, keys or more]."""
    chosen = tensor[0, heads] if tensor.shape[1] > 1 else tensor[0]
    chosen = chosen[:, start:stop] if chosen.shape[1] > 1 else chosen
    return chosen[..., :keys].expand(-1, stop - start, -1)


def _cut(bias: Tensor | None, reach: int) -> Tensor | None:
    return None if bias is None else bias[..., :reach]
