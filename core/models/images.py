"""Images for vision models: from a file to an array, to pixel values, and to what is read of an image with a text.

A vision transformer cuts the image into patches and reads them row by row, as other models read words (Dosovitskiy et
al. 2021, "An Image is Worth 16x16 Words", section 3.1).

A processor is transformers' own: it cuts the image into patches or tiles, and puts as many tokens into the text as the network
makes of the image. It may scale an image, cut its edges off or pad them, and add the whole image, small, as one more tile. What
it does is measured and not told from its settings: it is given an image whose colours say where each pixel lies. Lines fitted
to the colours of a tile give the area that it shows. What the network makes of a tile is measured too, in
`core.capturing.on_image`.
"""

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import isqrt
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
import transformers
from numpy.typing import ArrayLike, NDArray
from PIL import Image, ImageOps
from transformers import PreTrainedConfig, PreTrainedTokenizerBase, ProcessorMixin

from ..errors import first_line, image_error, shortened, text_error
from .chat_templates import filled_in
from .fields import tokenizing

FORMATS = ("PNG", "JPEG", "WEBP")
MAX_BYTES = 20_000_000
# 48 MB in memory, and 240 MB while a transparent image is read. A file of a few bytes can announce any size.
MAX_PIXELS = 16_000_000
PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json")
SMALL = 512  # pixels of a side, at most, of the image that a pass keeps to be looked at


def read_image(data: bytes) -> NDArray[np.uint8]:
    """Read the image in a PNG, JPEG or WebP file: [height, width, 3], red, green and blue from 0 to 255.

    The image is turned upright by its EXIF orientation, transparent pixels become white, and of an animation the first image
    is read. Raises InputError (field "image") for any other file, and above MAX_BYTES or MAX_PIXELS.
    """
    if len(data) > MAX_BYTES:
        why = f"The file has {len(data) / 1e6:.0f} MB; at most {MAX_BYTES // 1_000_000} MB are read. Make it smaller."
        raise image_error(why)
    most = f"at most {MAX_PIXELS // 1_000_000} million are read. Make it smaller."
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the limit below is lower
            opened = Image.open(io.BytesIO(data), formats=FORMATS)
        width, height = opened.size
        if width * height <= MAX_PIXELS:
            return np.asarray(_on_white(ImageOps.exif_transpose(opened)))
    except Image.DecompressionBombError as error:  # Pillow's own limit, which is higher
        raise image_error(f"The image has far too many pixels; {most}") from error
    except Exception as error:  # damaged files fail in many ways, and Pillow's own errors share no parent
        why = "This file cannot be read as an image: it is damaged, or not PNG, JPEG or WebP. Choose another one."
        raise image_error(why) from error
    raise image_error(f"The image has {width:,} × {height:,} pixels; {most}")


def _on_white(opened: Image.Image) -> Image.Image:
    if opened.mode.startswith("I"):  # 16 bits of grey, which Pillow would clip instead of scaling
        opened = Image.fromarray((np.asarray(opened) >> 8).astype(np.uint8))
    if not opened.has_transparency_data:
        return opened.convert("RGB")
    opened = opened.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", opened.size, "white"), opened).convert("RGB")


