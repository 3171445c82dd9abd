"""The stages of all heads of a layer in blocks of query rows, in memory that grows linearly with the text.

Queries and keys come from a capture, and the formulas are those of `core.attention.trace`. The arrays are torch tensors with
the heads first, which is several times faster than one head after another.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isqrt
from typing import Any

import numpy as np
import torch
from array_api_compat import array_namespace
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ...attention.masks import causal, everything
from ...attention.shaping import BY_HEAD, BY_PAIR, Shaped, Shaping
from ...attention.trace import WEIGHINGS, Instead, forbid, put_in, softmax
from ...models.calls import Call, wide
from ...progress import stop_point
from .edited_call import EditedCall, edit_of


@dataclass(frozen=True, eq=False)
class Runs:
    """A mask as the runs of keys that each query may attend to.

    runs  [1 or heads, queries, runs, 2] whole numbers: the first key of a run and the one after its last, which are equal where
          a query has fewer runs; below 2¹⁵ runs
    """

    runs: NDArray[np.integer]
    keys: int
    dtype: torch.dtype = torch.bool

    def rows(self, heads: slice, rows: range) -> Tensor:
        """The rows of some heads: [1 or heads, rows, keys]."""
        return torch.from_numpy(self.allowed(heads, np.arange(rows.start, rows.stop)))

    def allowed(self, heads: slice, queries: NDArray[np.integer]) -> NDArray[np.bool_]:
        """[1 or heads, queries, keys]."""
        chosen = (self.runs[heads] if len(self.runs) > 1 else self.runs)[:, queries].astype(np.int64)
        of_heads, of_queries, of_runs, _ = chosen.shape
        # +1 where a run begins and -1 where it has ended: its sum over the keys so far is the number of runs that a key is in.
        steps = np.zeros((of_heads * of_queries, self.keys + 1), dtype=np.int16)
        row = np.repeat(np.arange(len(steps)), of_runs)
        for side, step in ((0, 1), (1, -1)):
            np.add.at(steps, (row, chosen[..., side].ravel()), step)
        return (np.cumsum(steps, axis=1, out=steps)[:, :-1] > 0).reshape(of_heads, of_queries, self.keys)


@dataclass(frozen=True, eq=False)
class ByDistance:
    """A bias that depends only on how far a key is from its query.

    numbers  [1 or heads, queries + keys - 1], by the distance key - query, rising from that of the last query and the first key
    """

    numbers: Tensor
    queries: int

    def rows(self, heads: slice, rows: range) -> Tensor:
        chosen = self.numbers[heads] if len(self.numbers) > 1 else self.numbers
        # [heads, queries, keys], the last query first.
        windows = chosen.unfold(1, chosen.shape[1] - self.queries + 1, 1)
        return windows[:, self.queries - rows.stop : self.queries - rows.start].flip(1)


# --- rows

# Numbers of one block, in all heads together: 2 MB in float32, which fits into the processor's cache.
CELLS = 2**19


@dataclass(frozen=True, eq=False)
class Rows(Shaped):
    """The rows `start`, `start` + 1, ... of the stages of some heads of one layer.

    query    [heads, rows, d_k]
    key      [key_heads, keys, d_k]      key_heads divides heads; ends with the last key that one of these rows may attend to
    shaping  what shapes the scores; its fields are attributes of the rows too: `rows.bias`
             scale  of all heads, or [heads, 1, 1] if edits change it
             mask   [1 or heads, rows, keys]    bool, True where a query may attend to a key
             bias   [1 or heads, rows, keys]    added to the scaled scores, or None
             sinks  [heads, 1, 1]               or None
    instead  replacements of the weights of some heads by edits, by the index of the head
    """

    start: int
    query: Tensor
    key: Tensor
    shaping: Shaping
    instead: Mapping[int, Instead] = field(default_factory=dict)

    @property
    def allowed(self) -> Tensor:
        """The mask: [1 or heads, rows, keys] bool, True where a query may attend to a key."""
        return self.shaping.mask

    @property
    def raw(self) -> Tensor:
        """q · k: [heads, rows, keys]."""
        return self._onto_keys(self.query)

    @property
    def scaled(self) -> Tensor:
        """raw × scale: [heads, rows, keys]."""
        return self._onto_keys(self.query * self.scale)  # which has far fewer numbers than raw

    def _onto_keys(self, query: Tensor) -> Tensor:
        heads, rows, size = query.shape
        grouped = query.reshape(self.key.shape[0], -1, size)  # the rows of all heads that share a key head
        return (grouped @ self.key.mT).reshape(heads, rows, -1)

    @cached_property
    def masked(self) -> Tensor:
        """The input of the softmax: [heads, rows, keys], scaled scores with cap and bias; -inf where forbidden."""
        scores, shared = self.shaping.biased(self.scaled), self.shared_keys
        scores[..., shared:].masked_fill_(~self.allowed[..., shared:], -torch.inf)
        return scores

    @cached_property
    def shared_keys(self) -> int:
        """How many of the first keys all of these queries may attend to, so that no score there is -inf."""
        open_to_all = self.allowed.view(torch.uint8).amin(dim=(0, 1))  # as `all`, which takes four times as long
        closed = (open_to_all == 0).nonzero()
        return int(closed[0]) if len(closed) else self.allowed.shape[2]

    @cached_property
    def choices(self) -> Tensor:
        """Number of keys that each query may attend to: [1 or heads, rows]."""
        return self.allowed.sum(dim=-1)

    @cached_property
    def weights(self) -> Tensor:
        """softmax(masked): [heads, rows, keys] in [0, 1], exactly 0 where forbidden."""
        if self.sinks is None and bool(self.choices.all()):
            # Without sinks and empty rows torch's own softmax gives the same and is faster.
            weights = self.masked.softmax(dim=-1)
        else:
            weights = softmax(self.masked, sinks=self.sinks)
        for head, instead in self.instead.items():
            own = self.shaping.each(BY_HEAD, lambda numbers, head=head: numbers[head])
            edited = WEIGHINGS[instead.weighing](self.masked[head], sinks=own.sinks)
            if instead.weights is not None:
                edited = put_in(edited, torch.as_tensor(instead.weights[:, : edited.shape[1]], device=edited.device))
            weights[head] = edited
        return weights

    @property
    def stop(self) -> int:
        return self.start + self.query.shape[1]


def weights_at(weights: Tensor, keys: Tensor) -> Tensor:
    """The weights [heads, rows, keys] on some keys of each row: [heads, rows, some]; 0 if there is no such key.

    keys  [rows, some], any whole numbers
    """
    last = weights.shape[2] - 1
    there = weights.gather(2, keys.clamp(0, last).expand(len(weights), -1, -1))
    return there * ((keys >= 0) & (keys <= last))


def row_blocks(call: Call, head: int | None = None, *, rows: range | None = None, cells: int = CELLS) -> Iterator[Rows]:
    """The query rows of a captured layer from the first to the last, in blocks of about `cells` numbers at most.

    head   the only head to compute; None: all heads
    rows   the query rows to compute, without gaps; None: all

    In float32, or in float64 if the model is. Before each block is a stop point.
    """
    group, edited = call.group, isinstance(call, EditedCall)
    heads = slice(0, call.heads) if head is None else slice(head, head + 1)
    key_heads = slice(0, call.key.shape[1]) if head is None else slice(head // group, head // group + 1)
    query, key = wide(call.query[0, heads]), wide(call.key[0, key_heads])
    edits = [edit_of(call, head) for head in range(heads.start, heads.stop)]
    placing = [index for index, edit in enumerate(edits) if edit.places_weights]
    scale: Any = query.new_tensor([edit.scale(call.scale) for edit in edits])[:, None, None] if edited else call.scale
    shaping = call.shaping.each(BY_HEAD, lambda numbers: wide(numbers.detach().flatten()[heads])[:, None, None])
    is_whole, rows = rows is None, range(query.shape[1]) if rows is None else rows
    start = rows.start
    while start < rows.stop:
        stop_point(start / rows.stop if is_whole else None)
        part = range(start, min(start + _height(start, call, cells // len(query)), rows.stop))
        allowed, bias = permissions(call, heads, part)
        instead: dict[int, Instead] = {}
        for index in placing:
            edit, of_head = edits[index], allowed[min(index, len(allowed) - 1)]
            weights = edit.weights(part, of_head.numpy(force=True)) if edit.gives_weights else None
            instead[index] = Instead(edit.weighing, weights)
        inputs = query[:, start : part.stop], key[:, : allowed.shape[2]]
        yield Rows(start, *inputs, replace(shaping, scale=scale, mask=allowed, bias=bias), instead)
        start = part.stop


def _height(start: int, call: Call, cells: int) -> int:
    """How many rows from `start` have at most so many numbers in one head; at least 1."""
    height = cells // call.key.shape[2]
    edits = call.edits.values() if isinstance(call, EditedCall) else ()
    if call.causal and call.mask is None and call.parts is None and not any(edit.changes_mask for edit in edits):
        # Their keys end with the last of them: height * (start + height) <= cells.
        height = max(height, (isqrt(start**2 + 4 * cells) - start) // 2)
    return max(1, height)


def edited_output(call: EditedCall) -> Tensor:
    """The output of a layer's heads with their edits, [1, queries, heads, d_v]; that of other heads does not change."""
    output = call.output.clone()
    weighed = [head for head, edit in call.edits.items() if edit.attends_anew]
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


