"""The attention weights of models that do not expose their queries, keys and values.

GPT-J, BLOOM, Falcon, DeBERTa, MPNet, XLNet and some others do not compute attention through transformers' registry, where
it could be captured. They return their weights on request (`output_attentions=True`): of all heads at once, [queries, keys]
each, so that memory grows with the square of the text and texts have to be shorter. An NPZ file holds the
same of a model that is not here.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isqrt, prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from ..attention.arrays import RowSums, attention_arrays
from ..attention.trace import Instead, frozen
from ..errors import InputError, check_index, model_error
from ..models.added_tokens import text_notes
from ..models.calls import wide
from ..models.inputs import TokenNumbers, all_inputs, run, target_ids
from ..models.model import Model, NoNetwork, RecordedModel, read_by
from ..models.modules import Kind, outermost_lists
from ..models.tokens import token_texts
from ..progress import stop_point
from .calls.rows import CELLS
from .finite import NotFiniteError, are_finite, gives_finite

MAX_BYTES = 256_000_000  # for the weights of all heads together


class NoAttentionError(InputError):
    """The model exposes neither queries, keys and values nor weights, for example because it has no attention (Mamba)."""


@dataclass(frozen=True, eq=False)
class WeightRows:
    """The rows `start`, `start` + 1, ... of weights that a model has exposed; used like `core.capturing.calls.rows.Rows`.

    weights  [heads, rows, keys]
    """

    start: int
    weights: Tensor

    shared_keys: ClassVar[int] = 0  # any weight may be 0, whose logarithm is -inf
    instead: ClassVar[Mapping[int, Instead]] = {}

    @property
    def stop(self) -> int:
        return self.start + self.weights.shape[1]

    @property
    def allowed(self) -> Tensor:
        """[1, rows, keys], all True: the model does not expose its mask."""
        return torch.ones_like(self.weights[:1], dtype=torch.bool)

    @cached_property
    def masked(self) -> Tensor:
        """Scores whose softmax are these weights; the model's own differ by one number a row. Finite, as rows may be all 0."""
        return self.weights.clamp_min(torch.finfo(self.weights.dtype).tiny).log()

    @cached_property
    def choices(self) -> Tensor:
        """[heads, rows] the number of keys; 0 for a query that attends to nothing."""
        return self.weights.any(dim=-1) * self.weights.shape[2]


@dataclass(frozen=True, eq=False, repr=False)
class WeightsOnly:
    """The weights of every head of one pass; of an encoder-decoder model, those of its encoder. Layers count from 0.

    It has the methods of a `Capture` that need no more than weights.

    row_sums  of every head from a file, by (layer, head); those of a model are known to be 1
    """

    model: Model
    input_ids: tuple[int, ...]
    _layers: tuple[Tensor, ...]  # [heads, queries, keys] each
    row_sums: Mapping[tuple[int, int], RowSums] = field(default_factory=dict)
    _tokens: tuple[tuple[str, ...], tuple[str, ...]] | None = None  # of a file

    target_ids: ClassVar[tuple[int, ...]] = ()

    def __repr__(self) -> str:
        """The weights in one line."""
        read = f"{len(self.input_ids):,} tokens, {self.layers()} × {self.heads()} heads"
        return f"<WeightsOnly of {self.model.name}: {read}>"

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The single kind of attention."""
        if self._tokens is not None and self._tokens[0] != self._tokens[1]:
            return ("cross",)
        return ("encoder",) if self.model.is_encoder_decoder else ("self",)

    @property
    def notes(self) -> tuple[str, ...]:
        """As of a `Capture`."""
        return text_notes(self.model, self.input_ids)

    @property
    def nbytes(self) -> int:
        """Bytes of the weights of all heads."""
        return sum(layer.nbytes for layer in self._layers)

    def tokens(self, kind: Kind | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(texts of the query tokens, texts of the key tokens), which are the same unless a file has others."""
        self._of(kind)
        return self._tokens or (tokens := token_texts(self.model.tokenizer, self.input_ids), tokens)

    def layers(self, kind: Kind | None = None) -> int:
        """Number of layers."""
        return len(self._of(kind))

    def heads(self, kind: Kind | None = None) -> int:
        """Number of heads of a layer."""
        return self._of(kind)[0].shape[0]

    def shape(self, kind: Kind | None = None) -> tuple[int, int]:
        """(queries, keys) of every head."""
        _, queries, keys = self._of(kind)[0].shape
        return queries, keys

    def in_rows(self, kind: Kind | None = None) -> Iterator[Iterator[WeightRows]]:
        """The weights of all heads: for each layer, its query rows in blocks."""
        return map(_in_blocks, self._of(kind))

    def weights(self, layer: int, head: int) -> NDArray[np.floating]:
        """The weights of one head: [queries, keys] in [0, 1], read-only; each row sums to 1. Raises InputError (field "layer"
        or "head") if there is no such head."""
        check_index(layer, self.layers(), "layer")
        check_index(head, self.heads(), "head")
        return frozen(wide(self._layers[layer][head]).numpy(force=True).copy())

    def _of(self, kind: Kind | None) -> tuple[Tensor, ...]:
        if kind not in (None, *self.kinds):
            raise InputError(f"Of {kind} attention no weights are kept, only of {self.kinds[0]}.", field="kind")
        return self._layers


