"""Limits of a model's folder, checked before anything in it is opened or built.

A folder may come from anybody. Reading a pipe or a device in it would never end, a description of a few bytes can exhaust
Python's stack, and a configuration of a few bytes can announce a billion layers or a vocabulary larger than the memory.
"""

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from threading import Lock, get_ident
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

from ..errors import first_line, shown
from .fields import read_object
from .sizes import ModelSize

# All files that transformers reads besides the weights, and a folder in which it reads some.
SMALL_FILES = ("*.json", "*.txt", "*.model", "*.spm", "*.jinja")
TEMPLATES = "additional_chat_templates"

# The largest vocabularies and indexes have 35 MB, the largest tokenizer_config.json (with all their added tokens) 6, and the
# largest other configurations (with 20,000 labels, each twice) 2. transformers copies a configuration several times.
MAX_SMALL_BYTES = 100_000_000
MAX_TOKENIZER_BYTES = 16_000_000
MAX_CONFIG_BYTES, MAX_CONFIG_ENTRIES = 4_000_000, 100_000
MAX_FILES = 10_000  # the largest models have some hundreds

# Files that transformers reads as an object in JSON, however deep it is nested.
_OBJECTS = re.compile(
    r"((generation_|tokenizer_|(video_)?preprocessor_|processor_)?config|added_tokens|chat_template|special_tokens_map|"
    r"tokenizer|vocab|model\.safetensors\.index)\.json"
)

# Where such a file adds tokens to a vocabulary, and how many it may add: the time grows with their square, to ten seconds for
# so many. Models that write sound add 30,000.
_ADDED = ("added_tokens", "added_tokens_decoder", "additional_special_tokens", "extra_special_tokens")
MAX_ADDED = 50_000

# Settings by name, and how large they may be: transformers makes lists of this length, or loops, before it sees any weights.
_LENGTHS = {re.compile("layers?$|^attention_types$"): 1_000, re.compile("^num_labels$"): 100_000}

# How much larger than its files a network may be. Tied matrices are made up to four times and saved once, a matrix may be
# split, and some buffers are in no file.
_PARTS_A_TENSOR, _SPARE_PARTS = 8, 1_000
_NUMBERS_A_NUMBER, _SPARE_NUMBERS = 4, 2**26

# The limit for a network whose weights are not there yet: several times as many parts as the largest models have.
MAX_PARTS = 100_000


class UnreadableError(ValueError):
    """What is wrong with the files of a model. The message follows the model's name: "has no weights"."""


def check_files(folder: Path) -> None:
    """Raise UnreadableError if a file in the folder must not be opened: it (or what it links to) is not a regular file, it is
    too large, or it is not JSON that can be read in one piece. Raises OSError if the folder cannot be listed."""
    files = [
        path
        for place in (folder, folder / TEMPLATES)
        if place.is_dir()
        for path in islice(place.iterdir(), MAX_FILES + 1)
    ]
    if len(files) > MAX_FILES:
        why = f"is a folder of more than {MAX_FILES:,} files. Give a folder with the files of one model"
        raise UnreadableError(why)
    for path in files:
        try:
            status = path.stat()
        except OSError:
            continue  # a link to nothing: reading it raises its own error
        if S_ISDIR(status.st_mode):
            continue
        if not S_ISREG(status.st_mode):
            raise UnreadableError(f"holds {path.name!r}, which is a pipe or a device, not a regular file. Remove it")
        largest = MAX_CONFIG_BYTES if "config" in path.name else MAX_SMALL_BYTES
        largest = MAX_TOKENIZER_BYTES if path.name == "tokenizer_config.json" else largest
        if status.st_size > largest and any(map(path.match, SMALL_FILES)):
            size = f"{status.st_size / 1e6:,.1f} MB; at most {largest // 1_000_000} MB are read"
            raise UnreadableError(f"holds {path.name!r} of {size}. Make it smaller")
        if _OBJECTS.fullmatch(path.name):
            content = checked_object(path, largest, MAX_CONFIG_ENTRIES if largest == MAX_CONFIG_BYTES else largest)
            _check_names(path, content)
            for tokens in [content] if path.name == "added_tokens.json" else map(content.get, _ADDED):
                if isinstance(tokens, dict | list) and len(tokens) > MAX_ADDED:
                    why = f"adds {len(tokens):,} tokens in its {path.name}; at most {MAX_ADDED:,} can be read"
                    raise UnreadableError(why)


def _check_names(path: Path, content: dict[str, Any]) -> None:
    """Raise UnreadableError for tokenizers in other folders: transformers opens whatever file the settings name here."""
    named = content.get("fast_tokenizer_files", []) if path.name.startswith("tokenizer") else []
    if not isinstance(named, list) or any(not isinstance(name, str) or Path(name).name != name for name in named):
        why = f"has a {path.name} that names {shown(str(named), 60)} as its fast_tokenizer_files"
        raise UnreadableError(f"{why}, where only files beside it are read")


def checked_object(
    path: Path, most_bytes: int = MAX_CONFIG_BYTES, most_entries: int = MAX_CONFIG_ENTRIES
) -> dict[str, Any]:
    """The object in a JSON file, as `read_object` reads it. Raises UnreadableError for any other content."""
    try:
        return read_object(path, most_bytes, most_entries)
    except (ValueError, OSError) as error:
        raise UnreadableError(f"has a {path.name} that cannot be read: {first_line(error)}") from error


def forbidden_length(config: dict) -> str | None:
    """Say which setting in the contents of a config.json is too large, or None."""
    settings: list[tuple[str, object]] = list(config.items())
    while settings:
        name, value = settings.pop()
        if isinstance(value, dict):
            settings += value.items()
        elif isinstance(value, list):
            settings += [(name, entry) for entry in value]
        elif isinstance(value, int):
            for pattern, largest in _LENGTHS.items():
                if pattern.search(name) and value > largest:
                    return f"has a config.json that announces {value:,} as its {name}; at most {largest:,} can be read"
    return None


# Held while transformers builds a network: it sets torch's default dtype, which the whole process shares. Two threads that load
# different dtypes would get each other's and leave the wrong default behind.
BUILDING = Lock()


@contextmanager
def as_large_as(size: ModelSize | None) -> Iterator[None]:
    """Raise ValueError as soon as a network that is built within this context is far larger than its files.

    transformers first builds a network without memory, on torch's meta device, and then fills weights that no file holds.

    size  of the files; None for a network that stays on the meta device, which may have as many parts as any model
    """
    max_parts, max_numbers, why = MAX_PARTS, math.inf, ", which no model has"
    if size is not None:
        numbers = size.numbers + 4 * size.others  # whole numbers are packed weights, of two bits each at the least
        max_parts = _PARTS_A_TENSOR * size.tensors + _SPARE_PARTS
        max_numbers = _NUMBERS_A_NUMBER * numbers + _SPARE_NUMBERS
        why = f" or {max_numbers:,} numbers, where its weights hold {size.tensors:,} parts and {numbers:,} numbers"
    builder, parts, made = get_ident(), 0, 0

    def count(_module: nn.Module, _name: str, tensor: Tensor | None) -> None:
        nonlocal parts, made
        if tensor is None or not tensor.is_meta or get_ident() != builder:
            return
        parts += 1
        made += tensor.numel()
        if parts > max_parts or made > max_numbers:
            raise ValueError(f"its config.json announces a network of more than {parts - 1:,} parts{why}")

    hooks = [register_module_parameter_registration_hook(count), register_module_buffer_registration_hook(count)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
