"""Quantised weights that are undone here, on any machine: how the tensors of a module become one weight, by method.

For these methods transformers asks for libraries, most of which need a GPU. So it is given plain weights instead, each of which
is made when it is read. They are in float32, in which a whole number times a scale of 16 bits is exact.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from ..errors import first_line, shown
from .bounds import UnreadableError, checked_object
from .weight_files import REAL, Settings, Stored, check_method

KINDS = {"I32": torch.int32, "I64": torch.int64, "I8": torch.int8, "U8": torch.uint8, "F8_E4M3": torch.float8_e4m3fn}
KINDS |= {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64, "BOOL": torch.bool}
_STATES = ("weight.quant_state.bitsandbytes__nf4", "weight.quant_state.bitsandbytes__fp4")
_FOUR = ("weight", "weight.absmax", "weight.quant_map", "weight.nested_absmax", "weight.nested_quant_map", *_STATES)
# Modules that are Conv1D in these architectures and keep their weights as [inputs, outputs]; as quantised they are linear maps.
_CONV1D, _OF_CONV1D = (
    ("decision_transformer", "gpt2", "imagegpt", "openai-gpt"),
    ("c_attn.", "c_fc.", "c_proj.", "q_attn."),
)
_ALONE = Lock()  # held while a weight is made, which takes several times its memory

Parts = Mapping[str, Tensor]  # of a module, by the ends of their names
Formula = Callable[[Parts, Settings], Tensor]


# --- formulas. Each is also tried on the meta device, with the shapes that the headers of the files announce.


def _codes(words: Tensor, bits: int) -> Tensor:
    """The codes of 4 or 8 bits in each row of words of 32 bits, the lowest bits first."""
    if words.dtype != torch.int32:
        raise ValueError("codes are not in words of 32 bits")
    octets = words.contiguous().view(torch.uint8)
    return octets if bits == 8 else torch.stack((octets & 15, octets >> 4), -1).flatten(-2)


def _scaled(codes: Tensor, scales: Tensor, zeros: Tensor | None = None, group: Tensor | None = None) -> Tensor:
    """(code - zero) * scale. There is a scale, and a zero, for each row and group of columns, or one for all.

    group  of each column; None: groups follow each other and have one size
    """
    rows, columns = codes.shape
    zeros = scales.new_zeros(1) if zeros is None else zeros
    scales, zeros = (one.reshape(1, 1).expand(rows, 1) if one.numel() == 1 else one for one in (scales, zeros))
    groups = scales.shape[-1]
    if codes.dtype.itemsize > 1 or scales.shape != (rows, groups) or zeros.shape not in (scales.shape, (rows, 1)):
        raise ValueError("its scales and zeros are not those of rows in 8 bits")
    if group is None and columns % groups == 0:
        group = torch.arange(columns) // (columns // groups)
    if group is None or len(group) != columns or not (group.is_meta or 0 <= group.min() <= group.max() < groups):
        raise ValueError("its columns are not each in a group")
    group = group.long()
    return codes.float().sub_(zeros.float().expand(rows, groups)[:, group]).mul_(scales.float()[:, group])


def _gptq(parts: Parts, settings: Settings) -> Tensor:
    """GPTQ (Frantar et al. 2023): codes are packed along the inputs, zeros along the outputs. Its first format stores zeros
    less 1, which is added to whole words, as in GPTQModel's convert_gptq_v1_to_v2_format."""
    bits, zeros = settings["bits"], parts["qzeros"]
    if "gptq_v2" not in (settings.get("checkpoint_format"), settings.get("format")):
        zeros = zeros + (0x11111111 if bits == 4 else 0x01010101)
    zeros = _codes(zeros, bits)[:, : parts["qweight"].shape[1]]
    return _scaled(_codes(parts["qweight"].T, bits), parts["scales"].T, zeros.T, parts.get("g_idx"))


