"""Hooks on the modules that mix heads (W_O): they know nothing of captures and edits."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import transformers as t


def eager_twin(network: t.PreTrainedModel) -> t.PreTrainedModel:
    twin = copy.deepcopy(network)
    twin.set_attn_implementation("eager")
    return twin


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
