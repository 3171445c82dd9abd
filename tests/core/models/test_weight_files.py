"""Weights in several files: an index that contradicts them, files that it does not name, and files that are not whole."""

import json
import struct
from pathlib import Path

import pytest
import torch
import transformers as t
from safetensors.torch import load_file, save_file

from core.models.loading import load_model, load_outline, model_size
from core.models.weight_files import INDEX, SINGLE
from tests.core.models.folders import Change, configured, edit_config, edit_weights, refusal, weighted, written
from tests.core.tiny_models import GROUPED, tiny
from tests.refusals import refused

UP = "model.layers.1.mlp.up_proj.weight"


@pytest.fixture
def shards(tmp_path) -> Path:
    tiny("Llama").save_pretrained(tmp_path, max_shard_size="20KB")
    return tmp_path


def weight_map(folder: Path) -> dict[str, str]:
    return json.loads((folder / INDEX).read_text())["weight_map"]


def write_map(folder: Path, **changes: object) -> None:
    """Change entries of the index. None: there is none"""
    written = {name: file for name, file in (weight_map(folder) | changes).items() if file is not None}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": written}))


def another_file(folder: Path) -> str:
    """A file of which UP is no part."""
    return next(file for file in weight_map(folder).values() if file != weight_map(folder)[UP])


def in_two_files(folder: Path) -> None:
    edit_weights(folder, lambda weights: weights.update({UP: next(iter(weights.values()))}), another_file(folder))


def of_another_model(folder: Path) -> None:
    """A shard in whose place is one with another tensor."""
    edit_weights(folder, lambda weights: weights.update(other=weights.pop(UP)), weight_map(folder)[UP])


CONTRADICTIONS = {
    "a file is lost": (lambda folder: (folder / another_file(folder)).unlink(), "files that its index names: model-"),
    "in two files": (in_two_files, f"holds the tensor {UP} twice: in "),
    "in another file": (lambda folder: write_map(folder, **{UP: another_file(folder)}), "and its index says model-"),
    "in a file, not in the index": (lambda folder: write_map(folder, **{UP: None}), "and its index does not name it"),
    "in the index, not in a file": (
        lambda folder: write_map(folder, **{"model.layers.2.mlp.up_proj.weight": weight_map(folder)[UP]}),
        "has an index that names model.layers.2.mlp.up_proj.weight, which no file holds",
    ),
    "a shard of another model": (of_another_model, "holds other in model-"),
    "a map of lists": (lambda folder: write_map(folder, **{UP: ["model-"]}), "does not give the file of each tensor"),
    "no map": (written(INDEX, b"{}"), "does not give the file of each tensor"),
    "an empty map": (written(INDEX, b'{"weight_map": {}}'), "has an index that names no weights"),
}


