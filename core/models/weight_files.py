"""The files of a model's weights: which they are, and their headers, which say all there is to know before a weight is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

from safetensors import safe_open

from ..errors import shown
from .bounds import MAX_SMALL_BYTES, UnreadableError, checked_object
from .sizes import ModelSize, size_of_tensors

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt")


@dataclass(frozen=True)
class Stored:
    """A tensor as the header of its file announces it. dtype: as safetensors names it, such as "BF16" """

    file: Path
    dtype: str
    shape: tuple[int, ...]


def weight_files(folder: Path, most_bytes: int = MAX_SMALL_BYTES) -> list[Path]:
    """The safetensors files that transformers reads: a single one, or those that the index names.

    most_bytes  of an index

    Raises UnreadableError if the folder has none, and for an index that names other files than those beside it.
    """
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    if not (folder / INDEX).is_file():
        if any(path.suffix in _PICKLES for path in folder.iterdir()):
            raise UnreadableError("has pickled weights only, which are never opened because they can run code")
        raise UnreadableError(f"has no weights: no {SINGLE} and no {INDEX}")
    names = sorted(set(_weight_map(folder, most_bytes).values()))
    # transformers opens whatever the index names, pickles and files outside the folder included.
    odd = [name for name in names if Path(name).name != name or not name.endswith(".safetensors")]
    if odd:
        raise UnreadableError(f"has an index that names {odd[0]!r}, where only safetensors files beside it are read")
    if not names:
        raise UnreadableError("has an index that names no weights")
    if lacking := [name for name in names if not (folder / name).is_file()]:
        first = ", ".join(lacking[:3])
        raise UnreadableError(f"lacks {len(lacking)} of the {len(names)} weight files that its index names: {first}")
    return [folder / name for name in names]


def _weight_map(folder: Path, most_bytes: int) -> dict[str, str]:
    """The index: the name of the file of each tensor."""
    written = checked_object(folder / INDEX, most_bytes, most_bytes).get("weight_map")
    if not isinstance(written, dict) or not all(isinstance(name, str) for name in written.values()):
        raise UnreadableError(f"has a {INDEX} that does not give the file of each tensor")
    return written


def stored_in(files: Iterable[Path]) -> dict[str, Stored]:
    """All tensors of safetensors files, by name, from their headers. safetensors checks that the bytes of a file are those of
    its tensors, without gaps. Raises UnreadableError for a tensor that is in two files."""
    stored: dict[str, Stored] = {}
    for path in files:
        with safe_open(path, framework="np") as file:  # torch would map all of it, as memory of its own
            for name in file.keys():  # noqa: SIM118 - a file is not a dictionary
                if name in stored:
                    twice = f"{stored[name].file.name} and in {path.name}"
                    raise UnreadableError(f"holds the tensor {shown(name)} twice: in {twice}")
                about = file.get_slice(name)
                stored[name] = Stored(path, about.get_dtype(), tuple(about.get_shape()))
    return stored


def size_of(stored: Mapping[str, Stored]) -> ModelSize:
    """The size of a model in safetensors files."""
    numbers = [(tensor.dtype, prod(tensor.shape)) for tensor in stored.values()]
    return replace(size_of_tensors(numbers), tensors=len(numbers))


def header_bytes(path: Path) -> int:
    """The length of a file's header, as the file announces it."""
    with path.open("rb") as file:
        return int.from_bytes(file.read(8), "little")


def lost(folder: Path, stored: Mapping[str, Stored]) -> list[str]:
    """The tensors that the index names and no file holds. Some are not lost: converters leave out tied weights, which are
    in the files under another name, and keep the index. Raises UnreadableError for an index that contradicts the files."""
    written = {} if (folder / SINGLE).is_file() else _weight_map(folder, MAX_SMALL_BYTES)
    there = {name: tensor.file.name for name, tensor in stored.items()}
    for name, file in there.items() if written else ():
        if written.get(name) != file:
            says = f"says {written[name]}" if name in written else "does not name it"
            raise UnreadableError(
                f"holds {shown(name)} in {file}, and its index {says}. Are these files of one model? Copy or download them "
                f"again"
            )
    return sorted(written.keys() - there.keys())


def unread_files(folder: Path, files: Iterable[Path]) -> tuple[str, ...]:
    """A sentence about safetensors files in the folder that are not read, if there are any."""
    first, *others = (*sorted(path.name for path in {*folder.glob("*.safetensors")} - {*files}), "")
    more = f" and {len(others) - 1} more weight files" if len(others) > 1 else ""
    return (f"Its folder also holds {shown(first)}{more}, which transformers does not read.",) if first else ()
