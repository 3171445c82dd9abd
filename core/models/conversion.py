"""Conversion of GGUF files to folders of safetensors, once, in the user's cache.

Undoing the quantisation takes about two seconds; reading the same values from safetensors takes a fraction of one.
The folder's name contains the hash of the GGUF file, and its manifest is written last. So a folder in the cache is either
complete or converted again: a conversion that was killed leaves nothing that could be mistaken for a model.

    <cache folder>/SmolLM2-135M-Instruct.Q4_1-b179c9523d0e-v1/
        config.json, model.safetensors (float32), tokenizer.json ...    as save_pretrained writes them
        manifest.json                                                   source, versions, size and hash of every file
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout
from gguf import MODEL_ARCH, GGMLQuantizationType, LlamaFileType, dequantize, get_tensor_name_map
from numpy.typing import NDArray
from safetensors import SafetensorError
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
from transformers import LlamaConfig, LlamaForCausalLM, TokenizersBackend
from transformers.integrations.gguf.reader import GgufHeader, read_gguf_metadata

from ..errors import InputError

# Called with what is being done, in words, and the share that is done: from 0 to 1, or None if that is unknown.
Report = Callable[[str, float | None], None]


def silent(_words: str, _share: float | None) -> None:
    """Report nothing."""


# The version of the conversion. Increase it whenever the same GGUF file gives other files than before: older folders are then
# ignored.
CONVERSION = 1

MANIFEST = "manifest.json"
_WRITERS = ("gguf", "safetensors", "tokenizers", "torch", "transformers")  # packages whose versions stand in it

# The shares of a conversion's time after which the weights are read and after which they are written, measured with SmolLM2.
_READ, _WRITTEN = 0.5, 0.8

# Values of tokenizer.ggml.pre (how a text is split before tokens are merged) that transformers does not know and replaces by
# GPT-2's. These models were trained with every digit split off first; without that "\n\n1." becomes other tokens.
_DIGITS_ALONE = frozenset({"smollm"})

# The names of a GGUF file's metadata, and their names in transformers' configuration.
_SETTINGS = {
    "general.name": "_model_name_or_path",
    "llama.context_length": "max_position_embeddings",
    "llama.block_count": "num_hidden_layers",
    "llama.feed_forward_length": "intermediate_size",
    "llama.embedding_length": "hidden_size",
    "llama.rope.dimension_count": "head_dim",
    "llama.rope.freq_base": "rope_theta",
    "llama.attention.head_count": "num_attention_heads",
    "llama.attention.head_count_kv": "num_key_value_heads",
    "llama.attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "llama.vocab_size": "vocab_size",
    "tokenizer.ggml.bos_token_id": "bos_token_id",
    "tokenizer.ggml.eos_token_id": "eos_token_id",
    "tokenizer.ggml.unknown_token_id": "unk_token_id",
    "tokenizer.ggml.padding_token_id": "pad_token_id",
}


@dataclass(frozen=True)
class Conversion:
    """A converted model: its folder, and its GGUF file's sha256 and quantisation, such as "Q4_1"."""

    folder: Path
    sha256: str
    quantisation: str


def cache_folder() -> Path:
    """The folder of converted models: $HEADLIGHT_CACHE, or `headlight` in the system's folder for caches."""
    if chosen := os.environ.get("HEADLIGHT_CACHE"):
        return Path(chosen).expanduser().absolute()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "headlight"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "headlight"
    given = os.environ.get("XDG_CACHE_HOME", "")
    # A relative XDG_CACHE_HOME is to be ignored (XDG Base Directory Specification, "Basics").
    return (Path(given) if os.path.isabs(given) else Path.home() / ".cache") / "headlight"


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def converted(gguf: Path, report: Report = silent, before: Callable[[], object] = lambda: None) -> Conversion:
    """Convert a GGUF file, unless the cache contains its conversion, and return the conversion.

    Takes about 2 s and 0.5 GB of disk for a model of 135M parameters, once. Several processes may ask at the same time:
    one converts, the others wait.

    report  called with what takes time, and the share that is done
    before  called before a conversion; it may refuse the conversion by raising an error

    Raises InputError (field "model") if the file cannot be read as a language model or the cache folder cannot be written.
    """
    sha256 = file_sha256(gguf)
    folder = cache_folder() / f"{gguf.stem}-{sha256[:12]}-v{CONVERSION}"
    manifest = _manifest(folder, sha256)
    if manifest is None:
        before()
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with _alone(folder, report):
                # Whoever held the lock before may have done the work.
                manifest = _manifest(folder, sha256) or _convert(gguf, sha256, folder, report)
        except (OSError, NotImplementedError, SafetensorError) as error:
            raise InputError(
                f"The converted weights of {gguf.name} cannot be kept in {folder.parent}: {error}. Make room there or make "
                f"it writable, or set the environment variable HEADLIGHT_CACHE to another folder, and start again.",
                field="model",
            ) from error
    return Conversion(folder, sha256, manifest["quantisation"])


