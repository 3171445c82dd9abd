"""Where in the image each token lies that a model makes of it.

A processor may scale an image, cut its edges off or pad them, cut it into tiles and add the whole image, small, as one more; a
network may merge patches that lie side by side. What the processor does is measured and not told from its settings: it
is given an image whose colours say where each pixel lies. Lines fitted to the colours of a tile give the area that it shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isqrt, log
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers.vision_utils import get_vision_window_index

Area = tuple[float, float, float, float]

_SAME_SIZE = 0.02  # of the image: tiles that differ by less are of one size, and edges nearer to the image's are these
_AT_THE_EDGE = 0.002


@dataclass(frozen=True, eq=False)
class ImageGrid:
    """Tokens that lie side by side on the image.

    area    (left, top, right, bottom) of all of them as shares of the image's width and height, from its upper left corner;
            beyond 0 and 1 where the model reads padding
    tokens  [rows, columns] their positions
    """

    area: Area
    tokens: NDArray[np.integer]

    def boxes(self) -> NDArray[np.floating]:
        """The area of each token, without padding: [rows, columns, 4], NaN for a token that is padding only."""
        left, top, right, bottom = self.area
        rows, columns = self.tokens.shape
        across, down = np.linspace(left, right, columns + 1), np.linspace(top, bottom, rows + 1)
        boxes = np.stack([*np.meshgrid(across[:-1], down[:-1]), *np.meshgrid(across[1:], down[1:])], axis=-1).clip(0, 1)
        is_empty = (boxes[..., 0] >= boxes[..., 2]) | (boxes[..., 1] >= boxes[..., 3])
        return np.where(is_empty[..., None], np.nan, boxes)


@dataclass(frozen=True, eq=False)
class Tiles:
    """What a network reads of one image.

    areas  of the tiles, in the order in which they are read; one where the image is not cut
    size   (height, width) of each in pixels
    merged (rows, columns) of the merged patches, their rows and columns; None: the network cuts each tile into patches itself
    image  [height, width, 3] uint8, the whole of it, small
    """

    areas: tuple[Area, ...]
    size: tuple[int, int]
    merged: tuple[int, int, int] | None = None
    image: NDArray[np.uint8] | None = None


def ramps(height: int, width: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Two images of this size. In the first red grows from left to right, green from top to bottom, and blue is full; the
    second is its negative. What is the same in what a processor makes of both is padding."""
    across = np.broadcast_to((np.arange(width) + 0.5) / width, (height, width))
    down = np.broadcast_to(((np.arange(height) + 0.5) / height)[:, None], (height, width))
    image = np.rint(255 * np.stack([across, down, np.ones_like(across)], axis=-1)).astype(np.uint8)
    return image, 255 - image


