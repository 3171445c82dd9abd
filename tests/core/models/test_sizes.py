"""Memory: what the headers of files say a model needs, what there is, and that what does not fit is refused unread."""

from __future__ import annotations

import json
import os
import struct
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from core.errors import InputError
from core.models import sizes
from core.models.loading import load_model, model_size
from core.models.model import Model
from core.models.sizes import ModelSize, free_bytes, require_room
from core.models.weight_files import size_of, stored_in
from tests.core.tiny_models import tiny
from tests.refusals import refused


def announce(path: Path, numbers: int) -> None:
    """A file of safetensors with so many float32 numbers, all of them holes in the file."""
    header = json.dumps({"large": {"dtype": "F32", "shape": [numbers], "data_offsets": [0, 4 * numbers]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    os.truncate(path, 8 + len(header) + 4 * numbers)


def test_the_figure_is_what_is_then_loaded(minilm: Model, smollm: Model, half: dict[str, Model]) -> None:
    for model in (minilm, smollm, *half.values()):
        loaded = sum(weight.nbytes for weight in model.network.parameters())
        assert model.size is not None
        assert model.size.needed(model.dtype) - model.size.others == loaded
        assert 0 <= model.nbytes - loaded < 10_000  # tables that the network makes for itself
        assert model.devices == ("cpu",)
    assert [model.dtype for model in half.values()] == ["bfloat16"] * 2


def test_what_a_name_says_is_what_the_files_say(minilm: Model, smollm: Model) -> None:
    """Of a GGUF file as well, of which the largest tensor is there three times for a moment."""
    assert model_size(minilm.name) == minilm.size
    assert smollm.size is not None
    assert model_size(smollm.name) == replace(smollm.size, converting=12 * 49_152 * 576)


def test_several_files_and_whole_numbers(tmp_path: Path) -> None:
    tiny("Llama").save_pretrained(tmp_path, max_shard_size="20KB")
    files = sorted(tmp_path.glob("*.safetensors"))
    assert len(files) > 1
    assert size_of(stored_in(files)).numbers == sum(weight.numel() for weight in tiny("Llama").parameters())
    header = {"a": ("I64", [3], 24), "b": ("BOOL", [5], 5), "c": ("BF16", [2, 2], 8), "d": ("U8", [7], 7)}
    said, start = {}, 0
    for name, (dtype, shape, size) in header.items():
        said[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, start + size]}
        start += size
    written = json.dumps(said).encode()
    (tmp_path / "odd.safetensors").write_bytes(struct.pack("<Q", len(written)) + written + bytes(start))
    assert size_of(stored_in([tmp_path / "odd.safetensors"])) == ModelSize(numbers=4, others=36)
    assert ModelSize(numbers=4, others=36).needed("float16") == 44


def test_what_does_not_fit_is_refused_with_both_figures_and_unread(tmp_path: Path) -> None:
    tiny("BERT").save_pretrained(tmp_path)
    announce(tmp_path / "model.safetensors", 10**12)
    process = psutil.Process()
    before = process.memory_info().rss
    with refused("model", r"needs 4,000\.0 GB of memory in float32, and \d[\d.,]* [GM]B are free") as raised:
        load_model(tmp_path)
    assert "Choose a smaller model" in str(raised.value)
    assert process.memory_info().rss - before < 100e6


def test_a_smaller_dtype_is_named_where_that_would_fit() -> None:
    free = free_bytes("cpu")
    size = ModelSize(numbers=free // 3)
    with pytest.raises(InputError, match=r"In bfloat16 or float16 it needs .* [GM]B\. Choose that, or a smaller model"):
        require_room(size, "a model", "float32")
    require_room(size, "a model", "bfloat16")
    with pytest.raises(InputError, match="a smaller model") as raised:  # while it is converted it is in float32
        require_room(replace(size, converting=4 * size.numbers), "a model", "bfloat16")
    assert "bfloat16 or" not in str(raised.value)


def test_what_is_free_is_what_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    size = ModelSize(numbers=10**6)
    monkeypatch.setattr(sizes, "free_bytes", lambda _device: 4 * 10**6)
    require_room(size, "a model", "float32")
    monkeypatch.setattr(sizes, "free_bytes", lambda _device: 3 * 10**6)
    with pytest.raises(InputError, match=r"needs 4 MB of memory in float32, and 3 MB are free on cpu"):
        require_room(size, "a model", "float32")
    require_room(size, "a model", "bfloat16")
    with pytest.raises(InputError, match=r"needs 8 MB of memory in float64, and 6 MB are free on cpu and cuda"):
        require_room(size, "a model", "float64", ("cpu", "cuda"))


@pytest.mark.parametrize("version", [1, 2])
def test_a_container_may_use_less_than_its_machine_has(version: int, tmp_path: Path) -> None:
    """1,000 may be used; of the 700 that are, 200 are kept of files and can be had."""
    names = (
        ("memory.max", "memory.current", "memory.stat")
        if version == 2
        else ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat")
    )
    details = f"anon 500\n{'' if version == 2 else 'total_'}inactive_file 200\n"
    for name, said in zip(names, ("1000\n", "700\n", details), strict=True):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(said)
    assert list(sizes._left_in_group(tmp_path)) == [500]
    (tmp_path / names[0]).write_text("max\n")
    assert list(sizes._left_in_group(tmp_path)) == []


def test_a_conversion_that_does_not_fit_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADLIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sizes, "free_bytes", lambda _device: 10**8)
    with pytest.raises(InputError, match=r"needs 340 MB of memory in bfloat16, and 100 MB are free on cpu"):
        load_model("SmolLM2-135M-Instruct", dtype="bfloat16")
    assert not (tmp_path / "cache").exists()
