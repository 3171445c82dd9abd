"""Where on an image the tokens lie that a model makes of it: measured, not told from its settings.

The keys of a first attention depend on the pixels that their tokens were made of: torch's backward pass says on which. For
the tokens of a text the vision tower is emptied before: its attention gives nothing, and layers after the first hand on what
they read. So no family needs code of its own, wherever it has [CLS] and registers, however it merges patches, and in whatever
order it reads tiles; and the pixels that no token reads are known.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from ..errors import InputError
from ..models.calls import Call, heard_by, wide
from ..models.images import ImageGrid, Tiles, as_tiles, joined
from ..models.inputs import image_token, run
from ..models.model import Model
from ..models.modules import Kind, lists_of_layers
from .continuing import stream_in, with_layers, with_stream

Grids = Mapping[Kind, tuple[ImageGrid, ...]]

KEPT = 8  # measurements of a network
BASE = 16  # of the digits in which the numbers of tokens are read off
NOTHING, SEVERAL = -1, -2  # in the place of the token that reads a pixel

_KNOWN: WeakKeyDictionary[PreTrainedModel, dict[Any, Grids]] = WeakKeyDictionary()


def grids_on_image(model: Model, inputs: Mapping[str, Tensor], tiles: Tiles | None) -> Grids:
    """By kind of attention the grids that its keys form on the image, the one of most tokens first; a kind is missing where no
    token lies there, where they overlap, and where a model draws anew in every pass which patches it reads (ViTMAE).

    inputs  that the model read, with `pixel_values`
    tiles   of an image with a text; None: it was read alone
    """
    known = _KNOWN.setdefault(model.network, {})
    key = tiles and tiles.areas, *(_what_counts(model, name, part) for name, part in sorted(inputs.items()))
    if (grids := known.get(key)) is None:
        drawn, tiles = _drawn(model), tiles or Tiles(((0.0, 0.0, 1.0, 1.0),))
        grids = _measured(model, inputs, tiles) if tiles.areas else {}
        if not torch.equal(drawn, _drawn(model)):
            return {}
        while len(known) >= KEPT:
            known.pop(next(iter(known)), None)
        known[key] = grids
    return grids


def _what_counts(model: Model, name: str, part: Tensor) -> object:
    """What of an input the places of tokens depend on: of a text, where it has those of the image."""
    if name == "input_ids":
        return np.flatnonzero(part[0].numpy(force=True) == image_token(model)).tobytes()
    of_image = name.startswith("image") and not part.is_floating_point()
    return name, tuple(part.shape) if "pixel" in name else part.numpy(force=True).tobytes() if of_image else None


class _OverError(InputError):
    """Ends a pass of which no more is needed."""


def _drawn(model: Model) -> Tensor:
    """What changes when the network draws random numbers."""
    on_gpu = model.network.device.type == "cuda"
    return torch.cuda.get_rng_state(model.network.device) if on_gpu else torch.get_rng_state()


def _measured(model: Model, inputs: Mapping[str, Tensor], tiles: Tiles) -> Grids:
    pixels = inputs["pixel_values"].detach().clone().requires_grad_()
    found: dict[Kind, tuple[ImageGrid, ...]] = {}

    def tiled(numbers: Tensor) -> Tensor:
        return as_tiles(numbers, inputs, tiles.merge)

    def hear(call: Call) -> Call:
        kind, key = model.kind_of(call.module), call.key.transpose(0, 1).flatten(1, 2)
        if kind not in found:
            found[kind] = _grids(_readers(wide(key), pixels, tiled), tiles)
        if kind != "vision":
            raise _OverError("The grids are known.", field="image")
        return replace(call, output=torch.zeros_like(call.output))

    gave: list[Any] = []

    def visit(layer: Callable, *given: Any, **options: Any) -> Any:
        if not gave:
            gave.append(layer(*given, **options))
            return gave[0]
        return with_stream(gave[0], stream_in((given, options)))

    towers = lists_of_layers(model.network, [name for name, kind in model.kinds.items() if kind == "vision"])
    emptied = replace(model, network=with_layers(model.network, towers, visit))
    with suppress(_OverError, RuntimeError), heard_by(hear):  # torch may not be able to follow a network backwards
        run(emptied, {**inputs, "pixel_values": pixels}, gradients=True)
    return {kind: grids for kind, grids in found.items() if grids}


def _readers(key: Tensor, pixels: Tensor, tiled: Callable[[Tensor], Tensor]) -> NDArray[np.integer]:
    """The token that reads each pixel, [tiles, height, width], or `NOTHING`, or `SEVERAL`.

    key    [heads, tokens, d]
    tiled  makes tiles [tiles, 3, height, width] of numbers in the shape of `pixels`
    """
    weights = torch.randn(key.shape[0], 1, key.shape[2], generator=torch.Generator().manual_seed(0)).to(key)
    numbers = (key * weights).sum(dim=(0, 2))  # [tokens]
    places = torch.arange(len(numbers), device=key.device)

    def gradient(factors: Tensor) -> Tensor:
        return tiled(wide(torch.autograd.grad((numbers * factors).sum(), pixels, retain_graph=True)[0]))

    plain = gradient(torch.ones_like(numbers))
    channel = plain.abs().argmax(dim=1, keepdim=True)
    divisor = plain.gather(1, channel)[:, 0]
    readers, is_one, place = torch.zeros_like(divisor, dtype=torch.int64), torch.ones_like(divisor, dtype=torch.bool), 1
    while place < len(numbers):
        # Each digit of a token's number is a factor of its own: ±1, ±2, ±4 ... ±128, by which nothing is rounded.
        digits = places // place % BASE
        factors = torch.exp2(digits % (BASE // 2)) * torch.where(digits < BASE // 2, 1, -1)
        ratio = gradient(factors).gather(1, channel)[:, 0] / divisor
        power = ratio.abs().log2().round().nan_to_num(0, 0, 0).clamp(0, BASE // 2 - 1)
        is_one &= (ratio.abs() / torch.exp2(power) - 1).abs() < 0.01
        readers += place * (power.long() + BASE // 2 * (ratio < 0))
        place *= BASE
    return readers.where(is_one, SEVERAL).where(divisor != 0, NOTHING).numpy(force=True)


def _grids(readers: NDArray[np.integer], tiles: Tiles) -> tuple[ImageGrid, ...]:
    """The grids that tokens form, of tiles that lie side by side as one; () if they form none."""
    read = [number for number, tile in enumerate(readers) if (tile != NOTHING).any()]
    grids = [grid for number in read if (grid := _grid(readers[number])) is not None]
    if len(grids) < len(read):
        return ()
    return tuple(sorted(joined([tiles.areas[number] for number in read], grids), key=lambda grid: -grid.tokens.size))


def _grid(readers: NDArray[np.integer]) -> ImageGrid | None:
    """The grid of the tokens of one tile [height, width], in shares of it; None if they are not of one size, side by side."""
    places = [np.flatnonzero((readers != NOTHING).any(axis=axis)) for axis in (1, 0)]
    (top, bottom), (left, right) = ((int(of[0]), int(of[-1]) + 1) for of in places)
    part = readers[top:bottom, left:right]
    rows, columns = (1 + int(np.count_nonzero(np.diff(line))) for line in (part[:, 0], part[0]))
    height, width = part.shape[0] // rows, part.shape[1] // columns
    tokens = part[::height, ::width]
    is_grid = tokens.min() >= 0 and len(np.unique(tokens)) == tokens.size
    if not is_grid or not np.array_equal(part, np.kron(tokens, np.ones((height, width), dtype=tokens.dtype))):
        return None
    across, down = left + width * np.arange(columns + 1), top + height * np.arange(rows + 1)
    across, down = (np.stack([of[:-1], of[1:]], axis=1) for of in (across / readers.shape[1], down / readers.shape[0]))
    return ImageGrid(across, down, tokens)
