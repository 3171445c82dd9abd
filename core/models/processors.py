"""Processors of models that read an image with a text: from a folder, and from an image and a text to what the network reads.

A processor is transformers' own: it cuts the image into patches or tiles, and puts as many tokens into the text as the network
makes of the image.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from PIL import Image
from transformers import PreTrainedConfig, PreTrainedTokenizerBase, ProcessorMixin

from ..errors import InputError, first_line, shortened
from .chat_templates import filled_in
from .image_grids import Tiles, ramps, tiles_of
from .images import small_image
from .texts import tokenizing

# Of what a processor returns: the first are all ones for a single text, the second are for training.
_NOT_READ = ("attention_mask", "labels")


@cache
def without_videos(kind: type[ProcessorMixin]) -> type[ProcessorMixin]:
    """The class of a processor that needs no processor for videos, which would need torchvision."""
    if "video_processor" not in kind.get_attributes():
        return kind

    def check(self: ProcessorMixin, name: str, part: object) -> object:
        return (
            None
            if name == "video_processor" and part is None
            else kind.check_argument_for_proper_class(self, name, part)
        )

    return type(kind.__name__, (kind,), {"check_argument_for_proper_class": check})


def processor_in(folder: Path, config: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase) -> ProcessorMixin | None:
    """The processor of a model in a folder; None if transformers has none for it that reads images."""
    kind: Any = transformers.PROCESSOR_MAPPING.get(type(config), None)
    if kind is None or "image_processor" not in kind.get_attributes():
        return None
    local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    parts = {
        "image_processor": transformers.AutoImageProcessor.from_pretrained(folder, **local),
        "tokenizer": tokenizer,
    }
    settings, _ = kind.get_processor_dict(folder, **local)
    arguments = [parts.get(name) for name in kind.get_attributes()]
    made: Any = without_videos(kind).from_args_and_dict(arguments, settings)
    return made


def processed(name: str, processor: Any, image: NDArray[np.uint8], text: str) -> tuple[dict[str, torch.Tensor], Tiles]:
    """What the network reads of an image [height, width, 3] and a text: the tensors by name, and the areas of the image.

    name  the model's, for error messages
    text  a message for the model, or a text with the processor's own place for the image; then it is read as it is

    Raises InputError: field "text" for a text that leaves no place for the image, or has places for several; "chat" as
    `written_message` does; "image" for an image that the processor refuses.
    """
    if not text.strip():
        raise InputError("The text is blank. Type at least one word.", field="text")
    with tokenizing(name, text=text):
        written = _prompt(name, processor, text)
        begin = processor.tokenizer.bos_token
        # A chat template may write the beginning of the text itself, as in transformers' own apply_chat_template.
        once = {"add_special_tokens": False} if begin and written != text and written.startswith(begin) else {}
        read = _read(name, processor, image, written, **once)
        unchanged = {"do_normalize": False, "do_rescale": False, **once}
        positive, negative = (_read(name, processor, ramp, written, **unchanged) for ramp in ramps(*image.shape[:2]))
    tiles = tiles_of(positive, negative, getattr(processor.image_processor, "merge_size", 1))
    return read, replace(tiles, image=small_image(image))


def _prompt(name: str, processor: Any, text: str) -> str:
    """The text with one place for the image: as it is if it has one, else in the chat template, else after the image."""
    place = processor.image_token
    # In Gemma 3 the place is the token before the image, and the tokenizer knows the one that stands for a part of it.
    others: list[Any] = [getattr(processor.tokenizer, "image_token", None), getattr(processor, "video_token", None)]
    for token in others:
        if token not in (place, None) and token in text:
            raise InputError(
                f"In a text beside an image, {shortened(token)} stands for a part of an image or a video. Take it out; write "
                f"{place} where the image belongs.",
                field="text",
            )
    if place in text:
        written = text
    elif (template := processor.chat_template or getattr(processor.tokenizer, "chat_template", None)) is not None:
        written = filled_in(name, processor.tokenizer, template, [{"type": "image"}, {"type": "text", "text": text}])
    else:
        written = place + text
    count = written.count(place)
    if count == 0:
        raise InputError(
            f"The chat template of {name} leaves no place for the image. Write {place} where the image belongs.",
            field="text",
        )
    if count > 1:
        raise InputError(
            f"The text has places ({shortened(place)}) for {count:,} images, and one image is read. Leave one.",
            field="text",
        )
    return written


def _read(name: str, processor: Any, image: NDArray[np.uint8], written: str, **options: Any) -> dict[str, torch.Tensor]:
    try:
        read = processor(images=[Image.fromarray(image)], text=[written], return_tensors="pt", **options)
    except InputError:
        raise
    except Exception as error:  # each processor has its own
        raise InputError(
            f"The image processor of {name} refuses this image of {image.shape[1]:,} × {image.shape[0]:,} pixels: "
            f"{first_line(error)}. Choose another one.",
            field="image",
        ) from error
    return {part: tensor for part, tensor in read.items() if part not in _NOT_READ and isinstance(tensor, torch.Tensor)}
