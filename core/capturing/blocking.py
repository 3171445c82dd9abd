"""Attention calls with a blocked key, computed again: another key in each pass of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ..models.calls import Call
from .rows import row_blocks


def without_keys(call: Call, keys: Sequence[int]) -> Tensor:
    """The output of a batched call if no query may attend to one key of its pass: [passes, queries, heads, d_v].

    keys  the blocked key of each pass

    This is what `Edits(block_keys=...)` does, by the formulas of `core.attention.trace` with the call's own cap, bias and
    sinks. The output of a query that may attend to nothing is 0.
    """
    passes, heads, queries, _ = call.query.shape
    blocked = torch.tensor(keys, device=call.query.device)[:, None, None] == torch.arange(
        call.key.shape[2], device=call.query.device
    )
    mask = _forbidden(call, blocked[:, None].expand(-1, -1, queries, -1))
    # The heads of all passes as if they were the heads of one layer, so that `row_blocks` can be used.
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
        part = (grouped @ reached).reshape(passes, heads, -1, value.shape[-1])
        output[:, :, rows.start : rows.stop] = part.to(output.dtype)
    return output.transpose(1, 2)


def _forbidden(call: Call, blocked: Tensor) -> Tensor:
    """The call's mask without the blocked pairs: blocked [passes, 1, queries, keys], True where blocked."""
    if call.mask is None:
        all_pairs = torch.ones(blocked.shape[2:], dtype=torch.bool, device=blocked.device)
        return (all_pairs.tril() if call.causal else all_pairs) & ~blocked
    mask = call.mask[..., : blocked.shape[3]]
    if mask.dtype == torch.bool:
        return mask & ~blocked
    return mask.masked_fill(blocked, torch.finfo(mask.dtype).min)


def _in_a_row(tensor: Tensor, passes: int) -> Tensor:
    """Reshape [passes or 1, heads, ...] to [1, passes * heads, ...]."""
    return tensor.expand(passes, *tensor.shape[1:]).flatten(0, 1)[None]
