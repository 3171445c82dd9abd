"""All heads of a layer a few query rows at a time: the stages of `AttentionTrace` for many heads, in memory that grows
linearly with the text.

The queries and keys are those that a capture kept, and the formulas those of `core.attention.trace`; only the arrays are torch
tensors with the heads in front, because that is several times faster than head after head.
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

# Numbers of one block, in all heads together: 2 MB in float32, which the processor's cache can hold.
CELLS = 2**19


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows `start`, `start` + 1, ... of the stages of some heads of one layer.

    query    [heads, rows, d_k]
    key      [key_heads, keys, d_k]      key_heads divides heads; keys beyond the last that any of these rows may attend to
                                         are left off, their weights are 0
    allowed  [1 or heads, rows, keys]    bool, True where a query may attend to a key
    bias     [1 or heads, rows, keys]    added to the scaled scores, or None
    sinks    [heads, 1, 1]               or None
    scale    of all heads, or [heads, 1, 1] where edits change it
    instead  what edits put in the place of the weights of some of these heads
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
        grouped = self.query.reshape(self.key.shape[0], -1, size)  # heads that share a key head, one below the other
        return (grouped @ self.key.mT).reshape(heads, rows, -1)

    @cached_property
    def scaled(self) -> Tensor:
        """raw × scale: [heads, rows, keys]."""
        return self.raw * self.scale

    @property
    def scores(self) -> Tensor:
        """Scaled scores with cap and bias, of forbidden pairs too: [heads, rows, keys], finite."""
        return biased(self.scaled, self.bias, self.softcap)

    @cached_property
    def masked(self) -> Tensor:
        """What enters the softmax: [heads, rows, keys], -inf where forbidden."""
        return forbid(self.scores, self.allowed)

    @cached_property
    def weights(self) -> Tensor:
        """softmax(masked): [heads, rows, keys] in [0, 1], exactly 0 where forbidden."""
        weights = self._softmax
        for place, instead in self.instead.items():
            sinks = None if self.sinks is None else self.sinks[place]
            one = WEIGHINGS[instead.weighing](self.masked[place], sinks=sinks)
            if instead.weights is not None:
                one = put_in(one, torch.as_tensor(instead.weights[:, : one.shape[1]], device=one.device))
            weights[place] = one
        return weights

    @property
    def _softmax(self) -> Tensor:
        if self.sinks is None and bool(self.allowed.any(dim=-1).all()):
            # Where no sink and no empty row is in the way, torch's does the same in one go.
            return self.masked.softmax(dim=-1)
        return softmax(self.masked, sinks=self.sinks)

    def at(self, keys: Tensor) -> Tensor:
        """Some weights of each row: keys [rows, some], any whole numbers, to [heads, rows, some]; 0 where there is no such
        key."""
        return weights_at(self.weights, keys)

    @property
    def stop(self) -> int:
        return self.start + self.query.shape[1]


def weights_at(weights: Tensor, keys: Tensor) -> Tensor:
    """Some weights of each row of [heads, rows, keys]: see `Rows.at`."""
    rows, last = torch.arange(len(keys))[:, None], weights.shape[2] - 1
    return weights[:, rows, keys.clamp(0, last)] * ((keys >= 0) & (keys <= last))


def row_blocks(call: Call, head: int | None = None, *, rows: range | None = None, cells: int = CELLS) -> Iterator[Rows]:
    """The query rows of a captured layer from the first to the last, in blocks of at most about `cells` numbers.

    head   only this one; None: all heads
    rows   only these query rows, one after another; None: all

    In float32, or float64 if the model runs in it.
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
    """What edits put in the place of the weights, by the place among these heads."""
    places = range(heads.start, heads.stop)
    edited = {place: edit_of(call, head) for place, head in enumerate(places) if edit_of(call, head).places_weights}
    return {
        place: edit.instead(rows, allowed[place if allowed.shape[0] > 1 else 0].numpy(force=True), call.value.shape[3])
        for place, edit in edited.items()
    }


