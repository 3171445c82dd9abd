"""The models on this disk: in folders as the Hugging Face hub's client, Ollama and LM Studio fill them."""

import json
import os
import struct
from pathlib import Path
from threading import Event

import gguf
import pytest
from huggingface_hub import constants

from core.models import on_disk
from core.models.loading import load_model
from core.models.on_disk import _Search, models_on_disk, ollama_files
from core.models.weight_files import INDEX, SINGLE
from tests.core.models.folders import Change, written
from tests.core.models.test_conversion import tiny_tensors, write_tiny
from tests.core.tiny_models import tiny
from tests.refusals import refused

WEIGHTS = "application/vnd.ollama.image.model"


def snapshot_of(home: Path, name: str) -> Path:
    return home / "hub" / f"models--org--{name}" / "snapshots" / ("0" * 40)


def repository(home: Path, name: str) -> Path:
    tiny("Llama").save_pretrained(snapshot_of(home, name))
    return snapshot_of(home, name)


def manifest(home: Path, name: str, content: bytes = b"{}", space: str = "registry.ollama.ai/library") -> Path:
    path = home / ".ollama/models/manifests" / space / (name if "/" in name else f"{name}/1b")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def studio(home: Path, name: str, of: str = "odd") -> Path:
    folder = home / ".lmstudio/models/org" / of
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def main(snapshot: Path, commit: bytes) -> None:
    refs = snapshot.parent.parent / "refs"
    refs.mkdir(parents=True)
    (refs / "main").write_bytes(commit)


def layer(digest: object, kind: str = WEIGHTS) -> dict[str, object]:
    return {"mediaType": kind, "digest": digest}


def layers(*each: object) -> bytes:
    return json.dumps({"layers": each}).encode()


def fill(home: Path) -> None:
    """A model in each place, and much that is none."""
    snapshot = repository(home, "tiny")
    main(snapshot, b"0" * 40)
    write_tiny(snapshot / "tiny.Q8_0.gguf", tiny_tensors())
    pickled = home / "hub" / "models--org--pickled" / "snapshots" / ("1" * 40)
    pickled.mkdir(parents=True)
    (pickled / "config.json").write_text('{"model_type": "llama"}')
    (pickled / "pytorch_model.bin").write_bytes(b"\x80\x04.")

    blobs = home / ".ollama" / "models" / "blobs"
    blobs.mkdir(parents=True)
    blob = write_tiny(blobs / "sha256-aa", tiny_tensors())
    manifest(home, "tiny", layers(layer("sha256:aa")))
    manifest(home, "tiny/latest", layers(layer("sha256:aa")), "registry.ollama.ai/ann")
    manifest(home, "tiny-GGUF/Q4_K_M", layers(layer("sha256:aa")), "hf.co/ann")
    manifest(home, "absent", layers(layer("sha256:bb")))
    manifest(home, "outside", layers(layer("../../../../secret")))
    manifest(home, "adapter", layers(layer("sha256:aa", "application/vnd.ollama.image.adapter")))
    manifest(home, "tiny/half", b'{"layers": [')
    (home / "secret").write_bytes(blob.read_bytes())

    write_tiny(studio(home, "tiny.gguf", "tiny-GGUF"), tiny_tensors())
    write_tiny(studio(home, "mmproj.gguf", "tiny-GGUF"), tiny_tensors(), "clip")
    write_tiny(studio(home, "lacking.gguf", "tiny-GGUF"), tiny_tensors(), shards=3)
    studio(home, "lacking-00002-of-00003.gguf", "tiny-GGUF").unlink()
    studio(home, "half-00001-of-00000.gguf", "tiny-GGUF").write_bytes(blob.read_bytes()[:50_000])
    os.mkfifo(studio(home, "pipe.gguf", "tiny-GGUF"))


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HEADLIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(on_disk, "PATIENCE", 60)
    monkeypatch.setattr(on_disk, "_search", None)
    return tmp_path


