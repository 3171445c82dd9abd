"""A head with all that it was computed from, taken out of its pass: it can be written down, and its stages follow again to the
last bit, whether the model is there or not."""

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
    """Which head of which model this is. `name`, `revision` and `dtype` are the model's."""

    name: str
    revision: str
    dtype: str
    kind: Kind
    layer: int
    head: int


@dataclass(frozen=True, eq=False, kw_only=True)
class KeptHead:
    """One head by itself.

    says         where it comes from, in a sentence
    origin       which head of a model it is, or None
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
        """A head of a pass."""
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
        """Every stage, small enough to draw, and where a model has computed this head, the comparison with what it returned."""
        if self.origin is None or self.output is None:
            return self.head.overview(), None
        return certified_head(self.head, self.output, self.origin, describe(whole_mask(self.head)))

    def same_as(self, other: KeptHead) -> bool:
        """Whether both have the same inputs, and their models returned the same, to the last bit."""
        mine, theirs = (one.parts() for one in (self, other))
        return mine[0] == theirs[0] and all(
            np.array_equal(mine[1][name], theirs[1][name]) if name in theirs[1] else False for name in mine[1]
        )

    # --- as plain values and arrays

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        """What is to be written down: values for JSON, and arrays.

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
        said: dict[str, Any] = {
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
        said["mask"], held = _mask_parts(mask)
        arrays |= held
        said["bias"], held = _bias_parts(bias)
        arrays |= held
        said["weighing"], held = _instead_parts(head)
        return said, {name: np.ascontiguousarray(array) for name, array in (arrays | held).items()}

    @classmethod
    def from_parts(cls, said: Mapping[str, Any], arrays: Arrays) -> KeptHead:
        """The head that was written down so. Raises InputError for what cannot be one, whoever wrote it."""
        reading = _Reading(said, arrays)
        query, key, value = (reading.matrix(name) for name in ("query", "key", "value"))
        shape = query.shape[0], key.shape[0]
        if shape[0] * max(shape[1], value.shape[1]) > MAX_SCORES:
            raise broken(f"its head has {shape[0]:,} queries and {shape[1]:,} keys")
        checked = attend(
            query,
            key,
            value,
            scale=reading.number("scale"),
            softcap=reading.number_or_none("softcap"),
            sinks=reading.number_or_none("sinks"),
        )
        if checked.query.dtype != query.dtype:
            raise broken("its matrices differ in precision")
        permissions = _permissions(reading, shape)
        head = Head.of(checked, permissions, _edited(reading, shape, checked.value.shape[1]))
        origin = reading.origin()
        output = None if "model_output" not in arrays else reading.matrix("model_output", (shape[0], value.shape[1]))
        if (origin is None) != (output is None):
            raise broken("it names a model without what that computed, or the other way round")
        return cls(
            head=head,
            query_tokens=reading.tokens("query_tokens", shape[0]),
            key_tokens=reading.tokens("key_tokens", shape[1]),
            says=reading.text("says"),
            origin=origin,
            output=output,
        )


def broken(why: str) -> InputError:
    return InputError(
        f"This file cannot be opened: {why}. It is damaged, or was not written by Headlight. Export it again.",
        field="file",
    )


def whole_mask(head: Head) -> NDArray[np.bool_]:
    """[queries, keys], True where a query may attend to a key."""
    return np.concatenate([head.permissions(rows)[0] for rows in head.blocks()])


def whole_bias(head: Head) -> Array:
    return np.concatenate([head.permissions(rows)[1] for rows in head.blocks()])


# --- masks and biases, as short as they can be said


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
    diagonals = np.concatenate([bias[::-1, 0], bias[0, 1:]])[None]  # of the distance key - query, from the least
    if np.array_equal(bias, diagonals[0][_distances(queries, keys)]):
        return "distance", {"bias": diagonals}
    return "whole", {"bias": bias}


def _distances(queries: int, keys: int, rows: range | None = None) -> NDArray[np.integer]:
    """[rows, keys] the place of each pair's distance in `diagonals`."""
    rows = range(queries) if rows is None else rows
    return np.arange(keys) - np.arange(rows.start, rows.stop)[:, None] + queries - 1


def _instead_parts(head: Head) -> tuple[str, dict[str, NDArray]]:
    """What edits have put in the place of some rows; rows of NaN are left out."""
    edits = [head.edited(rows) for rows in head.blocks()]
    held: dict[str, NDArray] = {}
    for name in ("weights", "output"):
        given = [getattr(edit, name) for edit in edits]
        if given[0] is not None:
            whole = np.concatenate(given)
            there = np.flatnonzero(~np.isnan(whole).any(axis=1))
            held |= {f"instead_{name}": whole[there], f"instead_{name}_rows": there.astype(np.int64)[None]}
    return edits[0].weighing, {name: array for name, array in held.items() if array.size}


def _permissions(reading: _Reading, shape: tuple[int, int]) -> Callable[[range], tuple[NDArray[np.bool_], Array]]:
    queries, keys = shape
    kind_of_mask, kind_of_bias = (reading.word(name, words) for name, words in (("mask", MASKS), ("bias", BIASES)))
    bits = reading.matrix("mask", (queries, -(-keys // 8)), np.uint8) if kind_of_mask == "bits" else None
    dtype = reading.arrays["query"].dtype
    wide = {"row": (1, keys), "distance": (1, queries + keys - 1), "whole": shape}
    held = None if kind_of_bias == "none" else reading.matrix("bias", wide[kind_of_bias])

    def permissions(rows: range) -> tuple[NDArray[np.bool_], Array]:
        part, size = slice(rows.start, rows.stop), (len(rows), keys)
        if bits is not None:
            mask = np.unpackbits(bits[part], axis=1, count=keys).astype(np.bool_)
        else:
            predicate = causal if kind_of_mask == "causal" else everything
            mask = np.broadcast_to(predicate(np.arange(rows.start, rows.stop)[:, None], np.arange(keys)), size)
        if held is None:
            bias = np.broadcast_to(dtype.type(0), size)
        elif kind_of_bias == "row":
            bias = np.broadcast_to(held, size)
        else:
            bias = held[part] if kind_of_bias == "whole" else held[0][_distances(queries, keys, rows)]
        return mask, bias

    return permissions


MASKS, BIASES = ("none", "causal", "bits"), ("none", "row", "distance", "whole")


def _edited(reading: _Reading, shape: tuple[int, int], d_v: int) -> Callable[[range], Instead]:
    weighing = reading.word("weighing", tuple(WEIGHINGS))
    places = {}
    for name, width in (("weights", shape[1]), ("output", d_v)):
        if f"instead_{name}" in reading.arrays:
            rows = reading.matrix(f"instead_{name}_rows", dtype=np.int64)[0]
            given = reading.matrix(f"instead_{name}", (len(rows), width))
            if not (np.diff(rows) > 0).all() or rows[0] < 0 or rows[-1] >= shape[0]:
                raise broken("it replaces rows that are not there")
            places[name] = rows, given
    if weighing == "softmax" and not places:
        return unedited

    def edited(rows: range) -> Instead:
        found = {}
        for name, (there, given) in places.items():
            part = np.full((len(rows), given.shape[1]), np.nan, dtype=given.dtype)
            wanted = (there >= rows.start) & (there < rows.stop)
            part[there[wanted] - rows.start] = given[wanted]
            found[name] = part
        return Instead(weighing, **found)

    return edited


# --- reading what somebody else may have written


@dataclass(frozen=True)
class _Reading:
    """Values and arrays of one head, each checked when it is asked for."""

    said: Mapping[str, Any]
    arrays: Arrays = field(default_factory=dict)

    def matrix(self, name: str, shape: tuple[int, int] | None = None, dtype: type | None = None) -> NDArray:
        array = self.arrays.get(name)
        if array is None or array.ndim != 2 or 0 in array.shape or (shape is not None and array.shape != shape):
            raise broken(f"its {name.replace('_', ' ')} has another shape than the rest")
        if array.dtype != dtype if dtype is not None else array.dtype.kind != "f":
            raise broken(f"its {name.replace('_', ' ')} holds {array.dtype}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise broken(f"its {name.replace('_', ' ')} holds numbers that are not finite")
        return array

    def number_or_none(self, name: str) -> float | None:
        return None if self.said.get(name) is None else self.number(name)

    def number(self, name: str) -> float:
        value = self.said.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e30:
            raise broken(f"its {name} is no number")
        return float(value)

    def text(self, name: str) -> str:
        return text_in(self.said, name)

    def word(self, name: str, words: tuple[str, ...]) -> Any:
        if self.said.get(name) not in words:
            raise broken(f"its {name} is none of {', '.join(words)}")
        return self.said[name]

    def tokens(self, name: str, count: int) -> tuple[str, ...]:
        tokens = self.said.get(name)
        if not isinstance(tokens, list) or len(tokens) != count or not all(map(_is_token, tokens)):
            raise broken("its tokens do not fit its numbers")
        return tuple(tokens)

    def origin(self) -> Origin | None:
        found = self.said.get("origin")
        if found is None:
            return None
        of = _Reading(found if isinstance(found, dict) else {})
        layer, head = of.number("layer"), of.number("head")
        if not layer.is_integer() or not head.is_integer() or min(layer, head) < 0:
            raise broken("its layer or its head is no number from 0")
        kind = of.word("kind", get_args(Kind))
        return Origin(
            of.text("name"), of.text("revision"), of.word("dtype", tuple(DTYPES)), kind, int(layer), int(head)
        )


MAX_TEXT = 1_000  # characters of a text that is neither what was read nor a token


def text_in(said: Mapping[str, Any], name: str, longest: int = MAX_TEXT) -> str:
    """A text of a file, checked for its length and for characters that are none."""
    value = said.get(name)
    if not isinstance(value, str) or len(value) > longest or not _is_text(value):
        raise broken(f"its {name} is no text of at most {longest:,} characters")
    return value


def _is_token(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT and _is_text(value)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a pair of surrogates
        return False
    return True
