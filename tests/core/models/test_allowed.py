"""No way leads out of the folders that a host allows: not by a link, nor by what a file in them names."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model

from core.models.allowed import Allowed
from core.models.loading import load_model
from tests.core.gguf_files import write_gguf
from tests.core.models.folders import edit
from tests.core.models.test_on_disk import layer, layers, manifest
from tests.core.tiny_models import TINY, randomised
from tests.refusals import refused
from tests.source_files import ROOT

DATES = ROOT / "core/models/written_dates"
LEADS_OUT = "a link that leads out of the folders that this host allows"
NOT_LOADED = r"adapter for another model, .* This host does not load that model"


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """A model, an adapter for it, and a model in GGUF files, which the tests copy."""
    folder = tmp_path_factory.mktemp("files")
    llama = randomised(TINY["Llama"]())
    llama.save_pretrained(folder / "llama")
    torch.manual_seed(0)
    get_peft_model(llama, LoraConfig(r=2, init_lora_weights=False, target_modules=["q_proj"])).save_pretrained(
        str(folder / "adapter")
    )
    write_gguf(folder / "tiny.gguf", "llama", {}, {"a": torch.ones(2, 32).numpy()}, shards=2)
    return folder


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """A folder that is allowed, and one that is not, with a model in it."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    shutil.copytree(DATES, outside / "dates")
    return inside, outside


def linked(name: str, to: str = "") -> Callable[[Path, Path, Path], Path]:
    """A model of which one file is a link out of its folder."""

    def make(inside: Path, outside: Path, _files: Path) -> Path:
        model = shutil.copytree(DATES, inside / "model")
        (model / name).unlink(missing_ok=True)
        (model / name).parent.mkdir(exist_ok=True)
        (model / name).symlink_to(outside / "dates" / (to or name))
        return model

    return make


def with_modules(folder: str) -> Callable[[Path, Path, Path], Path]:
    """A folder of sentence-transformers, of whose modules one is a folder elsewhere."""

    def make(inside: Path, outside: Path, _files: Path) -> Path:
        (inside / "model").mkdir()
        (inside / "model" / folder).symlink_to(outside / "dates")
        kind = "sentence_transformers.models.Transformer"
        (inside / "model/modules.json").write_text(json.dumps([{"type": kind, "path": folder}]))
        return inside / "model"

    return make


def adapter_for(base: str) -> Callable[[Path, Path, Path], Path]:
    """An adapter, with {inside} and {outside} in the name of its base."""

    def make(inside: Path, outside: Path, files: Path) -> Path:
        shutil.copytree(files / "llama", outside / "llama")
        shutil.copytree(files / "llama", inside / "llama")
        (inside / "way").symlink_to(outside / "llama")
        adapter = shutil.copytree(files / "adapter", inside / "adapter")
        named = base.format(inside=inside, outside=outside)
        edit(adapter / "adapter_config.json", base_model_name_or_path=named)
        return adapter

    return make


def naming(other: str) -> Callable[[Path, Path, Path], Path]:
    """A model whose settings name a tokenizer elsewhere, which transformers would open."""

    def make(inside: Path, outside: Path, _files: Path) -> Path:
        model = shutil.copytree(DATES, inside / "model")
        (model / "tokenizer.json").rename(outside / "tokenizer.4.0.json")
        edit(model / "tokenizer_config.json", fast_tokenizer_files=[other.format(outside=outside)])
        return model

    return make


def shard_outside(inside: Path, outside: Path, files: Path) -> Path:
    first, second = sorted(files.glob("tiny*.gguf"))
    shutil.copy(first, inside)
    (inside / second.name).symlink_to(shutil.copy(second, outside))
    return inside / first.name


def up_from_a_link(inside: Path, outside: Path, _files: Path) -> Path:
    (outside / "beside").mkdir()
    (inside / "way").symlink_to(outside / "beside")
    return inside / "way" / ".." / "dates"


