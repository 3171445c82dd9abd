"""Which modules of a network compute attention, and of which kind each of them is."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Literal

import torch
from transformers import PreTrainedModel

Kind = Literal["self", "encoder", "decoder", "cross"]

# How architectures name a decoder's attention to what the encoder has read: BART, T5, BERT, Moonshine ...
_CROSSING = ("encoder_attn", "encdecatt", "crossatt", "cross_att")


def kind_of(name: str, is_encoder_decoder: bool) -> Kind:
    """Which attention a module of this dotted name computes, or a parameter within it.

    "cross" where a decoder looks at what an encoder has read; else, in a model of both, the side that it belongs to, and
    "self" in any other model.
    """
    parts = name.lower().split(".")
    if any(crossing in part for part in parts for crossing in _CROSSING):
        return "cross"
    if not is_encoder_decoder:
        return "self"
    return "decoder" if any("decoder" in part for part in parts) else "encoder"


def attention_modules(network: PreTrainedModel) -> dict[str, torch.nn.Module]:
    """By their names, the modules that compute attention through transformers' registry in a pass over what is read.

    Of a model that reads images or sounds beside texts, those that read the text.
    """
    found: dict[str, torch.nn.Module] = dict(network.named_modules())
    found = {name: module for name, module in found.items() if asks_the_registry(module)}
    text = network.config.get_text_config()
    if text is network.config or getattr(network.config, "is_encoder_decoder", False):
        return found
    return {name: module for name, module in found.items() if getattr(module, "config", text) is text}


def text_tower(network: PreTrainedModel) -> PreTrainedModel | None:
    """Of a network of two towers, whose vectors of a text and of something else are compared in the end, the one that reads
    texts (CLIP, Radford et al. 2021, figure 1). None of any other.

    All such networks of transformers give the text's vector by a method of one name, and hold the tower under another.
    """
    tower = getattr(network, "text_model", None)
    return tower if hasattr(network, "get_text_features") and isinstance(tower, PreTrainedModel) else None


def asks_the_registry(module: torch.nn.Module) -> bool:
    """Whether it computes attention through transformers' registry, where it can be captured.

    `_can_set_attn_implementation` asks the same of a class's source file, but says yes to Mamba and FNet, which have no
    attention. Looking at the forward functions was right for all 157 text architectures tried.
    """
    return "ALL_ATTENTION_FUNCTIONS.get_interface(" in _source_of(type(module).forward)


@cache
def _source_of(function: Callable) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):  # built in, or typed into a console
        return ""