def output_without_keys(call: Call, keys: Sequence[int]) -> Tensor:
    """The output of a batched call if no query may attend to one key of its pass: [passes, queries, heads, d_v].

    keys  the blocked key of each pass

    This is what `Edits(block_keys=...)` does. The output of a query that may attend to nothing is 0.
    """
    passes, heads, queries, _ = call.query.shape

    def in_a_row(tensor: Tensor, heads: int) -> Tensor:
        """Reshape [passes or 1, heads or 1, ...] to [1, passes * heads, ...]: all passes as if they were one layer."""
        return tensor.expand(passes, heads, *tensor.shape[2:]).flatten(0, 1)[None]

    key, value = (in_a_row(part, call.key.shape[1]) for part in (call.key, call.value))
    shaping = call.shaping.each(BY_PAIR, lambda part: in_a_row(part, heads))
    shaping = shaping.each(BY_HEAD, lambda numbers: numbers.detach().flatten().repeat(passes))
    folded = replace(call, query=in_a_row(call.query, heads), key=key, value=value, shaping=shaping)
    output = call.output.new_empty(passes * heads, queries, call.value.shape[-1])
    blocked = torch.tensor(keys, device=output.device).repeat_interleave(heads)[:, None, None]
    for rows in row_blocks(folded):
        allowed = rows.allowed & (blocked != torch.arange(rows.allowed.shape[2], device=output.device))
        output[:, rows.start : rows.stop] = _outputs(rows.reshaped(mask=allowed), folded.value[0])
    return output.unflatten(0, (passes, heads)).transpose(1, 2)


