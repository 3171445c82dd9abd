"""The stages of all heads of a layer in blocks of query rows, in memory that grows linearly with the text.

Queries and keys come from a capture, and the formulas are those of `core.attention.trace`. The arrays are torch tensors with
the heads first, which is several times faster than one head after another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from array_api_compat import array_namespace
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ..attention.masks import causal, everything
from ..attention.trace import WEIGHINGS, Instead, biased, forbid, put_in, softmax
from ..models.calls import Call, wide
from .edited import EditedCall, edit_of

# Numbers of one block, in all heads together: 2 MB in float32, which fits into the processor's cache.
CELLS = 2**19


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows `start`, `start` + 1, ... of the stages of some heads of one layer.

    query    [heads, rows, d_k]
    key      [key_heads, keys, d_k]      key_heads divides heads; ends with the last key that one of these rows may attend to
    scale    of all heads, or [heads, 1, 1] if edits change it
    allowed  [1 or heads, rows, keys]    bool, True where a query may attend to a key
    bias     [1 or heads, rows, keys]    added to the scaled scores, or None
    sinks    [heads, 1, 1]               or None
    instead  replacements of the weights of some heads by edits, by the index of the head
    """

    start: int
    query: Tensor
    key: Tensor
    scale: float | Tensor
    allowed: Tensor
    bias: Tensor | None
    softcap: float | None
    sinks: Tensor | None
    instead: Mapping[int, Instead] = field(default_factory=dict)

    @cached_property
    def raw(self) -> Tensor:
        """q · k: [heads, rows, keys]."""
        heads, rows, size = self.query.shape
        grouped = self.query.reshape(self.key.shape[0], -1, size)  # the rows of all heads that share a key head
        return (grouped @ self.key.mT).reshape(heads, rows, -1)

    @cached_property
    def scaled(self) -> Tensor:
        """raw × scale: [heads, rows, keys]."""
        return self.raw * self.scale

    @property
    def scores(self) -> Tensor:
        """Scaled scores with cap and bias, also of forbidden pairs: [heads, rows, keys], finite."""
        return biased(self.scaled, self.bias, self.softcap)

    @cached_property
    def masked(self) -> Tensor:
        """The input of the softmax: [heads, rows, keys], -inf where forbidden."""
        return forbid(self.scores, self.allowed)

    @cached_property
    def weights(self) -> Tensor:
        """softmax(masked): [heads, rows, keys] in [0, 1], exactly 0 where forbidden."""
        weights = self._softmax
        for head, instead in self.instead.items():
            sinks = None if self.sinks is None else self.sinks[head]
            edited = WEIGHINGS[instead.weighing](self.masked[head], sinks=sinks)
            if instead.weights is not None:
                edited = put_in(edited, torch.as_tensor(instead.weights[:, : edited.shape[1]], device=edited.device))
            weights[head] = edited
        return weights

    @property
    def _softmax(self) -> Tensor:
        if self.sinks is None and bool(self.allowed.any(dim=-1).all()):
            # Without sinks and empty rows torch's own softmax gives the same and is faster.
            return self.masked.softmax(dim=-1)
        return softmax(self.masked, sinks=self.sinks)

    def at(self, keys: Tensor) -> Tensor:
        """The weights on some keys of each row: [heads, rows, some]; 0 if there is no such key.

        keys  [rows, some], any whole numbers
        """
        return weights_at(self.weights, keys)

    @property
    def stop(self) -> int:
        return self.start + self.query.shape[1]


def weights_at(weights: Tensor, keys: Tensor) -> Tensor:
    """The weights [heads, rows, keys] on some keys of each row: see `Rows.at`."""
    rows, last = torch.arange(len(keys))[:, None], weights.shape[2] - 1
    return weights[:, rows, keys.clamp(0, last)] * ((keys >= 0) & (keys <= last))


