"""Quantised folders: by which method, and whether that is undone here.

config.json and the files beside it say so, before memory is taken and before weights are fetched or even looked at. What they
leave open, the headers of the weights say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from transformers import PreTrainedConfig

from ..errors import shown
from .bounds import MAX_CONFIG_BYTES, UnreadableError, checked_object
from .fields import are_whole
from .weight_files import Stored

# Settings of a quantisation within config.json, whatever they are part of, such as the settings of the texts, and files beside
# it in which other programs keep theirs; with the method of those that do not name it.
_SETTINGS = {"quantization_config": None, "compression_config": "compressed-tensors"}
_FILES = {"quantize_config.json": "gptq", "quant_config.json": "awq", "hf_quant_config.json": "modelopt"}


def check_method(folder: Path, config: Mapping[str, Any], most_bytes: int = MAX_CONFIG_BYTES) -> None:
    """Raise UnreadableError for a folder that is quantised by a method which is not undone here.

    config      the contents of its config.json
    most_bytes  of a file beside it
    """
    found = list(_settings(config)) or [
        (checked_object(folder / name, most_bytes), method)
        for name, method in _FILES.items()
        if (folder / name).is_file()
    ]
    for settings, usual in found:
        method = settings.get("quant_method", usual) if isinstance(settings, dict) else None
        # transformers goes by these two first; older configurations say no more.
        if isinstance(settings, dict) and (settings.get("load_in_8bit") or settings.get("load_in_4bit")):
            method = "bitsandbytes"
        if not isinstance(method, str) or not method:
            raise UnreadableError("is quantised, and its settings do not name the method (quant_method) by which it is")
        if method not in METHODS:
            raise UnreadableError(
                f"is quantised by the method {shown(method, 60)}, which cannot be undone here. Give the model before its "
                f"quantisation, or a GGUF file of it"
            )
        METHODS[method](settings, {})


def _settings(config: Mapping[str, Any]) -> Iterator[tuple[Any, str | None]]:
    parts: list[Any] = [config]
    for part in parts:
        yield from ((part[name], method) for name, method in _SETTINGS.items() if part.get(name) is not None)
        parts += [value for name, value in part.items() if isinstance(value, dict) and name not in _SETTINGS]


def undo(config: PreTrainedConfig, stored: Mapping[str, Stored]) -> None:
    """Have transformers undo the quantisation when it loads these weights, also where the hardware could do without. Raises
    UnreadableError for weights of which it would give other numbers."""
    for part in (config, config.get_text_config(decoder=True)):
        if isinstance(settings := getattr(part, "quantization_config", None), dict):
            settings["dequantize"] = True
            METHODS[settings["quant_method"]](settings, stored)


def _check_fp8(settings: Mapping[str, Any], stored: Mapping[str, Stored]) -> None:
    """Every weight in FP8 has a scale for each of its blocks. transformers reads one without a scale as it is, and takes the
    size of the blocks from the number of scales, which differs where the last block is smaller than the others."""
    blocks = settings.get("weight_block_size", [128, 128])
    if blocks is not None and not (are_whole(blocks, 1) and len(blocks) == 2):
        raise UnreadableError(
            f"is quantised by the method fp8 in blocks of {shown(repr(blocks), 60)}, where two sizes are"
        )
    for name, weight in stored.items():
        if not weight.dtype.startswith("F8") or name.endswith(_SCALES):
            continue
        stem = name.removesuffix("weight")
        scale = next((stored[place] for end in _SCALES if (place := stem + end) in stored), None)
        if scale is None:
            raise UnreadableError(f"holds {shown(name)} in {weight.dtype}, and no scale of it")
        counts, lengths = ((1, 1, *tensor.shape)[-2:] for tensor in (scale, weight))
        sizes = lengths if blocks is None else blocks
        for count, length, size in zip(counts, lengths, sizes, strict=True):
            if count != -(-length // size) or (count > 1 and length % size):
                raise UnreadableError(
                    f"holds {shown(name)} of the shape {[*weight.shape]} with scales of the shape {[*scale.shape]}, which are "
                    f"not those of whole blocks of {blocks}"
                )


_SCALES = ("weight_scale_inv", "scale", "qscale_weight")

# The methods that are undone here, by their names in `quant_method`. Each checks the headers of the weights; transformers
# undoes it when it loads them.
METHODS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Stored]], None]] = {"fp8": _check_fp8}