def _manifest(folder: Path, sha256: str) -> dict | None:
    """The folder's manifest; None unless all files that it lists exist in their full size (hashing them would double the time
    of every start)."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
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


def _convert(gguf: Path, sha256: str, folder: Path, report: Report) -> dict:
    """Fill a folder beside the final one, rename it, and return its manifest. Called under the lock only."""
    unfinished = f"{folder.name}.part-"
    for left in folder.parent.iterdir():  # by a conversion that was killed, or damaged later
        if left == folder or left.name.startswith(unfinished):
            shutil.rmtree(left)
    part = Path(tempfile.mkdtemp(prefix=unfinished, dir=folder.parent))
    try:
        what = f"Reading {gguf.stem}: converting its weights, once"
        network, tokenizer, quantisation = _read(gguf, lambda share: report(what, share * _READ))
        what = f"Reading {gguf.stem}: keeping the converted weights in {folder.parent}"
        report(what, _READ)
        network.save_pretrained(part)
        tokenizer.save_pretrained(part)
        report(what, _WRITTEN)
        written = sorted(part.iterdir())
        manifest = {
            "source": gguf.name,
            "sha256": sha256,
            "quantisation": quantisation,
            "conversion": CONVERSION,
            "versions": {name: version(name) for name in _WRITERS},
            "files": {file.name: {"bytes": file.stat().st_size, "sha256": file_sha256(file)} for file in written},
        }
        (part / MANIFEST).write_text(json.dumps(manifest, indent=2), "utf-8")
        _flush(part)
        part.replace(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return manifest


def _read(gguf: Path, on_share: Callable[[float], None]) -> tuple[LlamaForCausalLM, TokenizersBackend, str]:
    """Read (network, tokenizer, name of the quantisation) from a GGUF file. The weights are in float32, which holds every
    dequantised value exactly: float16 changes a quarter of them, bfloat16 most."""
    try:
        metadata, _ = read_gguf_metadata(str(gguf))
        if (architecture := metadata["general.architecture"]) != "llama":
            raise InputError(
                f"{gguf} has the architecture {architecture!r}, and GGUF files are read only if theirs is 'llama'. Take the "
                f"same model as a folder with safetensors.",
                field="model",
            )
        quantisation = LlamaFileType(metadata["general.file_type"]).name.removeprefix("MOSTLY_").removeprefix("ALL_")
        network = _network(gguf, metadata, on_share)
        # AutoTokenizer would read the whole file once more for a configuration, which takes seconds.
        tokenizer = TokenizersBackend.from_pretrained(gguf.parent, gguf_file=gguf.name, local_files_only=True)
    except InputError:
        raise
    except Exception as error:
        why = textwrap.shorten(str(error), 300)  # torch names every weight that does not fit, each in a line
        raise InputError(
            f"{gguf} cannot be read as a language model: {why}. If the file is damaged, install it again.",
            field="model",
        ) from error
    if metadata.get("tokenizer.ggml.pre") in _DIGITS_ALONE:
        cut = Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
        tokenizer.backend_tokenizer.pre_tokenizer = cut
    return network, tokenizer, quantisation


def _network(gguf: Path, metadata: dict[str, Any], on_share: Callable[[float], None]) -> LlamaForCausalLM:
    """Build the network that the metadata describes, with the weights of the file."""
    settings = {ours: metadata[theirs] for theirs, ours in _SETTINGS.items() if theirs in metadata}
    # transformers reads the header: gguf.GGUFReader first makes an array of each of 98,052 tokens and merges, which takes
    # longer than all the rest.
    header = GgufHeader.from_file(str(gguf))
    tied = all(tensor.name != "output.weight" for tensor in header.tensors)
    with torch.device("meta"):  # takes no memory: the numbers are replaced at once
        network = LlamaForCausalLM(LlamaConfig(tie_word_embeddings=tied, **settings))
    stored = get_tensor_name_map(MODEL_ARCH.LLAMA, settings["num_hidden_layers"])
    names = {stored.get_name(name, [".weight"]): name for name in network.state_dict()}
    heads = {"attn_q": settings["num_attention_heads"], "attn_k": settings["num_key_value_heads"]}
    weights = {names.get(name, name): weight for name, weight in _weights(gguf, header, heads, on_share)}
    if tied:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    # Raises an error if a weight is missing, left over or of another shape.
    network.load_state_dict(weights, assign=True)
    return network


def _weights(
    gguf: Path, header: GgufHeader, heads: dict[str, int], on_share: Callable[[float], None]
) -> Iterator[tuple[str, torch.Tensor]]:
    """(name, values in float32) of every tensor. heads: number of heads of attn_q and attn_k, whose rows are reordered."""
    content = np.asarray(np.memmap(gguf, np.uint8, "r"))
    total, done = sum(tensor.nbytes for tensor in header.tensors), 0
    for tensor in header.tensors:
        on_share(done / total)
        done += tensor.nbytes
        start = header.data_start + tensor.offset
        rows = content[start : start + tensor.nbytes].reshape(tensor.shape[0], -1)
        values = dequantize(rows, GGMLQuantizationType(tensor.ggml_type)).reshape(tensor.shape)
        if (part := tensor.name.split(".")[-2]) in heads:
            values = _halves(values, heads[part])
        # Copies only what is still the mapped file, which must not be written to.
        yield tensor.name, torch.from_numpy(np.require(values, requirements=["C", "W"]))


def _halves(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Reorder the rows of W_Q or W_K of all heads, [heads x d_head, d_model]. The pairs that rotary embedding rotates are
    neighbours in llama.cpp; in transformers they are row i of a head's first half and row i of its second half."""
    return weight.reshape(heads, -1, 2, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def _flush(folder: Path) -> None:
    """Write the folder to the disk itself, so that a power cut cannot leave its name without its contents."""
    for file in folder.iterdir():
        with file.open("r+b") as opened:
            os.fsync(opened.fileno())
    if os.name == "posix":  # Windows cannot open a folder
        opened = os.open(folder, os.O_RDONLY)
        os.fsync(opened)
        os.close(opened)