def tiles_of(positive: Mapping[str, torch.Tensor], negative: Mapping[str, torch.Tensor], merge: int) -> Tiles:
    """What is read of an image, from what a processor made of `ramps` without changing the colours.

    merge  how many patches in each direction become one token, of a processor that cuts the image into patches itself
    """
    pixels = positive["pixel_values"].double() - negative["pixel_values"].double()
    patches = None
    if "image_grid_thw" in positive and pixels.ndim == 2:
        _, rows, columns = positive["image_grid_thw"][0].tolist()
        patches = (rows // merge, columns // merge, merge)
        pixels = _unpatched(pixels, rows, columns, merge)
    pixels = pixels.reshape(-1, *pixels.shape[-3:]).numpy()
    return Tiles(tuple(map(_area, pixels)), (pixels.shape[2], pixels.shape[3]), patches)


def _unpatched(patches: torch.Tensor, rows: int, columns: int, merge: int) -> torch.Tensor:
    """The image [3, height, width] of the patches [patches, 3 × frames × side × side], which come in blocks that are merged."""
    frames_and_side = patches.shape[1] // 3
    side = next(side for side in range(isqrt(frames_and_side), 0, -1) if frames_and_side % side**2 == 0)
    blocks = patches.view(rows // merge, columns // merge, merge, merge, 3, -1, side, side)[:, :, :, :, :, 0]
    return blocks.permute(4, 0, 2, 5, 1, 3, 6).reshape(3, rows * side, columns * side)


def _area(tile: NDArray[np.floating]) -> Area:
    """The area that a tile [3, height, width] shows, from the difference of the two `ramps` in it."""
    shows = tile[2] > 0.9 * tile[2].max()
    left, right = _ends(tile[0], shows)
    top, bottom = _ends(tile[1].T, shows.T)
    return left, top, right, bottom


def _ends(colours: NDArray[np.floating], shows: NDArray[np.bool_]) -> tuple[float, float]:
    """The places of the first and the last edge of the columns [height, width], as shares of the image."""
    columns = np.flatnonzero(shows.any(axis=0))
    if not len(columns):
        return 0.0, 1.0
    count = shows.sum(axis=0)[columns]
    places = ((colours * shows).sum(axis=0)[columns] / count + 255) / 510
    # The outermost pixels of an image that was made larger have the colours of its edges, not their own.
    inner = (places > places.min()) & (places < places.max())
    if inner.sum() > 1:
        columns, places = columns[inner], places[inner]
    slope, start = np.polyfit(columns + 0.5, places, 1) if len(columns) > 1 else (1 / len(colours[0]), 0.0)
    first, last = (float(start + slope * column) for column in (0, colours.shape[1]))
    return _at_the_edge(first), _at_the_edge(last)


def _at_the_edge(place: float) -> float:
    return float(round(place)) if abs(place - round(place)) < _AT_THE_EDGE else place


def text_grids(tiles: Tiles, positions: NDArray[np.integer]) -> tuple[ImageGrid, ...]:
    """The grids of the tokens that stand for the image in a text. positions: of these tokens, in their order"""
    if tiles.merged is not None:
        return _grids(tiles, positions, tiles.merged[:2])
    return _grids(tiles, positions, _shape(len(positions) // len(tiles.areas), tiles.size))


def vision_grids(tiles: Tiles, tokens: int, config: Any) -> tuple[ImageGrid, ...]:
    """The grids of the tokens that the vision tower reads, `tokens` in all. config: of the vision tower"""
    if tiles.merged is not None:
        order = _merged_order(tiles.merged, config)
        return (ImageGrid(tiles.areas[0], order),) if order.size == tokens else ()
    side = np.broadcast_to(config.patch_size, 2).tolist()
    rows, columns = (length // patch for length, patch in zip(tiles.size, side, strict=True))
    each = tokens // len(tiles.areas)
    before = each - rows * columns  # [CLS]
    if before < 0 or each * len(tiles.areas) != tokens:
        return ()
    positions = np.arange(tokens).reshape(len(tiles.areas), each)[:, before:]
    return _grids(tiles, positions.ravel(), (rows, columns))


def _merged_order(merged: tuple[int, int, int], config: Any) -> NDArray[np.integer]:
    """The positions of the patches of a tower that reads those of a block one after another: [rows, columns].

    Qwen2.5-VL moreover reads the blocks window by window.
    """
    rows, columns, merge = merged
    order = torch.arange(rows * columns)
    if hasattr(config, "window_size"):
        grid = torch.tensor([[1, rows * merge, columns * merge]])
        order, _ = get_vision_window_index(grid, merge, config.window_size, config.patch_size)
    positions = np.empty((rows * columns, merge, merge), dtype=int)
    positions[order.numpy()] = np.arange(rows * columns * merge**2).reshape(-1, merge, merge)
    return positions.reshape(rows, columns, merge, merge).swapaxes(1, 2).reshape(rows * merge, columns * merge)


def _grids(tiles: Tiles, positions: NDArray[np.integer], shape: tuple[int, int]) -> tuple[ImageGrid, ...]:
    """Tiles of one size that lie side by side become one grid."""
    each = positions.reshape(len(tiles.areas), *shape)
    grids: list[ImageGrid] = []
    left = list(range(len(tiles.areas)))
    while left:
        width, height = _size(tiles.areas[left[0]])
        same = [number for number in left if np.allclose(_size(tiles.areas[number]), (width, height), atol=_SAME_SIZE)]
        edges = np.array([tiles.areas[number] for number in same])
        first = edges.min(axis=0)
        cells = np.rint((edges[:, 1::-1] - first[1::-1]) / (height, width)).astype(int)
        rows, columns = cells.max(axis=0) + 1
        if len(same) != rows * columns or len(np.unique(cells, axis=0)) != len(same):
            same, rows, columns, cells, edges = same[:1], 1, 1, cells[:1] * 0, edges[:1]
        tokens = np.empty((rows, columns, *shape), dtype=int)
        tokens[cells[:, 0], cells[:, 1]] = each[same]
        area = (*edges.min(axis=0)[:2].tolist(), *edges.max(axis=0)[2:].tolist())
        grids.append(ImageGrid(area, tokens.swapaxes(1, 2).reshape(rows * shape[0], columns * shape[1])))
        left = [number for number in left if number not in same]
    return tuple(grids)


def _size(area: Area) -> tuple[float, float]:
    return area[2] - area[0], area[3] - area[1]


def _shape(tokens: int, size: Sequence[int]) -> tuple[int, int]:
    """(rows, columns) of so many tokens on a tile of this height and width: those whose cells are nearest to squares."""
    rows = [row for row in range(1, tokens + 1) if tokens % row == 0]
    best = min(rows, key=lambda row: abs(log(row / (tokens / row)) - log(size[0] / size[1])))
    return best, tokens // best
