"""The models on this disk: in folders as the Hugging Face hub's client, Ollama and LM Studio fill them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import gguf
import pytest
from huggingface_hub.utils import _cache_manager

from core.errors import InputError
from core.models.loading import load_model
from core.models.on_disk import models_on_disk, ollama_files
from tests.core.models.test_conversion import tiny_tensors, write_tiny
from tests.core.tiny_models import tiny

WEIGHTS = "application/vnd.ollama.image.model"


def fill(home: Path) -> None:
    """A model in each place, and much that is none."""
    repository = home / "hub" / "models--org--tiny"
    snapshot = repository / "snapshots" / ("0" * 40)
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("0" * 40)
    tiny("Llama").save_pretrained(snapshot)
    write_tiny(snapshot / "tiny.Q8_0.gguf", tiny_tensors())
    pickled = home / "hub" / "models--org--pickled" / "snapshots" / ("1" * 40)
    pickled.mkdir(parents=True)
    (pickled / "config.json").write_text('{"model_type": "llama"}')
    (pickled / "pytorch_model.bin").write_bytes(b"\x80\x04.")

    ollama = home / ".ollama" / "models"
    (ollama / "blobs").mkdir(parents=True)
    blob = write_tiny(ollama / "blobs" / "sha256-aa", tiny_tensors())
    for place, digest, kind in (
        ("registry.ollama.ai/library/tiny/1b", "sha256:aa", WEIGHTS),
        ("registry.ollama.ai/ann/tiny/latest", "sha256:aa", WEIGHTS),
        ("hf.co/ann/tiny-GGUF/Q4_K_M", "sha256:aa", WEIGHTS),
        ("registry.ollama.ai/library/absent/1b", "sha256:bb", WEIGHTS),
        ("registry.ollama.ai/library/outside/1b", "../../../../secret", WEIGHTS),
        ("registry.ollama.ai/library/adapter/1b", "sha256:aa", "application/vnd.ollama.image.adapter"),
    ):
        path = ollama / "manifests" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"layers": [{"mediaType": kind, "digest": digest, "size": blob.stat().st_size}]}))
    (ollama / "manifests" / "registry.ollama.ai" / "library" / "tiny" / "half").write_text('{"layers": [')
    (home / "secret").write_bytes(blob.read_bytes())

    studio = home / ".lmstudio" / "models" / "org" / "tiny-GGUF"
    studio.mkdir(parents=True)
    write_tiny(studio / "tiny.gguf", tiny_tensors())
    write_tiny(studio / "mmproj.gguf", tiny_tensors(), "clip")
    write_tiny(studio / "lacking.gguf", tiny_tensors(), shards=3)
    (studio / "lacking-00002-of-00003.gguf").unlink()
    (studio / "half-00001-of-00000.gguf").write_bytes(blob.read_bytes()[:50_000])
    os.mkfifo(studio / "pipe.gguf")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HEADLIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)
    monkeypatch.setattr(_cache_manager, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path


def test_each_place_and_only_what_can_be_read(home: Path) -> None:
    assert models_on_disk() == []
    fill(home)
    numbers = sum(values.size for values in tiny_tensors().values())
    found = [
        (model.place, model.label, model.name, model.architecture, model.size.numbers) for model in models_on_disk()
    ]
    inside = home / "hub/models--org--tiny/snapshots" / ("0" * 40) / "tiny.Q8_0.gguf"
    studio = home / ".lmstudio/models/org/tiny-GGUF/tiny.gguf"
    assert found == [
        (
            "Hugging Face cache",
            "org/tiny",
            "org/tiny",
            "llama",
            sum(weight.numel() for weight in tiny("Llama").parameters()),
        ),
        ("Hugging Face cache", "org/tiny/tiny.Q8_0.gguf", str(inside), "llama F32", numbers),
        ("LM Studio", "org/tiny-GGUF/tiny.gguf", str(studio), "llama F32", numbers),
        ("Ollama", "ann/tiny:latest", "ollama:ann/tiny:latest", "llama F32", numbers),
        ("Ollama", "hf.co/ann/tiny-GGUF:Q4_K_M", "ollama:hf.co/ann/tiny-GGUF:Q4_K_M", "llama F32", numbers),
        ("Ollama", "tiny:1b", "ollama:tiny:1b", "llama F32", numbers),
    ]
    for model in models_on_disk():
        if model.name != "org/tiny":
            assert load_model(model.name).size.numbers == numbers
    assert load_model("ollama:tiny:1b").name == "ollama:tiny:1b"
    assert [model.place for model in models_on_disk(lambda path: ".lmstudio" in str(path))] == ["LM Studio"]


def test_a_name_that_ollama_does_not_have(home: Path) -> None:
    fill(home)
    with pytest.raises(InputError, match=r"no model 'other:1b' here\. It has ann/tiny:latest, .*tiny:1b") as raised:
        load_model("ollama:other:1b")
    assert raised.value.field == "model"
    for name in ("../../secret:x", "/etc/passwd:x", "a/b/c/d:x", "", "tiny", "outside:1b", "\0:1b"):
        assert ollama_files(f"ollama:{name}") == [], name


def test_ollama_with_a_folder_of_its_own(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(home)
    (home / ".ollama").rename(home / "elsewhere")
    assert not [model for model in models_on_disk() if model.place == "Ollama"]
    monkeypatch.setenv("OLLAMA_MODELS", str(home / "elsewhere" / "models"))
    assert len([model for model in models_on_disk() if model.place == "Ollama"]) == 3


def test_a_file_that_changes_is_read_again(home: Path) -> None:
    fill(home)
    path = home / ".lmstudio/models/org/tiny-GGUF/tiny.gguf"
    assert len(models_on_disk()) == 6
    gguf.GGUFWriter(path, "llama").write_header_to_file()
    assert len(models_on_disk()) == 5


def test_a_model_in_shards_is_listed_once_in_each_place(home: Path) -> None:
    """Ollama names its files by their hashes, and a manifest may have them in any order."""
    places = [
        home / "hub/models--org--tiny/snapshots" / ("0" * 40) / "Q8_0",
        home / ".lmstudio/models/org/tiny-GGUF",
        home / ".ollama/models/blobs",
    ]
    for place in places:
        place.mkdir(parents=True)
        write_tiny(place / "tiny.gguf", tiny_tensors(), shards=3)
    layers = []
    for number, digest in ((2, "bb"), (1, "cc"), (3, "aa")):
        (places[2] / f"tiny-0000{number}-of-00003.gguf").rename(places[2] / f"sha256-{digest}")
        layers.append({"mediaType": WEIGHTS, "digest": f"sha256:{digest}"})
    manifest = home / ".ollama/models/manifests/registry.ollama.ai/library/tiny/1b"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps({"layers": layers}))
    (home / "hub/models--org--tiny/refs").mkdir()
    (home / "hub/models--org--tiny/refs/main").write_text("0" * 40)

    first = "tiny-00001-of-00003.gguf"
    listed = {model.label: (model.name, model.size.numbers) for model in models_on_disk()}
    numbers = sum(values.size for values in tiny_tensors().values())
    assert listed == {
        "org/tiny/Q8_0/tiny.gguf": (str(places[0] / first), numbers),
        "org/tiny-GGUF/tiny.gguf": (str(places[1] / first), numbers),
        "tiny:1b": ("ollama:tiny:1b", numbers),
    }
    assert len({load_model(name).revision for name, _ in listed.values()}) == 1
    (places[2] / "sha256-aa").unlink()
    assert "tiny:1b" not in {model.label for model in models_on_disk()}
