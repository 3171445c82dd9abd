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
from itertools import islice, takewhile
from pathlib import Path

from huggingface_hub import scan_cache_dir
from huggingface_hub.errors import CacheNotFound
from safetensors import SafetensorError

from ..errors import InputError
from .gguf_files import gguf_stem, named_shards, read_gguf
from .gguf_settings import SETTINGS
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


def ollama_files(name: str) -> list[Path]:
    """The GGUF files of a model by a name such as "ollama:llama3.2:1b"; none if there is no such model."""
    parts = name.removeprefix(OLLAMA).split("/")
    model, _, tag = parts.pop().partition(":")
    host, space = (
        [_REGISTRY, _LIBRARY][: 2 - len(parts)] + parts if len(parts) < 2 else ("/".join(parts[:-1]), parts[-1])
    )
    path = Path(host, space, model, tag or "latest")
    if ".." in path.parts or path.is_absolute():
        return []
    return next((blobs for folder in _ollama_folders() if (blobs := _blobs(folder, folder / "manifests" / path))), [])


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
            for path in sorted([*folder.glob("*.gguf"), *folder.glob("*/*.gguf")]):
                if (described := _described_file([path])) is not None:
                    label = f"{repository.repo_id}/{path.with_name(f'{gguf_stem(path)}.gguf').relative_to(folder)}"
                    yield ModelOnDisk(str(path), label, "Hugging Face cache", path, *described)


def _of_ollama(may: Callable[[Path], bool]) -> Iterator[ModelOnDisk]:
    folder = ollama_folder()
    if not may(folder):
        return
    for manifest in islice((folder / "manifests").glob("*/*/*/*"), _MOST_FILES):
        blobs = _blobs(folder, manifest)
        if not blobs or (described := _described_file(blobs)) is None:
            continue
        host, space, model, tag = manifest.parts[-4:]
        before = (
            "" if (host, space) == (_REGISTRY, _LIBRARY) else f"{space}/" if host == _REGISTRY else f"{host}/{space}/"
        )
        label = f"{before}{model}:{tag}"
        yield ModelOnDisk(OLLAMA + label, label, "Ollama", blobs[0], *described)


def _blobs(folder: Path, manifest: Path) -> list[Path]:
    """The GGUF files that a manifest names, which lie in the folder of all files under their hashes; none if one is missing."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        layers = json.loads(_small(manifest))["layers"]
        digests = [layer["digest"] for layer in layers if layer["mediaType"] == _WEIGHTS]
        paths = [folder / "blobs" / digest.replace(":", "-") for digest in digests]
        if all(path.parent == folder / "blobs" and path.is_file() for path in paths):
            return paths
    return []


def _of_lm_studio(may: Callable[[Path], bool]) -> Iterator[ModelOnDisk]:
    for folder in (Path.home() / ".lmstudio" / "models", Path.home() / ".cache" / "lm-studio" / "models"):
        if not may(folder):
            continue
        for path in islice(folder.glob("*/*/*.gguf"), _MOST_FILES):
            if (described := _described_file([path])) is not None:
                label = "/".join([*path.parts[-3:-1], f"{gguf_stem(path)}.gguf"])
                yield ModelOnDisk(str(path), label, "LM Studio", path, *described)


def _described_file(paths: list[Path]) -> tuple[str, ModelSize] | None:
    """(architecture and quantisation, size) of a GGUF file that can be read, or of a model in several files; None for any
    other, and for a shard that is not the first one."""
    parts = paths if len(paths) > 1 else named_shards(paths[0])
    with suppress(OSError):
        there = [*takewhile(Path.is_file, parts)] or paths
        if there[0] == paths[0] and paths[0].is_file():
            states = map(Path.stat, there)
            return _read_file(tuple(paths), tuple((state.st_size, state.st_mtime_ns) for state in states))
    return None


@lru_cache(maxsize=_MOST_FILES)
def _read_file(paths: tuple[Path, ...], _states: tuple[tuple[int, int], ...]) -> tuple[str, ModelSize] | None:
    """_states: sizes and times of all files, so that one that changes is read again."""
    try:
        file = read_gguf(paths)
    except InputError:
        return None
    known = file.architecture in SETTINGS
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
