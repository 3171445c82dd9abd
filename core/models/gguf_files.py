"""GGUF files, the format of llama.cpp, Ollama and LM Studio: their header, and the numbers of one tensor at a time.

A file may come from anybody, so every length in it is checked before anything of that length is read or made, and a file is
refused where llama.cpp's reader (ggml/src/gguf.cpp) refuses it. transformers and the gguf package read headers too, but
transformers knows fewer quantisations, and gguf makes an array of each of a vocabulary's tokens; both make a list of any length
that a file announces.

A large model may be split into several files, its shards: name-00001-of-00003.gguf and so on. The first has all settings, each
has some of the tensors. The setting split.count says how many there are, split.no which one a file is (from 0).

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import re
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, takewhile
from math import prod
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType, LlamaFileType, dequantize
from numpy.typing import NDArray

from ..errors import model_error

MAGIC = b"GGUF"
_VERSIONS = (2, 3)  # version 1 has other lengths, and no file of it is left

# Limits of a header. The largest vocabularies have 262,144 tokens and 440,000 merges, together 16 MB.
_MAX_BYTES = 100_000_000
_MAX_SETTINGS = 10_000
_MAX_ENTRIES = 2_000_000  # of all arrays
_MAX_TENSORS = 100_000
_MAX_DIMENSIONS = 4

_STRING, _ARRAY = GGUFValueType.STRING, GGUFValueType.ARRAY
_NUMBERS = {*GGUFValueType} - {_STRING, _ARRAY}  # called as NumPy calls them
_SHARD = re.compile(r"-(\d{5})-of-(?!00000)(\d{5})$")  # how the name of a shard ends
_GENERAL = {"general.architecture": ["string"], "general.name": ["string"], "general.file_type": ["uint32"]}
_COUNT, _NUMBER, _TENSORS = "split.count", "split.no", "split.tensors.count"
_Announced = tuple[str, tuple[int, ...], int, int]  # a tensor's name, its shape, its type and its offset


@dataclass(frozen=True)
class GgufTensor:
    """A tensor of a file. shape: in torch's order; path: the shard that holds it; start: its first byte; size: in bytes"""

    name: str
    shape: tuple[int, ...]
    quantisation: GGMLQuantizationType
    path: Path
    start: int
    size: int


@dataclass(frozen=True)
class Setting:
    """A setting as it stands in a file.

    kind   "uint32", "float32", "bool", "string" and so on, in brackets for a list of them
    value  a number, a text, or a list of numbers; of a list of texts, such as a vocabulary, its length
    start  its first byte in the file
    """

    kind: str
    value: Any
    start: int

    def __str__(self) -> str:
        said = f"{self.value:,} texts" if self.kind == "[string]" else repr(self.value)
        return said if len(said) <= 60 else f"{said[:60]} ..."


