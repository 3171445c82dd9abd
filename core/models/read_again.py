"""The weights of a network, read from its files once more: whether those in memory are still theirs.

A tensor that stands in a file as the network holds it is compared in slices, exactly, in the dtype of the network. Those that
are quantised, or stand there in another form, are made again one by one, as they were when they were loaded. Files are read and
not mapped, so no more than one slice, or what makes one part of the network, is in memory.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from ..progress import stop_point
from .adapters import Added
from .dequantising import KINDS, Undone, as_state
from .weight_files import Filling, Stored, fillings, header_bytes

SLICE = 2**24  # bytes that are read at once


class TimeIsOverError(Exception):
    """There is no time for what is left."""


def parts_of(network: PreTrainedModel) -> dict[str, Tensor]:
    """The parameters of a network and the buffers that are saved with it, by all of their names."""
    saved = network.state_dict().keys()
    named = (*network.named_parameters(remove_duplicate=False), *network.named_buffers(remove_duplicate=False))
    return {name: part for name, part in named if name in saved}


def read_again(
    network: PreTrainedModel,
    parts: Mapping[str, Tensor],
    stored: Mapping[str, Stored],
    is_in_time: Callable[[], bool] = lambda: True,
    added: Mapping[str, Added] = MappingProxyType({}),
) -> Iterator[tuple[str, str, bool]]:
    """(a part of a network, the tensor that it was made of, or the first of them, whether it still is that), small ones first.

    parts       those of `parts_of` that are looked at
    stored      all tensors of the network's files, undone where they are quantised
    is_in_time  asked before each slice. Raises TimeIsOverError where it is not
    added       what an adapter has added to parts, by their names

    A part that is on no device, or cannot be made again, is left out.
    """
    zeros, opened = _padding_rows(network), _Files(stored)

    def size(filling: Filling) -> int:
        return sum(parts[target].nbytes for target in filling.targets if target in parts)

    for filling in sorted(fillings(network, stored), key=size):
        targets = [target for target in filling.targets if target in parts and not parts[target].is_meta]
        if not targets:
            continue
        name = next(iter(filling.patterns))
        if filling.converter is None and not isinstance(stored[name], Undone):
            made = {target: opened.slices(name, is_in_time) for target in targets}
        else:
            _check(is_in_time)
            made = {target: [numbers] for target, numbers in opened.made(filling, network).items()}
        for target in targets:
            if target in made:
                own, empty = parts[target], zeros.get(id(parts[target]), (0, 0))
                yield target, name, _is_same(own, made[target], empty, added.get(target))


def _check(is_in_time: Callable[[], bool]) -> None:
    stop_point()
    if not is_in_time():
        raise TimeIsOverError


def _padding_rows(network: PreTrainedModel) -> dict[int, tuple[int, int]]:
    """Where the numbers of the padding token begin and end in tables in which they are zero, by the table's id. Some networks
    (Chinese-CLIP) set them to zero when they are loaded, whatever the file says."""
    tables = [module for module in network.modules() if isinstance(module, torch.nn.Embedding)]
    rows = ((table.weight, table.padding_idx) for table in tables if table.padding_idx is not None)
    return {
        id(weight): (row * weight.shape[1], (row + 1) * weight.shape[1])
        for weight, row in rows
        if not (weight.is_meta or weight[row].any())
    }


def _is_same(own: Tensor, given: Iterable[Tensor], zeros: tuple[int, int], added: Added | None) -> bool:
    """Whether a part of a network has these numbers, one after another, in its own dtype, and what an adapter has added. zeros:
    where it has zeros instead"""
    flat, at = own.detach().reshape(-1), 0
    for some in given:
        mine, wanted = flat[at : at + some.numel()].cpu(), some.detach().reshape(-1).to(own.dtype)
        wanted[slice(*(max(edge - at, 0) for edge in zeros))] = 0
        at += len(wanted)
        if added is not None:
            if not (len(mine) == len(wanted) and added.makes(mine, wanted, at - len(wanted))):
                return False
            continue
        if torch.equal(mine, wanted):
            continue
        # A row that no token reads may hold NaN.
        both = len(mine) == len(wanted) and mine.is_floating_point()
        if not (both and torch.allclose(mine, wanted, rtol=0, atol=0, equal_nan=True)):
            return False
    return at == len(flat)


class _Files:
    """The tensors of safetensors files."""

    def __init__(self, stored: Mapping[str, Stored]) -> None:
        self.stored = stored
        self._headers: dict[Path, tuple[int, dict[str, Any]]] = {}

    def slices(self, name: str, is_in_time: Callable[[], bool]) -> Iterator[Tensor]:
        """The numbers of a tensor, some megabytes at a time."""
        path, dtype = self.stored[name].file, KINDS[self.stored[name].dtype]
        with path.open("rb") as file:
            if path not in self._headers:
                length = header_bytes(path)
                file.seek(8)
                self._headers[path] = 8 + length, json.loads(file.read(length))
            first, header = self._headers[path]
            at, end = (first + offset for offset in header[name]["data_offsets"])
            file.seek(at)
            while at < end:
                _check(is_in_time)
                held = bytearray(min(SLICE, end - at))
                at += len(held)
                if file.readinto(held) == len(held):  # else the file has become shorter
                    yield torch.frombuffer(held, dtype=dtype)

    def made(self, filling: Filling, network: PreTrainedModel) -> Mapping[str, Tensor]:
        """What a converter, or the undoing of a quantisation, makes of tensors; empty where it cannot be made."""
        parts = {name: self.stored[name] for name in filling.patterns}
        of_each = (one.parts.values() if isinstance(one, Undone) else [one] for one in parts.values())
        state = as_state({part.file for some in of_each for part in some}, parts)
        target, first = filling.targets[0], next(iter(parts))
        if filling.converter is None:
            return {target: state[first][...]}
        converter: Any = deepcopy(filling.converter)
        for name, pattern in filling.patterns.items():
            converter.add_tensor(target, name, pattern, partial(state[name].__getitem__, ...))
        try:
            return converter.convert(target, model=network, config=network.config)
        except Exception:  # each operation fails in ways of its own
            return {}