def row_blocks(call: Call, head: int | None = None, *, rows: range | None = None, cells: int = CELLS) -> Iterator[Rows]:
    """The query rows of a captured layer from the first to the last, in blocks of about `cells` numbers at most.

    head   the only head to compute; None: all heads
    rows   the query rows to compute, without gaps; None: all

    In float32, or in float64 if the model is.
    """
    heads = slice(0, call.heads) if head is None else slice(head, head + 1)
    key_heads = slice(0, call.key.shape[1]) if head is None else slice(head // call.group, head // call.group + 1)
    query, key = wide(call.query[0, heads]), wide(call.key[0, key_heads])
    sinks = None if call.sinks is None else wide(call.sinks.detach().flatten()[heads])[:, None, None]
    scale, keys = _scale(call, heads, query), key.shape[1]
    rows = range(query.shape[1]) if rows is None else rows
    size = max(1, cells // (query.shape[0] * keys))
    for start in range(rows.start, rows.stop, size):
        stop = min(start + size, rows.stop)
        allowed, bias = permissions(call, heads, range(start, stop))
        reach = allowed.shape[2]
        yield Rows(
            start,
            query[:, start:stop],
            key[:, :reach],
            scale,
            allowed,
            bias,
            call.softcap,
            sinks,
            _instead(call, heads, range(start, stop), allowed),
        )


def _scale(call: Call, heads: slice, query: Tensor) -> float | Tensor:
    if not isinstance(call, EditedCall):
        return call.scale
    scales = [edit_of(call, head).scale(call.scale) for head in range(heads.start, heads.stop)]
    return query.new_tensor(scales)[:, None, None]


def _instead(call: Call, heads: slice, rows: range, allowed: Tensor) -> dict[int, Instead]:
    """Replacements of weights by edits, by the index among these heads."""
    edits = [edit_of(call, head) for head in range(heads.start, heads.stop)]
    return {
        index: edit.instead(rows, allowed[index if allowed.shape[0] > 1 else 0].numpy(force=True), call.value.shape[3])
        for index, edit in enumerate(edits)
        if edit.places_weights
    }


def edited_output(call: EditedCall) -> Tensor:
    """The output of a layer's heads with their edits, [1, queries, heads, d_v]; that of other heads does not change."""
    output = call.output.clone()
    weighed = [head for head, edit in call.edits.items() if edit.changes_weights]
    if len(weighed) == call.heads:
        for rows in row_blocks(call):
            output[0, rows.start : rows.stop] = _outputs(rows, call.value[0]).transpose(0, 1)
    else:
        for head in weighed:
            value = call.value[0, [head // call.group]]
            for rows in row_blocks(call, head):
                output[0, rows.start : rows.stop, head] = _outputs(rows, value)[0]
    for head, edit in call.edits.items():
        if edit.output is not None:
            into = output[0, :, head] if len(edit.output) == 1 else output[0, : len(edit.output), head]
            into[:] = edit.output[: len(into)]
    return output


def _outputs(rows: Rows, value: Tensor) -> Tensor:
    """The output of these heads, [heads, rows, d_v], from their values [key_heads, keys, d_v].

    By torch's own attention if possible, so that a certificate compares with a result that was computed in another way.
    """
    group = len(rows.query) // len(value)
    value = wide(value[:, : rows.key.shape[1]]).repeat_interleave(group, dim=0)
    if rows.instead or rows.sinks is not None or rows.softcap is not None:
        output = rows.weights @ value
    else:
        mask = forbid(rows.query.new_zeros(()) if rows.bias is None else rows.bias, rows.allowed)
        key = rows.key.repeat_interleave(group, dim=0)
        # With a batch dimension torch uses its fused kernel; without one it computes step by step, as here.
        inputs = (part[None] for part in (rows.query * rows.scale, key, value))
        output = scaled_dot_product_attention(*inputs, attn_mask=mask[None], scale=1)[0]
    return output.masked_fill(~rows.allowed.any(dim=-1, keepdim=True), 0)


def permissions(call: Call, heads: slice, rows: range) -> tuple[Tensor, Tensor | None]:
    """Which keys some query rows may attend to, and the bias that is added to their scores.

    Returns (allowed [1 or heads, rows, keys'] bool, bias [1 or heads, rows, keys'] or None). The last of keys' is the last key
    that one of these rows may attend to: so a causal layer skips half of the work.
    """
    if any(edit_of(call, head).changes_mask for head in range(heads.start, heads.stop)):
        return _edited_permissions(call, heads, rows)
    start, stop, keys = rows.start, rows.stop, call.key.shape[2]
    bias = None if call.bias is None else wide(_rows_of(call.bias, heads, start, stop, keys))
    if call.mask is None:
        reach = min(stop, keys) if call.causal else keys
        query = torch.arange(start, stop, device=call.query.device)[:, None]
        key = torch.arange(reach, device=call.query.device)
        allowed = key <= (query if call.causal else reach)
        return allowed.expand(1, stop - start, reach), _up_to(bias, reach)
    allowed, rest = split_mask(_rows_of(call.mask, heads, start, stop, keys), call.mask.dtype)
    if rest is not None:
        bias = wide(rest) if bias is None else bias + wide(rest)
    reach = _reach(allowed)
    return allowed[..., :reach], _up_to(bias, reach)


def _edited_permissions(call: Call, heads: slice, rows: range) -> tuple[Tensor, Tensor | None]:
    by_head = [head_permissions(call, head, rows) for head in range(heads.start, heads.stop)]
    allowed, bias = (torch.from_numpy(np.stack(part)).to(call.query.device) for part in zip(*by_head, strict=True))
    reach = _reach(allowed)
    return allowed[..., :reach], _up_to(bias, reach)


def _reach(allowed: Tensor) -> int:
    """Number of keys up to the last that any of these rows may attend to; at least 1."""
    reached = allowed.any(dim=1).any(dim=0).nonzero()
    return int(reached[-1]) + 1 if len(reached) else 1


def head_permissions(call: Call, head: int, rows: range) -> tuple[NDArray[np.bool_], NDArray[np.floating]]:
    """`permissions` of one head in NumPy, with all its keys: (mask, bias), both [rows, keys].

    Nothing here is computed in torch, whose threads wait for their next task in busy loops and so take the processor from
    NumPy's: with torch in turn with NumPy a long text took ten times as long.
    """
    heads, keys = slice(head, head + 1), call.key.shape[2]
    if call.bias is None:
        dtype = np.float64 if call.query.dtype == torch.float64 else np.float32
        bias = np.broadcast_to(dtype(0), (len(rows), keys))
    else:
        bias = _array_of(call.bias, heads, rows, keys)
    edit = edit_of(call, head)
    if call.mask is None:
        predicate = causal if call.causal else everything
        return edit.allowed(rows, predicate(np.arange(rows.start, rows.stop)[:, None], np.arange(keys))), bias
    mask, rest = split_mask(_array_of(call.mask, heads, rows, keys), call.mask.dtype)
    return edit.allowed(rows, mask), bias if rest is None else bias + rest


def head_scale(call: Call, head: int) -> float:
    """The scale of one head, with its edits."""
    return edit_of(call, head).scale(call.scale)


def head_edit(call: Call, head: int, rows: range) -> Instead:
    """The replacement of some rows of a head by an edit."""
    edit = edit_of(call, head)
    if not edit.gives_weights:
        return edit.instead(rows, np.empty(0, dtype=np.bool_), call.value.shape[3])
    return edit.instead(rows, head_permissions(call, head, rows)[0], call.value.shape[3])


def split_mask(mask: Any, dtype: torch.dtype) -> tuple[Any, Any]:
    """Split a call's mask into (allowed, bias or None); NumPy or torch. dtype: the mask's own in the call."""
    if dtype == torch.bool:
        return mask, None
    # An additive mask is two things: entries near the lowest number forbid, all others are a bias.
    allowed = mask > torch.finfo(dtype).min / 2
    return allowed, array_namespace(mask).where(allowed, mask, 0)


def _array_of(tensor: Tensor, heads: slice, rows: range, keys: int) -> NDArray:
    """Rows of one head's mask or bias as an array: [rows, keys]."""
    part = _rows_of(tensor, heads, rows.start, rows.stop, keys)[0]
    return (part if part.dtype == torch.bool else wide(part)).numpy(force=True)


def _rows_of(tensor: Tensor, heads: slice, start: int, stop: int, keys: int) -> Tensor:
    """Rows of a mask or bias [1, 1 or heads, 1 or queries, keys or more]: [1 or heads, rows, keys]."""
    chosen = tensor[0, heads] if tensor.shape[1] > 1 else tensor[0]
    chosen = chosen[:, start:stop] if chosen.shape[1] > 1 else chosen
    return chosen[..., :keys].expand(-1, stop - start, -1)


def _up_to(bias: Tensor | None, reach: int) -> Tensor | None:
    return None if bias is None else bias[..., :reach]
