"""Attention calls computed anew with one key forbidden, another one in each pass of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ..models.calls import Call
from .rows import row_blocks


def without_keys(call: Call, keys: Sequence[int]) -> Tensor:
    """What a call of a batch returns if in each of its passes no query may attend to one key: [passes, queries, heads, d_v].

    keys  the key of each pass

    This is what `Edits(block_keys=...)` does. The formulas are those of `core.attention.trace`: with cap, bias and sinks as the
    call has them. A query that may attend to nothing then gets 0.
    """
    passes, heads, queries, _ = call.query.shape
    blocked = torch.tensor(keys, device=call.query.device)[:, None, None] == torch.arange(
        call.key.shape[2], device=call.query.device
    )
    mask = _forbidden(call, blocked[:, None].expand(-1, -1, queries, -1))
    # All heads of all passes in a row, as if they were those of one layer: then it can be gone through like any other.
    folded = replace(
        call,
        query=_in_a_row(call.query, passes),
        key=_in_a_row(call.key, passes),
        value=_in_a_row(call.value, passes),
        mask=_in_a_row(mask.expand(passes, heads, -1, -1), passes),
        bias=None if call.bias is None else _in_a_row(call.bias.expand(passes, heads, -1, -1), passes),
        sinks=None if call.sinks is None else call.sinks.detach().flatten().repeat(passes),
    )
    value = folded.value[0]
    output = call.output.new_empty(passes, heads, queries, value.shape[-1])
    for rows in row_blocks(folded):
        reached = value[:, : rows.weights.shape[2]].to(rows.weights.dtype)
        grouped = rows.weights.reshape(len(value), -1, rows.weights.shape[2])
        found = (grouped @ reached).reshape(passes, heads, -1, value.shape[-1])
        output[:, :, rows.start : rows.stop] = found.to(output.dtype)
    return output.transpose(1, 2)


def _forbidden(call: Call, blocked: Tensor) -> Tensor:
    """The call's mask with more pairs forbidden: blocked [passes, 1, queries, keys], True where."""
    if call.mask is None:
        every = torch.ones(blocked.shape[2:], dtype=torch.bool, device=blocked.device)
        return (every.tril() if call.causal else every) & ~blocked
    mask = call.mask[..., : blocked.shape[3]]
    if mask.dtype == torch.bool:
        return mask & ~blocked
    return mask.masked_fill(blocked, torch.finfo(mask.dtype).min)


def _in_a_row(tensor: Tensor, passes: int) -> Tensor:
    """[passes or 1, heads, ...] to [1, passes * heads, ...]."""
    return tensor.expand(passes, *tensor.shape[1:]).flatten(0, 1)[None]
