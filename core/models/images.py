"""Images for vision models: from a file to an array, and from an array to pixel values.

A vision transformer cuts the image into patches and reads them row by row, as other models read words (Dosovitskiy et
al. 2021, "An Image is Worth 16x16 Words", section 3.1).
"""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from PIL import Image, ImageOps

from ..errors import InputError

_refusal = partial(InputError, field="image")

FORMATS = ("PNG", "JPEG", "WEBP")
MAX_BYTES = 20_000_000
# 48 MB in memory, and 240 MB while a transparent image is read. A file of a few bytes can announce any size.
MAX_PIXELS = 16_000_000
SMALL = 512  # pixels of a side, at most, of the image that a pass keeps to be looked at


@dataclass(frozen=True)
class ImageSettings:
    """Settings of a model's preprocessor_config.json.

    mean, std  of red, green and blue: a model reads (pixel / 255 - mean) / std
    resample   the number of a filter of Pillow: 0 nearest, 1 Lanczos, 2 bilinear, 3 bicubic, 4 box, 5 Hamming
    """

    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)
    resample: int = Image.Resampling.BILINEAR

    def __post_init__(self) -> None:
        if not all(len(part) == 3 and np.isfinite(part).all() for part in (self.mean, self.std)) or min(self.std) <= 0:
            raise ValueError(
                f"image_mean {list(self.mean)} and image_std {list(self.std)} have to be three numbers each"
            )
        Image.Resampling(self.resample)


def image_settings(preprocessor: dict) -> ImageSettings:
    """The settings in the contents of a preprocessor_config.json. Raises ValueError or TypeError for unusable contents."""
    standard = ImageSettings()
    if preprocessor.get("do_normalize") is False:
        mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    else:
        mean = preprocessor.get("image_mean") or standard.mean
        std = preprocessor.get("image_std") or standard.std
    resample = preprocessor.get("resample")
    return ImageSettings(tuple(mean), tuple(std), standard.resample if resample is None else resample)


def read_image(data: bytes) -> NDArray[np.uint8]:
    """Read the image in a PNG, JPEG or WebP file: [height, width, 3], red, green and blue from 0 to 255.

    The image is turned upright by its EXIF orientation, transparent pixels become white, and of an animation the first image
    is read. Raises InputError (field "image") for any other file, and above MAX_BYTES or MAX_PIXELS.
    """
    if len(data) > MAX_BYTES:
        raise _refusal(
            f"The file has {len(data) / 1e6:.0f} MB; at most {MAX_BYTES // 1_000_000} MB are read. Make it smaller."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the limit below is lower
            opened = Image.open(io.BytesIO(data), formats=FORMATS)
        width, height = opened.size
        if width * height <= MAX_PIXELS:
            return np.asarray(_on_white(ImageOps.exif_transpose(opened)))
    except Image.DecompressionBombError as error:  # Pillow's own limit, which is higher
        raise _refusal(
            f"The image has far too many pixels; at most {MAX_PIXELS // 1_000_000} million are read. Make it smaller."
        ) from error
    except Exception as error:  # damaged files fail in many ways, and Pillow's own errors share no parent
        raise _refusal(
            "This file cannot be read as an image: it is damaged, or not PNG, JPEG or WebP. Choose another one."
        ) from error
    raise _refusal(
        f"The image has {width:,} × {height:,} pixels; at most {MAX_PIXELS // 1_000_000} million are read. "
        f"Make it smaller."
    )


def _on_white(opened: Image.Image) -> Image.Image:
    if opened.mode.startswith("I"):  # 16 bits of grey, which Pillow would clip instead of scaling
        opened = Image.fromarray((np.asarray(opened) >> 8).astype(np.uint8))
    if not opened.has_transparency_data:
        return opened.convert("RGB")
    opened = opened.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", opened.size, "white"), opened).convert("RGB")


def pixel_values(image: ArrayLike, size: tuple[int, int], settings: ImageSettings) -> torch.Tensor:
    """The input of a vision model: [1, 3, height, width], normalised.

    image   [height, width, 3], uint8 from 0 to 255, or real numbers from 0 to 1 (rounded to 1/255)
    size    (height, width) of the model's input

    The whole image is squeezed or stretched to this size, nothing is cut off: every patch is a part of the image.
    """
    height, width = size
    resized = Image.fromarray(eight_bits(image)).resize((width, height), Image.Resampling(settings.resample))
    pixels = torch.from_numpy(np.array(resized)).permute(2, 0, 1)[None] / 255
    mean, std = (torch.tensor(part).view(1, 3, 1, 1) for part in (settings.mean, settings.std))
    return (pixels - mean) / std


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
        raise _refusal(f"The image has the shape {array.shape}; [height, width, 3] is needed: red, green and blue.")
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    # A NaN fails every comparison.
    if array.dtype.kind != "f" or not bool((array >= 0).all() and (array <= 1).all()):
        raise _refusal(f"The image holds {array.dtype} numbers. Give uint8 from 0 to 255, or real numbers from 0 to 1.")
    return np.rint(array * 255).astype(np.uint8)