@pytest.mark.parametrize(("change", "said"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_an_index_that_contradicts_its_files_is_refused(change, said, shards):
    change(shards)
    assert said in refusal(shards)


def test_a_tied_weight_that_only_the_index_names_is_no_loss(tmp_path):
    """The hub's converter leaves it out of the files and keeps the index."""
    tiny("GPT-2").save_pretrained(tmp_path, max_shard_size="20KB")
    write_map(tmp_path, **{"lm_head.weight": weight_map(tmp_path)["transformer.wte.weight"]})
    assert load_model(tmp_path).notes == ()


def test_weight_files_that_are_not_read_are_named_and_one_file_goes_before_an_index(shards):
    for name, said in (
        ("consolidated.safetensors", "Its folder also holds consolidated.safetensors, which"),
        ("z.safetensors", "Its folder also holds consolidated.safetensors and 1 more weight files"),
        (SINGLE, "more weight files, which transformers does not read"),
    ):
        save_file(dict(tiny("Llama").state_dict()), shards / name, {"format": "pt"})
        (note,) = load_model(shards).notes
        assert said in note


F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
HEADERS = {
    "dtype": ({"a": F32 | {"dtype": "F16"}}, 8),
    "same place": ({"a": F32, "b": F32}, 8),
    "overlap": ({"a": F32, "b": F32 | {"data_offsets": [4, 12]}}, 12),
    "gap": ({"a": F32, "b": F32 | {"data_offsets": [12, 20]}}, 20),
    "too long": ({"a": F32}, 20),
    "too short": ({"a": F32}, 4),
    "overflow": ({"a": F32 | {"shape": [2**40, 2**40]}}, 8),
    "negative": ({"a": F32 | {"shape": [-2]}}, 8),
    "name": ({"a\n\u202e": F32 | {"data_offsets": [0, 7]}}, 7),
}


@pytest.mark.parametrize(("header", "size"), HEADERS.values(), ids=HEADERS)
def test_bytes_that_are_not_those_of_the_header_are_refused(header, size, tmp_path):
    """By safetensors itself; a name from the file is shown without what cannot be printed."""
    tiny("Llama").save_pretrained(tmp_path)
    written = json.dumps(header).encode()
    (tmp_path / SINGLE).write_bytes(struct.pack("<Q", len(written)) + written + bytes(size))
    for look in (load_model, model_size):
        with refused("model", "damaged or incomplete weights") as raised:
            look(tmp_path)
        assert str(raised.value).isprintable()


def test_a_tensor_that_a_header_announces_in_two_ways_is_refused(tmp_path):
    """safetensors takes the last one, and so do programs that read JSON as Python does."""
    tiny("Llama").save_pretrained(tmp_path)
    twice = ", ".join(
        f'"a": {json.dumps(F32 | changes)}' for changes in ({}, {"dtype": "F16", "shape": [2, 2]})
    ).encode()
    (tmp_path / SINGLE).write_bytes(struct.pack("<Q", len(twice) + 2) + b"{" + twice + b"}" + bytes(8))
    for look in (load_model, model_size):
        with refused("model", "with a header that cannot be read: it gives a twice, as {'dtype': 'F32'"):
            look(tmp_path)


# --- quantised folders. test_dequantising.py has those that Headlight undoes itself

FP8 = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [16, 16]}
ROUNDED = {"compression_config": {"config_groups": {"": {"input_activations": 8, "format": "int-quantized"}}}}
UNROUNDED = "compressed-tensors with 8 as its input_activations (activations are not quantised here)"
UNSAID = "compressed-tensors with a group that does not say how its weights are held"

# What config.json, or a file beside it, says of a quantisation; and the method by which it is then refused.
METHODS = [
    *(({"quantization_config": {"quant_method": one}}, {}, one) for one in ("modelopt", "hqq", "FP8", "<b>")),
    ({"text_config": {"quantization_config": {"quant_method": "aqlm"}}}, {}, "aqlm"),
    ({"quantization_config": FP8, "vision_config": {"quantization_config": {"quant_method": "hqq"}}}, {}, "hqq"),
    ({"compression_config": {"format": "pack-quantized"}}, {}, "compressed-tensors without config_groups"),
    ({"compression_config": {"format": "pack-quantized", "config_groups": {"": 3}}}, {}, UNSAID),
    ({"compression_config": {"format": "pack-quantized", "config_groups": {"": {"weights": [4]}}}}, {}, UNSAID),
    ({}, {"quantize_config.json": {"bits": 3}}, "gptq with 3 as its bits"),
    ({}, {"quantize_config.json": {"bits": 4, "format": "marlin"}}, "gptq with 'marlin' as its format"),
    ({}, {"quantize_config.json": {"quant_method": "marlin"}}, "marlin"),
    ({}, {"quant_config.json": {"w_bit": 4, "version": "GEMV"}}, "awq with 'GEMV' as its version"),
    (ROUNDED, {}, UNROUNDED),
    ({}, {"hf_quant_config.json": {"producer": {}, "quantization": {"quant_algo": "FP8"}}}, "modelopt"),
    ({"quantization_config": {"quant_method": "\ud800"}}, {}, r"\ud800"),
]
NONSENSE = ["nonsense", [], {}, 3, *({"quant_method": name} for name in (None, 3, ["fp8"], ""))]


@pytest.mark.parametrize(("config", "files", "method"), METHODS)
def test_a_method_is_refused_by_its_name_before_there_are_weights(config, files, method, tmp_path):
    for name, content in {"config.json": {"model_type": "llama"} | config, **files}.items():
        (tmp_path / name).write_text(json.dumps(content))
    assert f"is quantised by the method {method}, which cannot be undone here" in refusal(tmp_path)
    with refused("model", "is quantised by the method"):
        load_outline(tmp_path)


@pytest.mark.parametrize("content", NONSENSE, ids=repr)
def test_nonsense_names_no_method(content, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "quantization_config": content}))
    assert "is quantised, and its settings do not name the method (quant_method)" in refusal(tmp_path)


