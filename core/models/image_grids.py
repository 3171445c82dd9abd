"""Grids of tokens on an image, and what an image processor makes of it before a network reads it.

A processor may scale an image, cut its edges off or pad them, cut it into tiles and add the whole image, small, as one more.
What it does is measured and not told from its settings: it is given an image whose colours say where each pixel lies. Lines
fitted to the colours of a tile give the area that it shows. What the network makes of a tile is measured too, in
`core.capturing.on_image`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Area = tuple[float, float, float, float]

_SAME_SIZE = 0.02  # of the image: tiles that differ by less are of one size
_AT_THE_EDGE = 0.002  # edges nearer to the image's are these


@dataclass(frozen=True, eq=False)
class ImageGrid:
    """Tokens that lie side by side on the image.

    across  [columns, 2] left and right of each column as shares of the image's width, from its left edge
    down    [rows, 2] top and bottom of each row as shares of its height, from its upper edge
    tokens  [rows, columns] their positions

    Shares are below 0 and above 1 where the model reads padding. No token may read the pixels between two columns or rows.
    """

    across: NDArray[np.floating]
    down: NDArray[np.floating]
    tokens: NDArray[np.integer]

    @property
    def area(self) -> Area:
        """(left, top, right, bottom) of all of them."""
        left, top, right, bottom = self.across[0, 0], self.down[0, 0], self.across[-1, 1], self.down[-1, 1]
        return float(left), float(top), float(right), float(bottom)

    def boxes(self) -> NDArray[np.floating]:
        """The area of each token, without padding: [rows, columns, 4], NaN for a token that is padding only."""
        lines = (self.across[None, :, 0], self.down[:, None, 0], self.across[None, :, 1], self.down[:, None, 1])
        boxes = np.stack(np.broadcast_arrays(*lines), axis=-1).clip(0, 1)
        is_empty = (boxes[..., 0] >= boxes[..., 2]) | (boxes[..., 1] >= boxes[..., 3])
        return np.where(is_empty[..., None], np.nan, boxes)


@dataclass(frozen=True, eq=False)
class Tiles:
    """What a network reads of one image.

    areas  of the tiles, in the order in which they are read; one where the image is not cut
    merge  how many patches in each direction become one token, of a processor that cuts the image into patches itself
    image  [height, width, 3] uint8, the whole of it, small
    """

    areas: tuple[Area, ...]
    merge: int = 1
    image: NDArray[np.uint8] | None = None


def ramps(height: int, width: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Two images of this size. In the first red grows from left to right, green from top to bottom, and blue is full; the
    second is its negative. What is the same in what a processor makes of both is padding."""
    across = np.broadcast_to((np.arange(width) + 0.5) / width, (height, width))
    down = np.broadcast_to(((np.arange(height) + 0.5) / height)[:, None], (height, width))
    image = np.rint(255 * np.stack([across, down, np.ones_like(across)], axis=-1)).astype(np.uint8)
    return image, 255 - image


def tiles_of(positive: Mapping[str, torch.Tensor], negative: Mapping[str, torch.Tensor], merge: int) -> Tiles:
    """What is read of an image, from what a processor made of `ramps` without changing the colours. merge: as in `Tiles`"""
    pixels = positive["pixel_values"].double() - negative["pixel_values"].double()
    return Tiles(tuple(map(_area, as_tiles(pixels, positive, merge).numpy())), merge)


def as_tiles(pixels: torch.Tensor, inputs: Mapping[str, torch.Tensor], merge: int) -> torch.Tensor:
    """Numbers of the shape of `pixel_values` as tiles: [tiles, 3, height, width]."""
    if "image_grid_thw" in inputs and pixels.ndim == 2:
        _, rows, columns = inputs["image_grid_thw"][0].tolist()
        pixels = _unpatched(pixels, rows, columns, merge)
    return pixels.reshape(-1, *pixels.shape[-3:])


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


def joined(areas: Sequence[Area], grids: Sequence[ImageGrid]) -> Iterator[ImageGrid]:
    """The grids of tiles on the image, those of one size that lie side by side as one.

    areas  of the tiles
    grids  of each tile, in shares of the tile
    """
    left = list(range(len(areas)))
    while left:
        width, height = _size(areas[left[0]])
        same = [number for number in left if np.allclose(_size(areas[number]), (width, height), atol=_SAME_SIZE)]
        edges = np.array([areas[number] for number in same])
        cells = np.rint((edges[:, 1::-1] - edges.min(axis=0)[1::-1]) / (height, width)).astype(int)
        rows, columns = cells.max(axis=0) + 1
        at = {tuple(cell): grids[number] for cell, number in zip(cells.tolist(), same, strict=True)}
        lines = [[at.get((row, column)) for column in range(columns)] for row in range(rows)]
        whole = _in_one(lines, edges) if len(at) == len(same) == rows * columns else None
        same = same if whole else left[:1]
        yield whole or _in_one([[grids[left[0]]]], edges[:1])
        left = [number for number in left if number not in same]


def _in_one(tiles: Sequence[Sequence[Any]], edges: NDArray[np.floating]) -> Any:
    """Rows of tiles as one grid; None where the grids of neighbours do not fit each other. edges: [tiles, 4], their areas"""
    across, down = [tile.across for tile in tiles[0]], [row[0].down for row in tiles]
    fits = all(
        tile.tokens.shape == (len(of_row), len(of_column))
        and np.array_equal(tile.across, of_column)
        and np.array_equal(tile.down, of_row)
        for row, of_row in zip(tiles, down, strict=True)
        for tile, of_column in zip(row, across, strict=True)
    )
    if not fits:
        return None
    (left, top), (right, bottom) = edges.min(axis=0)[:2], edges.max(axis=0)[2:]
    across_all, down_all = (
        # The areas of tiles are measured, and tiles lie side by side.
        low + (high - low) * np.concatenate([number + shares for number, shares in enumerate(of)]) / len(of)
        for of, low, high in ((across, left, right), (down, top, bottom))
    )
    return ImageGrid(across_all, down_all, np.block([[tile.tokens for tile in row] for row in tiles]))


def _size(area: Area) -> tuple[float, float]:
    return area[2] - area[0], area[3] - area[1]
