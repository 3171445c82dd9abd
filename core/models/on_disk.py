"""Models that are on this disk already: in the Hugging Face cache, in Ollama's folder and in LM Studio's.

Only what can be read is listed: safetensors beside a config.json, and GGUF files of an architecture that is known. Of each only
headers are read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

from huggingface_hub import scan_cache_dir
from huggingface_hub.errors import CacheNotFound
from safetensors import SafetensorError

from ..errors import InputError
from .gguf_files import read_gguf
from .gguf_networks import ARCHITECTURES
from .sizes import ModelSize, size_of_files, size_of_gguf

OLLAMA = "ollama:"  # begins the name of a model of Ollama's: "ollama:llama3.2:1b"
_REGISTRY, _LIBRARY = "registry.ollama.ai", "library"  # left out of such a name
_WEIGHTS = "application/vnd.ollama.image.model"
_MOST_FILES = 1_000  # looked at in a folder; a manifest is a file too
_MAX_SMALL = 16_000_000  # bytes of a config.json, an index or a manifest


@dataclass(frozen=True)
class ModelOnDisk:
    """A model on this disk.

    name          as `load_model` takes it
    label         as its own program names it
    place         "Hugging Face cache", "Ollama" or "LM Studio"
    path          its file or folder
    architecture  such as "llama", of a GGUF file with its quantisation: "llama Q4_K_M"
    """

    name: str
    label: str
    place: str
    path: Path
    architecture: str
    size: ModelSize


def models_on_disk(may: Callable[[Path], bool] = lambda _path: True) -> list[ModelOnDisk]:
    """The models in the three places, each once, by place and name.

    may  whether a folder or a file may be looked at
    """
    found = {model.name: model for look in (_of_hugging_face, _of_ollama, _of_lm_studio) for model in look(may)}
    return sorted(found.values(), key=lambda model: (model.place, model.label.lower()))


def ollama_file(name: str) -> Path | None:
    """The GGUF file of a model by a name such as "ollama:llama3.2:1b"; None if there is none."""
    parts = name.removeprefix(OLLAMA).split("/")
    model, _, tag = parts.pop().partition(":")
    host, space = (
        [_REGISTRY, _LIBRARY][: 2 - len(parts)] + parts if len(parts) < 2 else ("/".join(parts[:-1]), parts[-1])
    )
    path = Path(host, space, model, tag or "latest")
    if ".." in path.parts or path.is_absolute():
        return None
    return next((blob for folder in _ollama_folders() if (blob := _blob(folder, folder / "manifests" / path))), None)


def ollama_folder() -> Path:
    """The folder in which Ollama's models are: the one of OLLAMA_MODELS, else that of the user or of the system's service."""
    return next((folder for folder in _ollama_folders() if folder.is_dir()), _ollama_folders()[0])


def _ollama_folders() -> list[Path]:
    if chosen := os.environ.get("OLLAMA_MODELS"):
        return [Path(chosen).expanduser()]
    return [Path.home() / ".ollama" / "models", Path("/usr/share/ollama/.ollama/models")]


def _of_hugging_face(may: Callable[[Path], bool]) -> Iterator[ModelOnDisk]:
    with suppress(CacheNotFound, ValueError, OSError):
        for repository in scan_cache_dir().repos:
            if repository.repo_type != "model" or not may(repository.repo_path) or not repository.revisions:
                continue
            newest = max(repository.revisions, key=lambda revision: ("main" in revision.refs, revision.last_modified))
            folder = newest.snapshot_path
            if (described := _described_folder(folder)) is not None:
                yield ModelOnDisk(repository.repo_id, repository.repo_id, "Hugging Face cache", folder, *described)
            for path in sorted(folder.glob("*.gguf")):
                if (described := _described_file(path)) is not None:
                    label = f"{repository.repo_id}/{path.name}"
                    yield ModelOnDisk(str(path), label, "Hugging Face cache", path, *described)


def _of_ollama(may: Callable[[Path], bool]) -> Iterator[ModelOnDisk]:
    folder = ollama_folder()
    if not may(folder):
        return
    for manifest in islice((folder / "manifests").glob("*/*/*/*"), _MOST_FILES):
        blob = _blob(folder, manifest)
        if blob is None or (described := _described_file(blob)) is None:
            continue
        host, space, model, tag = manifest.parts[-4:]
        before = (
            "" if (host, space) == (_REGISTRY, _LIBRARY) else f"{space}/" if host == _REGISTRY else f"{host}/{space}/"
        )
        label = f"{before}{model}:{tag}"
        yield ModelOnDisk(OLLAMA + label, label, "Ollama", blob, *described)


def _blob(folder: Path, manifest: Path) -> Path | None:
    """The GGUF file that a manifest names, which lies in the folder of all files, under its hash."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        layers = json.loads(_small(manifest))["layers"]
        digest = next((layer["digest"] for layer in layers if layer["mediaType"] == _WEIGHTS), "")
        path = folder / "blobs" / digest.replace(":", "-")
        if path.parent == folder / "blobs" and path.is_file():
            return path
    return None


def _of_lm_studio(may: Callable[[Path], bool]) -> Iterator[ModelOnDisk]:
    for folder in (Path.home() / ".lmstudio" / "models", Path.home() / ".cache" / "lm-studio" / "models"):
        if not may(folder):
            continue
        for path in islice(folder.glob("*/*/*.gguf"), _MOST_FILES):
            if (described := _described_file(path)) is not None:
                yield ModelOnDisk(str(path), "/".join(path.parts[-3:]), "LM Studio", path, *described)


def _described_file(path: Path) -> tuple[str, ModelSize] | None:
    """(architecture and quantisation, size) of a GGUF file that can be read; None for any other."""
    with suppress(OSError):
        if path.is_file():
            status = path.stat()
            return _read_file(path, status.st_size, status.st_mtime_ns)
    return None


@lru_cache(maxsize=_MOST_FILES)
def _read_file(path: Path, _size: int, _changed: int) -> tuple[str, ModelSize] | None:
    try:
        file = read_gguf(path)
    except InputError:
        return None
    known = file.architecture in ARCHITECTURES
    return (f"{file.architecture} {file.quantisation}", size_of_gguf(file)) if known else None


def _described_folder(folder: Path) -> tuple[str, ModelSize] | None:
    """(model type, size) of a folder with safetensors; None for any other."""
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError):
        model_type = json.loads(_small(folder / "config.json"))["model_type"]
        names = {single.name} if single.is_file() else set(json.loads(_small(index))["weight_map"].values())
        files = sorted(folder / name for name in names)
        if isinstance(model_type, str) and all(path.parent == folder and path.is_file() for path in files):
            return model_type, size_of_files(files)
    return None


def _small(path: Path) -> str:
    if not path.is_file() or path.stat().st_size > _MAX_SMALL:
        raise ValueError("no file, or too large")
    return path.read_text("utf-8")
