"""Attention weights that were computed elsewhere: arrays of any library, and what is wrong with them by layer and head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, check_index, shortened
from ..pieces import as_texts
from ..units import counted, listed
from .matrix_files import MAX_WEIGHTS_BYTES, read_weights_npz
from .steps import MOST_NUMBERS, are_steps, joined

_error = partial(InputError, field="attentions")

Tokens = Sequence[str] | tuple[Sequence[str], Sequence[str]]

# The distance from 1 to the next number, by the last word of a dtype's name, which NumPy, torch and JAX share.
_STEPS = {"float64": 2**-52, "float16": 2**-10, "bfloat16": 2**-7}
_SINGLE = 2**-23
_DTYPES = {"float64": np.float64, "float16": np.float16}
# Heads in all, and layers or heads of a layer: a picture of each must fit on a canvas.
MAX_HEADS, MAX_AXIS = 2**14, 2**10
MAX_TOKENS = 2**16  # queries or keys
LARGEST = 1e30  # no weight may be larger: the sum of a row must be finite, also in float32
NAMED = 5  # heads whose rows do not sum to 1; the others are counted
_NUMBERS = "Attention weights are numbers from 0 to 1."
_BELOW_0 = "Attention weights are never below 0: are these scores, before the softmax? Take the softmax over the keys."
_FORMS = (
    "Give what output_attentions=True returns (a tuple of one tensor a layer, or from generate of one such tuple a step), an "
    "array [layers, heads, queries, keys], [heads, queries, keys] or [queries, keys], or the path of an NPZ file."
)


@dataclass(frozen=True)
class RowSums:
    """The sums of a head's rows.

    least, most  of the rows that attend to anything; 1 where none does
    rounding     how far from 1 a sum may be
    empty        number of rows that are all 0: their queries attend to nothing
    """

    least: float
    most: float
    rounding: float
    empty: int

    @property
    def is_below(self) -> bool:
        return 1 - self.least > self.rounding

    @property
    def is_above(self) -> bool:
        return self.most - 1 > self.rounding

    @property
    def is_off(self) -> bool:
        """Whether the sum of a row is not 1, by more than rounding explains."""
        return self.is_below or self.is_above

    @property
    def in_words(self) -> str:
        low, high = f"{self.least:.5g}", f"{self.most:.5g}"
        return low if low == high else f"{low} to {high}"


@dataclass(frozen=True, eq=False, repr=False)
class AttentionArrays:
    """The weights of every head, as somebody gave them. Layers and heads count from 0.

    A head is checked when it is read, so that arrays on a device or a disk are never copied as a whole.
    """

    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    _layers: tuple[Any, ...]  # [heads, queries, keys] each
    left_out: tuple[int, ...] = ()  # layers of the model without weights, such as those of linear attention

    def __repr__(self) -> str:
        queries, keys = self.shape
        return f"<AttentionArrays: {self.layers()} layers × {self.heads()} heads, {queries:,} queries × {keys:,} keys>"

    @property
    def shape(self) -> tuple[int, int]:
        """(queries, keys) of every head."""
        return len(self.query_tokens), len(self.key_tokens)

    def tokens(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(query tokens, key tokens)."""
        return self.query_tokens, self.key_tokens

    def layers(self) -> int:
        """Number of layers."""
        return len(self._layers)

    def heads(self) -> int:
        """Number of heads of a layer."""
        return self._layers[0].shape[0]

    def weights(self, layer: int, head: int) -> NDArray[np.floating]:
        """The weights of one head: [queries, keys], at least 0, in float32, or float64 if they came so.

        Raises InputError (field "attentions") for numbers that are not finite or below 0, which names the layer, the head, the
        query and the key; and (field "layer" or "head") if there is no such head.
        """
        check_index(layer, self.layers(), "layer")
        check_index(head, self.heads(), "head")
        weights = _as_numpy(self._layers[layer][head])
        for is_wrong, advice in ((~(weights <= LARGEST), _NUMBERS), (weights < 0, _BELOW_0)):
            if is_wrong.any():
                query, key = np.argwhere(is_wrong)[0].tolist()
                count = int(is_wrong.sum())
                more = f", the first of {count:,}" if count > 1 else ""
                names = shortened(self.query_tokens[query], 20), shortened(self.key_tokens[key], 20)
                raise _error(
                    f"Layer {layer}, head {head}: the weight of query {query} ({names[0]!r}) for key {key} ({names[1]!r}) is "
                    f"{weights[query, key]:.6g}{more}. {advice}"
                )
        return weights

    def row_sums(self, layer: int, weights: NDArray[np.floating]) -> RowSums:
        """The sums of the rows of the weights [queries, keys] of a head of this layer."""
        attends = weights.any(axis=1)
        sums = weights.sum(axis=1, dtype=np.float64)[attends]
        least, most = (float(sums.min()), float(sums.max())) if sums.size else (1.0, 1.0)
        return RowSums(least, most, self.rounding(layer), int((~attends).sum()))

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The smallest of NumPy's float16, float32 and float64 that holds all weights as they came."""
        given = {np.dtype(_DTYPES.get(_name(layer), np.float32)) for layer in self._layers}
        return max(given, key=lambda dtype: dtype.itemsize)

    def rounding(self, layer: int) -> float:
        """How far from 1 the sum of a row may be by rounding: each weight in its dtype, and the sum by which they were divided
        in float32, which errs the more the more keys there are."""
        step = _STEPS.get(_name(self._layers[layer]), _SINGLE)
        return 2 * max(step, _SINGLE) + 4 * self.shape[1] ** 0.5 * _SINGLE


