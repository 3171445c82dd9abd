"""Models that are on this disk already: in the Hugging Face cache, in Ollama's folder and in LM Studio's.

Only what can be opened is listed: safetensors beside a config.json, and GGUF files of an architecture that is known. Of each
only headers are read.

Every page asks for the list, and anybody's files may lie in these folders, any number of them. So a thread of its own looks at
them, whoever asks waits a moment for it, and nothing in a file can do more than keep that file off the list.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice, takewhile
from pathlib import Path
from threading import Lock, Thread
from time import monotonic
from typing import Literal

from huggingface_hub import constants

from ..errors import shown
from ..units import listed
from .bounds import MAX_FILES, TEMPLATES, UnreadableError, checked_object
from .dequantising import undone
from .gguf_files import gguf_stem, named_shards, read_gguf
from .gguf_settings import SETTINGS
from .sentences import module_folders
from .sizes import ModelSize, size_of_gguf
from .weight_files import INDEX, SINGLE, check_method, header_bytes, size_of, stored_in, weight_files

OLLAMA = "ollama:"  # begins the name of a model of Ollama's: "ollama:llama3.2:1b"
_REGISTRY, _LIBRARY = "registry.ollama.ai", "library"  # left out of such a name
# What a file of Ollama's is, in a manifest.
_MEDIA = "application/vnd.ollama.image."
Media = Literal["model", "params", "adapter"]

PATIENCE = 0.15  # seconds that whoever asks for the list waits for it
_LONGEST = 60.0  # seconds that are spent on it; what was looked at is known the next time
_MOST_ENTRIES, _MOST_MODELS = 10_000, 500  # of the folders of one place, and of those in the list
_NAMED = 3  # of those that are left out
# Bytes of a config.json or a manifest, of the header of a file, and of an index, of which the largest has 9 MB. Each is read in
# one piece, while nothing else runs.
_MAX_SMALL, _MAX_HEADER, _MAX_INDEX = 1_000_000, 1_000_000, 10_000_000


@dataclass(frozen=True)
class ModelOnDisk:
    """A model on this disk.

    name          as `load_model` takes it
    label         as its own program names it
    place         "Hugging Face cache", "Ollama" or "LM Studio"
    path          its file or folder; of a model in shards the first one
    architecture  such as "llama", of a GGUF file with its quantisation: "llama Q4_K_M"
    """

    name: str
    label: str
    place: str
    path: Path
    architecture: str
    size: ModelSize


def _anything(_path: Path) -> bool:
    return True


def models_on_disk(
    may: Callable[[Path], bool] = _anything, *, to_the_end: bool = False
) -> tuple[list[ModelOnDisk], str]:
    """The models in the three places, each once, by place and name, as the last search has found them, or the first one so
    far; and a sentence about what is left out, "" if nothing is.

    may         whether a folder or a file may be looked at
    to_the_end  wait until the search ends
    """
    global _search
    with _SEARCHING:
        search = _search
        if search is None or search.may is not may or not search.is_alive():
            before = search.found() if search is not None and search.may is may else None
            _search = search = _Search(may, before)
            search.start()
    search.join(None if to_the_end else PATIENCE)
    return search.found()


def read_of(path: Path) -> Iterator[Path]:
    """What is read of a model at a path and may lie elsewhere: the path itself, the other shards of a file, or the links in a
    folder. Whoever asks for the next one has checked those before, which are then followed."""
    yield path
    if not path.is_dir():
        yield from takewhile(os.path.lexists, named_shards(path))
        return
    for folder in chain((path, path / TEMPLATES), _modules_in(path)):
        yield folder
        for file in islice(folder.iterdir() if folder.is_dir() else (), MAX_FILES):
            if file.is_symlink() and not file.is_dir():
                yield file


def _modules_in(folder: Path) -> Iterator[Path]:
    """The folders of the modules of sentence-transformers, read when the first one is asked for."""
    yield from module_folders(folder)


def ollama_files(name: str, media: Media = "model") -> tuple[Path, ...]:
    """The files of a model by a name such as "ollama:llama3.2:1b", its GGUF files or others; empty if there are none."""
    parts = name.removeprefix(OLLAMA).split("/")
    model, _, tag = parts.pop().partition(":")
    host, space = (
        [_REGISTRY, _LIBRARY][: 2 - len(parts)] + parts if len(parts) < 2 else ("/".join(parts[:-1]), parts[-1])
    )
    path = Path(host, space, model, tag or "latest")
    if ".." in path.parts or path.is_absolute():
        return ()
    for folder in _ollama_folders():
        with suppress(UnreadableError, OSError, ValueError):
            if _blobs(folder, folder / "manifests" / path):
                return _blobs(folder, folder / "manifests" / path, media)
    return ()


def ollama_stops(name: str) -> list[str]:
    """The texts at which Ollama stops writing with this model, beside the ends of a turn in its GGUF file. Raises
    UnreadableError for a file that is not one of parameters."""
    stops = [checked_object(path, _MAX_SMALL).get("stop") for path in ollama_files(name, "params")]
    return [text for some in stops if isinstance(some, list) for text in some if isinstance(text, str) and text]


def ollama_models() -> list[str]:
    """Ollama's models, by its own names, as far as so many can be looked at."""
    return sorted(shown(label, 60) for _, label, _ in _Search(_anything).ollama())