def _awq(parts: Parts, _settings: Settings) -> Tensor:
    """AWQ (Lin et al. 2024), as AutoAWQ's WQLinear_GEMM: packed along the outputs, 0, 2, 4, 6, 1, 3, 5, 7 in a word."""
    places = [0, 4, 1, 5, 2, 6, 3, 7]
    words, zeros = (_codes(parts[name], 4).unflatten(1, (-1, 8))[..., places] for name in ("qweight", "qzeros"))
    return _scaled(words.flatten(1).T, parts["scales"].T, zeros.flatten(1).T)


def _packed(parts: Parts, settings: Settings) -> Tensor:
    """compressed-tensors, pack-quantized: codes and zeros are stored half of their range too high. The last word
    of a row may have room left. In older files zeros are not packed, and groups of -1 mean that columns have no order."""
    bits = next(iter(settings["config_groups"].values()))["weights"]["num_bits"]
    codes, shape, group = _codes(parts["weight_packed"], bits), parts["weight_shape"], parts.get("weight_g_idx")
    if shape.is_meta:  # the headers do not say where a row ends
        return codes.float()
    rows, columns = shape.tolist()
    if rows != len(codes) or not codes.shape[1] - 32 // bits < columns <= codes.shape[1]:
        raise ValueError(f"its shape is {[rows, columns]}")
    zeros = parts.get("weight_zero_point", torch.zeros(1, dtype=torch.int8))
    zeros = _codes(zeros.T, bits)[:, :rows].T if zeros.dtype == torch.int32 else zeros.short() + 2 ** (bits - 1)
    group = None if group is None or -1 in group else group
    return _scaled(codes[:, :columns], parts["weight_scale"], zeros, group)


def _plain(parts: Parts, _settings: Settings) -> Tensor:
    """compressed-tensors, int-quantized and float-quantized."""
    return _scaled(parts["weight"], parts["weight_scale"], parts.get("weight_zero_point"))


def _int8(parts: Parts, _settings: Settings) -> Tensor:
    """LLM.int8 (Dettmers et al. 2022), as bitsandbytes' int8_vectorwise_dequant: 127 is the largest number of a row."""
    weight, largest, form = parts["weight"], parts["SCB"], parts.get("weight_format", torch.tensor(0))
    if weight.dtype != torch.int8 or largest.shape != weight.shape[:1] or not (form.is_meta or form.item() == 0):
        raise ValueError("its numbers are not rows of 8 bits")
    return weight.float().mul_(largest[:, None]).mul_(7.874015718698502e-3)


