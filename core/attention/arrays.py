"""Attention weights that were computed elsewhere: arrays of any library, and what is wrong with them by layer and head."""

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
MOST_NUMBERS = 2**30  # of all layers of steps together: 4 GB in float32. With a sliding window the steps hold far fewer
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
        attentions, their_tokens, their_beams = read_weights_npz(data, max_bytes=max_bytes)
        tokens = their_tokens if tokens is None else tokens
        beams = their_beams if beams is None else beams
        most_numbers = max_bytes // 4
    # The steps of `generate` are tuples; the layers of one pass are arrays.
    is_list = isinstance(attentions, list | tuple) and len(attentions) > 0
    is_written = is_list and all(isinstance(step, tuple) and step for step in attentions)
    given = _joined(attentions, beams, most_numbers) if is_written else attentions
    left_out: tuple[int, ...] = ()
    if isinstance(given, list | tuple) and any(layer is not None for layer in given):
        left_out = tuple(number for number, layer in enumerate(given) if layer is None)
        given = [layer for layer in given if layer is not None]
    layers = _layers(given)
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


# --- the steps of `generate`
#
# generate(output_attentions=True) of transformers returns a tuple for each step, with an array [1, heads, queries, keys] for
# each layer. In the first step the model reads the prompt. In each further one it reads the token that it has just written: one
# more query and, except in cross-attention, one more key.


def _joined(steps: Sequence[tuple[Any, ...]], beams: Any, most_numbers: int) -> list[Any]:
    """The weights of each layer over all steps, [1, heads, queries, keys], and None for a layer without weights. A key that was
    not there yet when a query was read has the weight 0, as under a causal mask.

    beams  the row of `beam_indices` for the text that is wanted: where its beam stood in each step, and -1 after its end.
           None: there is one text, without beams

    Raises InputError (field "attentions") for steps of several texts or beams, which change places from step to step, without
    `beams`; for steps that do not follow each other; and for more weights than `most_numbers`. Field "beams" for places that
    these steps do not have.
    """
    if len({len(step) for step in steps}) > 1:
        raise _error("The steps have different numbers of layers.")
    if beams is not None:
        steps = _of_beam(steps, beams)
    most_of_layer = most_numbers // len(steps[0])
    return [_joined_layer(number, layers, most_of_layer) for number, layers in enumerate(zip(*steps, strict=True))]


def _of_beam(steps: Sequence[tuple[Any, ...]], beams: Any) -> list[tuple[Any, ...]]:
    """The steps of one text, as if it had been written alone."""
    places = np.asarray(beams.cpu() if hasattr(beams, "cpu") else beams)
    ends = np.flatnonzero(places < 0)
    places = places[: ends[0]] if len(ends) else places
    count = min((len(part) for step in steps for part in step if np.ndim(part) == 4), default=0)
    if places.ndim != 1 or places.dtype.kind not in "iu" or not 0 < len(places) <= len(steps) or places.max() >= count:
        why = f"The beams are one row of beam_indices: for each of {len(steps)} steps at most, a place from 0 to {count - 1}."
        raise InputError(why, field="beams")
    return [
        tuple(None if part is None else part[place : place + 1] for part in step)
        for step, place in zip(steps, places.tolist(), strict=False)
    ]


def _joined_layer(number: int, parts: Sequence[Any], most_numbers: int) -> Any:
    if all(part is None for part in parts):
        return None
    for step, part in enumerate(parts):
        shape = tuple(getattr(part, "shape", ()))
        if len(shape) != 4 or shape[1] != parts[0].shape[1] or (step > 0 and shape[2] != 1):
            raise _error(
                f"Layer {number} of step {step} has the shape {shape}, where [1, heads, queries, keys] is expected, with one "
                f"query from step 1 on."
            )
        if shape[0] != 1:
            raise _error(
                f"The steps hold {shape[0]} texts or beams, and beams change places from step to step. Write one text, with "
                f"num_beams=1, or give beams=returned.beam_indices[0]."
            )
    _, heads, read, first = parts[0].shape
    # A decoder's own keys grow with its text. Those of cross-attention are there from the beginning.
    grows = read == first and not (read == 1 and len(parts) > 1 and parts[1].shape[3] == 1)
    queries = read + len(parts) - 1
    keys_in_all = queries if grows else first
    if heads * queries * keys_in_all > most_numbers:
        raise _error(
            f"{queries:,} queries × {keys_in_all:,} keys of every head are too many to join. Give fewer steps or layers."
        )
    shape = (1, heads, queries, keys_in_all)
    whole = parts[0].new_zeros(shape) if hasattr(parts[0], "new_zeros") else np.zeros(shape, parts[0].dtype)
    for step, part in enumerate(parts):
        there = read + step if grows else first
        keys = part.shape[3]
        if keys > there or (keys < there and not grows):
            raise _error(
                f"Layer {number} of step {step} has {keys:,} keys, where {there:,} tokens were there to attend to."
            )
        rows = slice(0, read) if step == 0 else slice(read + step - 1, read + step)
        whole[:, :, rows, there - keys : there] = part  # a sliding window keeps the last keys
    return whole


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
