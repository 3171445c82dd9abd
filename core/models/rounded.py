"""A copy of a model with rounded weights, as in a GGUF file of fewer bits: what rounding alone changes.

The numbers are those of the library gguf, which rounds in blocks of 32 with a scale for each (the formats Q8_0 and Q4_0 of
llama.cpp, https://github.com/ggml-org/llama.cpp).
"""

from copy import deepcopy
from dataclasses import replace
from typing import Literal, get_args

import torch
from gguf import GGMLQuantizationType, dequantize
from gguf.quants import quantize
from torch import nn
from transformers.pytorch_utils import Conv1D

from ..errors import InputError
from ..progress import stop_point
from .calls import wide
from .model import Model
from .sizes import require_room

Rounding = Literal["Q8_0", "Q4_0"]
ROUNDINGS: tuple[Rounding, ...] = get_args(Rounding)
BLOCK = 32  # weights that share a scale


def rounded_copy(model: Model, rounding: Rounding) -> Model:
    """A copy of the model in which the weights of every linear map of its layers are rounded and undone again.

    Embeddings, norms, biases and the output map stay, and so do maps whose inputs are not a multiple of 32, which these formats
    cannot hold. The copy has the dtype and the device of the model, which stays as it is. Raises InputError (field "rounding")
    for another name, and (field "model") where a second model does not fit into memory.
    """
    if rounding not in ROUNDINGS:
        raise InputError(f"{rounding!r} is not a rounding. Choose one of {', '.join(ROUNDINGS)}.", field="rounding")
    if model.size is not None:
        require_room(model.size, model.name, model.dtype, model.devices)
    network, form = deepcopy(model.network), GGMLQuantizationType[rounding]
    for layers in map(network.get_submodule, model.lists_of_layers):
        for module in layers.modules():
            if isinstance(module, nn.Linear | Conv1D):
                stop_point()
                _round(module, form)
    name = f"{model.name} rounded to {rounding}"
    return replace(model, name=name, network=network, revision=f"{model.revision}, {rounding}", size=None, folder=None)


@torch.no_grad()
def _round(module: nn.Linear | Conv1D, form: GGMLQuantizationType) -> None:
    """Round a weight in place, along what the map reads, as GGUF stores it."""
    weight = module.weight.T if isinstance(module, Conv1D) else module.weight
    if weight.shape[-1] % BLOCK == 0:
        held = wide(weight).numpy(force=True)
        weight.copy_(torch.from_numpy(dequantize(quantize(held, form), form)).reshape(weight.shape))
