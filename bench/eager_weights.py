"""The weights that transformers' eager code computes in every attention module, also where a class returns none."""

import sys
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask

from core.models.own_copy import own_copy

_WATCHED: list[tuple[nn.Module, Tensor]] = []


def _watching(module: nn.Module, *inputs: Any, **options: Any) -> tuple[Tensor, Tensor]:
    output, weights = sys.modules[type(module).__module__].eager_attention_forward(module, *inputs, **options)
    _WATCHED.append((module, weights))
    return output, weights


AttentionInterface.register("watching", _watching)
AttentionMaskInterface.register("watching", eager_mask)


def eager_weights(network: PreTrainedModel, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """By the name of the module: [heads, queries, keys]. Those of windows and tiles lie one after another on the diagonal."""
    twin = own_copy(network, "watching")
    names = {id(module): name for name, module in twin.named_modules()}
    _WATCHED.clear()
    with torch.inference_mode():
        twin(**inputs)
    found: dict[str, list[Tensor]] = {}
    for module, weights in _WATCHED:
        found.setdefault(names[id(module)], []).extend(weights)
    return {
        name: torch.stack([torch.block_diag(*(part[head] for part in parts)) for head in range(len(parts[0]))])
        for name, parts in found.items()
    }