def test_each_place_and_only_what_can_be_read(home):
    assert models_on_disk() == ([], "")
    fill(home)
    numbers = sum(values.size for values in tiny_tensors().values())
    inside = snapshot_of(home, "tiny") / "tiny.Q8_0.gguf"
    studio = home / ".lmstudio/models/org/tiny-GGUF/tiny.gguf"
    in_folder = sum(weight.numel() for weight in tiny("Llama").parameters())
    assert [(m.place, m.label, m.name, m.architecture, m.size.numbers) for m in models_on_disk()[0]] == [
        ("Hugging Face cache", "org/tiny", "org/tiny", "llama", in_folder),
        ("Hugging Face cache", "org/tiny/tiny.Q8_0.gguf", str(inside), "llama F32", numbers),
        ("LM Studio", "org/tiny-GGUF/tiny.gguf", str(studio), "llama F32", numbers),
        ("Ollama", "ann/tiny:latest", "ollama:ann/tiny:latest", "llama F32", numbers),
        ("Ollama", "hf.co/ann/tiny-GGUF:Q4_K_M", "ollama:hf.co/ann/tiny-GGUF:Q4_K_M", "llama F32", numbers),
        ("Ollama", "tiny:1b", "ollama:tiny:1b", "llama F32", numbers),
    ]
    for model in models_on_disk()[0]:
        if model.name != "org/tiny":
            assert load_model(model.name).size.numbers == numbers
    assert load_model("ollama:tiny:1b").name == "ollama:tiny:1b"
    assert [model.place for model in models_on_disk(lambda path: ".lmstudio" in str(path))[0]] == ["LM Studio"]
    gguf.GGUFWriter(studio, "llama").write_header_to_file()  # a file that changes is read again
    assert "LM Studio" not in {model.place for model in models_on_disk()[0]}


def test_a_name_that_ollama_does_not_have_and_a_folder_of_its_own(home, monkeypatch):
    fill(home)
    with refused("model", r"no model 'other:1b' here\. It has ann/tiny:latest, .*tiny:1b"):
        load_model("ollama:other:1b")
    for name in ("../../secret:x", "/etc/passwd:x", "a/b/c/d:x", "", "tiny", "outside:1b", "\0:1b"):
        assert ollama_files(f"ollama:{name}") == (), name
    (home / ".ollama").rename(home / "elsewhere")
    assert not [model for model in models_on_disk()[0] if model.place == "Ollama"]
    monkeypatch.setenv("OLLAMA_MODELS", str(home / "elsewhere" / "models"))
    assert len([model for model in models_on_disk()[0] if model.place == "Ollama"]) == 3


def test_writing_stops_where_ollama_stops(home):
    """Its tokens are the end (0), the bytes, and a double newline (257)."""
    fill(home)
    kind, blobs = WEIGHTS.removesuffix("model"), home / ".ollama/models/blobs"
    (blobs / "sha256-cc").write_text('{"stop": ["\\n\\n", "<|end|>", "User:"], "temperature": 0.5}')
    manifest(home, "tiny", layers(layer("sha256:aa"), layer("sha256:cc", f"{kind}params")))
    model = load_model("ollama:tiny:1b")
    assert model.network.generation_config.eos_token_id == [0, 257]
    assert [note for note in model.notes if "Ollama" in note] == [
        "Ollama stops at “User:”; here writing goes on, as this is not one token."
    ]
    assert load_model("ollama:ann/tiny:latest").network.generation_config.eos_token_id == [0]
    (blobs / "sha256-cc").write_text("[")
    with refused("model", "^ollama:tiny:1b "):
        load_model("ollama:tiny:1b")
    manifest(home, "tiny", layers(layer("sha256:aa"), layer("sha256:aa", f"{kind}adapter")))
    with refused("model", "Ollama adds an adapter to tiny:1b, which is not read here"):
        load_model("ollama:tiny:1b")