def ollama_folder() -> Path:
    """The folder in which Ollama's models are: the one of OLLAMA_MODELS, else that of the user or of the system's service."""
    return next((folder for folder in _ollama_folders() if os.path.isdir(folder)), _ollama_folders()[0])


def _ollama_folders() -> list[Path]:
    if chosen := os.environ.get("OLLAMA_MODELS"):
        return [Path(os.path.expanduser(chosen))]
    return [Path(os.path.expanduser("~/.ollama/models")), Path("/usr/share/ollama/.ollama/models")]


def _blobs(folder: Path, manifest: Path, media: Media = "model") -> tuple[Path, ...]:
    """The files that a manifest names, which lie in the folder of all files under their hashes; none if one is missing.

    Raises UnreadableError for a file that is not a manifest.
    """
    layers = checked_object(manifest, _MAX_SMALL).get("layers")
    every = [layer for layer in layers if isinstance(layer, dict)] if isinstance(layers, list) else []
    digests = [str(layer.get("digest")) for layer in every if layer.get("mediaType") == _MEDIA + media]
    paths = tuple(folder / "blobs" / digest.replace(":", "-") for digest in digests)
    return paths if all(path.parent == folder / "blobs" and os.path.isfile(path) for path in paths) else ()


class _Search(Thread):
    """A search of the three places. What it has found can be read at any time: until it ends, what the one before has found.
    Otherwise models would leave the list while they are looked for again."""

    def __init__(self, may: Callable[[Path], bool], before: tuple[list[ModelOnDisk], str] | None = None) -> None:
        super().__init__(name="models on this disk", daemon=True)
        self.may, self.before, self.until = may, before, monotonic() + _LONGEST
        self.models: dict[str, ModelOnDisk] = {}
        self.left_out: list[str] = []
        self.entries, self.is_cut = 0, False

    def run(self) -> None:
        places = {"Hugging Face cache": self.hugging_face, "Ollama": self.ollama, "LM Studio": self.lm_studio}
        for place, candidates in places.items():
            self.entries, most = 0, len(self.models) + _MOST_MODELS
            try:
                for name, label, paths in candidates():
                    if len(self.models) == most:
                        self.is_cut = True
                        break
                    if not all(self.may(file) for path in paths for file in read_of(path)):
                        continue  # of what lies elsewhere nothing is said
                    described = _described(paths, _signature(paths))
                    if isinstance(described, tuple) and f"{name}{label}{described[0]}".isprintable():
                        self.models[name] = ModelOnDisk(name, label, place, paths[0], *described)
                    elif described is not None:
                        self.left_out.append(label)
            except OSError:  # a folder that has gone in the meantime
                self.left_out.append(place)

    def found(self) -> tuple[list[ModelOnDisk], str]:
        if self.before is not None and self.is_alive():
            return self.before
        models, left_out, said = list(self.models.values()), sorted(self.left_out), []
        if left_out:
            named = listed([shown(label, 60) for label in left_out], _NAMED)
            said.append(f"Not in the list of models, because they cannot be opened: {named}.")
        if self.is_cut:
            said.append("There are more models or files on this disk than are looked at.")
        if self.is_alive():
            said.append("Still looking for models on this disk.")
        return sorted(models, key=lambda model: (model.place, model.label.lower())), " ".join(said)

    # --- what may be a model: its name, its label, and its folder or files

    def hugging_face(self) -> Iterator[tuple[str, str, tuple[Path, ...]]]:
        for repository in self.below(Path(constants.HF_HUB_CACHE), 1):
            is_model = repository.name.startswith("models--") and self.may(repository)
            if not is_model or (folder := self.newest(repository)) is None:
                continue
            name = repository.name.removeprefix("models--").replace("--", "/")
            yield name, name, (folder,)
            for levels in (1, 2):
                for path in self.below(folder, levels):
                    if path.suffix == ".gguf":
                        yield str(path), f"{name}/{_whole(path).relative_to(folder)}", (path,)

    def newest(self, repository: Path) -> Path | None:
        """The snapshot of the main branch, or the newest one."""
        main = repository / "refs" / "main"
        if os.path.isfile(main):
            with suppress(OSError, ValueError), main.open("rb") as file:
                commit = file.read(100).decode()
                if Path(commit).name == commit and (repository / "snapshots" / commit).is_dir():
                    return repository / "snapshots" / commit
        snapshots = [folder for folder in self.below(repository / "snapshots", 1) if os.path.isdir(folder)]
        return max(snapshots, key=os.path.getmtime, default=None)

    def ollama(self) -> Iterator[tuple[str, str, tuple[Path, ...]]]:
        folder = ollama_folder()
        if not self.may(folder):
            return
        for manifest in self.below(folder / "manifests", 4):
            host, space, model, tag = manifest.parts[-4:]
            before = f"{space}/" if host == _REGISTRY else f"{host}/{space}/"
            label = f"{'' if (host, space) == (_REGISTRY, _LIBRARY) else before}{model}:{tag}"
            try:
                if blobs := _blobs(folder, manifest):
                    yield OLLAMA + label, label, blobs
            except (UnreadableError, ValueError):
                self.left_out.append(label)

    def lm_studio(self) -> Iterator[tuple[str, str, tuple[Path, ...]]]:
        for folder in map(os.path.expanduser, ("~/.lmstudio/models", "~/.cache/lm-studio/models")):
            if self.may(Path(folder)):
                for path in self.below(Path(folder), 3):
                    if path.suffix == ".gguf":
                        yield str(path), "/".join(_whole(path).parts[-3:]), (path,)

    def below(self, folder: Path, levels: int) -> Iterator[Path]:
        """What lies so many levels below a folder, in any order, as far as entries and time are left."""
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self.entries += 1
                    if self.entries > _MOST_ENTRIES or monotonic() > self.until:
                        self.is_cut = True
                        return
                    if levels == 1:
                        yield Path(entry.path)
                    elif os.path.isdir(entry.path):
                        yield from self.below(Path(entry.path), levels - 1)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:
            self.left_out.append("/".join(folder.parts[-2:]))