def _outputs(rows: Rows, value: Tensor) -> Tensor:
    """The output of these heads, [heads, rows, d_v], from their values [key_heads, keys, d_v].

    By torch's own attention if possible, so that a certificate compares with a result that was computed in another way.
    """
    group = len(rows.query) // len(value)
    value = wide(value[:, : rows.key.shape[1]]).repeat_interleave(group, dim=0)
    if rows.instead or not rows.shaping.is_plain:
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
    keys, device = call.key.shape[2], call.query.device
    bias = None if call.bias is None else wide(_rows_of(call.bias, heads, rows, keys))
    numbers = range(heads.start, heads.stop)
    if any(edit_of(call, head).changes_mask for head in numbers):
        by_head = zip(*(head_permissions(call, head, rows) for head in numbers), strict=True)
        allowed, bias = (torch.from_numpy(np.stack(part)).to(device) for part in by_head)
    elif call.parts is not None:
        own = call.parts.to(device)
        allowed = (own[rows.start : rows.stop, None] == own)[None]
    elif call.mask is None:
        reach = min(rows.stop, keys) if call.causal else keys
        allowed = torch.ones(1, len(rows), reach, dtype=torch.bool, device=device)
        if call.causal:
            allowed.tril_(rows.start)
        return allowed, None if bias is None else bias[..., :reach]
    else:
        allowed, rest = split_mask(_rows_of(call.mask, heads, rows, keys), call.mask.dtype)
        if rest is not None:
            bias = wide(rest) if bias is None else bias + wide(rest)
    reached = allowed.any(dim=1).any(dim=0).nonzero()
    reach = int(reached[-1]) + 1 if len(reached) else 1
    return allowed[..., :reach], None if bias is None else bias[..., :reach]