def small_image(image: ArrayLike) -> NDArray[np.uint8]:
    """The image as it is shown: every second, third ... pixel of one that is too large. Read-only."""
    array = eight_bits(image)
    step = max(1, -(-max(array.shape[:2]) // SMALL))
    small = array[::step, ::step].copy()
    small.setflags(write=False)
    return small


def eight_bits(image: ArrayLike) -> NDArray[np.uint8]:
    """The image as uint8, [height, width, 3]. Raises InputError (field "image") for anything else."""
    array = np.asarray(image)
    if array.ndim != 3 or array.shape[2] != 3 or 0 in array.shape:
        raise image_error(f"The image has the shape {array.shape}; [height, width, 3] is needed: red, green and blue.")
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    # A NaN fails every comparison.
    if array.dtype.kind != "f" or not bool((array >= 0).all() and (array <= 1).all()):
        why = f"The image holds {array.dtype} numbers. Give uint8 from 0 to 255, or real numbers from 0 to 1."
        raise image_error(why)
    return np.rint(array * 255).astype(np.uint8)


# --- grids of tokens on an image, and the tiles that a processor makes of it

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
    image = np.full((height, width, 3), 255, np.uint8)
    image[..., 0] = np.rint(255 * (np.arange(width) + 0.5) / width)
    image[..., 1] = np.rint(255 * (np.arange(height) + 0.5) / height)[:, None]
    return image, 255 - image


def as_tiles(pixels: torch.Tensor, inputs: Mapping[str, torch.Tensor], merge: int) -> torch.Tensor:
    """Numbers of the shape of `pixel_values` as tiles: [tiles, 3, height, width]; no tile for patches of another layout."""
    if "image_grid_thw" in inputs:
        _, rows, columns = inputs["image_grid_thw"][0].tolist()
        pixels = _unpatched(pixels.flatten(1), rows, columns, merge)
    if "image_position_ids" in inputs and pixels.ndim == 3:
        pixels = _put_in_place(pixels[0], inputs["image_position_ids"][0])
    if pixels.ndim < 3 or pixels.shape[-3] != 3:
        return pixels.new_empty(0, 3, 1, 1)
    return pixels.reshape(-1, *pixels.shape[-3:])


def _unpatched(patches: torch.Tensor, rows: int, columns: int, merge: int) -> torch.Tensor:
    """The image [3, height, width] of the patches [patches, 3 × frames × side × side], which come in blocks that are merged."""
    frames_and_side = patches.shape[1] // 3
    side = next(side for side in range(isqrt(frames_and_side), 0, -1) if frames_and_side % side**2 == 0)
    blocks = patches.view(rows // merge, columns // merge, merge, merge, 3, -1, side, side)[:, :, :, :, :, 0]
    return blocks.permute(4, 0, 2, 5, 1, 3, 6).reshape(3, rows * side, columns * side)


def _put_in_place(patches: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """The image [3, height, width] of the patches [patches, side × side × 3] at these (column, row); of padding they are -1."""
    is_read, side = (places >= 0).all(dim=1), isqrt(patches.shape[1] // 3)
    columns, rows = places[is_read].T
    image = patches.new_zeros(int(rows.max()) + 1, int(columns.max()) + 1, side, side, 3)
    image[rows, columns] = patches[is_read].view(-1, side, side, 3)
    return image.permute(4, 0, 2, 1, 3).reshape(3, image.shape[0] * side, image.shape[1] * side)


def _area(tile: NDArray[np.floating]) -> Area:
    """The area that a tile [3, height, width] shows, from the difference of the two `ramps` in it."""
    shows = tile[2] > 0.9 * tile[2].max()
    left, right = _ends(tile[0], shows)
    top, bottom = _ends(tile[1].T, shows.T)
    return left, top, right, bottom


def _areas(tiles: NDArray[np.floating], shape: tuple[int, int]) -> tuple[Area, ...]:
    """The area of each tile, of an image of (height, width); () unless each shows its area pixel by pixel. That tells whether
    patches were put together rightly."""
    areas = tuple(map(_area, tiles))
    return areas if all(_shows(tile, area, shape) for tile, area in zip(tiles, areas, strict=True)) else ()


def _shows(tile: NDArray[np.floating], area: Area, shape: tuple[int, int]) -> bool:
    _, height, width = tile.shape
    shows = tile[2] > 0.9 * tile[2].max()
    left, top, right, bottom = area
    across = left + (right - left) * (np.arange(width) + 0.5) / width
    down = top + (bottom - top) * (np.arange(height) + 0.5) / height
    of_each = ((tile[0] + 255) / 510 - across, shape[1]), ((tile[1] + 255) / 510 - down[:, None], shape[0])
    return not shows.any() or all(np.median(np.abs(apart[shows])) < 0.005 + 1 / size for apart, size in of_each)


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


# --- processors of models that read an image alone


_KEPT = 64  # areas of images of so many sizes
_AREAS: WeakKeyDictionary[Any, dict[tuple[int, ...], Area]] = WeakKeyDictionary()  # by processor and (height, width)


def image_processor_in(folder: Path) -> Any:
    """transformers' own image processor of a folder, with its sizes, cuts, filter and colours; None without a file for one."""
    if not any((folder / name).is_file() for name in PROCESSOR_FILES):
        return None
    return transformers.AutoImageProcessor.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


@cache
def squeezing(size: tuple[int, int]) -> Any:
    """An image processor that squeezes or stretches the whole image to (height, width), with colours from -1 to 1."""
    return transformers.ViTImageProcessorPil(size={"height": size[0], "width": size[1]})


def pixel_values(name: str, processor: Any, image: NDArray[np.uint8], **options: Any) -> torch.Tensor:
    """The input of a vision model: [1, 3, height, width], as the image processor makes it.

    name  the model's, for error messages

    Raises InputError (field "image") for an image that the processor refuses, and for what is not one image.
    """
    _check_edges(name, processor, image)
    pixels = _read(name, processor, image, **options).get("pixel_values")
    if pixels is None or pixels.ndim != 4 or pixels.shape[:2] != (1, 3) or not pixels.isfinite().all():
        raise image_error(
            f"The image processor of {name} does not make one image of red, green and blue. Choose another model."
        )
    return pixels


def tiles_alone(name: str, processor: Any, image: NDArray[np.uint8]) -> Tiles:
    """The area of an image that a model of images alone reads: a processor may cut its edges off, or pad them."""
    positive, negative = (
        pixel_values(name, processor, ramp, **_UNCHANGED).double() for ramp in ramps(*image.shape[:2])
    )
    return Tiles((_area((positive - negative)[0].numpy()),), image=small_image(image))


def _check_edges(name: str, processor: Any, image: NDArray[np.uint8]) -> None:
    """Refuse an image that would become too large. A long one is scaled until its shorter edge has the size that is set."""
    for kind in ("size", "crop_size", "pad_size"):
        edges = {edge: value for edge, value in dict(getattr(processor, kind, None) or {}).items() if value}
        longer = max(image.shape[:2]) / min(image.shape[:2]) if edges.keys() == {"shortest_edge"} else 1
        if max(edges.values(), default=0) ** 2 * longer > MAX_PIXELS:
            raise image_error(
                f"The image processor of {name} would make more than {MAX_PIXELS // 1_000_000} million pixels of this image of "
                f"{image.shape[1]:,} × {image.shape[0]:,} ({kind}: {shortened(str(edges))}). Choose another one."
            )


# --- processors of models that read an image with a text

# Of what a processor returns: the first are all ones for a single text, the second are for training.
_NOT_READ = ("attention_mask", "labels")
_UNCHANGED = {"do_normalize": False, "do_rescale": False}  # colours as they are


@cache
def of_images_alone(kind: type[ProcessorMixin]) -> type[ProcessorMixin]:
    """The class of a processor that needs none for videos, which would need torchvision, and none for sounds."""
    left_out = {*kind.get_attributes()} - {"image_processor", "tokenizer"}
    if not left_out:
        return kind

    def check(self: ProcessorMixin, name: str, part: object) -> object:
        return None if part is None and name in left_out else kind.check_argument_for_proper_class(self, name, part)

    return type(kind.__name__, (kind,), {"check_argument_for_proper_class": check})


def processor_in(folder: Path, config: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase) -> ProcessorMixin | None:
    """The processor of a model in a folder; None if transformers has none for it that reads images."""
    kind: Any = transformers.PROCESSOR_MAPPING.get(type(config), None)
    if kind is None or "image_processor" not in kind.get_attributes():
        return None
    local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    image_processor = transformers.AutoImageProcessor.from_pretrained(folder, **local)
    parts = {"image_processor": image_processor, "tokenizer": tokenizer}
    settings, _ = kind.get_processor_dict(folder, **local)
    arguments = [parts.get(name) for name in kind.get_attributes()]
    made: Any = of_images_alone(kind).from_args_and_dict(arguments, settings)
    return made


def processed(name: str, processor: Any, image: NDArray[np.uint8], text: str) -> tuple[dict[str, torch.Tensor], Tiles]:
    """What the network reads of an image [height, width, 3] and a text: the tensors by name, and the areas of the image.

    name  the model's, for error messages
    text  a message for the model, or a text with the processor's own place for the image; then it is read as it is

    Raises InputError: field "text" for a text that leaves no place for the image, or has places for several; "chat" as
    `written_message` does; "image" for an image that the processor refuses.
    """
    if not text.strip():
        raise text_error("The text is blank. Type at least one word.")
    with tokenizing(name, text=text):
        written = _prompt(name, processor, text)
        begin = processor.tokenizer.bos_token
        # A chat template may write the beginning of the text itself, as in transformers' own apply_chat_template.
        once: dict[str, Any] = (
            {"add_special_tokens": False} if begin and written != text and written.startswith(begin) else {}
        )
        once["text"] = [written]
        read = _read(name, processor, image, **once)
        positive, negative = (_read(name, processor, ramp, **_UNCHANGED, **once) for ramp in ramps(*image.shape[:2]))
    differences = positive["pixel_values"].double() - negative["pixel_values"].double()
    # Patches that become one token stand together in most networks, and in rows in others (PaddleOCR-VL).
    for merge in (getattr(processor.image_processor, "merge_size", 1), 1):
        if areas := _areas(as_tiles(differences, positive, merge).numpy(), image.shape[:2]):
            break
    return read, Tiles(areas, merge, small_image(image))


def _prompt(name: str, processor: Any, text: str) -> str:
    """The text with one place for the image: as it is if it has one, else in the chat template, else after the image."""
    place = processor.image_token
    # In Gemma 3 the place is the token before the image, and the tokenizer knows the one that stands for a part of it.
    others: list[Any] = [getattr(processor.tokenizer, "image_token", None), getattr(processor, "video_token", None)]
    for token in others:
        if token not in (place, None) and token in text:
            raise text_error(
                f"In a text beside an image, {shortened(token)} stands for a part of an image or a video. Take it out; write "
                f"{place} where the image belongs."
            )
    if place in text:
        written = text
    elif (template := processor.chat_template or getattr(processor.tokenizer, "chat_template", None)) is not None:
        written = filled_in(name, processor.tokenizer, template, [{"type": "image"}, {"type": "text", "text": text}])
    else:
        written = place + text
    count = written.count(place)
    if count == 0:
        why = f"The chat template of {name} leaves no place for the image. Write {place} where the image belongs."
        raise text_error(why)
    if count > 1:
        why = f"The text has places ({shortened(place)}) for {count:,} images, and one image is read. Leave one."
        raise text_error(why)
    return written


def _read(name: str, processor: Any, image: NDArray[np.uint8], **options: Any) -> dict[str, torch.Tensor]:
    try:
        read = processor(images=[Image.fromarray(image)], return_tensors="pt", **options)
    except Exception as error:  # each processor has its own
        raise image_error(
            f"The image processor of {name} refuses this image of {image.shape[1]:,} × {image.shape[0]:,} pixels: "
            f"{first_line(error)}. Choose another one."
        ) from error
    return {part: tensor for part, tensor in read.items() if part not in _NOT_READ and isinstance(tensor, torch.Tensor)}
