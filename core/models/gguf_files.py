"""GGUF files, the format of llama.cpp, Ollama and LM Studio: their header, and the numbers of one tensor at a time.

A file may come from anybody, so every length in it is checked before anything of that length is read or made. transformers and
the gguf package read headers too, but transformers knows fewer quantisations, and gguf makes an array of each of a vocabulary's
tokens; both make a list of any length that a file announces.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from dataclasses import dataclass
from functools import cache
from math import prod
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType, LlamaFileType, dequantize
from numpy.typing import NDArray

from ..errors import InputError

MAGIC = b"GGUF"
_VERSIONS = (2, 3)  # version 1 has other lengths, and no file of it is left

# Limits of a header. The largest vocabularies have 262,144 tokens and 440,000 merges, together 16 MB.
_MAX_BYTES = 100_000_000
_MAX_SETTINGS = 10_000
_MAX_ENTRIES = 2_000_000  # of all arrays
_MAX_TENSORS = 100_000
_MAX_DIMENSIONS = 4

_NUMBERS = {
    GGUFValueType.UINT8: "B",
    GGUFValueType.INT8: "b",
    GGUFValueType.UINT16: "H",
    GGUFValueType.INT16: "h",
    GGUFValueType.UINT32: "I",
    GGUFValueType.INT32: "i",
    GGUFValueType.FLOAT32: "f",
    GGUFValueType.BOOL: "?",
    GGUFValueType.UINT64: "Q",
    GGUFValueType.INT64: "q",
    GGUFValueType.FLOAT64: "d",
}
_PART = re.compile(r"-(\d{5})-of-(\d{5})(\.gguf)?$")


@dataclass(frozen=True)
class GgufTensor:
    """A tensor of a file. shape: in torch's order; start: its first byte in the file; size: in bytes"""

    name: str
    shape: tuple[int, ...]
    quantisation: GGMLQuantizationType
    start: int
    size: int