def in_fp8(folder: Path, rows: int, columns: int, scale: str = "weight_scale_inv", dtype=torch.float32) -> dict:
    """Save a tiny model whose projections are in FP8, with a scale for each block of so many rows and columns. Returns the
    weights that it stands for."""
    tiny("Llama").save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    meant = dict(weights)
    for name in [name for name in weights if name.endswith("proj.weight")]:
        height, width = weights[name].shape
        scales = 2.0 ** torch.randint(-2, 3, (-(-height // rows), -(-width // columns)))
        whole = scales.repeat_interleave(rows, 0)[:height].repeat_interleave(columns, 1)[:, :width]
        weights[name] = (weights[name] / whole).to(torch.float8_e4m3fn)
        meant[name] = weights[name].float() * whole
        weights[name.replace("weight", scale)] = scales.to(dtype)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    edit_config(folder, quantization_config=FP8 | {"weight_block_size": [rows, columns]})
    return meant


def assert_reads(folder: Path, meant: dict) -> None:
    model = load_model(folder)
    assert model.notes == ()
    assert model.network.state_dict().keys() == meant.keys()
    for name, read in model.network.state_dict().items():
        torch.testing.assert_close(read, meant[name], rtol=0, atol=0)  # float32, too


@pytest.mark.parametrize(
    ("rows", "columns", "scale", "dtype"),
    [
        (128, 128, "weight_scale_inv", torch.float32),
        (16, 16, "weight_scale_inv", torch.bfloat16),
        (8, 16, "scale", torch.float8_e8m0fnu),
    ],
)
def test_fp8_in_blocks_is_each_number_times_the_scale_of_its_block(rows, columns, scale, dtype, tmp_path):
    assert_reads(tmp_path, in_fp8(tmp_path, rows, columns, scale=scale, dtype=dtype))


def in_blocks(size: object) -> Change:
    return configured(quantization_config=FP8 | {"weight_block_size": size})


UNEXPLAINED = configured(quantization_config=None, part={"quantization_config": FP8})
# The size of the blocks, what is then changed, and what is said.
OTHER_NUMBERS = {
    "8": (
        16,
        in_blocks([8, 16]),
        "of the shape [32, 48] with scales of the shape [2, 3], which are not those of whole bl",
    ),
    "None": (16, in_blocks(None), "not those of whole blocks of None"),
    "text": (16, in_blocks("16"), "in blocks of '16', where two sizes are"),
    "0": (16, in_blocks([0, 0]), "in blocks of [0, 0]"),
    "a smaller block at the end": (24, in_blocks([24, 24]), "not those of whole blocks of [24, 24]"),
    "no scale": (16, weighted(lambda w: w.pop(f"{UP}_scale_inv")), f"holds {UP} in F8_E4M3, and no scale of it"),
    "scales of a plain weight": (
        16,
        weighted(lambda w: w.update({UP: w[UP].float()})),
        "the scales of a weight in F32",
    ),
    "a module that is left out": (
        16,
        configured(quantization_config=FP8 | {"modules_to_not_convert": ["up_proj"]}),
        "quantised, which its settings leave as it is",
    ),
    "another form": (
        16,
        configured(quantization_config=FP8 | {"weight_block_size": [16, 16], "fmt": "e5m2"}),
        "in F8_E4M3, and its settings say e5m2 (fmt)",
    ),
    "packed": (16, weighted(lambda w: w.update({UP: w[UP].view(torch.int8)})), f"holds {UP} in I8, where"),
    "no setting explains the scales": (16, UNEXPLAINED, "in F8_E4M3, where LlamaForCausalLM has real numbers"),
}


@pytest.mark.parametrize(("size", "change", "said"), OTHER_NUMBERS.values(), ids=OTHER_NUMBERS)
def test_fp8_that_transformers_would_read_as_other_numbers_is_refused(size, change, said, tmp_path):
    """It takes the size of a block from the number of scales, which is wrong where the last one is smaller than the others."""
    in_fp8(tmp_path, size, size)
    change(tmp_path)
    assert said in refusal(tmp_path)


def test_fp8_is_undone_also_where_the_hardware_computes_with_it(tmp_path, monkeypatch):
    meant = in_fp8(tmp_path, 16, 16)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (9, 0))
    assert_reads(tmp_path, meant)


FOURS = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])  # of E2M1, whose fourth bit is the sign
EXPERTS = "model.layers.0.mlp.experts.down_proj"


