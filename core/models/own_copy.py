"""A network as its class builds it: the reference for what is computed here with another attention function."""

from collections.abc import Collection
from copy import deepcopy

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.utils import logging

from .bounds import BUILDING


def own_copy(network: PreTrainedModel, attention: str | None = None, without: Collection[str] = ()) -> PreTrainedModel:
    """Build the network's class again from its configuration, with the same weights in the same memory.

    The copy has the code, the attention and the masks of its class, whatever was changed in the modules of `network`. What no
    file would hold, such as rotary frequencies, is computed anew.

    attention  the implementation that the copy is to use, such as "eager"; None: the default of its class
    without    parts of its state that are computed anew too

    Raises the errors of transformers for a class that cannot be built so.
    """
    config = deepcopy(network.config)
    config._attn_implementation = attention
    tables = [part for part in network.modules() if isinstance(part, nn.Embedding) and part.padding_idx is not None]
    rows = [part.weight.detach()[part.padding_idx].clone() for part in tables]
    places = getattr(network, "hf_device_map", None) or {"": network.device}
    shown = logging.is_progress_bar_enabled()
    with BUILDING:
        logging.disable_progress_bar()
        try:
            copy = type(network).from_pretrained(
                None,
                config=config,
                state_dict={name: part for name, part in network.state_dict().items() if name not in without},
                dtype=network.dtype,
                device_map=None if places == {"": torch.device("cpu")} else places,
                local_files_only=True,
            )
        finally:
            if shown:
                logging.enable_progress_bar()
            for part, row in zip(
                tables, rows, strict=True
            ):  # Chinese-CLIP sets them to zero, also where they are shared
                part.weight.data[part.padding_idx] = row
    if getattr(network, "generation_config", None) is not None:
        copy.generation_config = deepcopy(network.generation_config)
    _take_rounded_buffers(copy, network)
    return copy.eval()


def _take_rounded_buffers(copy: PreTrainedModel, network: PreTrainedModel) -> None:
    """Round the buffers of the copy that are rounded in the network, and no more than that: `network.to(torch.bfloat16)` also
    rounds what is computed when a network is built."""
    own = dict(network.named_buffers())
    for name, buffer in copy.named_buffers():
        other = own.get(name)
        if (
            other is not None
            and other.dtype != buffer.dtype
            and torch.equal(buffer.to(other.dtype), other.to(buffer.device))
        ):
            parent, _, leaf = name.rpartition(".")
            copy.get_submodule(parent)._buffers[leaf] = other
