"""Heads with their inputs, apart from a pass: they can be written to a file, and their stages are the same to the last bit,
whether the model is there or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from ..attention.head import Head, unedited
from ..attention.masks import causal, describe, everything, grid
from ..attention.matrix_files import MAX_SCORES
from ..attention.rowwise import Overview
from ..attention.trace import WEIGHINGS, Array, Instead, attend
from ..capturing.capture import Capture
from ..capturing.certifying import Certificate, certified_head
from ..errors import InputError
from ..models.devices import DTYPES
from ..models.modules import Kind

Arrays = Mapping[str, NDArray]


class Origin(NamedTuple):
    """The head of a model that a kept head is. `name`, `revision` and `dtype` are the model's."""

    name: str
    revision: str
    dtype: str
    kind: Kind
    layer: int
    head: int


@dataclass(frozen=True, eq=False, kw_only=True)
class KeptHead:
    """One head with its tokens and its origin, apart from a pass.

    says         where it comes from, in a sentence
    origin       the head of a model that it is, or None
    output       [queries, d_v] what the model's own attention returned for it, or None
    """

    head: Head
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    says: str
    origin: Origin | None = None
    output: Array | None = None

    @classmethod
    def of(cls, capture: Capture, layer: int, head: int, kind: Kind) -> KeptHead:
        """Take a head out of a pass."""
        model = capture.model
        return cls(
            head=capture.head(layer, head, kind),
            query_tokens=capture.tokens(kind)[0],
            key_tokens=capture.tokens(kind)[1],
            says=f"Layer {layer}, head {head} of {model.name}.",
            origin=Origin(model.name, model.revision, model.dtype, kind, layer, head),
            output=capture.model_output(layer, head, kind),
        )

    def overview(self) -> tuple[Overview, Certificate | None]:
        """Every stage, small enough to draw, and for a head of a model the comparison with its output; else None."""
        if self.origin is None or self.output is None:
            return self.head.overview(), None
        return certified_head(self.head, self.output, self.origin, describe(whole_mask(self.head)))

    def same_as(self, other: KeptHead) -> bool:
        """Whether both have the same inputs and the same output of their models, to the last bit."""
        (values, arrays), (other_values, other_arrays) = self.parts(), other.parts()
        return values == other_values and all(
            name in other_arrays and np.array_equal(array, other_arrays[name]) for name, array in arrays.items()
        )

    # --- as plain values and arrays

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        """(values for JSON, arrays) from which `from_parts` makes the head again.

        Raises InputError for a head of more pairs than the pages show.
        """
        head, (queries, keys) = self.head, self.head.shape
        if queries * keys > MAX_SCORES:
            raise InputError(
                f"A file holds heads of at most {MAX_SCORES:,} pairs, such as 4,096 × 4,096; this one has "
                f"{queries:,} × {keys:,}.",
                field="file",
            )
        mask, bias = whole_mask(head), whole_bias(head)
        values: dict[str, Any] = {
            "says": self.says,
            "scale": head.scale,
            "softcap": head.softcap,
            "sinks": head.sinks,
            "origin": None if self.origin is None else self.origin._asdict(),
            "query_tokens": list(self.query_tokens),
            "key_tokens": list(self.key_tokens),
        }
        arrays = {"query": head.query, "key": head.key, "value": head.value}
        arrays |= {} if self.output is None else {"model_output": self.output}
        values["mask"], of_mask = _mask_parts(mask)
        values["bias"], of_bias = _bias_parts(bias)
        values["weighing"], of_edits = _instead_parts(head)
        arrays |= of_mask | of_bias | of_edits
        return values, {name: np.ascontiguousarray(array) for name, array in arrays.items()}

    @classmethod
    def from_parts(cls, values: Mapping[str, Any], arrays: Arrays) -> KeptHead:
        """Make a head from its parts, which are not trusted. Raises InputError for parts that `parts` does not give."""
        fields = _Fields(values, arrays)
        query, key, value = (fields.matrix(name) for name in ("query", "key", "value"))
        shape = query.shape[0], key.shape[0]
        if shape[0] * max(shape[1], value.shape[1]) > MAX_SCORES:
            raise broken(f"its head has {shape[0]:,} queries and {shape[1]:,} keys")
        checked = attend(
            query,
            key,
            value,
            scale=fields.number("scale"),
            softcap=fields.number_or_none("softcap"),
            sinks=fields.number_or_none("sinks"),
        )
        if checked.query.dtype != query.dtype:
            raise broken("its matrices differ in precision")
        permissions = _permissions(fields, shape)
        head = Head.of(checked, permissions, _edited(fields, shape, checked.value.shape[1]))
        origin = fields.origin()
        output = None if "model_output" not in arrays else fields.matrix("model_output", (shape[0], value.shape[1]))
        if (origin is None) != (output is None):
            raise broken("it names a model without the model's output, or has an output without a model")
        return cls(
            head=head,
            query_tokens=fields.tokens("query_tokens", shape[0]),
            key_tokens=fields.tokens("key_tokens", shape[1]),
            says=fields.text("says"),
            origin=origin,
            output=output,
        )