def in_mxfp4(folder: Path) -> dict:
    """Save a tiny model whose experts are in MXFP4. Returns the weights that it stands for."""
    config = t.GptOssConfig(**GROUPED | {"intermediate_size": 64}, num_local_experts=2, num_experts_per_tok=1)
    t.GptOssForCausalLM(config).save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    meant = dict(weights)
    for name in [name for name in weights if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        experts, width, height = weights.pop(name).shape
        codes = torch.randint(16, (experts, height, width), dtype=torch.uint8)
        scales = torch.randint(120, 131, (experts, height, width // 32), dtype=torch.uint8)
        numbers = torch.cat([FOURS, -FOURS])[codes.int()] * 2.0 ** (scales.repeat_interleave(32, -1).float() - 127)
        meant[name] = numbers.transpose(1, 2)
        packed = codes[..., 0::2] | codes[..., 1::2] << 4  # the first of two numbers is in the lower half of a byte
        weights |= {f"{name}_blocks": packed.reshape(*scales.shape, 16), f"{name}_scales": scales}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    edit_config(folder, quantization_config={"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]})
    return meant


def test_mxfp4_is_each_number_of_four_bits_times_the_power_of_two_of_its_block(tmp_path):
    meant = in_mxfp4(tmp_path)
    assert_reads(tmp_path, meant)
    assert model_size(tmp_path).numbers == sum(weight.numel() for weight in meant.values())


NOT_MXFP4 = {
    "no scales": (lambda w: w.pop(f"{EXPERTS}_scales"), f"holds {EXPERTS}_blocks, and not {EXPERTS}_scales"),
    "no blocks": (lambda w: w.pop(f"{EXPERTS}_blocks"), f"holds {EXPERTS}_scales, and not {EXPERTS}_blocks"),
    "a plain weight beside": (lambda w: w.update({EXPERTS: torch.ones(2, 64, 32)}), f"holds {EXPERTS} twice: as"),
    "other scales": (
        lambda w: w.update({f"{EXPERTS}_scales": w[f"{EXPERTS}_scales"][..., :1].clone()}),
        f"holds {EXPERTS} in blocks U8 [2, 32, 2, 16] with scales U8 [2, 32, 1]",
    ),
    "whole numbers": (
        lambda w: w.update({f"{EXPERTS}_blocks": w[f"{EXPERTS}_blocks"].to(torch.int32)}),
        "in blocks I32 [2, 32, 2, 16]",
    ),
}


@pytest.mark.parametrize(("change", "said"), NOT_MXFP4.values(), ids=NOT_MXFP4)
def test_mxfp4_whose_blocks_and_scales_do_not_fit_is_refused(change, said, tmp_path):
    in_mxfp4(tmp_path)
    weighted(change)(tmp_path)
    assert said in refusal(tmp_path)
