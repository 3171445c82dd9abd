"""Conversion of GGUF files to folders of safetensors, once, in the user's cache.

Undoing the quantisation of SmolLM2 takes about two seconds; reading the same values from safetensors takes a fraction of one.
The folder's name contains the hash of the GGUF file, and its manifest is written last. So a folder in the cache is either
complete or converted again: a conversion that was killed leaves nothing that could be mistaken for a model.

    <cache folder>/SmolLM2-135M-Instruct.Q4_1-b179c9523d0e-v3/
        config.json, model.safetensors, tokenizer.json ...    as save_pretrained writes them, in float32; in another dtype, the
                                                              folder's name ends with it
        manifest.json                                         source, versions, size and hash of every file
"""

import hashlib
import json
import os
import shutil
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from platformdirs import user_cache_path
from transformers import PreTrainedModel

from ..errors import InputError, model_error
from ..units import bytes_in_words
from .bounds import as_large_as
from .devices import DTYPES
from .fields import read_object
from .gguf_files import GgufFile, gguf_parts, gguf_stem, read_gguf
from .gguf_networks import outline, weights
from .gguf_tokens import tokenizer
from .sizes import size_of_gguf

# Called with what is being done, in words, and the share that is done: from 0 to 1, or None if that is unknown.
Report = Callable[[str, float | None], None]


def silent(_words: str, _share: float | None) -> None:
    """Report nothing."""


# The version of the conversion. Increase it whenever the same GGUF file gives other weights, settings or tokens than before:
# older folders are then ignored.
CONVERSION = 3

MANIFEST = "manifest.json"
_WRITERS = ("gguf", "safetensors", "tokenizers", "torch", "transformers")  # packages whose versions stand in it

# The share of a conversion's time after which the weights are written, measured with SmolLM2.
_WRITTEN = 0.8

_LARGE = 10**9  # bytes: a file whose hash takes more than a moment
_SAFETENSORS = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}


@dataclass(frozen=True)
class Conversion:
    """A converted model.

    folder        where it is
    sha256        of its GGUF file; of a model in shards, of their hashes in hexadecimal digits, one a line, in their order
    quantisation  such as "Q4_1"
    """

    folder: Path
    sha256: str
    quantisation: str


def cache_folder() -> Path:
    """The folder of converted models and of check-ups: $HEADLIGHT_CACHE, or `headlight` in the system's folder for caches."""
    if chosen := os.environ.get("HEADLIGHT_CACHE"):
        return Path(chosen).expanduser().absolute()
    return user_cache_path("headlight", appauthor=False)


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sha256(parts: Sequence[Path]) -> str:
    if len(parts) == 1:
        return file_sha256(parts[0])
    return hashlib.sha256("".join(f"{file_sha256(part)}\n" for part in parts).encode()).hexdigest()


def converted(
    gguf: Path | Sequence[Path],
    report: Report = silent,
    before: Callable[[], object] = lambda: None,
    dtype: str = "float32",
    name: str | None = None,
) -> Conversion:
    """Convert a GGUF file, or a model in several, unless the cache contains its conversion, and return the conversion.

    Takes about 3 s and 0.5 GB of disk for a model of 135M parameters, once, and the memory of its largest tensor. Several
    processes may ask at the same time: one converts, the others wait.

    The key of the cache is the content of the file (its sha256), as in Ollama's folder and in the Hugging Face cache, and not
    its path, size and time: a file that was moved is not converted again, one that was replaced always is, and the hash is the
    model's revision. Reading a file for its hash takes a fraction of what loading its weights takes, which are two to eight
    times as large.

    gguf    a file, any shard of a model, or all of its shards
    report  called with what takes time, and the share that is done
    before  called before a conversion; it may refuse the conversion by raising an error
    dtype   of the weights. float32 holds every dequantised value exactly: float16 changes a quarter of them, bfloat16 most.
            A conversion in float32 serves every dtype
    name    what reports and errors call the model, if not by the file's name

    Raises InputError (field "model") if the file cannot be read as a language model or the cache folder cannot be written.
    """
    parts = gguf_parts(gguf, name)
    name = name or parts[0].name
    dtype = dtype if dtype in ("float16", "bfloat16") else "float32"
    if sum(part.stat().st_size for part in parts) > _LARGE:
        report(f"Reading {name}: has it been converted already?", None)
    sha256 = _sha256(parts)
    exact = cache_folder() / f"{gguf_stem(parts[0])}-{sha256[:12]}-v{CONVERSION}"
    rounded = exact.with_name(f"{exact.name}-{dtype}")
    folder, manifest = exact, _manifest(exact, sha256)
    if manifest is None and dtype != "float32":
        folder, manifest = rounded, _manifest(rounded, sha256)
    if manifest is None:
        before()
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with _alone(folder, report):
                # Whoever held the lock before may have done the work.
                manifest = _manifest(folder, sha256) or _convert(read_gguf(parts, name), sha256, folder, dtype, report)
        except OSError as error:
            raise model_error(
                f"The converted weights of {name} cannot be kept in {folder.parent}: {error}. Make room there or make "
                f"it writable, or set the environment variable HEADLIGHT_CACHE to another folder, and start again."
            ) from error
    return Conversion(folder, sha256, manifest["quantisation"])