def broken(why: str) -> InputError:
    """The error for a file that cannot be opened, with the reason."""
    return InputError(
        f"This file cannot be opened: {why}. It is damaged, or was not written by Headlight. Export it again.",
        field="file",
    )


def whole_mask(head: Head) -> NDArray[np.bool_]:
    """[queries, keys], True where a query may attend to a key."""
    return np.concatenate([head.permissions(rows)[0] for rows in head.blocks()])


def whole_bias(head: Head) -> Array:
    """[queries, keys], the bias of each pair."""
    return np.concatenate([head.permissions(rows)[1] for rows in head.blocks()])


# --- masks and biases in their shortest form


def _mask_parts(mask: NDArray[np.bool_]) -> tuple[str, dict[str, NDArray]]:
    if mask.all():
        return "none", {}
    if np.array_equal(mask, grid(causal, *mask.shape)):
        return "causal", {}
    return "bits", {"mask": np.packbits(mask, axis=1)}


def _bias_parts(bias: Array) -> tuple[str, dict[str, NDArray]]:
    if not bias.any():
        return "none", {}
    queries, keys = bias.shape
    if (bias == bias[0]).all():
        return "row", {"bias": bias[:1]}
    diagonals = np.concatenate([bias[::-1, 0], bias[0, 1:]])[None]  # by the distance key - query, rising
    if np.array_equal(bias, diagonals[0][_distances(queries, keys)]):
        return "distance", {"bias": diagonals}
    return "whole", {"bias": bias}


def _distances(queries: int, keys: int, rows: range | None = None) -> NDArray[np.integer]:
    """[rows, keys], the index of each pair's distance in `diagonals`."""
    rows = range(queries) if rows is None else rows
    return np.arange(keys) - np.arange(rows.start, rows.stop)[:, None] + queries - 1


def _instead_parts(head: Head) -> tuple[str, dict[str, NDArray]]:
    """(weighing, the rows that edits replace); rows of NaN are not replaced."""
    edits = [head.edited(rows) for rows in head.blocks()]
    arrays: dict[str, NDArray] = {}
    for name in ("weights", "output"):
        blocks = [getattr(edit, name) for edit in edits]
        if blocks[0] is not None:
            whole = np.concatenate(blocks)
            replaced = np.flatnonzero(~np.isnan(whole).any(axis=1))
            arrays |= {f"instead_{name}": whole[replaced], f"instead_{name}_rows": replaced.astype(np.int64)[None]}
    return edits[0].weighing, {name: array for name, array in arrays.items() if array.size}


