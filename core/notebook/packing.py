"""The weights of all heads in a few megabytes: in steps, pooled where they are too many, every head compressed by itself."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..attention.rowwise import pool
from ..progress import stop_point

LEVELS = (65_535, 4_095, 1_023, 255)  # steps from 0 to a head's largest weight, the finest that fit
FINEST = LEVELS[0]
SAMPLE = 12  # heads from which the size of all is estimated


@dataclass(frozen=True, eq=False)
class Packed:
    """Every head as text: base64 of a zlib stream of bytes, row by row.

    heads   a text a head. Up to 255 levels a byte a cell; beyond, first the high byte of all cells and then the low one
    levels  the level of the head's largest weight: a weight is level / levels times that
    side    the most cells of a row or a column
    """

    heads: list[str]
    levels: int
    side: int


def in_levels(weights: NDArray[np.floating]) -> NDArray[np.uint16]:
    """Weights as the nearest of FINEST steps from 0 to the largest of them."""
    return np.rint(weights / (weights.max() or 1) * FINEST).astype(np.uint16)


def pack(heads: NDArray[np.uint16], max_bytes: int) -> Packed:
    """All heads [heads, rows, columns] of `in_levels` in at most `max_bytes`: with fewer levels, and then with fewer cells."""
    sample = heads[:: -(-len(heads) // SAMPLE)]
    for levels, side in _coarser(max(heads.shape[1:])):
        estimate = sum(map(len, _texts(sample, levels, side))) * len(heads) / len(sample)
        if estimate > max_bytes:
            continue
        texts = list(_texts(heads, levels, side))
        if sum(map(len, texts)) <= max_bytes:
            return Packed(texts, levels, side)
    raise ValueError(f"{len(heads)} heads do not fit into {max_bytes} bytes.")


def text_of(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


def _coarser(side: int) -> Iterator[tuple[int, int]]:
    """(levels, cells per side), from the finest on."""
    for levels in LEVELS:
        yield levels, side
    block = 1
    while block < side:
        block += max(1, block // 3)  # in steps of a third, so that little of the room stays empty
        yield LEVELS[-1], -(-side // block)


def _texts(heads: NDArray[np.uint16], levels: int, side: int) -> Iterator[str]:
    for head in heads:
        stop_point()
        cells = head if side >= max(head.shape) else pool(head.astype(np.float32), side).values
        coarse = np.rint(cells * np.float32(levels / FINEST)).astype(np.uint16)
        high, low = (coarse >> 8).astype(np.uint8), (coarse & 255).astype(np.uint8)
        yield text_of((b"" if levels <= 255 else high.tobytes()) + low.tobytes())