@dataclass(frozen=True)
class GgufFile:
    """The header of a GGUF file.

    name      what errors call it
    settings  all metadata by name, such as "llama.block_count". Of an array of texts, such as a vocabulary, its length
    """

    path: Path
    name: str
    settings: dict[str, Any]
    tensors: tuple[GgufTensor, ...]

    @property
    def architecture(self) -> str:
        """Such as "llama", as llama.cpp names it."""
        return self.settings["general.architecture"]

    @property
    def quantisation(self) -> str:
        """The file's own word for it, such as "Q4_K_M"; if it has none, that of most bytes."""
        try:
            return LlamaFileType(self.settings["general.file_type"]).name.removeprefix("MOSTLY_").removeprefix("ALL_")
        except (KeyError, ValueError):
            sizes: Counter[str] = Counter()
            for tensor in self.tensors:
                sizes[tensor.quantisation.name] += tensor.size
            return sizes.most_common(1)[0][0]

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a tensor; None if there is none of that name."""
        return next((tensor.shape for tensor in self.tensors if tensor.name == name), None)

    def values(self, tensor: GgufTensor) -> NDArray[np.float32]:
        """The numbers of a tensor, dequantised. Read-only where they are the file's own."""
        count = prod(tensor.shape[:-1])
        rows = np.memmap(self.path, np.uint8, "r", tensor.start, (count, tensor.size // count))
        return dequantize(np.asarray(rows), tensor.quantisation).reshape(tensor.shape)

    def refuse(self, why: str, error: Exception | None = None) -> NoReturn:
        _refuse(self.name, why, error)


def is_gguf(path: Path) -> bool:
    """Whether a file begins like a GGUF file. Raises OSError if it cannot be opened."""
    with path.open("rb") as file:
        return file.read(4) == MAGIC


def read_gguf(path: Path, name: str | None = None) -> GgufFile:
    """Read the header of a GGUF file, and no number of its weights.

    name  what errors call it, if not by the file's name

    Raises InputError (field "model") for a file that is no GGUF file, is split, ends too early, exceeds the limits of this
    module, or holds tensors of a type that cannot be dequantised.
    """
    try:
        with path.open("rb") as file:
            if file.read(4) != MAGIC:
                _refuse(
                    name or path.name,
                    "does not begin like a GGUF file. Give the path of a GGUF file, or of a folder with safetensors",
                )
            with mmap(file.fileno(), 0, access=ACCESS_READ) as content:
                return _Header(path, name or path.name, content).read()
    except OSError as error:
        _refuse(name or path.name, f"cannot be opened: {error.strerror}", error)


def _refuse(name: str, why: str, error: Exception | None = None) -> NoReturn:
    raise InputError(f"{name} {why}.", field="model") from error


class _Header:
    """A header as it is read, from its first byte to its last."""

    def __init__(self, path: Path, name: str, content: mmap) -> None:
        self.path, self.name, self.content = path, name, content
        self.limit = min(len(content), _MAX_BYTES)
        self.place = 4
        self.entries = 0

    def read(self) -> GgufFile:
        version, tensors, settings = self.numbers("IQQ")
        if version not in _VERSIONS:
            self.refuse(f"is a GGUF file of version {version:,}; versions 2 and 3 can be read")
        self.check("settings", settings, _MAX_SETTINGS)
        self.check("tensors", tensors, _MAX_TENSORS)
        found = dict(self.setting() for _ in range(settings))
        self.refuse_part(found)
        if not isinstance(found.get("general.architecture"), str):
            self.refuse("does not name its architecture (general.architecture), so it is not a model")
        table = [self.tensor() for _ in range(tensors)]
        if not table:
            self.refuse("has no tensors. It is a vocabulary only, and not a model")
        return GgufFile(self.path, self.name, found, self.placed(table, found.get("general.alignment", 32)))

    def refuse(self, why: str) -> NoReturn:
        _refuse(self.name, why)

    def refuse_part(self, settings: dict[str, Any]) -> None:
        part = _PART.search(self.path.name)
        count = settings.get("split.count", int(part[2]) if part else 1)
        if isinstance(count, int) and count > 1:
            self.refuse(
                f"is a part of a model that is split into {count} files. Join them (llama-gguf-split --merge FIRST_PART "
                f"WHOLE.gguf) and give the whole file"
            )

    def check(self, what: str, count: int, largest: int) -> None:
        if count > largest:
            self.refuse(f"announces {count:,} {what}; at most {largest:,} are read")

    def take(self, size: int) -> int:
        """Go on by so many bytes; returns where they begin."""
        start, end = self.place, self.place + size
        if end > self.limit:
            if self.limit < len(self.content):
                self.refuse(f"has a header of more than {_MAX_BYTES // 10**6} MB")
            self.refuse("ends within its header. Copy or download it again")
        self.place = end
        return start

    def numbers(self, letters: str) -> tuple[Any, ...]:
        form = f"<{letters}"
        return struct.unpack_from(form, self.content, self.take(struct.calcsize(form)))

    def text(self) -> str:
        (length,) = self.numbers("Q")
        start = self.take(length)
        return self.content[start : self.place].decode("utf-8", "replace")

    def setting(self) -> tuple[str, Any]:
        name, (kind,) = self.text(), self.numbers("I")
        return name, self.value(name, kind)

    def value(self, name: str, kind: int) -> Any:
        if kind in _NUMBERS:
            return self.numbers(_NUMBERS[GGUFValueType(kind)])[0]
        if kind == GGUFValueType.STRING:
            return self.text()
        if kind == GGUFValueType.ARRAY:
            inner, count = self.numbers("IQ")
            self.entries += count
            self.check("entries of arrays", self.entries, _MAX_ENTRIES)
            if inner in _NUMBERS:
                return list(self.numbers(f"{count}{_NUMBERS[GGUFValueType(inner)]}"))
            if inner == GGUFValueType.STRING:
                for _ in range(count):
                    (length,) = self.numbers("Q")
                    self.take(length)
                return count
        return self.refuse(
            f"has the setting {name[:60]!r} of an unknown type. It is damaged, or newer than this program"
        )

    def tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name, (dimensions,) = self.text(), self.numbers("I")
        self.check(f"dimensions of the tensor {name[:60]!r}", dimensions, _MAX_DIMENSIONS)
        *shape, kind, offset = self.numbers(f"{dimensions}QIQ")
        return name, tuple(reversed(shape)), kind, offset

    def placed(self, table: list[tuple[str, tuple[int, ...], int, int]], alignment: object) -> tuple[GgufTensor, ...]:
        """The tensors, with their places in the file, which holds all of them."""
        if not isinstance(alignment, int) or alignment < 1:
            self.refuse(f"has an alignment of {alignment!r} bytes, which cannot be")
        begin = -(-self.place // alignment) * alignment
        tensors = []
        for name, shape, kind, offset in table:
            if (quantisation := _dequantisable(kind)) is None:
                self.refuse(
                    f"holds the tensor {name[:60]!r} of the type {_type_name(kind)}, which cannot be dequantised"
                )
            block, size = GGML_QUANT_SIZES[quantisation]
            if not shape or 0 in shape or shape[-1] % block:
                self.refuse(
                    f"holds the tensor {name[:60]!r} of the shape {list(shape)}, which {quantisation.name} cannot have"
                )
            tensors.append(GgufTensor(name, shape, quantisation, begin + offset, prod(shape) // block * size))
        needed = max(tensor.start + tensor.size for tensor in tensors)
        if needed > len(self.content):
            self.refuse(f"ends after {len(self.content):,} of {needed:,} bytes. Copy or download it again")
        if len({tensor.name for tensor in tensors}) < len(tensors):
            self.refuse("holds two tensors of one name")
        return tuple(tensors)


def _type_name(kind: int) -> str:
    known = {entry.value: entry.name for entry in GGMLQuantizationType}
    return known.get(kind, f"{kind}, which is unknown here")


@cache
def _dequantisable(kind: int) -> GGMLQuantizationType | None:
    """The quantisation of this number; None if the gguf package does not know it or cannot undo it."""
    try:
        quantisation = GGMLQuantizationType(kind)
        dequantize(np.zeros((1, GGML_QUANT_SIZES[quantisation][1]), np.uint8), quantisation)
    except (ValueError, NotImplementedError):
        return None
    return quantisation
