"""How much memory a model needs, read from the headers of its files before any weight is, and how much there is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch
from huggingface_hub.utils import SafetensorsRepoMetadata
from safetensors import safe_open
from transformers.integrations.gguf.reader import GgufHeader

from ..errors import InputError
from ..units import bytes_in_words
from .devices import DTYPES

# What limits this process beside the machine's memory, in a container above all: limit, used, and where it says how much of
# that is kept of files and given back when asked for. Version 2 of control groups, then version 1.
_GROUPS = (
    ("memory.max", "memory.current", "memory.stat"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
)
_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class ModelSize:
    """What a model's files hold, by their headers; a network that leaves some of it out needs less.

    numbers     how many real numbers, each of which is brought to the chosen dtype
    others      bytes of everything else, which stays as it is
    converting  bytes that are held for a moment while a GGUF file is converted, once
    """

    numbers: int
    others: int = 0
    converting: int = 0

    def needed(self, dtype: str) -> int:
        """Bytes of all weights in this dtype. Loading holds no more: the files' pages are mapped, and given back."""
        return self.numbers * DTYPES[dtype] + self.others


Fits = Callable[[ModelSize], None]  # raises InputError where it does not


def tensors_in(files: Iterable[Path]) -> Iterator[tuple[str, int]]:
    """(dtype as safetensors writes it, how many numbers) of each tensor in these safetensors, from their headers."""
    for path in files:
        with safe_open(path, framework="np") as file:  # torch would map all of it, as memory of its own
            for name in file.keys():  # noqa: SIM118 - a file is no dictionary
                held = file.get_slice(name)
                yield held.get_dtype(), math.prod(held.get_shape())


def size_of_files(files: Iterable[Path]) -> ModelSize:
    """Of safetensors."""
    return _size(tensors_in(files))


def size_on_hub(metadata: SafetensorsRepoMetadata) -> ModelSize:
    """Of what the Hugging Face hub says of a repository's safetensors."""
    return _size(metadata.parameter_count.items())


def size_of_gguf(path: Path) -> ModelSize:
    """Of a GGUF file, whose quantised weights become real numbers, float32 at first."""
    numbers = sum(math.prod(tensor.shape) for tensor in GgufHeader.from_file(str(path)).tensors)
    return ModelSize(numbers, converting=4 * numbers)


def _size(tensors: Iterable[tuple[str, int]]) -> ModelSize:
    numbers = others = 0
    for dtype, count in tensors:
        if "F" in dtype:  # F32, BF16, F8_E4M3 ...
            numbers += count
        else:  # whole numbers I64, U8 ..., and BOOL
            others += count * int(dtype.lstrip("IU") or 8) // 8 if dtype[0] in "IU" else count
    return ModelSize(numbers, others)


def free_bytes(device: str) -> int:
    """How much memory can be had on a device of this machine, as far as it says: of the CPU, the least of what the system has
    and what a container is allowed."""
    kind = torch.device(device).type
    if kind == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if kind == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.current_allocated_memory()
    return min([psutil.virtual_memory().available, *_left_in_group(_CGROUP)])


def _left_in_group(folder: Path) -> Iterator[int]:
    for limit, used, details in _GROUPS:
        try:
            most, now = (int((folder / name).read_text()) for name in (limit, used))
            lines = (line.split() for line in (folder / details).read_text().splitlines())
            files = next((int(value) for name, value in lines if name in ("inactive_file", "total_inactive_file")), 0)
        except (OSError, ValueError):  # no such group, or "max", which is no limit
            continue
        yield max(0, most - now + files)


def require_room(
    size: ModelSize, name: str, dtype: str, devices: Sequence[str] = ("cpu",), *, budget: int | None = None
) -> None:
    """Raises InputError (field "model"), with both figures, for a model that does not fit.

    devices  over which its weights are spread. They come through the CPU, which holds them all for a moment
    budget   bytes that may be used instead of what the devices have free, where that is less
    """
    needed = size.needed(dtype)
    places = {" and ".join(devices): sum(map(free_bytes, devices))}
    if "cpu" not in devices:
        places["cpu"] = free_bytes("cpu")
    for place, free in places.items():
        wanted = max(needed, size.converting) if place == "cpu" else needed
        room = free if budget is None else min(free, budget)
        if wanted > room:
            there = "are allowed" if budget is not None and budget < free else f"are free on {place}"
            raise InputError(
                f"{name} needs {bytes_in_words(wanted)} of memory in {dtype}, and {bytes_in_words(room)} {there}. "
                f"{_smaller(size, dtype, room)}",
                field="model",
            )


def _smaller(size: ModelSize, dtype: str, room: int) -> str:
    """What to do instead."""
    fitting = [name for name in ("bfloat16", "float16") if size.needed(name) < size.needed(dtype)]
    if fitting and max(size.needed(fitting[0]), size.converting) <= room:
        less = bytes_in_words(size.needed(fitting[0]))
        return f"In {' or '.join(fitting)} it needs {less}. Choose that, or a smaller model."
    return "Choose a smaller model."
