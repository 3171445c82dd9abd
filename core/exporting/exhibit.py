"""Exhibits: a whole view as one file, which opens with the same numbers whether the model is there or not.

The file is a safetensors file of arrays, one of which contains a text in JSON. docs/exports.md lists its contents. The author
of a file is not trusted: nothing in it is run, every part is checked before it is used, and its texts are only shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from ..attention.head import Head, unedited
from ..attention.masks import causal, describe_rows, everything, grid
from ..attention.matrix_files import MAX_SCORES
from ..attention.rowwise import Overview
from ..attention.trace import WEIGHINGS, Array, Instead, attend
from ..capturing.capture import Capture
from ..capturing.certifying import Certificate, Origin, certified_head
from ..errors import InputError
from ..figures.chart import Chart
from ..models.devices import DTYPES
from ..models.fields import Fields, broken, lists_in, read_json
from ..models.modules import Kind
from . import drawings
from .documents import About

ENDING = "headlight"
FORMAT, VERSION = "headlight exhibit", 1
MAX_BYTES = 20 * 2**20  # of a file; the largest upload has as many
MAX_JSON = 12 * 2**20  # bytes of the text in JSON
MAX_LISTS = 500_000  # lists and objects in this text: while Python makes them, all other sessions wait
MAX_ARRAYS, MAX_HEADS, MAX_PICTURES = 100, 8, 40
MAX_LINES, MAX_WORDS = 200, 200_000  # names in an address, and characters of a value
_PAGE, _NAME = re.compile(r"[a-z_]{0,40}"), re.compile(r"[a-z0-9_]{1,40}")
_IN_FILE = "exhibit"


@dataclass(frozen=True, eq=False)
class Drawing:
    """A picture of the view. title: its name; alt: what kind of picture it is. The chart describes what it shows."""

    title: str
    alt: str
    chart: Chart


@dataclass(frozen=True, eq=False)
class Upload:
    """A file that was uploaded to the page."""

    name: str
    data: bytes


@dataclass(frozen=True, eq=False, kw_only=True)
class Exhibit:
    """One view of one page.

    page      the page's name in addresses; "" for the start page
    about     where its numbers come from, in words
    heads     the heads that it shows, the chosen one first, by their names on the page
    uploads   the uploaded files, by the key of their field
    """

    page: str
    title: str
    address: Mapping[str, tuple[str, ...]]
    about: About
    heads: Mapping[str, KeptHead] = field(default_factory=dict)
    drawings: tuple[Drawing, ...] = ()
    uploads: Mapping[str, Upload] = field(default_factory=dict)


def write(exhibit: Exhibit) -> bytes:
    """Write an exhibit as the bytes of a file. Raises InputError if it would be too large to be opened again."""
    arrays: dict[str, NDArray] = {}
    heads = []
    for number, (name, kept) in enumerate(exhibit.heads.items()):
        values, parts = kept.parts()
        heads.append(values | {"name": name})
        arrays |= {f"head{number}.{part}": array for part, array in parts.items()}
    for number, upload in enumerate(exhibit.uploads.values()):
        arrays[f"upload{number}"] = np.frombuffer(upload.data, dtype=np.uint8)
    content = {
        "format": FORMAT,
        "version": VERSION,
        "page": exhibit.page,
        "title": exhibit.title,
        "address": {name: list(words) for name, words in exhibit.address.items()},
        "about": dict(exhibit.about),
        "heads": heads,
        "uploads": [{"field": name, "name": upload.name} for name, upload in exhibit.uploads.items()],
        "pictures": [
            {"title": drawing.title, "alt": drawing.alt, **drawings.written(drawing.chart)}
            for drawing in exhibit.drawings
        ],
    }
    text = json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
    arrays[_IN_FILE] = np.frombuffer(text, dtype=np.uint8)
    data = safetensors.numpy.save(arrays)
    if len(data) > MAX_BYTES or len(text) > MAX_JSON or lists_in(text) > MAX_LISTS:
        raise InputError(
            f"The file would have {len(data) / 2**20:.0f} MB; at most {MAX_BYTES / 2**20:.0f} MB can be opened again. "
            f"Take its numbers as NPZ, or a shorter text.",
            field="file",
        )
    return data


def read(data: bytes) -> Exhibit:
    """Read the exhibit in a file. Raises InputError for any other file, and for a damaged one."""
    content = _content(data)
    version = content.values.get("version")
    if content.values.get("format") != FORMAT or type(version) is not int or version < 1:
        raise broken("it does not say which exhibit it is")
    if version > VERSION:
        why = f"This exhibit has version {version}; this Headlight reads {VERSION}. Update Headlight to open it."
        raise InputError(why, field="file")
    heads = {}
    for number, head in enumerate(content.parts("heads", MAX_HEADS)):
        prefix = f"head{number}."
        arrays = {name.removeprefix(prefix): array for name, array in content.arrays.items() if name.startswith(prefix)}
        heads[head.text("name")] = KeptHead.from_parts(Fields(head.values, arrays))
    return Exhibit(
        page=content.name("page", _PAGE),
        title=content.text("title"),
        address=_address(content.values.get("address")),
        about=_about(content.values.get("about")),
        heads=heads,
        drawings=tuple(
            Drawing(picture.text("title"), picture.text("alt", 5_000), drawings.read(picture))
            for picture in content.parts("pictures", MAX_PICTURES)
        ),
        uploads={
            upload.name("field", _NAME): Upload(upload.text("name"), _bytes(content.arrays, f"upload{number}"))
            for number, upload in enumerate(content.parts("uploads", 5))
        },
    )


def _content(data: bytes) -> Fields:
    """The text in JSON, read, with the arrays beside it."""
    if not data:
        raise broken("it is empty")
    if len(data) > MAX_BYTES:
        why = f"This file has {len(data) / 2**20:.0f} MB; exhibits have at most {MAX_BYTES / 2**20:.0f}."
        raise InputError(why, field="file")
    try:
        arrays = safetensors.numpy.load(data)
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError):
        raise broken("it is not an exhibit, or a part of it is missing") from None
    if len(arrays) > MAX_ARRAYS:
        raise broken(f"it holds {len(arrays):,} arrays")
    return Fields(read_json(_bytes(arrays, _IN_FILE), MAX_LISTS), arrays)


def _bytes(arrays: Mapping[str, NDArray], name: str) -> bytes:
    array = arrays.get(name)
    if array is None or array.dtype != np.uint8 or array.ndim != 1 or (name == _IN_FILE and len(array) > MAX_JSON):
        raise broken(f"it has no {name}")
    return array.tobytes()


def _address(content: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(content, dict) or len(content) > MAX_LINES or not all(map(_NAME.fullmatch, content)):
        raise broken("its address cannot be read")
    address = {name: Fields(content).texts(name, MAX_WORDS) for name in content}
    if any(len(values) > MAX_LINES for values in address.values()):
        raise broken("its address cannot be read")
    return address


def _about(content: object) -> dict[str, str]:
    if not isinstance(content, dict) or len(content) > MAX_LINES:
        raise broken("it does not say where it comes from")
    return {Fields({"name": name}).text("name", 100): Fields(content).text(name, MAX_WORDS) for name in content}


# --- the heads in it, with their inputs, apart from a pass: their stages are the same to the last bit

NUMBERS = ("scale", "softcap", "sinks")  # of what shapes the scores


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
        mask = describe_rows(lambda rows: self.head.shaping(rows).mask, self.head.shape[0])
        return certified_head(self.head, self.output, self.origin, mask)

    def same_as(self, other: KeptHead) -> bool:
        """Whether both have the same inputs and the same output of their models, to the last bit."""
        (values, arrays), (other_values, other_arrays) = self.parts(), other.parts()
        return values == other_values and all(
            name in other_arrays and np.array_equal(array, other_arrays[name]) for name, array in arrays.items()
        )

    # --- as plain values and arrays

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        """(values for JSON, arrays), from which `from_parts` makes the head again. Raises InputError for a head of more pairs
        than the pages show."""
        head, (queries, keys) = self.head, self.head.shape
        if queries * keys > MAX_SCORES:
            raise InputError(
                f"A file holds heads of at most {MAX_SCORES:,} pairs, such as 4,096 × 4,096; this one has "
                f"{queries:,} × {keys:,}.",
                field="file",
            )
        mask, of_mask = _mask_parts(np.concatenate([head.shaping(rows).mask for rows in head.blocks()]))
        bias, of_bias = _bias_parts(np.concatenate([head.shaping(rows).bias for rows in head.blocks()]))
        weighing, of_edits = _instead_parts(head)
        values = {
            "says": self.says,
            **{name: getattr(head.shaping(range(1)), name) for name in NUMBERS},
            "origin": None if self.origin is None else self.origin._asdict(),
            "query_tokens": list(self.query_tokens),
            "key_tokens": list(self.key_tokens),
            "mask": mask,
            "bias": bias,
            "weighing": weighing,
        }
        arrays = {"query": head.query, "key": head.key, "value": head.value}
        arrays |= {} if self.output is None else {"model_output": self.output}
        arrays |= of_mask | of_bias | of_edits
        return values, {name: np.ascontiguousarray(array) for name, array in arrays.items()}

    @classmethod
    def from_parts(cls, fields: Fields) -> KeptHead:
        """Make a head from its parts, which are not trusted. Raises InputError for parts that `parts` does not give."""
        query, key, value = (fields.matrix(name) for name in ("query", "key", "value"))
        shape = query.shape[0], key.shape[0]
        if shape[0] * max(shape[1], value.shape[1]) > MAX_SCORES:
            raise broken(f"its head has {shape[0]:,} queries and {shape[1]:,} keys")
        numbers = {name: fields.number_or_none(name) for name in NUMBERS} | {"scale": fields.number("scale")}
        checked = attend(query, key, value, **numbers)
        if checked.query.dtype != query.dtype:
            raise broken("its matrices differ in precision")
        query_tokens, key_tokens = fields.texts("query_tokens"), fields.texts("key_tokens")
        if (len(query_tokens), len(key_tokens)) != shape:
            raise broken("its tokens do not fit its numbers")
        origin = None if fields.values.get("origin") is None else _origin(fields.part("origin"))
        has_output = "model_output" in fields.arrays
        output = fields.matrix("model_output", (shape[0], value.shape[1])) if has_output else None
        if (origin is None) != (output is None):
            raise broken("it names a model without the model's output, or has an output without a model")
        return cls(
            head=Head.of(checked, _permissions(fields, shape), _edited(fields, shape, value.shape[1])),
            query_tokens=query_tokens,
            key_tokens=key_tokens,
            says=fields.text("says"),
            origin=origin,
            output=output,
        )


def _origin(fields: Fields) -> Origin:
    kind, dtype = fields.word("kind", get_args(Kind)), fields.word("dtype", tuple(DTYPES))
    return Origin(
        fields.text("name"), fields.text("revision"), dtype, kind, fields.whole("layer"), fields.whole("head")
    )


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
    if np.array_equal(bias, diagonals[0][_distances(range(queries), queries, keys)]):
        return "distance", {"bias": diagonals}
    return "whole", {"bias": bias}


def _distances(rows: range, queries: int, keys: int) -> NDArray[np.integer]:
    """[rows, keys], the index of each pair's distance in `diagonals`."""
    return np.arange(keys) - np.arange(rows.start, rows.stop)[:, None] + queries - 1