def head_permissions(call: Call, head: int, rows: range) -> tuple[NDArray[np.bool_], NDArray[np.floating]]:
    """`permissions` of one head in NumPy, with all its keys: (mask, bias), both [rows, keys].

    Nothing here is computed in torch, whose threads wait for their next task in busy loops and so take the processor from
    NumPy's: with torch in turn with NumPy a long text took ten times as long.
    """
    heads, keys, edit = slice(head, head + 1), call.key.shape[2], edit_of(call, head)
    if call.bias is None:
        dtype = np.float64 if call.query.dtype == torch.float64 else np.float32
        bias = np.broadcast_to(dtype(0), (len(rows), keys))
    else:
        bias = _array_of(call.bias, heads, rows, keys)
    if call.parts is not None:
        own = call.parts.numpy(force=True)
        return edit.allowed(rows, own[rows.start : rows.stop, None] == own), bias
    if call.mask is None:
        predicate = causal if call.causal else everything
        return edit.allowed(rows, predicate(np.array(rows)[:, None], np.arange(keys))), bias
    mask, rest = split_mask(_array_of(call.mask, heads, rows, keys), call.mask.dtype)
    return edit.allowed(rows, mask), bias if rest is None else bias + rest


def split_mask(mask: Any, dtype: torch.dtype) -> tuple[Any, Any]:
    """Split a call's mask into (allowed, bias or None); NumPy or torch. dtype: the mask's own in the call."""
    if dtype == torch.bool:
        return mask, None
    # An additive mask is two things: entries near the lowest number forbid, all others are a bias.
    allowed = mask > torch.finfo(dtype).min / 2
    return allowed, array_namespace(mask).where(allowed, mask, 0)


def _array_of(tensor: Tensor | Runs | ByDistance, heads: slice, rows: range, keys: int) -> NDArray:
    """Rows of one head's mask or bias as an array: [rows, keys]."""
    part = _rows_of(tensor, heads, rows, keys)[0]
    return (part if part.dtype == torch.bool else wide(part)).numpy(force=True)


def _rows_of(tensor: Tensor | Runs | ByDistance, heads: slice, rows: range, keys: int) -> Tensor:
    """Rows of a mask or bias [1, 1 or heads, 1 or queries, keys or more]: [1 or heads, rows, keys]."""
    if not isinstance(tensor, Tensor):
        return tensor.rows(heads, rows)
    chosen = tensor[0, heads] if tensor.shape[1] > 1 else tensor[0]
    chosen = chosen[:, rows.start : rows.stop] if chosen.shape[1] > 1 else chosen
    return chosen[..., :keys].expand(-1, len(rows), -1)