def _permissions(fields: _Fields, shape: tuple[int, int]) -> Callable[[range], tuple[NDArray[np.bool_], Array]]:
    queries, keys = shape
    kind_of_mask, kind_of_bias = (fields.word(name, words) for name, words in (("mask", MASKS), ("bias", BIASES)))
    bits = fields.matrix("mask", (queries, -(-keys // 8)), np.uint8) if kind_of_mask == "bits" else None
    dtype = fields.arrays["query"].dtype
    shapes = {"row": (1, keys), "distance": (1, queries + keys - 1), "whole": shape}
    stored = None if kind_of_bias == "none" else fields.matrix("bias", shapes[kind_of_bias])

    def permissions(rows: range) -> tuple[NDArray[np.bool_], Array]:
        part, size = slice(rows.start, rows.stop), (len(rows), keys)
        if bits is not None:
            mask = np.unpackbits(bits[part], axis=1, count=keys).astype(np.bool_)
        else:
            predicate = causal if kind_of_mask == "causal" else everything
            mask = np.broadcast_to(predicate(np.arange(rows.start, rows.stop)[:, None], np.arange(keys)), size)
        if stored is None:
            bias = np.broadcast_to(dtype.type(0), size)
        elif kind_of_bias == "row":
            bias = np.broadcast_to(stored, size)
        else:
            bias = stored[part] if kind_of_bias == "whole" else stored[0][_distances(queries, keys, rows)]
        return mask, bias

    return permissions


MASKS, BIASES = ("none", "causal", "bits"), ("none", "row", "distance", "whole")


def _edited(fields: _Fields, shape: tuple[int, int], d_v: int) -> Callable[[range], Instead]:
    weighing = fields.word("weighing", tuple(WEIGHINGS))
    replacements = {}
    for name, width in (("weights", shape[1]), ("output", d_v)):
        if f"instead_{name}" in fields.arrays:
            replaced = fields.matrix(f"instead_{name}_rows", dtype=np.int64)[0]
            values = fields.matrix(f"instead_{name}", (len(replaced), width))
            if not (np.diff(replaced) > 0).all() or replaced[0] < 0 or replaced[-1] >= shape[0]:
                raise broken("it replaces rows that are not there")
            replacements[name] = replaced, values
    if weighing == "softmax" and not replacements:
        return unedited

    def edited(rows: range) -> Instead:
        parts = {}
        for name, (replaced, values) in replacements.items():
            part = np.full((len(rows), values.shape[1]), np.nan, dtype=values.dtype)
            wanted = (replaced >= rows.start) & (replaced < rows.stop)
            part[replaced[wanted] - rows.start] = values[wanted]
            parts[name] = part
        return Instead(weighing, **parts)

    return edited


# --- fields of a file, which anybody may have written


@dataclass(frozen=True)
class _Fields:
    """The values and arrays of one head, each checked when it is read."""

    values: Mapping[str, Any]
    arrays: Arrays = field(default_factory=dict)

    def matrix(self, name: str, shape: tuple[int, int] | None = None, dtype: type | None = None) -> NDArray:
        array = self.arrays.get(name)
        if array is None or array.ndim != 2 or 0 in array.shape or (shape is not None and array.shape != shape):
            raise broken(f"its {name.replace('_', ' ')} does not fit the shape of the rest")
        if array.dtype != dtype if dtype is not None else array.dtype.kind != "f":
            raise broken(f"its {name.replace('_', ' ')} holds {array.dtype}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise broken(f"its {name.replace('_', ' ')} holds numbers that are not finite")
        return array

    def number_or_none(self, name: str) -> float | None:
        return None if self.values.get(name) is None else self.number(name)

    def number(self, name: str) -> float:
        value = self.values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e30:
            raise broken(f"its {name} is not a number")
        return float(value)

    def text(self, name: str) -> str:
        return text_in(self.values, name)

    def word(self, name: str, words: tuple[str, ...]) -> Any:
        if self.values.get(name) not in words:
            raise broken(f"its {name} is not one of {', '.join(words)}")
        return self.values[name]

    def tokens(self, name: str, count: int) -> tuple[str, ...]:
        tokens = self.values.get(name)
        if not isinstance(tokens, list) or len(tokens) != count or not all(map(_is_token, tokens)):
            raise broken("its tokens do not fit its numbers")
        return tuple(tokens)

    def origin(self) -> Origin | None:
        values = self.values.get("origin")
        if values is None:
            return None
        origin = _Fields(values if isinstance(values, dict) else {})
        layer, head = origin.number("layer"), origin.number("head")
        if not layer.is_integer() or not head.is_integer() or min(layer, head) < 0:
            raise broken("its layer or its head is not a whole number from 0")
        kind, dtype = origin.word("kind", get_args(Kind)), origin.word("dtype", tuple(DTYPES))
        return Origin(origin.text("name"), origin.text("revision"), dtype, kind, int(layer), int(head))


MAX_TEXT = 1_000  # characters of a token, a name or a sentence


def text_in(values: Mapping[str, Any], name: str, longest: int = MAX_TEXT) -> str:
    """A text in a file. Raises InputError if it is too long or contains half of a character."""
    value = values.get(name)
    if not isinstance(value, str) or len(value) > longest or not _is_text(value):
        raise broken(f"its {name} is not a text of at most {longest:,} characters")
    return value


def _is_token(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT and _is_text(value)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a pair of surrogates
        return False
    return True
