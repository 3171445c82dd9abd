"""A picture with a text for a small network: the tensors that its class reads, found by rules."""

import inspect
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from bench.small_networks import SIDE, SPECIAL

# What a class asks for that reads patches of pictures of any size.
WHERE = {"image_grid_thw", "image_grid_hw", "spatial_shapes", "target_sizes", "image_position_ids"}
KINDS = ("token_type_ids", "mm_token_type_ids", "moe_mm_token_type_ids")  # of tokens: 1 for those of the picture
BEFORE, AFTER = np.random.default_rng(4).integers(3, SPECIAL, (2, 8)).tolist()  # tokens around the picture


def picture_and_text(network: PreTrainedModel) -> dict[str, Tensor]:
    """The inputs of a text with one picture in it, in the first form of a picture that the network reads.

    Raises LookupError if it reads none of them.
    """
    if (token := getattr(network.config, "image_token_id", None)) is None:
        raise LookupError("its configuration names no token for an image")
    accepted = inspect.signature(network.forward).parameters
    for form in _forms(network.config, accepted):
        try:
            inputs = _in_a_text(form, token, _tokens(network, form))
            inputs = {name: part for name, part in inputs.items() if name in accepted}
            with torch.inference_mode():
                network(**inputs)
        except Exception:  # each class has its own
            continue
        return inputs
    raise LookupError("it reads no form of a picture that is tried here")


def _forms(config: PreTrainedConfig, accepted: Collection[str]) -> Iterator[dict[str, Tensor]]:
    """A picture as processors make it: patches, for a class that asks where they lie; whole; as tiles; patches alone."""
    vision = next(filter(None, (getattr(config, name, None) for name in ("vision_config", "vq_config"))), config)
    patch = _of(vision, "model_patch_size", "patch_size", default=16)
    frames = _of(vision, "temporal_patch_size", "patch_temporal", default=1)
    if not WHERE.isdisjoint(accepted):
        yield from _placed_patches(patch, frames, _of(vision, "spatial_merge_size", "merge_size", default=1))
    side = _of(vision, "image_size", default=SIDE)
    beside = {"aspect_ratio_ids": torch.tensor([[1]]), "aspect_ratio_mask": torch.ones(1, 1, 4)}
    if (other := getattr(config, "high_res_vision_config", None)) is not None:
        beside["high_res_pixel_values"] = _pixels(1, 3, *[_of(other, "image_size", default=SIDE)] * 2)
    for tiles in ((1,), (1, 1), (1, 3), (1, 1, 4)):  # 3: the whole, and two halves of twice the size
        pixels = beside | {"pixel_values": _pixels(*tiles, 3, side, side)}
        yield pixels
        yield pixels | {"image_sizes": torch.tensor([[side, 2 * side if 3 in tiles else side]])}
        yield pixels | {"pixel_attention_mask": torch.ones(tiles, dtype=torch.bool)}
    pooled = {"image_token_pooling": torch.arange(16).view(4, 4), "image_grids": torch.tensor([[2, 2, 0, 0]])}
    yield pooled | {"pixel_values": _pixels(1, 16, 3 * patch**2), "image_num_crops": torch.tensor([1])}
    yield {"pixel_values": _pixels(16, frames, patch, patch, 3)}


def _placed_patches(patch: int, frames: int, merge: int) -> Iterator[dict[str, Tensor]]:
    for rows, columns in ((4, 6), (4, 4)):  # some positions are made for squares
        size = torch.tensor([[rows, columns]])
        beside = dict.fromkeys(WHERE, size) | {"image_grid_thw": torch.tensor([[1, rows, columns]])}
        beside["image_position_ids"] = torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).flip(1)[None]
        beside["image_merge_sizes"] = torch.tensor([merge])
        for shape in ((3 * frames * patch**2,), (3, patch, patch)):
            patches = _pixels(rows * columns, *shape)
            yield beside | {"pixel_values": patches}
            mask = torch.ones(1, len(patches), dtype=torch.bool)
            yield beside | {"pixel_values": patches[None], "pixel_attention_mask": mask}


def _tokens(network: Any, form: dict[str, Tensor]) -> int:
    """How many tokens the network makes of a picture; 1 if it has no method for it."""
    parts = [part for part in network.modules() if hasattr(part, "get_image_features")]
    if not parts:
        return 1
    features = parts[-1].get_image_features
    accepted = inspect.signature(features).parameters
    with torch.inference_mode():
        made = features(**{name: part for name, part in form.items() if name in accepted})
    vectors = next(filter(lambda part: part is not None, (getattr(made, "pooler_output", made), made[0])))
    return sum(part.shape[:-1].numel() for part in (vectors if isinstance(vectors, list | tuple) else [vectors]))


def _in_a_text(form: dict[str, Tensor], token: int, count: int) -> dict[str, Tensor]:
    ids = torch.tensor([[*BEFORE, *[token] * count, *AFTER]])
    of_image = dict.fromkeys(KINDS, (ids == token).long())
    return {"input_ids": ids, **of_image, "cross_attention_mask": torch.ones(1, ids.shape[1], 1, 4), **form}


def _of(config: PreTrainedConfig, *names: str, default: int) -> int:
    """The first of these fields that the configuration has; of two sizes the first."""
    values = [value for name in names if (value := getattr(config, name, None)) is not None] or [default]
    return values[0][0] if isinstance(values[0], list | tuple) else values[0]


def _pixels(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(3)) * 2 - 1