def indexed(inside: Path, outside: Path, _files: Path) -> Path:
    model = shutil.copytree(DATES, inside / "model")
    (model / "model.safetensors").unlink()
    index = {"weight_map": {"shared.weight": f"{outside}/dates/model.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    return model


WAYS: dict[str, tuple[Callable[[Path, Path, Path], Path], str]] = {
    "weights": (linked("model.safetensors"), LEADS_OUT),
    "configuration": (linked("config.json"), LEADS_OUT),
    "tokenizer": (linked("tokenizer.json"), LEADS_OUT),
    "a link to nothing": (linked("vocab.txt", "absent"), LEADS_OUT),
    "a file of few tokenizers": (linked("bpe.codes", "tokenizer.json"), LEADS_OUT),
    "modules": (linked("modules.json", "config.json"), LEADS_OUT),
    "templates": (linked("additional_chat_templates", "."), LEADS_OUT),
    "a template": (linked("additional_chat_templates/default.jinja", "config.json"), LEADS_OUT),
    "a module's folder": (with_modules("0_Transformer"), LEADS_OUT),
    "adapter, whole path": (adapter_for("{outside}/llama"), NOT_LOADED),
    "adapter, up and over": (adapter_for("{inside}/../outside/llama"), NOT_LOADED),
    "adapter, by a link": (adapter_for("{inside}/way"), NOT_LOADED),
    "adapter, from the hub": (adapter_for("org/llama"), NOT_LOADED),
    "adapter, nothing": (adapter_for("{outside}/absent"), NOT_LOADED),
    "adapter, for itself": (adapter_for("{inside}/adapter"), "is itself an adapter"),
    "another tokenizer": (naming("../../outside/tokenizer.4.0.json"), "names .* as its fast_tokenizer_files"),
    "a tokenizer by its whole path": (naming("{outside}/tokenizer.4.0.json"), "names .* as its fast_tokenizer_files"),
    "a shard": (shard_outside, LEADS_OUT),
    "up from a link": (up_from_a_link, "^This host does not load that model"),
    "an index": (indexed, "only safetensors files beside it are read"),
}


@pytest.fixture(scope="module")
def opened():
    """The files that this process opens, from now on."""
    seen, is_on = [], [True]
    sys.addaudithook(
        lambda event, of: seen.append(str(of[0])) if is_on[0] and event in ("open", "os.scandir") else None
    )
    yield seen
    is_on[0] = False


@pytest.mark.parametrize("way", WAYS)
def test_no_way_leads_out(way, places, files, opened):
    (inside, outside), (make, words) = places, WAYS[way]
    name = str(make(inside, outside, files))
    before = len(opened)
    with refused("model", words) as error:
        load_model(name, look_in=Allowed(hub=False, folders=(str(inside),)))
    assert [file for file in opened[before:] if os.path.realpath(file).startswith(str(outside))] == []
    assert str(outside) not in str(error.value) or "tokenizer" in way or "index" in way


def test_ollamas_files_lie_in_its_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    blobs = tmp_path / ".ollama/models/blobs"
    blobs.mkdir(parents=True)
    (tmp_path / "secret").write_bytes(b"GGUF")
    (blobs / "sha256-aa").symlink_to(tmp_path / "secret")
    manifest(tmp_path, "tiny", layers(layer("sha256:aa")))
    with refused("model", LEADS_OUT):
        load_model("ollama:tiny:1b", look_in=Allowed(hub=False, folders=(str(tmp_path / ".ollama"),)))


def test_what_stays_inside_or_leads_to_another_allowed_folder_is_loaded(places, files):
    inside, outside = places
    allowed = Allowed(hub=False, folders=(str(inside), str(outside / "dates")))
    (inside / "model").symlink_to(outside / "dates")
    assert load_model(str(inside / "model"), look_in=allowed).name == "dates"
    model = linked("model.safetensors")(inside / "..", outside, files)
    (inside / "links").mkdir()
    for file in model.iterdir():
        (inside / "links" / file.name).symlink_to(outside / "dates" / file.name)
    assert load_model(str(inside / "links"), look_in=allowed).name == "links"
    adapter = adapter_for("{inside}/llama")(inside, outside, files)
    assert load_model(str(adapter), look_in=allowed).name == "llama + adapter"


def test_whoever_names_an_adapter_or_a_folder_of_links_has_chosen_what_they_lead_to(places, files):
    inside, outside = places
    adapter = str(adapter_for("{outside}/llama")(inside, outside, files))
    model = str(linked("model.safetensors")(inside, outside, files))
    allowed = Allowed(hub=False, folders=False, models=(adapter, model))
    assert [load_model(name, look_in=allowed).name for name in (adapter, model)] == ["llama + adapter", "model"]