_SEARCHING = Lock()
_search: _Search | None = None  # the last one


def _whole(path: Path) -> Path:
    """A file by the name of its model: without the number of a shard."""
    return path.with_name(f"{gguf_stem(path)}.gguf")


def _signature(paths: tuple[Path, ...]) -> tuple:
    """Changes when a file or a shard beside it changes, or the files of a folder that are read first."""
    first, signature = paths[0], []
    beside = takewhile(os.path.isfile, named_shards(first))
    for file in (*paths, *beside, first / "config.json", first / SINGLE, first / INDEX):
        with suppress(OSError):
            status = os.stat(file)
            signature.append((file.name, status.st_size, status.st_mtime_ns))
    return tuple(signature)


@lru_cache(maxsize=2 * _MOST_ENTRIES)
def _described(paths: tuple[Path, ...], _signature: tuple) -> tuple[str, ModelSize] | bool | None:
    """(architecture, size) of files or a folder that can be opened; None for what is not a model, False for any other.

    An architecture is a model type, or that of a GGUF file with its quantisation."""
    try:
        return _of_folder(paths[0]) if paths[0].is_dir() else _of_files(paths)
    except Exception:  # whatever is wrong with one file, the others are listed
        return False


def _of_files(paths: tuple[Path, ...]) -> tuple[str, ModelSize] | None:
    """Also None for a shard after the first one."""
    first = next(named_shards(paths[0]))
    if len(paths) == 1 and first != paths[0] and first.is_file():
        return None
    if not all(path.is_file() for path in paths):
        raise UnreadableError("is a pipe or a device")
    file = read_gguf(paths)
    return (f"{file.architecture} {file.quantisation}", size_of_gguf(file)) if file.architecture in SETTINGS else None


def _of_folder(folder: Path) -> tuple[str, ModelSize] | None:
    config = folder / "config.json"
    if not config.exists() or not any((folder / name).exists() for name in (SINGLE, INDEX)):
        return None
    settings = checked_object(config, _MAX_SMALL)
    if (model_type := settings.get("model_type")) is None:
        return None
    check_method(folder, settings, _MAX_SMALL)
    files = weight_files(folder, _MAX_INDEX)
    if not isinstance(model_type, str) or max(map(header_bytes, files)) > _MAX_HEADER:
        raise UnreadableError("announces too much")
    return model_type, size_of(undone(folder, stored_in(files)))
