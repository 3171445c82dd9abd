"""Weights in several files: an index that contradicts them, files that it does not name, and files that are not whole."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from core.errors import InputError
from core.models.loading import load_model, model_size
from core.models.weight_files import INDEX, SINGLE
from tests.core.models.folders import edit_weights, refusal, written
from tests.core.tiny_models import tiny

UP = "model.layers.1.mlp.up_proj.weight"


@pytest.fixture
def shards(tmp_path: Path) -> Path:
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
    "a file is lost": (
        lambda folder: (folder / another_file(folder)).unlink(),
        "weight files that its index names: model-",
    ),
    "in two files": (in_two_files, f"holds the tensor {UP} twice: in "),
    "in another file": (lambda folder: write_map(folder, **{UP: another_file(folder)}), "and its index says model-"),
    "in a file, not in the index": (lambda folder: write_map(folder, **{UP: None}), "and its index does not name it"),
    "in the index, not in a file": (
        lambda folder: write_map(folder, **{"model.layers.2.mlp.up_proj.weight": weight_map(folder)[UP]}),
        "has an index that names model.layers.2.mlp.up_proj.weight, which no file holds",
    ),
    "a shard of another model": (of_another_model, "holds other in model-"),
    "a map of lists": (
        lambda folder: write_map(folder, **{UP: [weight_map(folder)[UP]]}),
        "does not give the file of each",
    ),
    "no map": (written(INDEX, b"{}"), "does not give the file of each tensor"),
    "an empty map": (written(INDEX, b'{"weight_map": {}}'), "has an index that names no weights"),
    "too deep": (written(INDEX, b'{"weight_map":' + b"[" * 10**5), "nested too deeply"),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_an_index_that_contradicts_its_files_is_refused(case: str, shards: Path) -> None:
    change, said = CONTRADICTIONS[case]
    change(shards)
    assert said in refusal(shards)


def test_a_tied_weight_that_only_the_index_names_is_no_loss(tmp_path: Path) -> None:
    """The hub's converter leaves it out of the files and keeps the index."""
    tiny("GPT-2").save_pretrained(tmp_path, max_shard_size="20KB")
    write_map(tmp_path, **{"lm_head.weight": weight_map(tmp_path)["transformer.wte.weight"]})
    assert load_model(tmp_path).notes == ()


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["consolidated.safetensors"], "Its folder also holds consolidated.safetensors, which"),
        (
            ["model-00009-of-00009.safetensors", "z.safetensors"],
            "model-00009-of-00009.safetensors and 1 more weight files",
        ),
    ],
)
def test_weight_files_that_are_not_read_are_named(names: list[str], said: str, shards: Path) -> None:
    for name in names:
        save_file(load_file(shards / weight_map(shards)[UP]), shards / name)
    (note,) = load_model(shards).notes
    assert note.startswith("Its folder also holds")
    assert said in note


def test_one_file_goes_before_an_index(shards: Path) -> None:
    save_file(dict(tiny("Llama").state_dict()), shards / SINGLE, {"format": "pt"})
    (note,) = load_model(shards).notes
    assert "more weight files, which transformers does not read" in note


F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("header", "size"),
    [
        ({"a": F32 | {"dtype": "F16"}}, 8),
        ({"a": F32, "b": F32}, 8),
        ({"a": F32, "b": F32 | {"data_offsets": [4, 12]}}, 12),
        ({"a": F32, "b": F32 | {"data_offsets": [12, 20]}}, 20),
        ({"a": F32}, 20),
        ({"a": F32}, 4),
        ({"a": F32 | {"shape": [2**40, 2**40]}}, 8),
        ({"a": F32 | {"shape": [-2]}}, 8),
        ({"a\n\u202e": F32 | {"data_offsets": [0, 7]}}, 7),
    ],
    ids=["dtype", "same place", "overlap", "gap", "too long", "too short", "overflow", "negative", "name"],
)
def test_bytes_that_are_not_those_of_the_header_are_refused(header: dict, size: int, tmp_path: Path) -> None:
    """By safetensors itself; a name from the file is shown without what cannot be printed."""
    tiny("Llama").save_pretrained(tmp_path)
    written = json.dumps(header).encode()
    (tmp_path / SINGLE).write_bytes(struct.pack("<Q", len(written)) + written + bytes(size))
    for look in (load_model, model_size):
        with pytest.raises(InputError, match="damaged or incomplete weights") as raised:
            look(tmp_path)
        assert str(raised.value).isprintable()
