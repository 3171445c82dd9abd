"""Which models a host loads, and that no answer tells what is on its disk."""

import os
import socket
from pathlib import Path

import pytest
from huggingface_hub import constants

from core.models import on_disk
from core.models.loading import load_model
from tests.core.models.test_on_disk import HOSTILE, fill
from tests.pages.app import go, new
from tests.refusals import refused
from ui import allowed, settings
from ui.allowed import model_help, models_here, offered, places_of
from ui.markdown import plain
from ui.settings import Settings
from ui.views.sources import models


@pytest.fixture
def host(monkeypatch):
    def allow(**said):
        monkeypatch.setattr(settings, "current", lambda: Settings(**said))  # pyright: ignore[reportArgumentType]

    allowed._looked.cache_clear()  # what was found on this computer, and then what these tests put there
    yield allow
    allowed._looked.cache_clear()


@pytest.fixture
def paths(tmp_path):
    """Existing, missing, and odd ones."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    inside = [str(tmp_path / name) for name in ("folder", "file", "link", "loop", "absent", "folder/../folder")]
    odd = ["~", "~root", "~nobody-here", "/", "/etc/shadow", r"\\server\share", "C:\\Windows", "file:///etc"]
    odd += ["x\0y", ""]
    return [*inside, "core", "core/models", ".", "..", "../..", "core/../core", "x" * 9000, "org/name", *odd]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Where models of this disk are looked for."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(on_disk, "PATIENCE", 60)
    return tmp_path


def touched(*_args, **_named):
    raise AssertionError("something was looked for")


def refusal(name):
    with refused("model") as error:
        models.load(name)
    return str(error.value)


def test_where_nothing_is_allowed_all_get_the_same_words_and_nothing_is_touched(host, paths, monkeypatch):
    host(hub=False, folders=False)
    for owner, name in ((os, "stat"), (os, "lstat"), (os, "readlink"), (os, "scandir"), (socket, "getaddrinfo")):
        monkeypatch.setattr(owner, name, touched)
    said = {refusal(name) for name in paths}
    monkeypatch.undo()
    assert len(said) == 1
    assert "It has all-MiniLM-L6-v2, SmolLM2-135M-Instruct and written-dates;" in said.pop()


def test_a_hub_without_folders_looks_at_no_folder(host, paths, monkeypatch):
    host(hub=True, folders=False)
    asked = []

    def note(name, **_):
        asked.append(name)
        raise OSError("no network")

    monkeypatch.setattr("core.models.loading.snapshot_download", note)
    words = {name: refusal(name) for name in paths}
    assert set(asked) == {"core", "core/models", "org/name"}
    assert words["core/models"].replace("core/models", "org/name") == words["org/name"]
    assert len({said for name, said in words.items() if name not in asked}) == 1


def test_a_listed_folder_and_what_is_in_it_and_nothing_else(host, tmp_path, monkeypatch):
    shared, secret = tmp_path / "shared", tmp_path / "secret"
    (shared / "model").mkdir(parents=True)
    secret.mkdir()
    (shared / "way_out").symlink_to(secret)
    (tmp_path / "way_in").symlink_to(shared)
    host(hub=False, folders=(str(shared),))
    assert places_of(str(shared / "model")) == places_of(str(shared / "absent")) == ("folder",)
    outside = [secret, shared / "way_out", shared / "../secret", tmp_path / "way_in/model", tmp_path / "absent"]
    assert len({refusal(str(path)) for path in [*outside, f"{shared}2", "org/name"]}) == 1
    monkeypatch.chdir(shared)
    assert places_of("model") == ("folder",)
    assert "has no config.json" in refusal(str(shared / "model"))


def test_listed_models_are_offered_and_loaded_whatever_else_is_off(host):
    host(hub=False, folders=False, models=("org/name",))
    assert offered() == ["all-MiniLM-L6-v2", "SmolLM2-135M-Instruct", "written-dates", "org/name"]
    assert places_of(" org/name ") == ("folder", "hub")
    assert "org/name" in model_help()
    refusal("org/other")


def test_the_library_looks_only_where_it_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org/name").mkdir(parents=True)
    monkeypatch.setattr("core.models.loading.snapshot_download", lambda *_, **__: pytest.fail("the hub was asked"))
    with refused("model", "has no config"):
        load_model("org/name", look_in=("folder",))
    with refused("model", "'org/absent' is not here"):
        load_model("org/absent", look_in=("folder",))
    with refused("model", "'org/name' is not here"):
        load_model("org/name", look_in=())


def test_models_on_this_disk_are_listed_where_folders_are_allowed(host, home, monkeypatch):
    fill(home)
    host()
    assert len(models_here()) == 6
    assert models_here()["ollama:tiny:1b"] == "tiny:1b · 1 MB · llama F32 · Ollama"
    assert len(set(models_here().values())) == 6
    assert "1 MB · llama F32 · Ollama" in model_help()
    host(hub=False)
    assert len(models_here()) == 5
    host(folders=(str(home / ".ollama"),))
    assert [name.partition(":")[0] for name in models_here()] == ["ollama"] * 3
    assert all("folder" in places_of(name) for name in models_here())
    host(folders=(str(home / ".lmstudio"),), hub=False)
    assert [Path(name).name for name in models_here()] == ["tiny.gguf"]
    (home / ".lmstudio/models/org/tiny-GGUF/tiny.gguf").replace(home / "tiny.gguf")
    (home / ".lmstudio/models/org/tiny-GGUF/tiny.gguf").symlink_to(home / "tiny.gguf")
    allowed._looked.cache_clear()
    assert models_here() == {}
    said = refusal("ollama:tiny:1b")
    assert said == refusal("ollama:other:1b")
    host(folders=False)
    monkeypatch.setattr(allowed, "models_on_disk", touched)
    assert models_here() == {}
    assert "gguf" not in model_help().lower()
    assert refusal("ollama:tiny:1b") == refusal("ollama:other:1b")


def test_a_file_that_cannot_be_listed_does_not_take_the_page_down(host, home):
    for case in ("a name that is not UTF-8", "a nested config", "a nested manifest", "half a surrogate"):
        make, _ = HOSTILE[case]
        make(home)
    host()
    app = go(new(), "step_by_step")
    said = [caption.value for caption in app.caption if caption.value.startswith("Not in the list of models")]
    assert said == [
        plain(r"Not in the list of models, because they cannot be opened: deep:1b, org/deep, org/half and 1 more.")
    ]