def _instead_parts(head: Head) -> tuple[str, dict[str, NDArray]]:
    """(weighing, the rows that edits replace); rows of NaN are not replaced."""
    edits = [head.edited(rows) for rows in head.blocks()]
    arrays: dict[str, NDArray] = {}
    for name in ("weights", "output"):
        if getattr(edits[0], name) is None:
            continue
        whole = np.concatenate([getattr(edit, name) for edit in edits])
        replaced = np.flatnonzero(~np.isnan(whole).any(axis=1))
        if replaced.size:
            arrays |= {f"instead_{name}": whole[replaced], f"instead_{name}_rows": replaced.astype(np.int64)[None]}
    return edits[0].weighing, arrays


def _permissions(fields: Fields, shape: tuple[int, int]) -> Callable[[range], tuple[NDArray[np.bool_], Array]]:
    queries, keys = shape
    mask_form = fields.word("mask", ("none", "causal", "bits"))
    bias_form = fields.word("bias", ("none", "row", "distance", "whole"))
    bits = fields.matrix("mask", (queries, -(-keys // 8)), np.uint8) if mask_form == "bits" else None
    dtype = fields.arrays["query"].dtype
    shapes = {"row": (1, keys), "distance": (1, queries + keys - 1), "whole": shape}
    stored = np.zeros((1, 1), dtype) if bias_form == "none" else fields.matrix("bias", shapes[bias_form])

    def permissions(rows: range) -> tuple[NDArray[np.bool_], Array]:
        part, size = slice(rows.start, rows.stop), (len(rows), keys)
        if bits is not None:
            mask = np.unpackbits(bits[part], axis=1, count=keys).astype(np.bool_)
        else:
            predicate = causal if mask_form == "causal" else everything
            mask = np.broadcast_to(predicate(np.arange(rows.start, rows.stop)[:, None], np.arange(keys)), size)
        if bias_form == "distance":
            return mask, stored[0][_distances(rows, queries, keys)]
        return mask, stored[part] if bias_form == "whole" else np.broadcast_to(stored, size)

    return permissions


def _edited(fields: Fields, shape: tuple[int, int], d_v: int) -> Callable[[range], Instead]:
    weighing = fields.word("weighing", tuple(WEIGHINGS))
    replacements = {}
    for name, width in (("weights", shape[1]), ("output", d_v)):
        if f"instead_{name}" in fields.arrays:
            replaced = fields.matrix(f"instead_{name}_rows", dtype=np.int64)[0]
            if not (np.diff(replaced) > 0).all() or replaced[0] < 0 or replaced[-1] >= shape[0]:
                raise broken("it replaces rows that are not there")
            replacements[name] = replaced, fields.matrix(f"instead_{name}", (len(replaced), width))
    if weighing == "softmax" and not replacements:
        return unedited

    def edited(rows: range) -> Instead:
        parts = {}
        for name, (replaced, values) in replacements.items():
            parts[name] = np.full((len(rows), values.shape[1]), np.nan, dtype=values.dtype)
            wanted = (replaced >= rows.start) & (replaced < rows.stop)
            parts[name][replaced[wanted] - rows.start] = values[wanted]
        return Instead(weighing, **parts)

    return edited