def attention_weights(
    model: Model,
    text: str | None = None,
    *,
    input_ids: TokenNumbers | None = None,
    max_tokens: int = 512,
    truncate: bool = False,
) -> WeightsOnly:
    """Run a model once over a text and keep the weights of all its heads.

    max_tokens  maximum number of tokens, if that is less than the model's own and than MAX_BYTES allow
    truncate    whether to keep the first tokens that fit instead of raising TooLongError

    Raises InputError for a blank text and for a model that can be captured; TooLongError; NotFiniteError for a pass that gives
    NaN or infinity; and NoAttentionError for a model that exposes no weights either.
    """
    if model.captures:
        raise model_error(
            f"{model.name} exposes its queries, keys and values too: capture it instead, and every stage can be shown."
        )
    bytes_a_pair = sum(layer.shape[0] * layer.element_size() for layer in _on_two_tokens(model))
    max_tokens = min(max_tokens, isqrt(MAX_BYTES // bytes_a_pair))
    inputs = all_inputs(model, text, input_ids=input_ids, max_tokens=max_tokens, truncate=truncate)
    returned, layers = _run(model, inputs)
    if not (gives_finite(returned) and are_finite(*layers)):
        raise NotFiniteError(model).explained(inputs, lambda call: call)
    return WeightsOnly(model, tuple(inputs["input_ids"][0].tolist()), layers)


def open_weights(file: str | Path | bytes, name: str = "", *, max_bytes: int | None = None) -> WeightsOnly:
    """The weights in an NPZ file that another program has written, without a model; docs/arrays.md describes the file.

    file       its path, or its contents
    name       of the file, if its contents are given
    max_bytes  of the weights of all heads, if that is less than MAX_BYTES

    Equal tokens count as one number of a vocabulary. Raises InputError for a file as `attention_arrays` does, which names the
    layer and the head of a number that is not a weight, and for more bytes (field "file").
    """
    most = min(MAX_BYTES, max_bytes or MAX_BYTES)
    arrays = attention_arrays(file, max_bytes=most)
    shape = arrays.layers(), arrays.heads(), *arrays.shape
    if (needed := prod(shape) * arrays.dtype.itemsize) > most:
        why = f"The weights of all heads take {needed:,} bytes; at most {most:,} are read. Give fewer layers or tokens."
        raise InputError(why, field="file")
    layers = np.empty(shape, arrays.dtype)
    sums: dict[tuple[int, int], RowSums] = {}
    for layer, head in np.ndindex(shape[:2]):
        stop_point()
        weights = arrays.weights(layer, head)
        layers[layer, head], sums[layer, head] = weights, arrays.row_sums(layer, weights)
    queries, keys = arrays.tokens()
    numbers = {token: number for number, token in enumerate(dict.fromkeys(keys))}
    network: Any = NoNetwork()
    name = name or ("attention weights" if isinstance(file, bytes) else Path(file).name)
    what = "attention weights in a file"
    model = RecordedModel(name, network, None, what, dtype=layers.dtype.name, captures=False)
    ids = tuple(numbers[token] for token in keys)
    return WeightsOnly(model, ids, tuple(torch.from_numpy(layers)), sums, (queries, keys))


def no_weights(model: Model) -> NoAttentionError | None:
    """Why a model exposes no weights, tried with two tokens; None if it exposes them."""
    try:
        _on_two_tokens(model)
    except NoAttentionError as error:
        return error
    return None


def _on_two_tokens(model: Model) -> tuple[Tensor, ...]:
    if (given := read_by(type(model.network))) != "texts":
        raise _exposes_nothing(model, f"it reads {given}, and weights alone are shown of texts")
    padding = getattr(model.network.config, "pad_token_id", None)
    try:
        _, layers = _run(model, {"input_ids": torch.full((1, 2), 1 if padding == 0 else 0)})
        return layers
    except NoAttentionError:
        raise
    except InputError as error:
        raise NoAttentionError(str(error), field=error.field) from error
    except Exception as error:  # a network that cannot read tokens may raise any error
        raise NoAttentionError(
            f"{type(model.network).__name__} could not be asked for its attention weights: {error}. Choose another model.",
            field="model",
        ) from error


def _in_blocks(layer: Tensor) -> Iterator[WeightRows]:
    """The weights of a layer, [heads, queries, keys], a few rows at a time.

    Each block is a copy, as in `core.capturing.calls.rows`: whoever reads one may empty cells for a while.
    """
    size = max(1, CELLS // (layer.shape[0] * layer.shape[2]))
    for start in range(0, layer.shape[1], size):
        stop_point(start / layer.shape[1])
        yield WeightRows(start, wide(layer[:, start : start + size].clone()))


def _run(model: Model, inputs: dict[str, Tensor]) -> tuple[Any, tuple[Tensor, ...]]:
    """(what the network returned, the weights of each layer)."""
    config = model.network.config
    if config.model_type == "falcon" and config.alibi:
        # In transformers 5.23 its mask contains the ALiBi bias, and the code that exposes weights adds the bias once more.
        raise NoAttentionError(
            f"{model.name} is a Falcon with ALiBi, for which transformers exposes other weights than the model computes "
            f"with. They are not shown. Choose another model.",
            field="model",
        )
    if model.is_encoder_decoder:
        inputs = inputs | {"decoder_input_ids": torch.tensor([target_ids(model, None)])}
    result = run(replace(model, network=_stoppable(model.network)), inputs, output_attentions=True)
    layers = getattr(result, "encoder_attentions" if model.is_encoder_decoder else "attentions", None) or ()
    tokens = inputs["input_ids"].shape[1]
    if (unlike := _unlike_weights(layers, tokens)) is not None:
        raise _exposes_nothing(model, unlike)
    return result, tuple(layer[0].cpu() for layer in layers)


def _exposes_nothing(model: Model, why: str) -> NoAttentionError:
    """The error for a model without queries, keys and values that gives no weights either. why: of one that has attention"""
    if not any("attention" in type(module).__name__.lower() for module in model.network.modules()):
        why = "it has no attention"
    kind = type(model.network).__name__
    return NoAttentionError(
        f"{kind} exposes neither queries, keys and values nor weights from every token to every other: {why}. "
        f"Choose another model.",
        field="model",
    )


def _unlike_weights(layers: Sequence[object], tokens: int) -> str | None:
    """In what these differ from weights: [1, heads, tokens, tokens] of every layer, not negative, rows that sum to 1, or NaN.
    None: in nothing."""
    if not layers:
        return "it returns none"
    if len({layer.shape[1] for layer in layers if isinstance(layer, Tensor) and layer.ndim == 4}) > 1:
        return "its layers have different numbers of heads"
    for layer in layers:
        if (
            not isinstance(layer, Tensor)
            or layer.ndim != 4
            or (layer.shape[0], *layer.shape[2:]) != (1, tokens, tokens)
        ):
            return "what it returns has another form, as of attention to parts of a text"
        is_off = (layer.float().sum(-1) - 1).abs() > 0.02  # bfloat16 has 8 bits
        if bool((layer < 0).any() or is_off.any()):
            return (
                "the rows of what it returns do not sum to 1, as those of scores, or of attention to more than the text"
            )
    return None


def _stoppable(network: PreTrainedModel) -> PreTrainedModel:
    """A copy of a network that shares all numbers with it and has a stop point before each layer, as calls to an attention
    function of ours have one.

    All of its modules are new: transformers hands out weights by hooks that it leaves in modules, and two passes at once that
    had some in common would collect theirs twice.
    """
    held = ((name, value) for module in network.modules() for name, value in vars(module).items())
    shared = {id(value): value for name, value in held if name != "_modules" and "hooks" not in name}
    twin = copy.deepcopy(network, shared)
    for name in outermost_lists(twin):
        for layer in twin.get_submodule(name).children():
            layer.register_forward_pre_hook(lambda *_: stop_point())
    return twin
