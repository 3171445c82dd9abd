"""Quantised folders: FP8 in blocks is undone, and every other method is refused by its name, from config.json alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from core.errors import InputError
from core.models.loading import load_model, load_outline
from tests.core.models.folders import edit_config, edit_weights, refusal
from tests.core.tiny_models import tiny

FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [16, 16]}
UP = "model.layers.1.mlp.up_proj.weight"


# What config.json, or a file beside it, says of a quantisation; and the method by which it is then refused.
METHODS = [
    *(
        ({"quantization_config": {"quant_method": name, "bits": 4}}, {}, name)
        for name in ("mxfp4", "modelopt", "awq", "gptq", "compressed-tensors", "bitsandbytes", "FP8", "mystery", "<b>")
    ),
    ({"quantization_config": {"load_in_4bit": True}}, {}, "bitsandbytes"),
    ({"quantization_config": FP8 | {"load_in_8bit": True}}, {}, "bitsandbytes"),
    ({"text_config": {"quantization_config": {"quant_method": "mxfp4"}}}, {}, "mxfp4"),
    ({"quantization_config": FP8, "vision_config": {"quantization_config": {"quant_method": "hqq"}}}, {}, "hqq"),
    ({"compression_config": {"format": "pack-quantized"}}, {}, "compressed-tensors"),
    ({}, {"quantize_config.json": {"bits": 4}}, "gptq"),
    ({}, {"quantize_config.json": {"quant_method": "marlin"}}, "marlin"),
    ({}, {"quant_config.json": {"w_bit": 4}}, "awq"),
    ({}, {"hf_quant_config.json": {"producer": {}, "quantization": {"quant_algo": "FP8"}}}, "modelopt"),
    ({"quantization_config": {"quant_method": "\ud800"}}, {}, r"\ud800"),
]
NONSENSE = [
    "nonsense",
    [],
    {},
    3,
    {"quant_method": None},
    {"quant_method": 3},
    {"quant_method": ["fp8"]},
    {"quant_method": ""},
]


@pytest.mark.parametrize(("config", "files", "method"), METHODS)
def test_a_method_is_refused_by_its_name_before_there_are_weights(
    config: Mapping[str, Any], files: Mapping[str, Any], method: str, tmp_path: Path
) -> None:
    for name, content in {"config.json": {"model_type": "llama"} | config, **files}.items():
        (tmp_path / name).write_text(json.dumps(content))
    assert f"is quantised by the method {method}, which cannot be undone here" in refusal(tmp_path)
    with pytest.raises(InputError, match="is quantised by the method"):
        load_outline(tmp_path)


@pytest.mark.parametrize("content", NONSENSE, ids=repr)
def test_nonsense_names_no_method(content: object, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "quantization_config": content}))
    assert "is quantised, and its settings do not name the method (quant_method)" in refusal(tmp_path)


def in_fp8(
    folder: Path, rows: int, columns: int, *, scale: str = "weight_scale_inv", dtype: torch.dtype = torch.float32
) -> dict:
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e8m0fnu], ids=str)
@pytest.mark.parametrize(
    ("rows", "columns", "scale"), [(128, 128, "weight_scale_inv"), (16, 16, "weight_scale_inv"), (8, 16, "scale")]
)
def test_fp8_in_blocks_is_each_number_times_the_scale_of_its_block(
    rows: int, columns: int, scale: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    meant = in_fp8(tmp_path, rows, columns, scale=scale, dtype=dtype)
    model = load_model(tmp_path)
    assert model.notes == ()
    for name, read in model.network.state_dict().items():
        assert read.dtype == torch.float32
        torch.testing.assert_close(read, meant[name], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("change", "config", "said"),
    [
        (len, {"weight_block_size": [24, 24]}, "of the shape [32, 48] with scales of the shape [2, 3]"),
        (len, {"weight_block_size": [8, 16]}, "which are not those of whole blocks of [8, 16]"),
        (len, {"weight_block_size": None}, "not those of whole blocks of None"),
        (len, {"weight_block_size": "16"}, "in blocks of '16', where two sizes are"),
        (len, {"weight_block_size": [0, 0]}, "in blocks of [0, 0]"),
        (lambda weights: weights.pop(f"{UP}_scale_inv"), {}, f"holds {UP} in F8_E4M3, and no scale of it"),
        (lambda weights: weights.update({UP: weights[UP].view(torch.int8)}), {}, f"holds {UP} in I8, where"),
    ],
    ids=["24", "8", "None", "text", "0", "no scale", "packed"],
)
def test_fp8_that_transformers_would_read_as_other_numbers_is_refused(
    change, config, said: str, tmp_path: Path
) -> None:
    """It takes the size of a block from the number of scales, which is wrong where the last one is smaller than the others."""
    in_fp8(tmp_path, 16, 16)
    edit_weights(tmp_path, change)
    edit_config(tmp_path, quantization_config=FP8 | config)
    assert said in refusal(tmp_path)


def test_fp8_with_a_smaller_block_at_the_end_is_refused(tmp_path: Path) -> None:
    in_fp8(tmp_path, 24, 24)
    assert "not those of whole blocks of [24, 24]" in refusal(tmp_path)


def test_scales_that_no_setting_explains_are_refused(tmp_path: Path) -> None:
    in_fp8(tmp_path, 16, 16)
    edit_config(tmp_path, quantization_config=None, part={"quantization_config": FP8})
    assert "in F8_E4M3, where LlamaForCausalLM has real numbers" in refusal(tmp_path)


def test_fp8_is_undone_also_where_the_hardware_computes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meant = in_fp8(tmp_path, 16, 16)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (9, 0))
    read = load_model(tmp_path).network.state_dict()
    assert read.keys() == meant.keys()
    torch.testing.assert_close(read[UP], meant[UP], rtol=0, atol=0)
