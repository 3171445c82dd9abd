"""Attention with changed heads, written a second time and as plainly as it goes: the yardstick of the tests of `Edits`.

A copy of the network, `twin_of(network, NAME)`, computes its attention in `_attention` below, which holds the full
[queries, keys] scores of one head after another and makes each change on these arrays. `before_mixing` changes what heads
give by a hook. Nothing here comes from core.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask

NAME = "naive"
Changes = dict[str, Any]  # of one head, by the names that `_head` reads


@dataclass
class Naive:
    """What one pass did: by (kind, layer, head), float32 whatever the model runs in.

    read: a head's query, key and value by name; weights [queries, keys]; output [queries, d_v]
    last: logits [tokens, vocabulary] or hidden states [tokens, d_model]
    """

    changes: Callable[[str, int, int], Changes]
    read: dict[tuple[str, int, int], dict[str, Tensor]] = field(default_factory=dict)
    weights: dict[tuple[str, int, int], Tensor] = field(default_factory=dict)
    output: dict[tuple[str, int, int], Tensor] = field(default_factory=dict)
    last: Tensor = field(default_factory=lambda: torch.empty(0))
    kind_of: dict[torch.nn.Module, str] = field(default_factory=dict)
    seen: Counter = field(default_factory=Counter)


_pass: ContextVar[Naive] = ContextVar("naive")


@contextmanager
def before_mixing(module: torch.nn.Module, see: Callable[[torch.Tensor], object], heads: int = 4) -> Iterator[None]:
    """`see` is handed what the heads give [1, tokens, heads, d_v] before the module mixes them. It may change it."""

    def hook(_: torch.nn.Module, given: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
        each = given[0].unflatten(-1, (heads, -1)).clone()
        see(each)
        return (each.flatten(-2),)

    handle = module.register_forward_pre_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def naive_pass(
    twin: PreTrainedModel, inputs: dict[str, Tensor], changes: Callable[[str, int, int], Changes] = lambda *_: {}
) -> Naive:
    """One pass of such a copy, in which `changes` says what is changed in a head: (kind, layer, head) -> changes."""
    done = Naive(changes, kind_of={module: _kind(twin, name) for name, module in twin.named_modules()})
    token = _pass.set(done)
    try:
        with torch.inference_mode():
            done.last = twin(**inputs)[0][0].float()
    finally:
        _pass.reset(token)
    return done


def _kind(twin: PreTrainedModel, name: str) -> str:
    if not twin.config.is_encoder_decoder:
        return "self"
    if "EncDecAttention" in name:
        return "cross"
    return "encoder" if name.startswith("encoder") else "decoder"


def _attention(module, query, key, value, mask, *, scaling=None, position_bias=None, softcap=None, s_aux=None, **_):
    done = _pass.get()
    kind = done.kind_of[module]
    layer = done.seen[kind]
    done.seen[kind] += 1
    heads, queries, size = query.shape[1:]
    keys, group = key.shape[2], heads // key.shape[1]
    outputs = []
    for head in range(heads):
        changes = done.changes(kind, layer, head)
        own = {"query": query[0, head], "key": key[0, head // group], "value": value[0, head // group]}
        done.read[kind, layer, head] = own
        q, k, v = (changes.get(name, part).float() for name, part in own.items())
        own_scale = size**-0.5 if scaling is None else scaling
        scale = (1.0 if changes.get("unscaled") else own_scale) * changes.get("factor", 1)
        scores = q @ k.T * scale
        if softcap is not None:
            scores = torch.tanh(scores / softcap) * softcap
        if position_bias is not None:
            scores = scores + _of_head(position_bias, head).float()
        allowed = torch.ones(queries, keys, dtype=torch.bool)
        if mask is not None:
            allowed = (_of_head(mask, head) > torch.finfo(mask.dtype).min / 2).expand(queries, keys)
        weights = _weights(scores, allowed, None if s_aux is None else s_aux[head].float(), changes)
        output = weights @ v
        if "output" in changes:
            output = changes["output"].expand(queries, v.shape[1])
        done.weights[kind, layer, head], done.output[kind, layer, head] = weights, output
        outputs.append(output)
    return torch.stack(outputs, dim=1)[None].to(query.dtype), None


def _of_head(whole: Tensor, head: int) -> Tensor:
    return whole[0, head if whole.shape[1] > 1 else 0]


def _weights(scores: Tensor, allowed: Tensor, sink: Tensor | None, changes: Changes) -> Tensor:
    """[queries, keys] from scores without any mask and from which pairs the model allows."""
    queries, keys = scores.shape
    allowed = allowed.clone()
    if "allowed" in changes:
        allowed = torch.tensor([[changes["allowed"](query, key) for key in range(keys)] for query in range(queries)])
    for query, key in changes.get("pairs", ()):
        allowed[query, key] = False
    for key in changes.get("keys", ()):
        allowed[:, key] = False
    weights = torch.zeros_like(scores)
    for query in range(queries):
        if not allowed[query].any():
            continue
        row = torch.where(allowed[query], scores[query], torch.tensor(-torch.inf))
        match changes.get("weighing", "softmax"):
            case "softmax":
                with_sink = row if sink is None else torch.cat([row, sink[None]])
                weights[query] = torch.softmax(with_sink, dim=0)[:keys]
            case "hardmax":
                if sink is None or row.max() >= sink:
                    weights[query] = (row == row.max()) / (row == row.max()).sum()
            case "sigmoid":
                weights[query] = torch.sigmoid(row - torch.log(allowed[query].sum()))
    for query in range(queries):
        choices = allowed[query]
        at = {"previous": query - 1 if query else None, "first": 0, "self": query}.get(changes.get("pattern"))
        if changes.get("pattern") == "uniform" and choices.any():
            weights[query] = choices / choices.sum()
        elif at is not None and at < keys and choices[at]:
            weights[query] = torch.nn.functional.one_hot(torch.tensor(at), keys)
    for query, row in changes.get("painted", {}).items():
        weights[query] = torch.tensor([row.get(key, 0.0) for key in range(keys)])
    return weights


AttentionInterface.register(NAME, _attention)
AttentionMaskInterface.register(NAME, eager_mask)
