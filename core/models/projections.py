"""The weight matrices of one attention head, read from a transformers network.

Architectures are recognised by the names and shapes of the submodules of their attention modules. Nothing is guessed:
anything that could give a matrix another meaning (a further projection, a parameter of unknown purpose, sizes that do not
add up) raises an error.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from ..errors import InputError, check_index
from .calls import wide
from .devices import at_hand
from .model import Model
from .modules import Kind, attention_modules, kind_of

_SEPARATE = (
    ("q_proj", "k_proj", "v_proj"),
    ("query", "key", "value"),
    ("q", "k", "v"),
    ("q_lin", "k_lin", "v_lin"),
)
_OUTPUTS = ("o_proj", "out_proj", "dense", "o", "out_lin", "Wo")
# Name of a fused projection: its layout, the name of the output projection, its class. With another output name or class the
# layout differs: CodeGen has qkv_proj with out_proj, GPTBigCode has c_attn as a Linear.
_FUSED = {
    "c_attn": ("stacked", "c_proj", Conv1D),
    "Wqkv": ("stacked", "Wo", nn.Linear),
    "qkv_proj": ("stacked", "o_proj", nn.Linear),
    "query_key_value": ("grouped", "dense", nn.Linear),
}
_QUERIES = {*(names[0] for names in _SEPARATE), *_FUSED}

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
        """The shapes in one line."""
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
    network = model.network
    layers = _layers(network)
    if not layers:
        raise _unsupported(network, _innermost_attention(network), "none of these is a known query projection")
    if kind is None:
        kind = "encoder" if network.config.is_encoder_decoder else "self"
    if kind not in layers:
        raise InputError(f"This model has no {kind} attention, only {', '.join(layers)}.", field="kind")
    check_index(layer, len(layers[kind]), "layer")
    attention = network.get_submodule(layers[kind][layer])
    parent = network.get_submodule(layers[kind][layer].rpartition(".")[0])
    try:
        projections = _projections(attention, parent)
    except _NotUnderstood as reason:
        raise _unsupported(network, attention, str(reason)) from None
    check_index(head, projections.heads, "head")
    return projections.of_head(head)


class _NotUnderstood(Exception):
    """An attention module whose parts cannot be told apart; the message is the end of a sentence."""


class _Affine(NamedTuple):
    """x @ weight + bias, with weight [d_in, d_out] and bias [d_out]."""

    weight: Tensor
    bias: Tensor

    def slot(self, index: int, size: int) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """The weight and bias of outputs index * size to (index + 1) * size - 1."""
        outputs = slice(index * size, (index + 1) * size)
        return _read_only(self.weight[:, outputs]), _read_only(self.bias[outputs])


class _Projections(NamedTuple):
    """The projections of one layer. In fused layouts query, key and value are the same affine map."""

    layout: str
    query: _Affine
    key: _Affine
    value: _Affine
    output: _Affine
    head_size: int

    @property
    def heads(self) -> int:
        return len(self.output.weight) // self.head_size

    @property
    def key_heads(self) -> int:
        slots = len(self.key.bias) // self.head_size
        return slots if self.layout == "separate" else (slots - self.heads) // 2

    def adds_up(self) -> bool:
        """Whether every shape fits the number and size of the heads."""
        heads, key_heads = self.heads, self.key_heads
        if key_heads < 1 or heads % key_heads:
            return False
        slots = (heads, key_heads, key_heads) if self.layout == "separate" else (heads + 2 * key_heads,) * 3
        return (
            [len(affine.bias) for affine in (self.query, self.key, self.value)] == [n * self.head_size for n in slots]
            and len(self.output.bias) == len(self.query.weight)
            and len(self.key.weight) == len(self.value.weight)
        )

    def of_head(self, head: int) -> HeadWeights:
        group = self.heads // self.key_heads
        key_head = head // group
        query_slot, key_slot, value_slot = {
            "separate": (head, key_head, key_head),
            # all queries, all keys, all values
            "stacked": (head, self.heads + key_head, self.heads + self.key_heads + key_head),
            # for each key head its queries, the key, the value
            "grouped": (head + 2 * key_head, (group + 2) * key_head + group, (group + 2) * key_head + group + 1),
        }[self.layout]
        W_Q, b_Q = self.query.slot(query_slot, self.head_size)
        W_K, b_K = self.key.slot(key_slot, self.head_size)
        W_V, b_V = self.value.slot(value_slot, self.head_size)
        W_O = _read_only(self.output.weight[head * self.head_size : (head + 1) * self.head_size])
        return HeadWeights(W_Q, W_K, W_V, W_O, b_Q, b_K, b_V, _read_only(self.output.bias), key_head)


def _layers(network: PreTrainedModel) -> dict[Kind, list[str]]:
    """The names of the attention modules by kind, in the order of the layers."""
    layers: dict[Kind, list[str]] = {}
    # Only modules that a capture records, so that layer numbers agree: in hybrid models linear attention also projects queries.
    captured = attention_modules(network)
    for name, module in network.named_modules():
        projects = any(child in _QUERIES for child, _ in module.named_children())
        if projects and (not captured or name in captured):
            layers.setdefault(kind_of(name, network.config.is_encoder_decoder), []).append(name)
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


def _projections(attention: nn.Module, parent: nn.Module) -> _Projections:
    """The projections of an attention module. Raises _NotUnderstood."""
    layout, inputs, output = _find(attention, parent)
    _refuse_further_parts(attention, [*inputs, output])
    query, key, value, out = (_affine(layer) for layer in (*inputs, output))
    projections = _Projections(layout, query, key, value, out, _head_size(attention, len(out.weight)))
    if not projections.adds_up():
        widths = ", ".join(f"{len(part.weight)} to {len(part.bias)}" for part in (query, key, value, out))
        raise _NotUnderstood(
            f"with heads of size {projections.head_size} the widths of its query, key, value and output projections "
            f"({widths}) do not add up"
        )
    return projections


def _find(attention: nn.Module, parent: nn.Module) -> tuple[str, list[nn.Module], nn.Module]:
    """(layout, the modules that project query, key and value, the module that projects the output)."""
    children = dict(attention.named_children())
    for names in _SEPARATE:
        if all(name in children for name in names):
            # BERT keeps the output projection beside the attention module, in `output.dense`.
            beside = getattr(getattr(parent, "output", None), "dense", None)
            output = next((children[name] for name in _OUTPUTS if name in children), beside)
            if output is not None:
                return "separate", [children[name] for name in names], output
    for name, (layout, output, kind) in _FUSED.items():
        if output in children and isinstance(children.get(name), kind):
            return layout, [children[name]] * 3, children[output]
    raise _NotUnderstood("these are not query, key, value and output projections by any known name")


def _refuse_further_parts(attention: nn.Module, projections: list[nn.Module]) -> None:
    """Raise _NotUnderstood for gates, convolutions and further projections, which change the meaning of the four matrices."""
    further = [
        name
        for name, child in attention.named_children()
        if child not in projections and any(isinstance(part, nn.Linear | Conv1D | _ConvNd) for part in child.modules())
    ]
    further += [name for name, _ in attention.named_parameters(recurse=False) if name not in _SCORE_PARAMETERS]
    if further:
        raise _NotUnderstood(f"what {', '.join(further)} does beside the projections is not understood here")


def _affine(layer: nn.Module) -> _Affine:
    if not isinstance(layer, nn.Linear | Conv1D) or layer.weight.dtype not in _DTYPES:
        weight = getattr(layer, "weight", None)
        stored = f" of {weight.dtype}" if isinstance(weight, Tensor) else ""
        raise _NotUnderstood(f"{type(layer).__name__}{stored} is no plain matrix")
    weight = at_hand(layer, "weight") if isinstance(layer, Conv1D) else at_hand(layer, "weight").T
    return _Affine(weight, weight.new_zeros(weight.shape[1]) if layer.bias is None else at_hand(layer, "bias"))


def _head_size(attention: nn.Module, width: int) -> int:
    for name in _HEAD_SIZES:
        if hasattr(attention, name):
            return getattr(attention, name)
    for name in _HEAD_COUNTS:
        if hasattr(attention, name):
            return width // getattr(attention, name)
    raise _NotUnderstood("it does not say how large its heads are")


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
    return InputError(
        f"The weight matrices of this architecture are not supported. In {type(network).__name__}, "
        f"{type(attention).__name__} holds {', '.join(submodules) or 'no submodules'}: {reason}. Choose a model whose "
        f"query, key and value projections are separate, or fused as in GPT-2, GPT-NeoX, ModernBERT or Phi-3.",
        field="model",
    )