def _manifest(folder: Path, sha256: str) -> dict | None:
    """The folder's manifest; None unless all files that it lists exist in their full size (hashing them would double the time
    of every start)."""
    try:
        manifest = read_object(folder / MANIFEST, 10**6, 10**4)
        is_sound = "quantisation" in manifest and manifest["sha256"] == sha256
        whole = [(folder / name).stat().st_size == file["bytes"] for name, file in manifest["files"].items()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return manifest if is_sound and all(whole) else None


def _alone(folder: Path, report: Report) -> AbstractContextManager:
    """Hold the lock on this folder, as one process at a time can. The system releases the lock of a process that dies."""
    lock = FileLock(folder.with_name(f"{folder.name}.lock"))
    try:
        return lock.acquire(timeout=0)
    except Timeout:
        report("Waiting for another Headlight that is converting the same weights", None)
        return lock.acquire()


def _convert(file: GgufFile, sha256: str, folder: Path, dtype: str, report: Report) -> dict:
    """Fill a folder beside the final one, rename it, and return its manifest. Called under the lock only."""
    unfinished = f"{folder.name}.part-"
    for left in folder.parent.iterdir():  # by a conversion that was killed, or damaged later
        if left == folder or left.name.startswith(unfinished):
            shutil.rmtree(left)
    with _reading(file), as_large_as(size_of_gguf(file)):
        network, words = outline(file), tokenizer(file)
    needed, free = DTYPES[dtype] * network.num_parameters(), shutil.disk_usage(folder.parent).free
    if needed > free:
        raise OSError(f"they take {bytes_in_words(needed)}, and {bytes_in_words(free)} are free")
    part = Path(tempfile.mkdtemp(prefix=unfinished, dir=folder.parent))
    try:
        network.config.dtype = dtype
        network.config.save_pretrained(part)
        if network.can_generate():
            network.generation_config.save_pretrained(part)
        words.save_pretrained(part)
        what = f"Reading {file.name}: converting its weights, once"
        _write_weights(part / "model.safetensors", file, network, dtype, lambda share: report(what, share * _WRITTEN))
        report(f"Reading {file.name}: keeping the converted weights", _WRITTEN)  # visitors need not know where
        written = sorted(part.iterdir())
        manifest = {
            "source": file.parts[0].name,
            "sha256": sha256,
            "quantisation": file.quantisation,
            "conversion": CONVERSION,
            "versions": {name: version(name) for name in _WRITERS},
            "files": {path.name: {"bytes": path.stat().st_size, "sha256": file_sha256(path)} for path in written},
        }
        (part / MANIFEST).write_text(json.dumps(manifest, indent=2), "utf-8")
        _flush(part)
        part.replace(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return manifest


@contextmanager
def _reading(file: GgufFile) -> Iterator[None]:
    """Raise InputError for whatever transformers finds wrong within this context."""
    try:
        yield
    except (InputError, OSError):
        raise
    except Exception as error:
        why = textwrap.shorten(str(error), 300)  # some list every weight
        raise model_error(
            f"{file.name} cannot be read as a language model: {why}. If the file is damaged, copy or download it again."
        ) from error


def _write_weights(
    path: Path, file: GgufFile, network: PreTrainedModel, dtype: str, on_share: Callable[[float], None]
) -> None:
    """Write a safetensors file, of which one tensor at a time is in memory. Raises InputError (field "model") if a weight is
    missing, left over or of another shape: weights are neither made up nor left out."""
    shapes = {name: weight.shape for name, weight in network.state_dict().items()}
    with _reading(file):
        stored = weights(file, network)
    lacking = shapes.keys() - stored.keys() - set(network.all_tied_weights_keys)
    if lacking:
        file.refuse(f"lacks {len(lacking)} of the weights of a {type(network).__name__}, such as {min(lacking)}")
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in stored:
        begin, end = end, end + DTYPES[dtype] * shapes[name].numel()
        header[name] = {"dtype": _SAFETENSORS[dtype], "shape": [*shapes[name]], "data_offsets": [begin, end]}
    with path.open("wb") as out:
        written = json.dumps(header).encode()
        written += b" " * (-len(written) % 8)
        out.write(len(written).to_bytes(8, "little") + written)
        for number, (name, read) in enumerate(stored.items()):
            on_share(number / len(stored))
            with _reading(file):
                values = read()
            if values.shape != shapes[name]:
                file.refuse(
                    f"has {name} of the shape {[*values.shape]}, where a network of its settings has {[*shapes[name]]}"
                )
            out.write(values.to(getattr(torch, dtype)).contiguous().view(torch.uint8).numpy().data)


def _flush(folder: Path) -> None:
    """Write the folder to the disk itself, so that a power cut cannot leave its name without its contents."""
    for file in folder.iterdir():
        with file.open("r+b") as opened:
            os.fsync(opened.fileno())
    if os.name == "posix":  # Windows cannot open a folder
        opened = os.open(folder, os.O_RDONLY)
        os.fsync(opened)
        os.close(opened)