@dataclass(frozen=True)
class GgufFile:
    """The header of a GGUF file, or of all shards of a model.

    parts     the file, or the shards in their order
    name      what errors call it
    settings  all metadata by name, such as "llama.block_count"
    """

    parts: tuple[Path, ...]
    name: str
    settings: dict[str, Setting]
    tensors: tuple[GgufTensor, ...]

    @property
    def architecture(self) -> str:
        """Such as "llama", as llama.cpp names it."""
        return self.settings["general.architecture"].value

    @property
    def quantisation(self) -> str:
        """The file's own word for it, such as "Q4_K_M"; if it has none, that of most bytes."""
        try:
            kind = LlamaFileType(self.settings["general.file_type"].value)
            return kind.name.removeprefix("MOSTLY_").removeprefix("ALL_")
        except (KeyError, ValueError):
            sizes: Counter[str] = Counter()
            for tensor in self.tensors:
                sizes[tensor.quantisation.name] += tensor.size
            return sizes.most_common(1)[0][0]

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a tensor; None if the file has no tensor of that name."""
        return next((tensor.shape for tensor in self.tensors if tensor.name == name), None)

    def said(self, key: str, kinds: Sequence[str], default: Any = None) -> Any:
        """The value of a setting; `default` if it is not there. Raises InputError if it is of another type."""
        if (setting := self.settings.get(key)) is None:
            return default
        if setting.kind not in kinds:
            self.refuse(
                f"has the setting {key} = {setting}, which is of the type {setting.kind} and has to be of the type "
                f"{' or '.join(kinds)}"
            )
        return setting.value

    def values(self, tensor: GgufTensor) -> NDArray[np.float32]:
        """The numbers of a tensor, dequantised. Read-only where they are the file's own."""
        count = prod(tensor.shape[:-1])
        rows = np.memmap(tensor.path, np.uint8, "r", tensor.start, (count, tensor.size // count))
        return dequantize(np.asarray(rows), tensor.quantisation).reshape(tensor.shape)

    def texts(self, name: str) -> list[str]:
        """The texts of a setting that is a list of texts."""
        setting = self.settings[name]
        with self.parts[0].open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            header = _HeaderReader(self.parts[0], self.name, content, setting.start)
            return [header.text() for _ in range(setting.value)]

    def refuse(self, why: str, error: Exception | None = None) -> NoReturn:
        _refuse(self.name, why, error)


def is_gguf(path: Path) -> bool:
    """Whether a file begins like a GGUF file. Raises OSError if it cannot be opened."""
    with path.open("rb") as file:
        return file.read(4) == MAGIC


def gguf_stem(path: Path) -> str:
    """The name of a model by that of its file or of a shard: "name" for "name-00001-of-00003.gguf"."""
    return _SHARD.sub("", path.stem)


def named_shards(path: Path) -> Iterator[Path]:
    """Where all shards of a model have to be, by the name of one of them; the path alone if it is not named like a shard."""
    if (named := _SHARD.search(path.stem)) is None:
        yield path
        return
    for number in range(1, int(named[2]) + 1):
        yield path.with_name(f"{gguf_stem(path)}-{number:05}-of-{named[2]}{path.suffix}")


def gguf_parts(path: Path | Sequence[Path], name: str | None = None) -> tuple[Path, ...]:
    """All files of a model in their order. A single path may be any of its shards: the others are looked for beside it, by
    their names. Several paths are all shards, which Ollama names by their hashes.

    Raises InputError (field "model") if a shard is missing or is not named like one.
    """
    if not isinstance(path, Path):
        if len(path) > 1:
            return tuple(sorted(path, key=lambda part: _number(_read_header(part, name), _NUMBER)))
        (path,) = path
    named = _SHARD.search(path.stem)
    if named is None or (count := _number(_read_header(path, name), _COUNT)) < 2:
        return (path,)
    if int(named[2]) != count:
        _refuse(name or path.name, _misnamed(count))
    parts = tuple(takewhile(Path.is_file, named_shards(path)))
    if len(parts) < count:
        missing = next(islice(named_shards(path), len(parts), None))
        why = f"is one of {count:,} shards, of which {missing.name} is missing. Put all of them in one folder"
        _refuse(name or path.name, why)
    return parts


def _misnamed(count: int) -> str:
    return (
        f"is a shard of a model in {count:,} files, and its name does not say so. Give it back the name that it had: "
        f"NAME-00001-of-{count:05}.gguf for the first one"
    )


def read_gguf(path: Path | Sequence[Path], name: str | None = None) -> GgufFile:
    """Read the header of a GGUF file, or the headers of all shards of a model, without its weights.

    path  a file, any shard of a model, or all of its shards
    name  what errors call it, if not by the file's name

    Raises InputError (field "model") for a file that is not a GGUF file, ends too early, lacks a shard, exceeds the limits of
    this module, or holds tensors that overlap, leave gaps or cannot be dequantised.
    """
    parts = gguf_parts(path, name)
    name = name or parts[0].name
    files = [_read_header(part, name if len(parts) == 1 else part.name) for part in parts]
    whole = GgufFile(parts, name, files[0].settings, tuple(tensor for file in files for tensor in file.tensors))
    if len(parts) > 1:
        _check_shards(whole, files)
    elif (count := _number(whole, _COUNT)) > 1:
        whole.refuse(_misnamed(count))
    for key, kinds in _GENERAL.items():
        whole.said(key, kinds)
    if "general.architecture" not in whole.settings:
        whole.refuse("does not name its architecture (general.architecture), so it is not a model")
    if not whole.tensors:
        whole.refuse("has no tensors. It is a vocabulary only, and not a model")
    names = Counter(tensor.name for tensor in whole.tensors)
    if (doubled := names.most_common(1)[0])[1] > 1:
        whole.refuse(f"holds {doubled[1]} tensors named {doubled[0][:60]!r}")
    return whole


_NONE = Setting("", None, 0)


def _number(file: GgufFile, setting: str) -> int:
    """A setting of a shard; 0 if it is missing or not a whole number."""
    value = file.settings.get(setting, _NONE).value
    return value if type(value) is int else 0


def _check_shards(whole: GgufFile, files: Sequence[GgufFile]) -> None:
    """Raise InputError unless these are the shards of one model, as far as their headers tell."""
    for number, file in enumerate(files):
        if _number(file, _NUMBER) != number or _number(file, _COUNT) != len(files):
            file.refuse(
                f"is shard {_number(file, _NUMBER) + 1} of {_number(file, _COUNT)} by its own words, and stands in the place "
                f"of {number + 1} of {len(files)}. The shards of two models were mixed, or one was renamed"
            )
        others = {key: setting.value for key, setting in file.settings.items() if key != _NUMBER}
        odd = next((key for key, value in others.items() if whole.settings.get(key, _NONE).value != value), None)
        if odd is not None:
            file.refuse(f"says another {odd[:60]} than {whole.parts[0].name}, so they are shards of two models")
    if _number(whole, _TENSORS) != len(whole.tensors):
        whole.refuse(
            f"announces {_number(whole, _TENSORS):,} tensors, of which its {len(files)} shards hold {len(whole.tensors):,}. "
            f"The shards of two models were mixed"
        )


def _read_header(path: Path, name: str | None = None) -> GgufFile:
    """The header of one file."""
    name = name or path.name
    try:
        with path.open("rb") as file:
            if file.read(4) != MAGIC:
                why = "does not begin like a GGUF file. Give the path of a GGUF file, or of a folder with safetensors"
                _refuse(name, why)
            with mmap(file.fileno(), 0, access=ACCESS_READ) as content:
                return _HeaderReader(path, name, content, len(MAGIC)).read()
    except OSError as error:
        _refuse(name, f"cannot be opened: {error.strerror}", error)


def _refuse(name: str, why: str, error: Exception | None = None) -> NoReturn:
    raise model_error(f"{name} {why}.") from error


class _HeaderReader:
    """A header as it is read, from a byte on."""

    def __init__(self, path: Path, name: str, content: mmap, place: int) -> None:
        self.path, self.name, self.content, self.place = path, name, content, place
        self.limit = min(len(content), _MAX_BYTES)
        self.entries = 0

    def read(self) -> GgufFile:
        version, tensors, settings = self.numbers("IQQ")
        if version not in _VERSIONS:
            self.refuse(f"is a GGUF file of version {version:,}; versions 2 and 3 can be read")
        self.check("settings", settings, _MAX_SETTINGS)
        self.check("tensors", tensors, _MAX_TENSORS)
        found: dict[str, Setting] = {}
        for _ in range(settings):
            name = self.text()
            if not name or name in found:
                self.refuse(f"has the setting {name[:60]!r} twice" if name else "has a setting without a name")
            found[name] = self.setting(name)
        table = [self.tensor() for _ in range(tensors)]
        return GgufFile((self.path,), self.name, found, self.placed(table, found.get("general.alignment")))

    def refuse(self, why: str) -> NoReturn:
        _refuse(self.name, why)

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

    def values(self, kind: int, count: int) -> list[Any]:
        dtype = np.dtype(_word(kind)).newbyteorder("<")
        return np.frombuffer(self.content, dtype, count, self.take(count * dtype.itemsize)).tolist()

    def setting(self, name: str) -> Setting:
        (kind,), start = self.numbers("I"), self.place
        if kind in _NUMBERS:
            return Setting(_word(kind), self.values(kind, 1)[0], start)
        if kind == _STRING:
            return Setting(_word(kind), self.text(), start)
        inner, count = self.numbers("IQ") if kind == _ARRAY else (-1, 0)
        start = self.place
        self.entries += count
        self.check("entries of arrays", self.entries, _MAX_ENTRIES)
        if inner in _NUMBERS:
            return Setting(f"[{_word(inner)}]", self.values(inner, count), start)
        if inner == _STRING:
            for _ in range(count):
                (length,) = self.numbers("Q")
                self.take(length)
            return Setting("[string]", count, start)
        return self.refuse(
            f"has the setting {name[:60]!r} of an unknown type. It is damaged, or newer than this program"
        )

    def tensor(self) -> _Announced:
        name, (dimensions,) = self.text(), self.numbers("I")
        self.check(f"dimensions of the tensor {name[:60]!r}", dimensions, _MAX_DIMENSIONS)
        *shape, kind, offset = self.numbers(f"{dimensions}QIQ")
        return name, tuple(reversed(shape)), kind, offset

    def placed(self, table: list[_Announced], said: Setting | None) -> tuple[GgufTensor, ...]:
        """The tensors with their places: one after the other, each filled up to a multiple of the alignment. The last one may
        end where its numbers do, as some programs write it."""
        alignment = 32 if said is None else said.value
        if said is not None and (said.kind != "uint32" or alignment.bit_count() != 1):
            self.refuse(f"has an alignment of {said} bytes, which has to be a power of two")
        begin = end = -(-self.place // alignment) * alignment
        tensors = []
        for name, shape, kind, offset in table:
            if (quantisation := _dequantisable(kind)) is None:
                known = {entry.value: entry.name for entry in GGMLQuantizationType}
                type_name = known.get(kind, f"{kind}, which is unknown here")
                self.refuse(f"holds the tensor {name[:60]!r} of the type {type_name}, which cannot be dequantised")
            block, size = GGML_QUANT_SIZES[quantisation]
            if not shape or 0 in shape or shape[-1] % block:
                self.refuse(
                    f"holds the tensor {name[:60]!r} of the shape {list(shape)}, which {quantisation.name} cannot have"
                )
            if begin + offset != end:
                self.misplaced(tensors[-1] if tensors else None, begin + offset, name)
            tensors.append(GgufTensor(name, shape, quantisation, self.path, end, prod(shape) // block * size))
            end += -(-tensors[-1].size // alignment) * alignment
        if tensors:
            filled = tensors[-1].start + tensors[-1].size
            if filled > len(self.content):
                self.refuse(f"ends after {len(self.content):,} of {filled:,} bytes. Copy or download it again")
            if end < len(self.content):
                self.misplaced(tensors[-1], len(self.content), None)
        return tuple(tensors)

    def misplaced(self, before: GgufTensor | None, end: int, after: str | None) -> NoReturn:
        """Refuse a tensor that does not fill the bytes from its start to `end`, where the next begins or the file ends."""
        if before is None:
            self.refuse(f"does not begin with its first tensor, {str(after)[:60]!r}")
        where = "the end of the file" if after is None else f"the tensor {after[:60]!r}"
        self.refuse(
            f"holds the tensor {before.name[:60]!r}, which takes {before.size:,} bytes by its type "
            f"{before.quantisation.name} and its shape {list(before.shape)}, and {end - before.start:,} bytes lie between its "
            f"beginning and {where}. It is damaged, or was written wrongly"
        )


def _word(kind: int) -> str:
    return GGUFValueType(kind).name.lower()


@cache
def _dequantisable(kind: int) -> GGMLQuantizationType | None:
    """The quantisation of this number; None if the gguf package does not know it or cannot undo it."""
    try:
        quantisation = GGMLQuantizationType(kind)
        dequantize(np.zeros((1, GGML_QUANT_SIZES[quantisation][1]), np.uint8), quantisation)
    except (ValueError, NotImplementedError):
        return None
    return quantisation
