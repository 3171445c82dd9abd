"""Quantised folders that are undone: each number is the one of the method's published formula, here in plain loops."""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import NormalDist

import pytest
import torch
from safetensors.torch import load_file, save_file

from core.capturing.checking.checkup import check_model
from core.models.dequantising import FORMS
from core.models.loading import load_model, model_size
from core.models.weight_files import INDEX, SINGLE
from tests.core.models.folders import Change, Weights, configured, edit_config, refusal, weighted, written
from tests.core.tiny_models import tiny

Written = tuple[Weights, torch.Tensor]  # parts of a module, by the ends of their names; and the numbers that they mean


def in_words(codes: torch.Tensor, bits: int, order: tuple[int, ...] = tuple(range(8))) -> torch.Tensor:
    """Rows of codes in words of 32 bits. order: which of them stands where, from the lowest bits on"""
    words, each = [], 32 // bits
    for row in codes.tolist():
        cuts = [[*row, *7 * [0]][at : at + each] for at in range(0, len(row), each)]
        words.append([sum(cut[order[place]] << bits * place for place in range(each)) for cut in cuts])
    return torch.tensor(words).to(torch.int32)


def drawn(rows: int, columns: int, codes: tuple, zeros: tuple, size: int = 16, order: bool = False) -> tuple:
    """Codes, zeros and scales by row, the group of each column, and (code - zero) * scale. order: groups are mixed"""
    group = torch.arange(columns, dtype=torch.int32) // size
    group = group[torch.randperm(columns)] if order else group
    code, zero = torch.randint(*codes, (rows, columns)), torch.randint(*zeros, (rows, -(-columns // size)))
    scale = torch.rand(zero.shape).half()
    by_row = zip(code.tolist(), zero.tolist(), scale.tolist(), strict=True)
    meant = [[(number - z[at]) * s[at] for number, at in zip(row, group.tolist(), strict=True)] for row, z, s in by_row]
    return code, zero, scale, group, torch.tensor(meant)


def gptq(rows: int, columns: int, bits: int = 4, less: int = 1, order: bool | None = False, size: int = 16) -> Written:
    """order: None where it is not written"""
    code, zero, scale, group, meant = drawn(rows, columns, (0, 2**bits), (1, 2**bits), size, bool(order))
    parts = {"qweight": in_words(code, bits).T, "qzeros": in_words(zero.T - less, bits), "scales": scale.T}
    return parts | ({} if order is None else {"g_idx": group}), meant


def awq(rows: int, columns: int) -> Written:
    code, zero, scale, _, meant = drawn(rows, columns, (0, 16), (0, 16))
    words, zeros = (in_words(one.T, 4, (0, 2, 4, 6, 1, 3, 5, 7)) for one in (code, zero))
    return {"qweight": words, "qzeros": zeros, "scales": scale.T}, meant


def packed(rows: int, columns: int, bits: int = 4, size: int = 16, zeros: str = "", order: bool = False) -> Written:
    half, shape = 2 ** (bits - 1), torch.tensor([rows, columns])
    points = (-half, half) if zeros else (0, 1)
    code, zero, scale, group, meant = drawn(rows, columns, (-half, half), points, size, order)
    parts = {"weight_packed": in_words(code + half, bits), "weight_scale": scale, "weight_shape": shape}
    point = in_words(zero.T + half, bits).T if zeros == "packed" else zero.to(torch.int8)
    more = {"weight_zero_point": point, "weight_g_idx": group if order else group * 0 - 1}
    return parts | (more if zeros else {}), meant


def whole(rows: int, columns: int) -> Written:
    code, zero, scale, _, meant = drawn(rows, columns, (-128, 128), (-128, 128), columns)
    return {"weight": code.to(torch.int8), "weight_scale": scale, "weight_zero_point": zero.to(torch.int8)}, meant


def real(rows: int, columns: int) -> Written:
    code, scale = torch.randn(rows, columns).to(torch.float8_e4m3fn), torch.rand(1)
    meant = [[number * scale.item() for number in row] for row in code.double().tolist()]
    return {"weight": code, "weight_scale": scale}, torch.tensor(meant)


def int8(rows: int, columns: int) -> Written:
    """A row's largest number is 127. The library multiplies, in float32, with what 1/127 is there."""
    code, largest = torch.randint(-127, 128, (rows, columns)), torch.rand(rows)
    meant = torch.stack([code[row].float() * largest[row] * 7.874015718698502e-3 for row in range(rows)])
    return {"weight": code.to(torch.int8), "SCB": largest, "weight_format": torch.tensor(0).byte()}, meant


def numbers_of(kind: str) -> torch.Tensor:
    """NF4: quantiles of the normal distribution, each half of its own (Dettmers et al. 2023, as bitsandbytes'
    create_normal_map). FP4: 1 sign, 2 bits of exponent and 1 of mantissa, the largest of which is 1."""
    if kind == "fp4":
        half = [0, 1 / 192, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4]
        return torch.tensor([*half, *(-number for number in half)])
    quantile, offset = NormalDist().inv_cdf, 0.9677083
    up, down = ([quantile(offset - at * (offset - 0.5) / steps) for at in range(steps)] for steps in (8, 7))
    return torch.tensor(sorted([*up, 0.0, *(-number for number in down)])) / max(up)


def four(rows: int, columns: int, kind: str = "nf4", nested: bool = False) -> Written:
    """Numbers in blocks of 64 that run over the ends of rows; with `nested`, their scales in 8 bits in blocks of 16."""
    codes, numbers = torch.randint(16, (rows * columns,)).tolist(), numbers_of(kind)
    octets = [first << 4 | second for first, second in zip(codes[::2], [*codes, 0][1::2], strict=False)]
    largest, state = torch.rand(-(-len(codes) // 64)), {"quant_type": kind, "blocksize": 64, "shape": [rows, columns]}
    parts = {"weight": torch.tensor(octets).byte()[:, None], "weight.quant_map": numbers, "weight.absmax": largest}
    if nested:
        state |= {"nested_blocksize": 16, "nested_offset": 0.25}
        eights, their, wholes = torch.randint(256, largest.shape), torch.rand(256), torch.rand(-(-len(largest) // 16))
        parts |= {"weight.nested_absmax": wholes, "weight.nested_quant_map": their, "weight.absmax": eights.byte()}
        largest = torch.stack([their[eight] * wholes[at // 16] + 0.25 for at, eight in enumerate(eights)])
    parts[f"weight.quant_state.bitsandbytes__{kind}"] = torch.tensor([*json.dumps(state).encode()]).byte()
    return parts, torch.stack([numbers[code] * largest[at // 64] for at, code in enumerate(codes)]).view(rows, columns)


def compressed(form: str = "pack-quantized", bits: int = 4, kind: str = "int", **more: object) -> dict:
    weights = {"num_bits": bits, "type": kind, "strategy": "group", "group_size": 16} | more
    return {"quant_method": "compressed-tensors", "format": form, "config_groups": {"group_0": {"weights": weights}}}


WHOLE: dict = {"strategy": "channel", "group_size": None}
UNEVEN = {"symmetric": False}
GPTQ: dict = {"quant_method": "gptq", "bits": 4, "group_size": 16}
BYTES = {"quant_method": "bitsandbytes"}
UP = "model.layers.1.mlp.up_proj."
STATE = "weight.quant_state.bitsandbytes__nf4"
# What config.json says, how a module is written, and what is particular.
FORMATS: dict[str, tuple[dict, Callable[..., Written], dict]] = {
    "gptq": (GPTQ, gptq, {}),
    "gptq 8, act": (
        GPTQ | {"bits": 8, "checkpoint_format": "gptq", "desc_act": True},
        gptq,
        {"bits": 8, "order": True},
    ),
    "gptq_v2, act": (GPTQ | {"checkpoint_format": "gptq_v2"}, gptq, {"less": 0, "order": True}),
    "gptq, a smaller last group": (GPTQ | {"group_size": 20}, gptq, {"size": 20, "order": None}),
    "awq": ({"quant_method": "awq", "bits": 4, "version": "gemm", "group_size": 16}, awq, {}),
    "packed 4": (compressed(), packed, {}),
    "packed 4, zeros": (compressed(**UNEVEN), packed, {"zeros": "packed"}),
    "packed 4, act": (compressed(**UNEVEN, actorder="group"), packed, {"zeros": "plain", "order": True}),
    "packed 8": (compressed(bits=8, **UNEVEN), packed, {"bits": 8, "zeros": "packed"}),
    "int": (compressed("int-quantized", 8, **WHOLE, **UNEVEN), whole, {}),
    "float": (compressed("float-quantized", 8, "float", strategy="tensor", group_size=None), real, {}),
    "int8": (BYTES, int8, {}),
    "nf4": (BYTES, four, {}),
    "fp4, nested": (BYTES, four, {"kind": "fp4", "nested": True}),
}


def quantised(folder: Path, format: str, network: str = "Llama") -> Weights:
    """Save a tiny model with quantised projections. Returns the weights that it stands for."""
    settings, write, particular = FORMATS[format]
    tiny(network).save_pretrained(folder)
    weights, turned = load_file(folder / SINGLE), network == "GPT-2"
    meant = dict(weights)
    for name in [name for name in weights if name.endswith(("proj.weight", "c_attn.weight", "c_fc.weight"))]:
        rows, columns = weights.pop(name).shape
        parts, meant[name] = write(*((columns, rows) if turned else (rows, columns)), **particular)
        meant[name] = meant[name].T if turned else meant[name]
        weights |= {name.removesuffix("weight") + end: part.contiguous() for end, part in parts.items()}
    save_file(weights, folder / SINGLE, {"format": "pt"})
    edit_config(folder, quantization_config=settings)
    return meant


TURNED = ("gptq 8, act", "packed 4", "int8", "nf4")


@pytest.mark.parametrize(("format", "network"), [*product(FORMATS, ["Llama"]), *product(TURNED, ["GPT-2"])])
def test_every_weight_is_that_of_the_formula(format, network, tmp_path):
    """The libraries quantise GPT-2's Conv1D as the linear map that it is: [outputs, inputs]."""
    meant = quantised(tmp_path, format, network)
    model = load_model(tmp_path)
    assert model.notes == ()
    assert model.size.numbers == model_size(tmp_path).numbers == sum(weight.numel() for weight in meant.values())
    read = model.network.state_dict()
    for name, weight in meant.items():
        torch.testing.assert_close(read[name], weight, rtol=0, atol=0)


def test_settings_and_parts_in_several_files_without_an_order_and_with_biases_of_zeros(tmp_path):
    meant = quantised(tmp_path, "gptq")
    weights = load_file(tmp_path / SINGLE) | {f"{UP}bias": torch.zeros(48)}
    del weights[f"{UP}g_idx"]
    files = {name: f"model-{1 + name.endswith('scales')}.safetensors" for name in weights}
    for file in set(files.values()):
        save_file({name: weights[name] for name in weights if files[name] == file}, tmp_path / file)
    (tmp_path / SINGLE).unlink()
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": files}))
    edit_config(tmp_path, quantization_config=None)
    (tmp_path / "quantize_config.json").write_text('{"bits": 4, "group_size": 16, "desc_act": false}')
    model = load_model(tmp_path, dtype="bfloat16")
    for name, read in model.network.state_dict().items():
        torch.testing.assert_close(read, meant[name].bfloat16(), rtol=0, atol=0)
    assert check_model(model, seconds=600).holds


def test_the_last_word_and_the_last_byte_may_have_room_left():
    parts, meant = packed(5, 13, size=13, zeros="packed")
    assert torch.equal(FORMS["compressed-tensors"][0][0](parts, compressed(**WHOLE, **UNEVEN)), meant)
    parts, meant = four(5, 13)
    assert torch.equal(FORMS["bitsandbytes"][1][0](parts, {}), meant)


def test_each_module_is_read_by_the_scheme_that_it_fits():
    schemes = compressed(group_size=8)["config_groups"] | {"group_1": compressed(bits=8)["config_groups"]["group_0"]}
    settings = compressed() | {"config_groups": schemes}
    for bits, size in ((4, 8), (8, 16)):
        parts, meant = packed(5, 32, bits, size)
        assert torch.equal(FORMS["compressed-tensors"][0][0](parts, settings), meant)


def instead(end: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    return weighted(lambda weights: weights.update({UP + end: change(weights.pop(UP + end))}))


def state(**changes: object) -> torch.Tensor:
    return torch.tensor(
        [*json.dumps({"shape": [48, 32], "blocksize": 64, "quant_type": "nf4"} | changes).encode()]
    ).byte()


def said(**changes: object) -> Change:
    """Other settings of the quantisation."""
    return lambda folder: edit_config(folder, quantization_config=settings_of(folder) | changes)


def settings_of(folder: Path) -> dict:
    return json.loads((folder / "config.json").read_text())["quantization_config"]


def of_scheme(form: str = "pack-quantized", bits: int = 4, kind: str = "int", **changes: object) -> Change:
    return said(**compressed(form, bits, kind, **changes))


def added(end: str, tensor: torch.Tensor) -> Change:
    return weighted(lambda weights: weights.update({UP + end: tensor}))


def both(*changes: Change) -> Change:
    return lambda folder: [change(folder) for change in changes]


PLAIN = added("weight", torch.ones(48, 32))
OTHERS = {
    "two ways": ("gptq", configured(part={"quantization_config": BYTES}), "is quantised in several ways"),
    "no scales": ("gptq", weighted(lambda w: w.pop(f"{UP}scales")), f"holds {UP}weight in parts without scales"),
    "no scale": ("float", weighted(lambda w: w.pop(f"{UP}weight_scale")), "in F8_E4M3, and no scale of it"),
    "other scales": ("gptq", instead("scales", lambda old: old[:, :8]), "are not those of rows in 8 bits"),
    "scales of a row": ("int", instead("weight_scale", lambda old: old[:, 0]), "are not those of rows in 8 bits"),
    "a group too far": ("gptq", instead("g_idx", lambda old: old + 1), "its columns are not each in a group"),
    "another shape": ("packed 4", instead("weight_shape", lambda old: old.flip(0)), "its shape is [32, 48]"),
    "a width": ("nf4", instead(STATE, lambda _: state(shape=[48, 40])), "shape is [48, 40]"),
    "blocks": ("nf4", instead(STATE, lambda _: state(blocksize=9999)), "are not in 24 blocks of 9999"),
    "col_turing": ("int8", instead("weight_format", lambda old: old + 2), "its numbers are not rows of 8 bits"),
    "groups of 12": (
        "packed 4",
        of_scheme(group_size=12),
        "scales for 3 groups of its 48 columns, which are not whole groups of 12",
    ),
    "groups of 20": (
        "packed 4",
        of_scheme(group_size=20),
        "scales for 3 groups of its 48 columns, which are not whole groups of 20",
    ),
    "groups of 32": (
        "awq",
        said(group_size=32),
        "scales for 3 groups of its 48 columns, which are not whole groups of 32",
    ),
    "groups of AWQ that are not whole": ("awq", said(group_size=20), "are not whole groups of 20"),
    "groups of GPTQ": (
        "gptq",
        said(group_size=-1),
        "scales for 3 groups of its 48 columns, which are not whole groups of 48",
    ),
    "a group that is larger": ("gptq_v2, act", instead("g_idx", torch.zeros_like), "not each in a group of 16"),
    "groups and a row": ("packed 4", of_scheme(**WHOLE), "scales for 3 groups of its 48 columns"),
    "groups and a tensor": ("packed 4", of_scheme(strategy="tensor", group_size=None), "is invalid for input of size"),
    "groups without a size": ("packed 4", of_scheme(group_size=None), "with None as its group_size, by group"),
    "rows with a size": (
        "int",
        of_scheme("int-quantized", 8, strategy="channel"),
        "with 16 as its group_size, by chan",
    ),
    "two sizes": ("awq", said(q_group_size=32), "with 16 and 32 as its group_size"),
    "a size in another file": (
        "gptq",
        written("quantize_config.json", b'{"group_size": 32}'),
        "group_size = 16 by config",
    ),
    "a size of 0": ("gptq", said(group_size=0), "with 0 as its group_size"),
    "zeros that are denied": ("packed 4, zeros", of_scheme(), "its zeros are not 0, and its settings say symmetric"),
    "zeros that lack": ("packed 4", of_scheme(**UNEVEN), "in parts without weight_zero_point"),
    "zeros of GPTQ": ("gptq", said(sym=True), "its zeros are not 8, and its settings say sym"),
    "zeros of AWQ": ("awq", said(zero_point=False), "with False as its zero_point"),
    "an order that is denied": ("packed 4, act", of_scheme(**UNEVEN), "mixed (weight_g_idx), and its settings deny it"),
    "an order that lacks": ("packed 4", of_scheme(actorder="group"), "in parts without weight_g_idx"),
    "an order of GPTQ that is denied": (
        "gptq_v2, act",
        said(desc_act=False),
        "mixed (g_idx), and its settings deny it",
    ),
    "an order of GPTQ that lacks": (
        "gptq",
        both(said(desc_act=True), weighted(lambda w: w.pop(f"{UP}g_idx"))),
        "in parts without g_idx",
    ),
    "another form": ("packed 4", of_scheme("int-quantized"), "in parts without weight"),
    "another type": ("int", of_scheme("int-quantized", 8, "float", **WHOLE), "its type is not float"),
    "other bits": ("gptq", said(bits=8), "numbers are not in words for 16"),
    "other bits of scales": ("packed 4", of_scheme(bits=8), "are not in words for 24"),
    "another number of zeros": ("gptq", instead("qzeros", lambda old: old.repeat(1, 2)), "are not in words for 96"),
    "a plain weight beside GPTQ's": ("gptq", PLAIN, f"holds {UP}weight twice: as it is, and in parts"),
    "a plain weight beside AWQ's": ("awq", PLAIN, f"holds {UP}weight twice: as it is, and in parts"),
    "a plain weight beside a packed one": ("packed 4", PLAIN, f"holds {UP}weight twice: as it is, and in parts"),
    "another map of numbers": ("nf4", instead("weight.quant_map", lambda old: old**3), "are not those of nf4"),
    "another type of numbers": ("nf4", instead(STATE, lambda _: state(quant_type="fp4")), "it is nf4 by its name"),
    "a type that is denied": ("nf4", said(bnb_4bit_quant_type="fp4"), "it is nf4 by its name"),
    "scales in 8 bits that are denied": (
        "fp4, nested",
        said(bnb_4bit_use_double_quant=False),
        "its scales are stored in 8 bits, and its settings deny it",
    ),
    "scales in 8 bits that lack": (
        "nf4",
        said(bnb_4bit_use_double_quant=True),
        "its scales are stored as they are, and its settings deny it",
    ),
    "4 bits that are denied": ("nf4", said(load_in_8bit=True), "its numbers are not in 4 bits"),
    "8 bits that are denied": ("int8", said(load_in_4bit=True), "not in 4 bits, as its settings say"),
    "a module that is left out": (
        "packed 4",
        said(ignore=["lm_head", UP[:-1]]),
        f"holds {UP}weight quantised, which its",
    ),
    "modules that are left out": (
        "awq",
        said(modules_to_not_convert=["up_proj"]),
        "leave as it is (modules_to_not_conv",
    ),
    "settings of single modules": ("gptq", said(dynamic={"+:.*up_proj": {"bits": 8}}), "settings of single modules"),
    "sparse weights": (
        "packed 4",
        said(sparsity_config={"format": "sparse-24-bitmask"}),
        "'sparse-24-bitmask' as its form",
    ),
    "weights before": ("packed 4", said(quantization_status="frozen"), "with 'frozen' as its quantization_status"),
    "more bits": ("int", of_scheme("int-quantized", 4, **WHOLE, **UNEVEN), "its numbers are not in 4 bits"),
    "biases": ("gptq", weighted(lambda w: w.update({f"{UP}bias": torch.ones(48)})), f"holds {UP}bias, which Llama"),
}


@pytest.mark.parametrize(("format", "change", "why"), OTHERS.values(), ids=OTHERS)
def test_what_would_be_other_numbers_is_refused(format, change, why, tmp_path):
    quantised(tmp_path, format)
    change(tmp_path)
    assert why in refusal(tmp_path)