def test_a_model_in_shards_is_listed_once_in_each_place(home):
    """Ollama names its files by their hashes, and a manifest may have them in any order."""
    hub, blobs = snapshot_of(home, "tiny") / "Q8_0", home / ".ollama/models/blobs"
    places = [hub, home / ".lmstudio/models/org/tiny-GGUF", blobs]
    for place in places:
        place.mkdir(parents=True)
        write_tiny(place / "tiny.gguf", tiny_tensors(), shards=3)
    for number, digest in ((2, "bb"), (1, "cc"), (3, "aa")):
        (blobs / f"tiny-0000{number}-of-00003.gguf").rename(blobs / f"sha256-{digest}")
    manifest(home, "tiny", layers(*(layer(f"sha256:{digest}") for digest in ("bb", "cc", "aa"))))
    main(hub.parent, b"0" * 40)

    first = "tiny-00001-of-00003.gguf"
    listed = {model.label: (model.name, model.size.numbers) for model in models_on_disk()[0]}
    numbers = sum(values.size for values in tiny_tensors().values())
    assert listed == {
        "org/tiny/Q8_0/tiny.gguf": (str(hub / first), numbers),
        "org/tiny-GGUF/tiny.gguf": (str(places[1] / first), numbers),
        "tiny:1b": ("ollama:tiny:1b", numbers),
    }
    assert len({load_model(name).revision for name, _ in listed.values()}) == 1
    (blobs / "sha256-aa").unlink()
    assert "tiny:1b" not in {model.label for model in models_on_disk()[0]}


# --- files that anybody may have put there


def replaced(path: Path) -> Path:
    path.unlink()
    return path


def of_folder(name: str, change: Change) -> tuple[Change, str]:
    return lambda home: change(repository(home, name)), f"org/{name}"


def of_studio(name: str, shown: str) -> tuple[Change, str]:
    """A file of this name in LM Studio's folder, and how its name is shown."""
    return lambda home: write_tiny(studio(home, name), tiny_tensors()), f"org/odd/{shown}"


DEEP = b'{"layers":' + b"[" * 100_000
LISTS = b'{"model_type": "llama", "a": [' + b"[]," * 200_000 + b"0]}"
HQQ = b'{"model_type": "llama", "quantization_config": {"quant_method": "hqq"}}'
# What makes a file that cannot be listed, and its name in the sentence that says so.
HOSTILE: dict[str, tuple[Change, str]] = {
    "a name that is not UTF-8": of_studio(os.fsdecode(b"\xff.gguf"), r"\udcff.gguf"),
    "a folder that is not UTF-8": (lambda home: repository(home, os.fsdecode(b"\xff")), r"org/\udcff"),
    "control characters": of_studio("\x1b[31m\n" + "\x01" * 240 + ".gguf", r"\x1b[31m\n\x01"),
    "another direction": of_studio("\u202e.gguf", r"\u202e.gguf"),
    "a nested manifest": (lambda home: manifest(home, "deep", DEEP), "deep:1b"),
    "a nested config": of_folder("deep", written("config.json", DEEP)),
    "a large config": of_folder("large", lambda folder: os.truncate(folder / "config.json", 10**9)),
    "a config of lists": of_folder("lists", written("config.json", LISTS)),
    "half a surrogate": of_folder("half", written("config.json", b'{"model_type": "\\ud800"}')),
    "a type that is a list": of_folder("list", written("config.json", b'{"model_type": ["llama"]}')),
    "quantised": of_folder("hqq", written("config.json", HQQ)),
    "a nested index": of_folder("index", lambda folder: replaced(folder / SINGLE).with_name(INDEX).write_bytes(DEEP)),
    "a header of a gigabyte": of_folder("header", written(SINGLE, struct.pack("<Q", 10**9))),
    "a pipe for a config": of_folder("pipe", lambda folder: os.mkfifo(replaced(folder / "config.json"))),
    "a device for weights": of_folder("device", lambda folder: replaced(folder / SINGLE).symlink_to("/dev/zero")),
    "a pipe for a manifest": (lambda home: os.mkfifo(replaced(manifest(home, "pipe"))), "pipe:1b"),
    "a device for a manifest": (lambda home: replaced(manifest(home, "zero")).symlink_to("/dev/zero"), "zero:1b"),
}


