"""What a model's folder may hold and announce, checked before anything in it is opened or built.

A folder may come from anybody. A pipe or a device in it would be read for ever; a configuration can announce more layers than
a lifetime has seconds, or a vocabulary larger than the memory, in a few bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from threading import get_ident

from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

from .sizes import tensors_in

# Everything that transformers reads beside the weights.
SMALL_FILES = ("*.json", "*.txt", "*.model", "*.spm", "*.jinja")

# The largest vocabularies and indexes have 35 MB, the largest configurations (with all their added tokens) 6.
MAX_SMALL_BYTES = 100_000_000
MAX_CONFIG_BYTES = 16_000_000

# Numbers of which transformers makes lists as long as they say, before it sees any weights, or loops over what it shares.
_LENGTHS = {re.compile("layers?$|^attention_types$"): 1_000, re.compile("^num_labels$"): 100_000}

# Tied matrices are made up to four times and kept once; a matrix may be split, or a buffer be kept that no file holds.
_PARTS_A_TENSOR, _SPARE_PARTS = 8, 1_000
_NUMBERS_A_NUMBER, _SPARE_NUMBERS = 4, 2**26

# Parts of a network whose weights are not there yet: several times as many as the largest models have.
MOST_PARTS = 100_000


def forbidden_file(folder: Path) -> str | None:
    """Why a file in the folder must not be opened: no regular file, through links too, or too large. None if all may be.

    Raises OSError if the folder cannot be listed.
    """
    templates = folder / "additional_chat_templates"
    for path in [*folder.iterdir(), *(templates.iterdir() if templates.is_dir() else ())]:
        try:
            status = path.stat()
        except OSError:
            continue  # a link to nothing: whoever needs it will say so
        if S_ISDIR(status.st_mode):
            continue
        if not S_ISREG(status.st_mode):
            return f"holds {path.name!r}, which is a pipe or a device and no regular file. Remove it"
        largest = MAX_CONFIG_BYTES if "config" in path.name else MAX_SMALL_BYTES
        if status.st_size > largest and any(map(path.match, SMALL_FILES)):
            size = f"{status.st_size / 1e6:,.1f} MB; at most {largest // 1_000_000} MB are read"
            return f"holds {path.name!r} of {size}. Make it smaller"
    return None


def forbidden_length(config: dict) -> str | None:
    """Why nothing can be as long as a number in the contents of a config.json says, or None."""
    left: list[tuple[str, object]] = list(config.items())
    while left:
        name, said = left.pop()
        if isinstance(said, dict):
            left += said.items()
        elif isinstance(said, list):
            left += [(name, part) for part in said]
        elif isinstance(said, int):
            for pattern, longest in _LENGTHS.items():
                if pattern.search(name) and said > longest:
                    return f"has a config.json that announces {said:,} as its {name}; at most {longest:,} can be read"
    return None


@contextmanager
def as_large_as(weights: list[Path]) -> Iterator[None]:
    """A network built here for these safetensors raises ValueError as soon as it gets far larger than they are.

    transformers builds it first without memory, on torch's meta device, and then fills in at random what it does not find.
    """
    tensors, numbers = _held(weights)
    held = f"where its weights hold {tensors:,} parts and {numbers:,} numbers"
    with _at_most(_PARTS_A_TENSOR * tensors + _SPARE_PARTS, _NUMBERS_A_NUMBER * numbers + _SPARE_NUMBERS, held):
        yield


@contextmanager
def as_large_as_any() -> Iterator[None]:
    """The same where the weights are not there yet, of one that stays on the meta device: its numbers take no memory."""
    with _at_most(MOST_PARTS, None, "which no model has"):
        yield


@contextmanager
def _at_most(max_parts: int, max_numbers: int | None, why: str) -> Iterator[None]:
    builder = get_ident()
    parts = made = 0

    def count(_module: nn.Module, _name: str, tensor: Tensor | None) -> None:
        nonlocal parts, made
        if tensor is None or not tensor.is_meta or get_ident() != builder:
            return
        parts += 1
        made += tensor.numel()
        if parts > max_parts or (max_numbers is not None and made > max_numbers):
            or_numbers = "" if max_numbers is None else f" or {max_numbers:,} numbers"
            raise ValueError(f"its config.json announces a network of more than {parts - 1:,} parts{or_numbers}, {why}")

    hooks = [register_module_parameter_registration_hook(count), register_module_buffer_registration_hook(count)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _held(weights: list[Path]) -> tuple[int, int]:
    """How many tensors there are in these files, and how many numbers in all of them. Reads their headers only."""
    tensors = numbers = 0
    for kind, count in tensors_in(weights):
        # Integers are packed weights, of two bits each at the least.
        packed = int(kind[1:]) // 2 if kind[0] in "IU" else 1
        tensors += 1
        numbers += count * packed
    return tensors, numbers
