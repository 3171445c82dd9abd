"""The weight matrices of one attention head, read from a transformers network.

Architectures are recognised by the names and shapes of the submodules of their attention modules. Nothing is guessed:
anything that could give a matrix another meaning (a further projection, a parameter of unknown purpose, sizes that do not
add up) raises an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from ..attention.trace import frozen
from ..errors import InputError, check_index, model_error
from .calls import wide
from .devices import at_hand
from .model import Model
from .modules import Kind, kind_of, kinds_of_modules

_SEPARATE = (("q_proj", "k_proj", "v_proj"), ("query", "key", "value"), ("q", "k", "v"), ("q_lin", "k_lin", "v_lin"))
_OUTPUTS = ("o_proj", "out_proj", "dense", "o", "out_lin", "Wo")
_HEAD_SIZES = ("head_dim", "attention_head_size", "head_size")
_HEAD_COUNTS = ("num_attention_heads", "num_heads", "n_heads", "n_head")

# Parameters that change scores only, not queries, keys, values or outputs.
_SCORE_PARAMETERS = {"sinks", "relative_position_bias_table"}
# Quantised weights mean little without their scales, which are kept elsewhere.
_DTYPES = {torch.float64, torch.float32, torch.float16, torch.bfloat16}


@dataclass(frozen=True, eq=False, repr=False)
class HeadWeights:
    """The projections of one head, as in Vaswani et al. 2017, section 3.2.2 (https://arxiv.org/abs/1706.03762).

    W_Q, W_K, W_V   [d_model, d_head]
    W_O             [d_head, d_model]
    b_Q, b_K, b_V   [d_head], zeros where the layer has none
    b_O             [d_model], one for all heads of the layer, zeros where it has none
    key_head        the key/value head that this query head reads; heads share them in grouped-query attention

    With x [n, d_model] as the input of the attention module (after normalisation, if the architecture normalises before
    attention):

        x @ W_Q + b_Q    the head's query, before QK norm, rotary embedding or a scale that the model multiplies in
        x @ W_K + b_K    its key, before QK norm and rotary embedding
        x @ W_V + b_V    its value
        Σ over heads of weights @ value @ W_O, + b_O    what the attention module returns

    In cross-attention the key and value are read from the encoder's output. Further steps of an architecture, such as a norm
    of the value (Gemma 4) or before W_O (BitNet) or a clamp (OLMo), are not folded into the matrices.

    The arrays are read-only copies, in float64 if the network is and in float32 otherwise.
    Unpacks into the four matrices: `W_Q, W_K, W_V, W_O = head_weights(...)`.
    """

    W_Q: NDArray[np.floating]
    W_K: NDArray[np.floating]
    W_V: NDArray[np.floating]
    W_O: NDArray[np.floating]
    b_Q: NDArray[np.floating]
    b_K: NDArray[np.floating]
    b_V: NDArray[np.floating]
    b_O: NDArray[np.floating]
    key_head: int

    def __repr__(self) -> str:
        shapes = ("{} × {}".format(*matrix.shape) for matrix in (self.W_Q, self.W_O))
        return "<HeadWeights: W_Q, W_K, W_V {}; W_O {}; key head {}>".format(*shapes, self.key_head)

    def __iter__(self) -> Iterator[NDArray[np.floating]]:
        return iter((self.W_Q, self.W_K, self.W_V, self.W_O))


def head_weights(model: Model, layer: int, head: int, kind: Kind | None = None) -> HeadWeights:
    """The weight matrices and biases of one head.

    layer  from 0, in the order in which the network registers its attention modules of this kind, as in a capture; if layers
           share a module (ALBERT), every pass through it is a layer; layers without softmax attention do not count
    head   from 0, among the query heads
    kind   "encoder" (the default), "decoder" or "cross" in an encoder-decoder model; "self" (the default) in any other
           model, or "cross" for a decoder's attention to an encoder that is not part of the model

    Raises InputError: field "model" if the matrices of this architecture are not understood; "kind", "layer" or "head" if
    there is no such head.
    """
    queries, keys, values, output = _of_layer(model, layer, kind)
    check_index(head, len(queries), "head")
    key_head = head // (len(queries) // len(keys))
    read = queries[head], keys[key_head], values[key_head]
    W_Q, W_K, W_V = (_read_only(projection.weight) for projection in read)
    b_Q, b_K, b_V = (_read_only(projection.bias) for projection in read)
    W_O = _read_only(output.weight.split(len(b_Q))[head])
    return HeadWeights(W_Q, W_K, W_V, W_O, b_Q, b_K, b_V, _read_only(output.bias), key_head)


class _NotUnderstood(Exception):
    """An attention module whose parts cannot be told apart; the message is the end of a sentence."""


class _Affine(NamedTuple):
    """x @ weight + bias, with weight [d_in, d_out] and bias [d_out]."""

    weight: Tensor
    bias: Tensor

    def split(self, size: int) -> list[_Affine]:
        """A map for each `size` outputs."""
        return list(map(_Affine, self.weight.split(size, dim=1), self.bias.split(size)))


_Parts = tuple[list[_Affine], list[_Affine], list[_Affine]]
_Layout = Callable[[list[_Affine], int], _Parts]


def _of_layer(model: Model, layer: int, kind: Kind | None) -> tuple[*_Parts, _Affine]:
    """(queries by head, keys and values by key head, the output of all heads) of a layer. Raises InputError."""
    network = model.network
    layers = _layers(network)
    kind = kind or ("encoder" if network.config.is_encoder_decoder else "self")
    if kind not in layers:
        unread = [network.get_submodule(name) for name, own in kinds_of_modules(network).items() if own == kind]
        if layers and not unread:
            raise InputError(f"This model has no {kind} attention, only {', '.join(layers)}.", field="kind")
        attention = unread[0] if layers else _innermost_attention(network)
        raise _unsupported(network, attention, "none of these is a known query projection")
    check_index(layer, len(layers[kind]), "layer")
    attention = network.get_submodule(layers[kind][layer])
    parent = network.get_submodule(layers[kind][layer].rpartition(".")[0])
    try:
        return _projections(attention, parent)
    except _NotUnderstood as reason:
        raise _unsupported(network, attention, str(reason)) from None


def _stacked(slots: list[_Affine], heads: int) -> _Parts:
    """All queries, all keys, all values."""
    key_heads = (len(slots) - heads) // 2
    return slots[:heads], slots[heads : heads + key_heads], slots[heads + key_heads :]


def _grouped(slots: list[_Affine], heads: int) -> _Parts:
    """For each key head its queries, the key, the value."""
    group = heads // max(1, (len(slots) - heads) // 2)
    queries = [slot for place, slot in enumerate(slots) if place % (group + 2) < group]
    return queries, slots[group :: group + 2], slots[group + 1 :: group + 2]


# Name of a fused projection: its layout, the name of the output projection, its class. With another output name or class the
# layout differs: CodeGen has qkv_proj with out_proj, GPTBigCode has c_attn as a Linear.
_FUSED = {
    "c_attn": (_stacked, "c_proj", Conv1D),
    "Wqkv": (_stacked, "Wo", nn.Linear),
    "qkv_proj": (_stacked, "o_proj", nn.Linear),
    "query_key_value": (_grouped, "dense", nn.Linear),
}
_QUERIES = {*(names[0] for names in _SEPARATE), *_FUSED}


def _layers(network: PreTrainedModel) -> dict[Kind, list[str]]:
    """The names of the attention modules by kind, in the order of the layers."""
    layers: dict[Kind, list[str]] = {}
    # Only modules that a capture records, so that layer numbers agree: in hybrid models linear attention also projects queries.
    captured = kinds_of_modules(network)
    for name, module in network.named_modules():
        projects = any(child in _QUERIES for child, _ in module.named_children())
        if projects and (not captured or name in captured):
            kind = captured.get(name) or kind_of(name, network.config.is_encoder_decoder)
            layers.setdefault(kind, []).append(name)
    groups = getattr(network.config, "num_hidden_groups", None)
    if groups is not None:
        layers["self"] = _albert_passes(layers["self"], network.config.num_hidden_layers, groups)
    return layers


def _albert_passes(names: list[str], passes: int, groups: int) -> list[str]:
    """The module name of each layer of each pass: ALBERT goes through a few groups of layers several times."""
    size = len(names) // groups
    # With floats as in ALBERT's code, so that rounding gives the same group: of 18 passes in 14 groups, pass 9 is in group 6.
    chosen = [int(i / (passes / groups)) for i in range(passes)]
    return [name for group in chosen for name in names[group * size : (group + 1) * size]]


def _projections(attention: nn.Module, parent: nn.Module) -> tuple[*_Parts, _Affine]:
    """(queries by head, keys and values by key head, the output of all heads). Raises _NotUnderstood."""
    layout, modules = _find(attention, parent)
    _refuse_further_parts(attention, modules)
    *maps, output = map(_affine, modules)
    size = _head_size(attention, len(output.weight))
    heads = len(output.weight) // size
    split = [whole.split(size) for whole in maps]
    parts = queries, keys, values = split if layout is None else layout(split[0], heads)
    adds_up = (
        (len(queries), len(values)) == (heads, len(keys))
        and len(keys) > 0
        and heads % len(keys) == 0
        and all(len(part.bias) == size for of_heads in parts for part in of_heads)
        and len(output.bias) == len(maps[0].weight)
        and len(maps[1].weight) == len(maps[2].weight)
    )
    if not adds_up:
        widths = ", ".join(f"{len(part.weight)} to {len(part.bias)}" for part in (*maps, output))
        raise _NotUnderstood(
            f"with heads of size {size} the widths of its query, key, value and output projections ({widths}) do not add up"
        )
    return queries, keys, values, output


def _find(attention: nn.Module, parent: nn.Module) -> tuple[_Layout | None, list[nn.Module]]:
    """(layout, None if separate; the modules that project query, key, value and output)."""
    children = dict(attention.named_children())
    for names in _SEPARATE:
        if all(name in children for name in names):
            # BERT keeps the output projection beside the attention module, in `output.dense`.
            beside = getattr(getattr(parent, "output", None), "dense", None)
            output = next((children[name] for name in _OUTPUTS if name in children), beside)
            if output is not None:
                return None, [*(children[name] for name in names), output]
    for name, (layout, output, kind) in _FUSED.items():
        if output in children and isinstance(children.get(name), kind):
            return layout, [*[children[name]] * 3, children[output]]
    raise _NotUnderstood("these are not query, key, value and output projections by any known name")


def _refuse_further_parts(attention: nn.Module, projections: list[nn.Module]) -> None:
    """Raise _NotUnderstood for gates, convolutions and further projections, which change the meaning of the four matrices."""
    others = [(name, child) for name, child in attention.named_children() if child not in projections]
    kinds = nn.Linear | Conv1D | _ConvNd
    further = [name for name, child in others if any(isinstance(part, kinds) for part in child.modules())]
    further += [name for name, _ in attention.named_parameters(recurse=False) if name not in _SCORE_PARAMETERS]
    if further:
        raise _NotUnderstood(f"what {', '.join(further)} does beside the projections is not understood here")


def _affine(layer: nn.Module) -> _Affine:
    if not isinstance(layer, nn.Linear | Conv1D) or layer.weight.dtype not in _DTYPES:
        weight = getattr(layer, "weight", None)
        stored = f" of {weight.dtype}" if isinstance(weight, Tensor) else ""
        raise _NotUnderstood(f"{type(layer).__name__}{stored} is not a plain matrix")
    weight = at_hand(layer, "weight") if isinstance(layer, Conv1D) else at_hand(layer, "weight").T
    return _Affine(weight, weight.new_zeros(weight.shape[1]) if layer.bias is None else at_hand(layer, "bias"))


def _head_size(attention: nn.Module, width: int) -> int:
    sizes = [getattr(attention, name) for name in _HEAD_SIZES if hasattr(attention, name)]
    sizes += [width // getattr(attention, name) for name in _HEAD_COUNTS if hasattr(attention, name)]
    if not sizes:
        raise _NotUnderstood("it does not say how large its heads are")
    return sizes[0]


def _read_only(tensor: Tensor) -> NDArray[np.floating]:
    return frozen(wide(tensor).numpy(force=True).copy())


def _innermost_attention(network: PreTrainedModel) -> nn.Module:
    """The first module with "attention" in its class name that contains no other such module; otherwise the network."""

    def is_attention(module: nn.Module) -> bool:
        return "attention" in type(module).__name__.lower()

    found = (part for part in network.modules() if is_attention(part) and not any(map(is_attention, part.children())))
    return next(found, network)


def _unsupported(network: PreTrainedModel, attention: nn.Module, reason: str) -> InputError:
    submodules = [name for name, _ in attention.named_children()]
    return model_error(
        f"The weight matrices of this architecture are not supported. In {type(network).__name__}, "
        f"{type(attention).__name__} holds {', '.join(submodules) or 'no submodules'}: {reason}. Choose a model whose "
        f"query, key and value projections are separate, or fused as in GPT-2, GPT-NeoX, ModernBERT or Phi-3."
    )
