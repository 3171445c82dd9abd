"""Joining the attention calls of a layer that were made one after another with a key/value cache.

With a cache a pass computes the queries, keys and values of new tokens only, and the queries also look at the cached keys.
All these calls together have computed each row of one causal call over the whole text once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..models.calls import Call
from .rows import permissions


@dataclass(frozen=True, eq=False)
class NewRows:
    """The rows that one pass has added to one layer.

    call  the attention call, whose key and value contain the new tokens only
    seen  number of keys that its queries looked at; the last of these are the new ones
    """

    call: Call
    seen: int

    @property
    def nbytes(self) -> int:
        call = self.call
        return sum(part.nbytes for part in (call.query, call.key, call.value, call.output))


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
    query, key, value = (
        torch.cat([getattr(call, name) for call in calls], dim=2) for name in ("query", "key", "value")
    )
    grows = key.shape[2] > first.key.shape[2]
    whole = replace(
        first,
        query=query,
        key=key,
        value=value,
        output=torch.cat([call.output for call in calls], dim=1),
        mask=None,
        bias=None,
        causal=grows,
    )
    if _is_plain(parts, grows=grows):
        return whole
    name = (*(id(part) for call in calls for part in (call.mask, call.bias)), *(part.seen for part in parts))
    if name not in known:
        known[name] = _permissions(parts, key.shape[2])
    mask, bias = known[name]
    return replace(whole, mask=mask[None], bias=None if bias is None else bias[None], causal=False)


def _is_plain(parts: Sequence[NewRows], *, grows: bool) -> bool:
    """Whether every query looked at all keys up to its own, or at all keys if their number does not grow."""
    keys = 0
    for part in parts:
        call, keys = part.call, keys + part.call.key.shape[2]
        one_or_causal = not grows or call.causal or call.query.shape[2] == 1
        if call.mask is not None or call.bias is not None or part.seen != keys or not one_or_causal:
            return False
    return True


def _permissions(parts: Sequence[NewRows], keys: int) -> tuple[Tensor, Tensor | None]:
    """(allowed [1 or heads, queries, keys] bool, bias of the same shape or None), with the rows of all parts."""
    by_part, stop = [], 0
    for part in parts:
        call, stop = part.call, stop + part.call.key.shape[2]
        # Only the number of keys is used here.
        over_all_seen = replace(call, key=call.key.new_empty(1, 1, 1, 1).expand(1, 1, part.seen, 1))
        every_head, every_row = slice(0, call.heads), range(call.query.shape[2])
        by_part.append((stop - part.seen, *permissions(over_all_seen, every_head, every_row)))
    heads = max(max(len(allowed), 1 if bias is None else len(bias)) for _, allowed, bias in by_part)
    rows = sum(allowed.shape[1] for _, allowed, _ in by_part)
    mask = torch.zeros(max(len(allowed) for _, allowed, _ in by_part), rows, keys, dtype=torch.bool)
    biases = None
    start = 0
    for first_key, allowed, bias in by_part:
        cells = slice(start, start + allowed.shape[1]), slice(first_key, first_key + allowed.shape[2])
        mask[:, *cells] = allowed
        if bias is not None:
            biases = bias.new_zeros(heads, rows, keys) if biases is None else biases
            biases[:, *cells] = bias
        start = cells[0].stop
    return mask, biases