def attention_arrays(
    attentions: Any, tokens: Tokens | None = None, *, beams: Any = None, max_bytes: int = MAX_WEIGHTS_BYTES
) -> AttentionArrays:
    """The weights in any of the forms that libraries give them, and their tokens.

    attentions  layers of [heads, queries, keys] or [1, heads, queries, keys], in a list or a tuple; or the steps of
                `generate`, a tuple of such layers each; or one array [layers, heads, queries, keys], [heads, queries, keys] of
                a layer or [queries, keys] of a head; or an NPZ file, by its path or its contents. Arrays of NumPy, tensors of
                torch, and what NumPy can read as an array
    tokens      one list for queries and keys, or (query tokens, key tokens), as texts or as `convert_ids_to_tokens` gives them;
                None: those in the file, or else positions. Of what `generate` has written, with or without the last token,
                which was not read
    beams       of steps of `generate` with several beams: the row of `beam_indices` for one text
    max_bytes   of an NPZ file, unpacked, and of the steps in it once they are joined

    Raises InputError (field "attentions", "tokens", "beams" or "file") for other shapes, and where tokens do not fit. Heads are
    checked when they are read.
    """
    most_numbers = MOST_NUMBERS
    if isinstance(attentions, str | Path | bytes):
        data = attentions if isinstance(attentions, bytes) else Path(attentions)
        name = "" if isinstance(data, bytes) else data.name
        file = read_weights_npz(data, name=name, max_bytes=max_bytes)
        attentions, most_numbers = file.weights, max_bytes // 4
        tokens = file.tokens if tokens is None else tokens
        beams = file.beams if beams is None else beams
    is_written = isinstance(attentions, list | tuple) and are_steps(attentions)
    given = joined(attentions, beams, most_numbers=most_numbers) if is_written else attentions
    left_out = _without_weights(given)
    layers = _layers([layer for layer in given if layer is not None] if left_out else given)
    heads, queries, keys = layers[0].shape
    if is_written and tokens is not None and len(tokens) == queries + 1 and not isinstance(tokens[0], list | tuple):
        tokens = [str(token) for token in tokens[:-1]]
    if len(layers) * heads > MAX_HEADS or max(len(layers), heads) > MAX_AXIS:
        raise _error(
            f"{len(layers):,} layers × {heads:,} heads are too many: at most {MAX_AXIS:,} of each and {MAX_HEADS:,} heads in "
            f"all. Choose some layers."
        )
    if max(queries, keys) > MAX_TOKENS:
        raise _error(f"{queries:,} queries × {keys:,} keys are too many: at most {MAX_TOKENS:,} of each. Choose some.")
    return AttentionArrays(*_tokens(tokens, queries, keys), layers, left_out)


def row_notes(sums: Mapping[tuple[int, int], RowSums]) -> list[str]:
    """What is wrong with the sums of rows, in words that name heads as layer.head. sums: those of every head, by its place"""
    notes = []
    off = {place: of for place, of in sums.items() if of.is_off}
    if off:
        worst = sorted(off, key=lambda place: -max(1 - off[place].least, off[place].most - 1))
        named = listed([f"head {layer}.{head} ({off[layer, head].in_words})" for layer, head in worst], NAMED)
        notes.append(f"Rows do not sum to 1 in {len(off):,} of {counted(len(sums), 'head')}: {named}.")
        if any(of.is_below for of in off.values()):
            notes.append("What is missing went to something that is not in the arrays, such as a sink.")
        if any(of.is_above for of in off.values()):
            notes.append("Rows that sum to more than 1 are not shares of attention.")
    if (place := next((place for place, of in sums.items() if of.empty), None)) is not None:
        head, queries = "{}.{}".format(*place), counted(sums[place].empty, "query")
        notes.append(f"Some queries attend to nothing, {queries} in head {head}.")
    return notes


# --- shapes