def edited_output(call: EditedCall) -> Tensor:
    """[1, queries, heads, d_v]: what the heads of a layer give once their edits are done; that of others as it is."""
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
    """[heads, rows, d_v]: what these heads give, whose values are [key_heads, keys, d_v].

    By torch's own attention where it can: what a certificate then compares with has been computed in another way.
    """
    group = len(rows.query) // len(value)
    value = wide(value[:, : rows.key.shape[1]]).repeat_interleave(group, dim=0)
    if rows.instead or rows.sinks is not None or rows.softcap is not None:
        found = rows.weights @ value
    else:
        mask = forbid(rows.query.new_zeros(()) if rows.bias is None else rows.bias, rows.allowed)
        key = rows.key.repeat_interleave(group, dim=0)
        # With a first dimension for the text torch does it in one go; without, step by step, as here.
        inputs = (part[None] for part in (rows.query * rows.scale, key, value))
        found = scaled_dot_product_attention(*inputs, attn_mask=mask[None], scale=1)[0]
    return found.masked_fill(~rows.allowed.any(dim=-1, keepdim=True), 0)


def permissions(call: Call, heads: slice, rows: range) -> tuple[Tensor, Tensor | None]:
    """Which keys some query rows may attend to, and what is added to their scores.

    Returns (allowed [1 or heads, rows, keys'] bool, bias [1 or heads, rows, keys'] or None), where keys' ends with the last
    key that one of these rows may attend to: in a causal layer the rest, half of all the work, need never be done.
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
    allowed, rest = _told_apart(_rows_of(call.mask, heads, start, stop, keys), call.mask.dtype)
    if rest is not None:
        bias = wide(rest) if bias is None else bias + wide(rest)
    reach = _reach(allowed)
    return allowed[..., :reach], _up_to(bias, reach)


def _edited_permissions(call: Call, heads: slice, rows: range) -> tuple[Tensor, Tensor | None]:
    found = [head_permissions(call, head, rows) for head in range(heads.start, heads.stop)]
    allowed, bias = (torch.from_numpy(np.stack(part)).to(call.query.device) for part in zip(*found, strict=True))
    reach = _reach(allowed)
    return allowed[..., :reach], _up_to(bias, reach)


def _reach(allowed: Tensor) -> int:
    """How many keys there are up to the last that any of these rows may attend to; at least 1."""
    reached = allowed.any(dim=1).any(dim=0).nonzero()
    return int(reached[-1]) + 1 if len(reached) else 1


def head_permissions(call: Call, head: int, rows: range) -> tuple[NDArray[np.bool_], NDArray[np.floating]]:
    """The same of one head in NumPy, with all its keys: (mask, bias), both [rows, keys].

    Without any work in torch: its threads wait in busy loops for their next task, and keep NumPy's, which are to multiply
    next, from the processor. Turn by turn, a long text took ten times as long.
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
    mask, rest = _told_apart(_array_of(call.mask, heads, rows, keys), call.mask.dtype)
    return edit.allowed(rows, mask), bias if rest is None else bias + rest


def head_scale(call: Call, head: int) -> float:
    return edit_of(call, head).scale(call.scale)


def head_edit(call: Call, head: int, rows: range) -> Instead:
    """What an edit puts in the place of these rows of a head."""
    edit = edit_of(call, head)
    if edit.pattern is None:
        return edit.instead(rows, np.empty(0, dtype=np.bool_), call.value.shape[3])
    return edit.instead(rows, head_permissions(call, head, rows)[0], call.value.shape[3])


def _told_apart(mask: Any, dtype: torch.dtype) -> tuple[Any, Any]:
    """Where some rows of a call's mask allow, and the bias in it or None; NumPy or torch, `dtype` that of the model's."""
    if dtype == torch.bool:
        return mask, None
    # An additive mask is two things: entries near the lowest number forbid, the others are a bias.
    allowed = mask > torch.finfo(dtype).min / 2
    return allowed, array_namespace(mask).where(allowed, mask, 0)


def _array_of(tensor: Tensor, heads: slice, rows: range, keys: int) -> NDArray:
    """[rows, keys] of one head."""
    found = _rows_of(tensor, heads, rows.start, rows.stop, keys)[0]
    return (found if found.dtype == torch.bool else wide(found)).numpy(force=True)


def _rows_of(tensor: Tensor, heads: slice, start: int, stop: int, keys: int) -> Tensor:
    """The part [1 or heads, rows, keys] of [1, 1 or heads, 1 or queries, keys or more]."""
    chosen = tensor[0, heads] if tensor.shape[1] > 1 else tensor[0]
    chosen = chosen[:, start:stop] if chosen.shape[1] > 1 else chosen
    return chosen[..., :keys].expand(-1, stop - start, -1)


def _up_to(bias: Tensor | None, reach: int) -> Tensor | None:
    return None if bias is None else bias[..., :reach]
