"""Memory: what the headers of files say a model needs, what there is, and that what does not fit is refused unread."""

import json
import os
import struct
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import save_file

from core.models import sizes
from core.models.loading import load_model, model_size
from core.models.sizes import ModelSize, require_room
from core.models.weight_files import size_of, stored_in
from tests.core.tiny_models import tiny
from tests.refusals import refused


def announce(path: Path, numbers: int) -> None:
    """A file of safetensors with so many float32 numbers, all of them holes in the file."""
    header = json.dumps({"large": {"dtype": "F32", "shape": [numbers], "data_offsets": [0, 4 * numbers]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    os.truncate(path, 8 + len(header) + 4 * numbers)


@pytest.mark.thorough
def test_the_figure_is_what_is_then_loaded(minilm, smollm, half):
    for model in (minilm, smollm, *half.values()):
        loaded = sum(weight.nbytes for weight in model.network.parameters())
        assert model.size.needed(model.dtype) - model.size.others == loaded
        assert 0 <= model.nbytes - loaded < 10_000  # tables that the network makes for itself
        assert model.devices == ("cpu",)
    assert [model.dtype for model in half.values()] == ["bfloat16"] * 2
    assert model_size(minilm.name) == minilm.size
    # Of a GGUF file the largest tensor is there three times for a moment.
    assert model_size(smollm.name) == replace(smollm.size, converting=12 * 49_152 * 576)


def test_several_files_and_whole_numbers(tmp_path):
    tiny("Llama").save_pretrained(tmp_path, max_shard_size="20KB")
    files = sorted(tmp_path.glob("*.safetensors"))
    assert len(files) > 1
    assert size_of(stored_in(files)).numbers == sum(weight.numel() for weight in tiny("Llama").parameters())
    kinds = {torch.int64: 3, torch.bool: 5, torch.bfloat16: 4, torch.uint8: 7}
    tensors = {str(dtype): torch.zeros(count, dtype=dtype) for dtype, count in kinds.items()}
    save_file(tensors, tmp_path / "odd.safetensors")
    assert size_of(stored_in([tmp_path / "odd.safetensors"])) == ModelSize(numbers=4, others=36)
    assert ModelSize(numbers=4, others=36).needed("float16") == 44


def test_what_does_not_fit_is_refused_with_both_figures_and_unread(tmp_path):
    tiny("BERT").save_pretrained(tmp_path)
    announce(tmp_path / "model.safetensors", 10**12)
    process = psutil.Process()
    before = process.memory_info().rss
    with refused("model", r"needs 4,000\.0 GB of memory in float32, and \d[\d.,]* [GM]B are free") as raised:
        load_model(tmp_path)
    assert "Choose a smaller model" in str(raised.value)
    assert process.memory_info().rss - before < 100e6


def test_what_is_free_is_what_counts_and_a_smaller_dtype_is_named_where_that_would_fit(monkeypatch):
    size = ModelSize(numbers=10**6)
    monkeypatch.setattr(sizes, "free_bytes", lambda _device: 4 * 10**6)
    require_room(size, "a model", "float32")
    monkeypatch.setattr(sizes, "free_bytes", lambda _device: 3 * 10**6)
    smaller = r"In bfloat16 or float16 it needs 2 MB\. Choose that, or a smaller model"
    with refused("model", rf"needs 4 MB of memory in float32, and 3 MB are free on cpu.*{smaller}"):
        require_room(size, "a model", "float32")
    require_room(size, "a model", "bfloat16")
    with refused("model", "a smaller model") as raised:  # while it is converted it is in float32
        require_room(replace(size, converting=4 * size.numbers), "a model", "bfloat16")
    assert "bfloat16 or" not in str(raised.value)
    with refused("model", r"needs 8 MB of memory in float64, and 6 MB are free on cpu and cuda"):
        require_room(size, "a model", "float64", ("cpu", "cuda"))


@pytest.mark.parametrize(
    ("folder", "limit", "used", "cached"),
    [("memory", "limit_in_bytes", "usage_in_bytes", "total_inactive_file"), ("", "max", "current", "inactive_file")],
    ids=["version 1", "version 2"],
)
def test_a_container_may_use_less_than_its_machine_has(folder, limit, used, cached, tmp_path):
    """1,000 may be used; of the 700 that are, 200 are kept of files and can be had."""
    place = tmp_path / folder
    place.mkdir(exist_ok=True)
    for name, said in ((limit, "1000\n"), (used, "700\n"), ("stat", f"anon 500\n{cached} 200\n")):
        (place / f"memory.{name}").write_text(said)
    assert list(sizes._left_in_group(tmp_path)) == [500]
    (place / f"memory.{limit}").write_text("max\n")
    assert list(sizes._left_in_group(tmp_path)) == []


def test_a_conversion_that_does_not_fit_is_not_begun(cache, monkeypatch):
    monkeypatch.setattr(sizes, "free_bytes", lambda _device: 10**8)
    with refused("model", r"needs 340 MB of memory in bfloat16, and 100 MB are free on cpu"):
        load_model("SmolLM2-135M-Instruct", dtype="bfloat16")
    assert not cache.exists()
