"""The memory that a model needs, read from the headers of its files before any weight, and the memory that is free."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import torch

from ..errors import model_error
from ..units import bytes_in_words
from .devices import DTYPES
from .gguf_files import GgufFile

# Files of control groups, which limit a process in a container: the limit, the memory in use, and details of the latter, which
# say how much of it caches files and can be freed. Version 2 of control groups, then version 1.
_GROUPS = (
    ("memory.max", "memory.current", "memory.stat"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
)
_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class ModelSize:
    """The size of a model by the headers of its files. A network that leaves out some weights needs less.

    numbers     real numbers, which are converted to the chosen dtype
    others      bytes of everything else, which stays as it is
    converting  bytes that are needed for a moment while a GGUF file is converted, once
    tensors     number of tensors; 0 if only their sums are known
    """

    numbers: int
    others: int = 0
    converting: int = 0
    tensors: int = field(default=0, compare=False)

    def needed(self, dtype: str) -> int:
        """Bytes of all weights in this dtype. Loading needs no more: files are mapped, and their pages can be freed."""
        return self.numbers * DTYPES[dtype] + self.others


Fits = Callable[[ModelSize], None]  # raises InputError for a model that does not fit


def size_of_gguf(file: GgufFile) -> ModelSize:
    """The size of a model in a GGUF file, whose quantised weights become real numbers."""
    counts = [math.prod(tensor.shape) for tensor in file.tensors]
    # A tensor is there as it is dequantised, in transformers' layout, and in the dtype in which it is written.
    return ModelSize(sum(counts), converting=12 * max(counts), tensors=len(counts))


def size_of_tensors(tensors: Iterable[tuple[str, int]]) -> ModelSize:
    """The size of tensors, each given by its dtype, as safetensors names it, and its count of numbers."""
    numbers = others = 0
    for dtype, count in tensors:
        if "F" in dtype:  # F32, BF16, F8_E4M3 ...
            numbers += count
        else:  # whole numbers I64, U8 ..., and BOOL
            others += count * int(dtype[1:]) // 8 if dtype[0] in "IU" else count
    return ModelSize(numbers, others)


def free_bytes(device: str) -> int:
    """Free memory of a device in bytes. For the CPU: the free memory of the system or of the container, whichever is less."""
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
        except (OSError, ValueError):  # no such group, or "max", which means no limit
            continue
        yield max(0, most - now + files)


def require_room(size: ModelSize, name: str, dtype: str, devices: Sequence[str] = ("cpu",)) -> None:
    """Raise InputError (field "model") for a model that does not fit into the free memory; the message gives both sizes.

    devices  where its weights go. All weights pass through the CPU's memory
    """
    needed = size.needed(dtype)
    places = {" and ".join(devices): sum(map(free_bytes, devices))}
    if "cpu" not in devices:
        places["cpu"] = free_bytes("cpu")
    for place, free in places.items():
        wanted = max(needed, size.converting) if place == "cpu" else needed
        if wanted > free:
            raise model_error(
                f"{name} needs {bytes_in_words(wanted)} of memory in {dtype}, and {bytes_in_words(free)} are free on "
                f"{place}. {_smaller(size, dtype, free)}"
            )


def _smaller(size: ModelSize, dtype: str, room: int) -> str:
    """Advice for a model that does not fit into `room` bytes."""
    fitting = [name for name in ("bfloat16", "float16") if size.needed(name) < size.needed(dtype)]
    if fitting and max(size.needed(fitting[0]), size.converting) <= room:
        less = bytes_in_words(size.needed(fitting[0]))
        return f"In {' or '.join(fitting)} it needs {less}. Choose that, or a smaller model."
    return "Choose a smaller model."