def _layers(attentions: Any) -> tuple[Any, ...]:
    """Each layer as [heads, queries, keys], all of one shape."""
    if isinstance(attentions, list | tuple):
        layers = [_layer(number, layer) for number, layer in enumerate(attentions)]
    else:
        layers = _split(_array(attentions, "This"))
    if not layers:
        raise _error(f"There are no layers: the model returned no weights. {_EAGER} {_FORMS}")
    first = tuple(layers[0].shape)
    for number, layer in enumerate(layers):
        if 0 in layer.shape:
            raise _error(f"Layer {number} is empty: its shape [heads, queries, keys] is {_sizes(layer)}.")
        if tuple(layer.shape) != first:
            raise _error(
                f"Layer {number} has the shape [heads, queries, keys] {_sizes(layer)}, but layer 0 has {_sizes(layers[0])}. "
                f"All layers must have one shape: show the others in a view of their own."
            )
    return tuple(layers)


_EAGER = 'Load it with attn_implementation="eager", because fused attention returns no weights.'


def _without_weights(layers: Any) -> tuple[int, ...]:
    """The numbers of the layers that are None where others are not."""
    if not isinstance(layers, list | tuple):
        return ()
    numbers = tuple(number for number, layer in enumerate(layers) if layer is None)
    return numbers if len(numbers) < len(layers) else ()


def _layer(number: int, layer: Any) -> Any:
    if layer is None:
        raise _error(f"Layer {number} is None: the model returned no weights for it. {_EAGER}")
    array = _array(layer, f"Layer {number}")
    if array.ndim == 4:
        return _one_of_batch(array, f"Layer {number}")
    if array.ndim != 3:
        raise _error(
            f"Layer {number} has the shape {_sizes(array)}; a layer has [heads, queries, keys] or [1, heads, queries, keys]."
        )
    return array


def _split(array: Any) -> list[Any]:
    """The layers of one array."""
    if array.ndim == 5:
        return [_one_of_batch(layer, f"Layer {number}") for number, layer in enumerate(array)]
    if not 2 <= array.ndim <= 4:
        raise _error(f"This array has the shape {_sizes(array)}. {_FORMS}")
    while array.ndim < 4:
        array = array[None]
    return [array[layer] for layer in range(min(len(array), MAX_AXIS + 1))]  # one too many is refused


def _one_of_batch(array: Any, name: str) -> Any:
    if array.shape[0] != 1:
        raise _error(
            f"{name} holds a batch of {array.shape[0]} texts: its shape is {_sizes(array)}. Choose one of them, such as "
            f"[layer[:1] for layer in attentions] for the first."
        )
    return array[0]


def _array(given: Any, name: str) -> Any:
    """What was given, if it is an array of numbers; lists of numbers become one."""
    if not hasattr(given, "ndim") or not hasattr(given, "dtype"):
        try:
            given = np.asarray(given)
        except ValueError:  # rows of different lengths
            raise _error(f"{name} is not an array of numbers. {_FORMS}") from None
    is_real = given.dtype.kind in "biuf" if isinstance(given, np.ndarray) else not _name(given).startswith("complex")
    if not is_real and _name(given) != "bfloat16":  # NumPy itself does not have it
        raise _error(f"{name} is not an array of numbers, but {type(given).__name__} of {given.dtype}. {_FORMS}")
    return given


def _name(array: Any) -> str:
    """The dtype of an array of any library in words, such as "float16"; NumPy's own in any order of bytes."""
    return array.dtype.name if isinstance(array, np.ndarray) else str(array.dtype).rpartition(".")[2]


def _sizes(array: Any) -> str:
    return str(tuple(array.shape))


def _as_numpy(array: Any) -> NDArray[np.floating]:
    if hasattr(array, "detach"):  # a tensor of torch, on any device
        array = array.detach().cpu()
        array = array if str(array.dtype) == "torch.float64" else array.float()
    numbers = np.asarray(array)
    with np.errstate(over="ignore"):  # what is too large becomes an infinity, which is refused
        return numbers.astype(np.float64 if numbers.dtype.name == "float64" else np.float32, copy=False)


# --- tokens


def _tokens(tokens: Tokens | None, queries: int, keys: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if tokens is None:
        return tuple(map(str, range(queries))), tuple(map(str, range(keys)))
    if isinstance(tokens, str):
        raise InputError("The tokens are one text. Give a list with the text of each token.", field="tokens")
    is_pair = len(tokens) == 2 and not any(isinstance(part, str) for part in tokens)
    of_queries, of_keys = tokens if is_pair else (tokens, tokens)
    for name, given, count in (("query", of_queries, queries), ("key", of_keys, keys)):
        for place, token in enumerate(given):
            if not isinstance(token, str):
                raise InputError(
                    f"Token {place} of the {name} tokens is {type(token).__name__}, not a text. Give the texts, such as "
                    f"tokenizer.convert_ids_to_tokens(ids).",
                    field="tokens",
                )
        if len(given) != count:
            pair = "" if is_pair or queries == keys else " Queries and keys differ: give (query tokens, key tokens)."
            raise InputError(
                f"There are {len(given):,} {name} tokens, but the arrays have {count:,}. Give one token for each.{pair}",
                field="tokens",
            )
    return as_texts([*map(str, of_queries)]), as_texts([*map(str, of_keys)])