def _four(parts: Parts, _settings: Settings) -> Tensor:
    """NF4 and FP4 (Dettmers et al. 2023), as bitsandbytes' dequantize_4bit: numbers from a map, the first of two in the upper
    half of a byte, times the largest number of their block. These can be stored likewise, in 8 bits."""
    octets, largest, numbers = parts["weight"], parts["weight.absmax"], parts["weight.quant_map"]
    (text,) = (tensor for name, tensor in parts.items() if "quant_state" in name)
    if octets.dtype != torch.uint8 or octets.shape[1:] != (1,) or numbers.shape != (16,):
        raise ValueError("its numbers are not in 4 bits")
    if text.is_meta:  # the headers do not say where a row ends
        return octets.float().expand(-1, 2)
    state = json.loads(text.numpy().tobytes()[:1000])
    rows, columns = state["shape"]
    if largest.dtype == torch.uint8:
        whole = _of_blocks(parts["weight.nested_absmax"], state["nested_blocksize"], len(largest))
        largest = parts["weight.nested_quant_map"][largest.int()] * whole + state["nested_offset"]
    codes = torch.cat((octets >> 4, octets & 15), 1).flatten()[: rows * columns]
    if len(octets) != -(-rows * columns // 2):
        raise ValueError(f"its shape is {[rows, columns]}")
    return numbers[codes.int()].mul_(_of_blocks(largest, state["blocksize"], len(codes))).view(rows, columns)


def _of_blocks(values: Tensor, size: int, numbers: int) -> Tensor:
    """The value of its block for each number."""
    if len(values) != -(-numbers // size) or size > 4096 or values.dtype != torch.float32:
        raise ValueError(f"its {numbers} numbers are not in {len(values)} blocks of {size}")
    return values.repeat_interleave(size)[:numbers]


# By method, the forms in which it stores the weight of a module: how the weight is made of its parts, [outputs, inputs] in
# float32, and the ends of their names.
FORMS: dict[str, tuple[tuple[Formula, tuple[str, ...]], ...]] = {
    "gptq": ((_gptq, ("qweight", "qzeros", "scales", "g_idx")),),
    "awq": ((_awq, ("qweight", "qzeros", "scales")),),
    "compressed-tensors": (
        (_packed, ("weight_packed", "weight_scale", "weight_shape", "weight_zero_point", "weight_g_idx")),
        (_plain, ("weight", "weight_scale", "weight_zero_point")),
    ),
    "bitsandbytes": ((_int8, ("weight", "SCB", "weight_format")), (_four, _FOUR)),
}


@dataclass(frozen=True)
class Undone(Stored):
    """The weight of a module, for which parts stand in files, by the ends of their names.

    stem    how these begin
    turned  whether the network keeps the weight as [inputs, outputs]
    """

    stem: str
    formula: Formula
    parts: Mapping[str, Stored]
    settings: Settings
    turned: bool
    files: Mapping[Path, Any] = field(default_factory=dict)  # opened

    def __getitem__(self, _all: object) -> Tensor:
        """The weight, as a slice of a file that is read only now. transformers asks for several at once."""
        with _ALONE:
            return self.made_of(
                {end: self.files[of.file].get_tensor(self.stem + end) for end, of in self.parts.items()}
            )

    def made_of(self, parts: Parts) -> Tensor:
        """The weight, in float32. Raises UnreadableError if parts are lacking or do not fit each other."""
        try:
            weight = self.formula(parts, self.settings)
            return weight.T.contiguous() if self.turned else weight
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            why = f"without {error.args[0]}" if isinstance(error, KeyError) else f"that do not fit: {first_line(error)}"
            what = ", ".join(f"{end} {part.dtype} {[*part.shape]}" for end, part in self.parts.items())
            raise UnreadableError(f"holds {shown(self.stem)}weight in parts {why}. They are {what}") from error


def undone(folder: Path, stored: Mapping[str, Stored]) -> dict[str, Stored]:
    """All tensors of a folder's files, with one weight in place of its parts if a method of FORMS has quantised them.

    Raises UnreadableError if parts are lacking, left over or do not fit each other, as far as their headers say.
    """
    config = checked_object(folder / "config.json")
    methods = check_method(folder, config)
    if not any(method in FORMS for method, _ in methods):
        return dict(stored)
    method, settings = methods[0]
    if any(one != methods[0] for one in methods):
        raise UnreadableError("is quantised in several ways, where one is undone")
    ends, plain = {end for _, ends in FORMS[method] for end in ends} - {"weight"}, dict(stored)
    for stem in dict.fromkeys(name.removesuffix(end) for name in stored for end in ends if name.endswith(f".{end}")):
        formula, ends = max(FORMS[method], key=lambda form: sum(stem + end in plain for end in form[1]))
        parts = {end: plain.pop(stem + end) for end in ends if stem + end in plain}
        turned = config.get("model_type") in _CONV1D and stem.endswith(_OF_CONV1D)
        weight = Undone(next(iter(parts.values())).file, "F32", (), stem, formula, parts, settings, turned)
        headers = {end: torch.empty(of.shape, dtype=KINDS.get(of.dtype), device="meta") for end, of in parts.items()}
        plain[f"{stem}weight"] = replace(weight, shape=tuple(weight.made_of(headers).shape))
    if left := [name for name, tensor in plain.items() if name.endswith("weight") and tensor.dtype not in REAL]:
        raise UnreadableError(f"holds {shown(left[0])} in {stored[left[0]].dtype}, and no scale of it")
    return plain


def as_state(paths: Iterable[Path], stored: Mapping[str, Stored]) -> dict[str, Any]:
    """The tensors of these files by name, for transformers, which slices each when it needs it."""
    files = {path: safe_open(path, framework="pt") for path in paths}
    return {
        name: replace(one, files=files) if isinstance(one, Undone) else files[one.file].get_slice(name)
        for name, one in stored.items()
    }