@pytest.mark.parametrize(("make", "name"), HOSTILE.values(), ids=HOSTILE)
def test_what_cannot_be_listed_is_named_and_the_rest_is_listed(make, name, home):
    write_tiny(studio(home, "good.gguf"), tiny_tensors())
    make(home)
    for _ in range(2):  # the second time from memory
        models, left_out = models_on_disk()
        assert [model.label for model in models] == ["org/odd/good.gguf"]
        assert left_out.startswith(f"Not in the list of models, because they cannot be opened: {name}")
        assert left_out.isprintable()


def loops(home: Path) -> None:
    for folder in (home / "hub", home / ".ollama/models/manifests", home / ".lmstudio/models"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "models--a").symlink_to(folder)
        (folder / "models--b").symlink_to("models--b")


def pipes_for_folders(home: Path) -> None:
    (home / "hub" / "models--a" / "refs").mkdir(parents=True)
    os.mkfifo(home / "hub" / "models--a" / "refs" / "main")
    os.mkfifo(home / "hub" / "models--b")
    (home / ".ollama").write_text("a file")


def odd_manifests(home: Path) -> None:
    odd = (3, {"mediaType": WEIGHTS}, layer("\0"), layer(["a"]))
    for number, content in enumerate((b'{"layers": 3}', *map(layers, odd))):
        manifest(home, f"odd{number}", content)


def branches_that_lead_elsewhere(home: Path) -> None:
    for name, branch in (("up", b"../../../etc"), ("bytes", b"\xff\0")):
        main(repository(home, name), branch)


@pytest.mark.parametrize(
    ("make", "found"),
    [(loops, 0), (pipes_for_folders, 0), (odd_manifests, 0), (branches_that_lead_elsewhere, 2)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_links_in_circles_pipes_and_odd_manifests_are_passed_over(make, found, home):
    write_tiny(studio(home, "good.gguf"), tiny_tensors())
    make(home)
    assert len(models_on_disk()[0]) == found + 1


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
@pytest.mark.parametrize("folder", ["hub", ".ollama", ".lmstudio/models"])
def test_a_folder_that_nobody_may_read_is_named(folder, home):
    (home / folder).mkdir(parents=True)
    (home / folder).chmod(0)
    models, left_out = models_on_disk()
    (home / folder).chmod(0o700)
    assert models == []
    assert left_out.startswith("Not in the list of models, because they cannot be opened: ")


def test_of_any_number_of_files_only_so_many_are_looked_at(home, monkeypatch):
    monkeypatch.setattr(on_disk, "_MOST_ENTRIES", 50)
    fill(home)
    for number in range(100):
        manifest(home, str(number))
        (home / "hub" / f"models--a--{number}").mkdir()
    models, left_out = models_on_disk()
    assert any(model.place == "LM Studio" for model in models)  # the other places have filled up
    assert "There are more models or files on this disk than are looked at." in left_out


def test_of_any_number_of_models_only_so_many_are_listed(home, monkeypatch):
    monkeypatch.setattr(on_disk, "_MOST_MODELS", 2)
    for number in range(3):
        write_tiny(studio(home, f"{number}.gguf"), tiny_tensors())
    repository(home, "other")
    models, left_out = models_on_disk()
    assert [model.place for model in models] == ["Hugging Face cache", "LM Studio", "LM Studio"]
    assert left_out == "There are more models or files on this disk than are looked at."


def test_a_page_does_not_wait_for_all_of_them(home, monkeypatch):
    """Whoever asks gets what has been found by then, and the next one the rest. None of it leaves the list while it is looked
    for again."""
    fill(home)
    monkeypatch.setattr(on_disk, "PATIENCE", 0)
    ready, search = Event(), _Search.run
    monkeypatch.setattr(_Search, "run", lambda self: (ready.wait(), search(self)))
    assert models_on_disk() == ([], "Still looking for models on this disk.")
    ready.set()
    monkeypatch.setattr(on_disk, "PATIENCE", 60)
    found = models_on_disk()
    assert len(found[0]) == 6
    ready.clear()
    monkeypatch.setattr(on_disk, "PATIENCE", 0)
    assert models_on_disk() == found
    ready.set()
