"""Joining the attention calls of a layer that were made one after another with a key/value cache.

With a cache a pass computes the queries, keys and values of new tokens only, and the queries also look at the cached keys.
All these calls together have computed each row of one causal call over the whole text once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn.functional import pad

from ...models.calls import Call
from ..calls.rows import permissions


@dataclass(frozen=True, eq=False)
class NewRows:
    """The rows that one pass has added to one layer.

    call  the attention call, whose key and value contain the new tokens only
    seen  number of keys that its queries looked at, the new ones last
    """

    call: Call
    seen: int


def new_rows(call: Call, new_keys: int) -> NewRows:
    """The new rows of a call, with copies of the last `new_keys` of its keys and values.

    A cache gives all keys so far, as new tensors in each pass; without a copy of the new ones all would be kept.
    """
    seen = call.key.shape[2]
    if new_keys == seen:
        return NewRows(call, seen)
    key, value = (part[:, :, seen - new_keys :].clone() for part in (call.key, call.value))
    return NewRows(replace(call, key=key, value=value), seen)


def joined(parts: Sequence[NewRows], known: dict[tuple, tuple[Tensor, Tensor | None]]) -> Call:
    """Join parts into one call with the queries of all parts, in their order, over all keys.

    known  joined masks and biases, which layers share: they grow with the square of the text
    """
    calls = [part.call for part in parts]
    first = calls[0]
    if len(calls) == 1:
        return first
    rows = {"query": 2, "key": 2, "value": 2, "output": 1}  # the dimension of the tokens
    together = {name: torch.cat([getattr(call, name) for call in calls], dim) for name, dim in rows.items()}
    keys = together["key"].shape[2]
    grows = keys > first.key.shape[2]
    whole = first.reshaped(**together, mask=None, bias=None, causal=grows)
    if _is_plain(parts, grows=grows):
        return whole
    name = (*(id(part) for call in calls for part in (call.mask, call.bias)), *(part.seen for part in parts))
    if name not in known:
        known[name] = _permissions(parts, keys)
    mask, bias = known[name]
    return whole.reshaped(mask=mask[None], bias=None if bias is None else bias[None], causal=False)


def _is_plain(parts: Sequence[NewRows], *, grows: bool) -> bool:
    """Whether every query looked at all keys up to its own, or at all keys if their number does not grow."""
    keys = accumulate(part.call.key.shape[2] for part in parts)
    return all(
        part.call.mask is None
        and part.call.bias is None
        and part.seen == so_far
        and (not grows or part.call.causal or part.call.query.shape[2] == 1)
        for part, so_far in zip(parts, keys, strict=True)
    )


def _permissions(parts: Sequence[NewRows], keys: int) -> tuple[Tensor, Tensor | None]:
    """(allowed [1 or heads, queries, keys] bool, bias of the same shape or None), with the rows of all parts."""
    masks, biases, stop = [], [], 0
    for part in parts:
        call, stop = part.call, stop + part.call.key.shape[2]
        # Only the number of keys is used here.
        over_all_seen = replace(call, key=call.key.new_empty(1, 1, 1, 1).expand(1, 1, part.seen, 1))
        allowed, bias = permissions(over_all_seen, slice(0, call.heads), range(call.query.shape[2]))
        first_key = stop - part.seen
        around = (first_key, keys - first_key - allowed.shape[2])
        masks.append(pad(allowed, around))
        biases.append(None if bias is None else pad(bias, around))
    if all(bias is None for bias in biases):
        return _below_each_other(masks), None
    # torch makes numbers of the False where a part has no bias.
    rows = [torch.zeros_like(mask) if bias is None else bias for mask, bias in zip(masks, biases, strict=True)]
    return _below_each_other(masks), _below_each_other(rows)


def _below_each_other(parts: Sequence[Tensor]) -> Tensor:
    """Join [1 or heads, rows, keys] of several parts by their rows."""
    heads = max(map(len, parts))
    return torch.cat([part.expand(heads, -1, -1) for part in parts], dim=1)
