"""Rotary embedding of a network in a GGUF file: its base, how much of a head it turns, and how it is scaled for longer texts.

llama.cpp divides the angle of each pair of numbers by the factor of linear scaling and by that pair's own factor, which stands
in a tensor of the file, and multiplies all cosines and sines by one number. transformers does the same under the name longrope.
YaRN is the other way that both know.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .gguf_files import GgufFile
from .gguf_settings import PARTLY_TURNED, Values

# Tensors of factors: Llama 3's and Gemma 4's, and Phi 3's for texts above and up to the length that it was trained with first.
_ALL, _LONG, _SHORT = FACTORS = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")


def rope_parameters(file: GgufFile, values: Values) -> dict[str, Any]:
    """transformers' rope_parameters. values: those of `read_settings`. Raises InputError (field "model") for what transformers
    cannot compute, and for factors that do not fit."""
    name, kind = file.architecture, values["rope.scaling.type"]
    size, turned = values["attention.key_length"], values["rope.dimension_count"]
    factor = 1.0 if kind == "none" else values["rope.scaling.factor"] or 1.0
    factors = _factors(file, kind, turned // 2)
    theta, local = {"rope_theta": values["rope.freq_base"]}, {"rope_theta": values.get("rope.freq_base_swa")}
    if name == "gemma4":
        if kind == "yarn" or factor != 1 or values["rope.scaling.attn_factor"] != 1:
            file.refuse("scales its rotary embedding (gemma4.rope.scaling), and transformers' Gemma 4 does not")
        every = {"rope_type": "proportional", "partial_rotary_factor": _share_of_gemma4(file, factors)}
        return {"full_attention": every | theta, "sliding_attention": {"rope_type": "default"} | local}
    scaling = _yarn(file, values, factor, factors) if kind == "yarn" else _scaled(values, factor, factors)
    if name == "gemma3":
        return {"full_attention": scaling | theta, "sliding_attention": _scaled(values, 1.0, {}) | local}
    if name in ("gemma2", "gpt-oss"):
        if local != theta:
            file.refuse(
                f"has two bases of rotary embedding ({name}.rope.freq_base_swa), and transformers' network has one"
            )
        if kind == "none" and values["rope.scaling.factor"] not in (0, 1):
            # llama.cpp then scales in the layers with a window, and in no others.
            file.refuse(f"has {name}.rope.scaling.type = 'none' and a factor ({name}.rope.scaling.factor) at once")
    if name in PARTLY_TURNED:
        share = turned / size
        # transformers cuts off what stands behind the point.
        theta["partial_rotary_factor"] = share if int(size * share) == turned else math.nextafter(share, 1)
    return scaling | theta


def _factors(file: GgufFile, kind: str, pairs: int) -> dict[str, list[float]]:
    """The factors in the tensors of a file, one for each pair of numbers."""
    known = {"llama": {_LONG, _SHORT} if kind == "longrope" else {_ALL}, "phi3": {_LONG, _SHORT}, "gemma4": {_ALL}}
    found = {tensor.name: file.values(tensor).ravel() for tensor in file.tensors if tensor.name in FACTORS}
    for name, factors in found.items():
        if name not in known.get(file.architecture, ()):
            file.refuse(
                f"holds the tensor {name!r}, with which llama.cpp does not compute in a {file.architecture} file"
            )
        if factors.shape != (pairs,) or not (np.isfinite(factors) & (factors > 0)).all():
            file.refuse(f"has factors of rotary embedding that are not {pairs} positive numbers (tensor {name!r})")
    if (_LONG in found) != (_SHORT in found):
        file.refuse(f"has only one of the tensors {_LONG!r} and {_SHORT!r}")
    return {name: factors.tolist() for name, factors in found.items()}


def _scaled(values: Values, factor: float, factors: dict[str, list[float]]) -> dict[str, Any]:
    stretch = values["rope.scaling.attn_factor"]
    if not factors and stretch == 1:
        return {"rope_type": "default"} if factor == 1 else {"rope_type": "linear", "factor": factor}
    pairs: int = values["rope.dimension_count"] // 2
    every = factors.get(_ALL, [1.0] * pairs)
    return {
        "rope_type": "longrope",
        "short_factor": [factor * each for each in factors.get(_SHORT, every)],
        "long_factor": [factor * each for each in factors.get(_LONG, every)],
        "factor": 1.0,
        "attention_factor": stretch,
        "original_max_position_embeddings": values["rope.scaling.original_context_length"],
    }


def _yarn(file: GgufFile, values: Values, factor: float, factors: dict[str, list[float]]) -> dict[str, Any]:
    if factors:
        file.refuse("scales its rotary embedding twice: by YaRN, and by factors in a tensor")
    return {
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": values["rope.scaling.original_context_length"],
        "beta_fast": values["rope.scaling.yarn_beta_fast"],
        "beta_slow": values["rope.scaling.yarn_beta_slow"],
        "attention_factor": values["rope.scaling.attn_factor"] * (0.1 * math.log(max(1.0, factor)) + 1.0),
        # gpt-oss was trained without rounding the limits of YaRN, though no file says so.
        "truncate": file.architecture != "gpt-oss",
    }


def _share_of_gemma4(file: GgufFile, factors: dict[str, list[float]]) -> float:
    """The part of a head that a layer without a window turns: the file divides the other angles by 1e30."""
    each = factors.get(_ALL, [])
    turned = each.count(1.0)
    if not turned or each != [1.0] * turned + [float(np.float32(1e30))] * (len(each) - turned):
        file.refuse("does not say which numbers Gemma 4 turns, as llama.cpp's converter does (rope_freqs.weight)")
    return turned / len(each)
