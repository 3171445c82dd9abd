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
from .weight_files import REAL, Settings, Stored, check_method, check_quantised

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


def _first(codes: Tensor, count: int, bits: int) -> Tensor:
    """The first codes of each row, whose last word may have room left."""
    if not codes.shape[1] - 32 // bits < count <= codes.shape[1]:
        raise ValueError(f"rows of {count} numbers are not in words for {codes.shape[1]}")
    return codes[:, :count]


def _groups(columns: int, count: int, size: int | None, given: Tensor | None = None, *, whole: bool = True) -> Tensor:
    """The group of each column.

    count  of groups, for which there are scales
    size   of a group, as the settings say it; -1: a row is one group; None: not said, then all groups have one size
    given  the group of each column, where their order may be mixed; None, or with -1 in it: groups follow each other
    whole  whether the last group may not be smaller
    """
    size = columns // count if size is None else columns if size == -1 else size
    if count != -(-columns // size) or (whole and columns > size and columns % size):
        raise ValueError(
            f"it has scales for {count} groups of its {columns} columns, which are not whole groups of {size}"
        )
    group = torch.arange(columns) // size
    if given is None or (not given.is_meta and -1 in given):
        return group
    if given.shape != group.shape or not (given.is_meta or torch.equal(given.sort().values.long(), group)):
        raise ValueError(f"its columns are not each in a group of {size}")
    return given.long()


def _is_mixed(group: Tensor | None) -> bool:
    return group is not None and not group.is_meta and -1 not in group and bool((group.diff() < 0).any())


def _scaled(codes: Tensor, scales: Tensor, zeros: Tensor, group: Tensor) -> Tensor:
    """(code - zero) * scale. There is a scale, and a zero, for each row and group of columns. group: of each column"""
    if codes.dtype.itemsize > 1 or len(scales) != len(codes) or zeros.shape != scales.shape:
        raise ValueError("its scales and zeros are not those of rows in 8 bits")
    return codes.float().sub_(zeros.float()[:, group]).mul_(scales.float()[:, group])


def _gptq(parts: Parts, settings: Settings) -> Tensor:
    """GPTQ (Frantar et al. 2023): codes are packed along the inputs, zeros along the outputs. Its first format stores zeros
    less 1, which is added to whole words, as in GPTQModel's convert_gptq_v1_to_v2_format. Some programs go by the settings
    where others go by the tensors (vLLM: `sym` and `desc_act`), so both have to say the same."""
    bits, zeros, order = settings["bits"], parts["qzeros"], parts.get("g_idx")
    if "gptq_v2" not in (settings.get("checkpoint_format"), settings.get("format")):
        zeros = zeros + (0x11111111 if bits == 4 else 0x01010101)
    codes, scales = _codes(parts["qweight"].T, bits), parts["scales"].T
    zeros = _first(_codes(zeros, bits), len(codes), bits).T
    if settings.get("sym") and not (zeros.is_meta or (zeros == 2 ** (bits - 1)).all()):
        raise ValueError(f"its zeros are not {2 ** (bits - 1)}, and its settings say sym")
    if order is None and settings.get("desc_act"):
        raise KeyError("g_idx")
    if _is_mixed(order) and settings.get("desc_act") is False:
        raise ValueError("its columns are mixed (g_idx), and its settings deny it (desc_act)")
    group = _groups(codes.shape[1], scales.shape[1], settings.get("group_size"), order, whole=False)
    return _scaled(codes, scales, zeros, group)


def _awq(parts: Parts, settings: Settings) -> Tensor:
    """AWQ (Lin et al. 2024), as AutoAWQ's WQLinear_GEMM: packed along the outputs, 0, 2, 4, 6, 1, 3, 5, 7 in a word."""
    places = [0, 4, 1, 5, 2, 6, 3, 7]
    words, zeros = (_codes(parts[name], 4).unflatten(1, (-1, 8))[..., places] for name in ("qweight", "qzeros"))
    codes, scales = words.flatten(1).T, parts["scales"].T
    size = settings.get("group_size", settings.get("q_group_size"))
    return _scaled(codes, scales, zeros.flatten(1).T, _groups(codes.shape[1], scales.shape[1], size))


def _compressed(parts: Parts, settings: Settings) -> Tensor:
    """compressed-tensors: by the first scheme in the settings that these parts fit."""
    why: Exception | None = None
    for group in settings["config_groups"].values():
        packed = (group.get("format") or settings.get("format")) == "pack-quantized"
        try:
            return (_packed if packed else _plain)(parts, group["weights"])
        except (LookupError, ValueError) as error:
            why = why or error
    raise why or ValueError("no scheme is announced")


def _packed(parts: Parts, scheme: Settings) -> Tensor:
    """compressed-tensors, pack-quantized: codes and zeros are stored half of their range too high. The last word of a row may
    have room left. In older files zeros are not packed."""
    bits, zeros = scheme["num_bits"], parts.get("weight_zero_point")
    codes, shape = _codes(parts["weight_packed"], bits), parts["weight_shape"]
    if zeros is not None:
        packed = zeros.dtype == torch.int32
        zeros = _first(_codes(zeros.T, bits), len(codes), bits).T if packed else zeros.short() + 2 ** (bits - 1)
    if shape.is_meta:  # the headers do not say where a row ends
        return codes.float()
    rows, columns = shape.tolist()
    if rows != len(codes):
        raise ValueError(f"its shape is {[rows, columns]}")
    return _by_scheme(_first(codes, columns, bits), parts, scheme, zeros, 2 ** (bits - 1))


def _plain(parts: Parts, scheme: Settings) -> Tensor:
    """compressed-tensors, int-quantized and float-quantized."""
    if parts["weight"].dtype != {"int": torch.int8, "float": torch.float8_e4m3fn}[scheme["type"]]:
        raise ValueError(f"its type is not {scheme['type']}")
    weight, largest = parts["weight"], 2 ** (scheme["num_bits"] - 1)
    whole = scheme["type"] == "int" and not weight.is_meta
    if whole and not -largest <= int(weight.min()) <= int(weight.max()) < largest:
        raise ValueError(f"its numbers are not in {scheme['num_bits']} bits")
    return _by_scheme(weight, parts, scheme, parts.get("weight_zero_point"), 0)


def _by_scheme(codes: Tensor, parts: Parts, scheme: Settings, zeros: Tensor | None, middle: int) -> Tensor:
    """(code - zero) * scale, as QuantizationArgs in compressed-tensors has it.

    middle  the zero of a symmetric weight

    The library takes the size of groups from their number where vLLM goes by the
    settings; it ignores zeros and an order that the settings deny. So both have to say the same.
    """
    scales, order, (rows, columns) = parts["weight_scale"], parts.get("weight_g_idx"), codes.shape
    if scheme["strategy"] == "tensor":
        scales = scales.reshape(1, 1).expand(rows, 1)
        zeros = None if zeros is None else zeros.reshape(1, 1).expand(rows, 1)
    if scales.ndim != 2:
        raise ValueError("its scales and zeros are not those of rows in 8 bits")
    symmetric = scheme.get("symmetric") is not False
    if symmetric and not (zeros is None or zeros.is_meta or (zeros == middle).all()):
        raise ValueError("its zeros are not 0, and its settings say symmetric")
    if zeros is None:
        zeros = scales.new_full(scales.shape, middle) if symmetric else parts["weight_zero_point"]
    ordered = scheme.get("actorder") in _ORDERED
    if ordered and order is None:
        raise KeyError("weight_g_idx")
    if _is_mixed(order) and not ordered:
        raise ValueError("its columns are mixed (weight_g_idx), and its settings deny it (actorder)")
    size = scheme["group_size"] if scheme["strategy"] == "group" else -1
    return _scaled(codes, scales, zeros, _groups(columns, scales.shape[1], size, order))


def _int8(parts: Parts, settings: Settings) -> Tensor:
    """LLM.int8 (Dettmers et al. 2022), as bitsandbytes' int8_vectorwise_dequant: 127 is the largest number of a row."""
    weight, largest, form = parts["weight"], parts["SCB"], parts.get("weight_format", torch.tensor(0))
    if settings.get("load_in_4bit"):
        raise ValueError("its numbers are not in 4 bits, as its settings say")
    if weight.dtype != torch.int8 or largest.shape != weight.shape[:1] or not (form.is_meta or form.item() == 0):
        raise ValueError("its numbers are not rows of 8 bits")
    return weight.float().mul_(largest[:, None]).mul_(7.874015718698502e-3)


_ORDERED = (True, "group", "dynamic")  # what `actorder` says where columns are mixed

# The numbers of 4 bits, which the library takes whatever a file holds: those of NF4, and those of FP4 from 0 on.
_NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334),
    *(-0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
_FP4 = tuple(number / 12 for number in (0.0, 0.0625, 8.0, 12.0, 4.0, 6.0, 2.0, 3.0))
_MAPS = {"nf4": torch.tensor(_NF4), "fp4": torch.tensor((*_FP4, *(-number for number in _FP4)))}


def _four(parts: Parts, settings: Settings) -> Tensor:
    """NF4 and FP4 (Dettmers et al. 2023), as bitsandbytes' dequantize_4bit: numbers from a map, the first of two in the upper
    half of a byte, times the largest number of their block. These can be stored likewise, in 8 bits."""
    octets, largest, numbers = parts["weight"], parts["weight.absmax"], parts["weight.quant_map"]
    ((name, text),) = ((name, tensor) for name, tensor in parts.items() if "quant_state" in name)
    if (
        settings.get("load_in_8bit")
        or octets.dtype != torch.uint8
        or octets.shape[1:] != (1,)
        or numbers.shape != (16,)
    ):
        raise ValueError("its numbers are not in 4 bits")
    is_nested = largest.dtype == torch.uint8
    if (said := settings.get("bnb_4bit_use_double_quant")) is not None and said != is_nested:
        how = "in 8 bits" if is_nested else "as they are"
        raise ValueError(f"its scales are stored {how}, and its settings deny it (bnb_4bit_use_double_quant)")
    if text.is_meta:  # the headers do not say where a row ends
        return octets.float().expand(-1, 2)
    state = json.loads(text.numpy().tobytes()[:1000])
    rows, columns = state["shape"]
    kind = name.rpartition("__")[2]
    if {state["quant_type"], settings.get("bnb_4bit_quant_type", kind)} != {kind}:
        raise ValueError(f"it is {kind} by its name and another one by its state or its settings")
    if not torch.allclose(numbers.float(), _MAPS[kind], rtol=1e-3):
        raise ValueError(f"its numbers of 4 bits are not those of {kind}")
    if is_nested:
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
        (_compressed, ("weight_packed", "weight_scale", "weight_shape", "weight_zero_point", "weight_g_idx")),
        (_compressed, ("weight", "weight_scale", "weight_zero_point", "weight_g_idx")),
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
        if f"{stem}weight" in plain:
            raise UnreadableError(f"holds {shown(stem)}weight twice: as it is, and in parts")
        check_quantised(settings, stem)
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
