"""The GGUF conversion: the right numbers, the right tokens, and a cache folder that is complete or not there at all."""

import functools
import hashlib
import json
import os
import re
import resource
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import numpy as np
import pytest
import torch
from filelock import FileLock
from gguf import GGMLQuantizationType as Quantisation
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from core.models import conversion
from core.models.conversion import MANIFEST, cache_folder, converted, file_sha256
from tests.conftest import PATIENCE
from tests.core.gguf_files import SMOLLM2, VOCABULARY, stored_as, write_gguf
from tests.core.tiny_models import GROUPED, randomised
from tests.depth import thorough
from tests.refusals import refused
from tests.source_files import ROOT

pytestmark = pytest.mark.usefixtures("cache")


@functools.cache
def llama() -> LlamaForCausalLM:
    sizes = GROUPED | {"intermediate_size": 64, "vocab_size": VOCABULARY, "tie_word_embeddings": True}
    return randomised(LlamaForCausalLM(LlamaConfig(**sizes)))


def tiny_tensors() -> dict[str, np.ndarray]:
    """Its weights as a file has them: norms, then matrices."""
    with torch.no_grad():
        stored = {name: values for name, (values, _) in stored_as(llama(), "llama", Quantisation.F32).items()}
    return dict(sorted(stored.items(), key=lambda named: named[1].ndim))


def write_tiny(path: Path, tensors: dict, architecture: str = "llama", shards: int = 1, **settings: object) -> Path:
    said = {"block_count": 2, "context_length": 64, "embedding_length": 32, "feed_forward_length": 64}
    said |= {"attention.head_count": 4, "attention.head_count_kv": 2, "attention.layer_norm_rms_epsilon": 1e-5}
    said |= {"rope.freq_base": 10000.0, "rope.dimension_count": 8, "vocab_size": VOCABULARY}
    return write_gguf(path, architecture, said | settings, tensors, shards)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("gguf") / "tiny.gguf", tiny_tensors())


def unfinished(cache: Path) -> list[str]:
    return [path.name for path in cache.iterdir() if ".part-" in path.name]


def assert_same_weights(found: dict[str, np.ndarray]) -> None:
    """Those of the network in the file. Exactly equal: conversion copies or dequantises, it rounds nothing."""
    for name, weight in llama().named_parameters():
        assert found[name].dtype == np.float32
        np.testing.assert_array_equal(found[name], weight.detach(), err_msg=name)


def test_every_weight_is_the_one_in_the_file_and_the_manifest_says_where_it_came_from(tiny, cache):
    made = converted(tiny)
    found = load_file(made.folder / "model.safetensors")
    assert_same_weights(found)
    assert len(found) == len(tiny_tensors())
    assert (made.sha256, made.quantisation, made.folder.parent) == (file_sha256(tiny), "F32", cache)
    manifest = json.loads((made.folder / MANIFEST).read_text())
    assert manifest["source"] == "tiny.gguf"
    assert manifest["versions"].keys() == {"gguf", "safetensors", "tokenizers", "torch", "transformers"}
    assert manifest["files"].keys() == {path.name for path in made.folder.iterdir()} - {MANIFEST}
    assert all(file_sha256(made.folder / name) == file["sha256"] for name, file in manifest["files"].items())


def test_what_is_there_is_not_made_again_but_of_another_file_and_in_another_way(tiny, tmp_path, monkeypatch):
    first = converted(tiny)
    before = (first.folder / "model.safetensors").stat()
    assert converted(tiny, lambda *told: pytest.fail(str(told))) == first
    after = (first.folder / "model.safetensors").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    other = tmp_path / tiny.name
    other.write_bytes(tiny.read_bytes()[:-1] + b"\1")
    folders = {first.folder, converted(other).folder}
    monkeypatch.setattr(conversion, "CONVERSION", conversion.CONVERSION + 1)
    folders.add(converted(tiny).folder)
    assert len(folders) == 3


DAMAGE = {
    "cut off": lambda folder: os.truncate(folder / "model.safetensors", 1000),
    "a file is lost": lambda folder: (folder / "tokenizer.json").unlink(),
    "no manifest": lambda folder: (folder / MANIFEST).unlink(),
    "half a manifest": lambda folder: (folder / MANIFEST).write_text('["half a manif'),
    "an empty manifest": lambda folder: (folder / MANIFEST).write_text("{}"),
    "a list as manifest": lambda folder: (folder / MANIFEST).write_text("[]"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_folder_is_made_again(damage, tiny, cache):
    folder = converted(tiny).folder
    DAMAGE[damage](folder)
    assert converted(tiny).folder == folder
    assert_same_weights(load_file(folder / "model.safetensors"))
    assert unfinished(cache) == []


CONVERT = "import pathlib, core.models.conversion as it; it.converted(pathlib.Path({!r}))"


@pytest.fixture(scope="module")
def recovered(tmp_path_factory) -> tuple[Path, list[tuple[str, float]]]:
    """The real model, converted after a conversion that was killed while it worked: its folder and what was said."""
    cache = tmp_path_factory.mktemp("killed") / "cache"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HEADLIGHT_CACHE", str(cache))
        env = os.environ | {"OMP_NUM_THREADS": "1"}
        killed = subprocess.Popen([sys.executable, "-c", CONVERT.format(str(SMOLLM2))], cwd=ROOT, env=env)
        while not (cache.is_dir() and unfinished(cache)):
            assert killed.poll() is None, "it ended before it had begun"
            time.sleep(0.01)
        killed.kill()
        killed.wait()
        assert len(unfinished(cache)) == 1
        assert not list(cache.glob(f"*/{MANIFEST}"))
        said: list[tuple[str, float]] = []
        return converted(SMOLLM2, lambda *told: said.append(told)).folder, said


@thorough
def test_after_a_conversion_was_killed_the_next_one_is_whole_and_tells_how_far_it_is(recovered):
    folder, said = recovered
    assert folder.name == "SmolLM2-135M-Instruct.Q4_1-b179c9523d0e-v3"
    assert unfinished(folder.parent) == []
    words, shares = zip(*said, strict=True)
    assert (shares[0], list(shares)) == (0, sorted(shares))
    assert shares[-1] < 1
    assert sum("converting its weights, once" in one for one in words) == 272  # before each tensor
    assert [one.partition(": ")[2].split()[0] for one in dict.fromkeys(words)] == ["converting", "keeping"]
    assert not any(str(folder.parent) in one for one in words)


@thorough
def test_the_real_model_is_what_transformers_reads(recovered):
    """transformers reads the GGUF by itself too, in eight times the time and with a package that the app does not need.

    The expected values were saved from it once (transformers 5.23.0, accelerate 1.15.0, float32):
    AutoModelForCausalLM.from_pretrained(SMOLLM2.parent, gguf_file=SMOLLM2.name, dtype=torch.float32). The hash is over every
    tensor's name, dtype, shape and bytes, by name.
    """
    folder, _ = recovered
    everything = hashlib.sha256()
    for name, values in sorted(load_file(folder / "model.safetensors").items()):
        everything.update(f"{name} {values.dtype} {values.shape}\n".encode())
        everything.update(values)
    assert everything.hexdigest() == "15de52720e20a45e4e8358f990c18d70df7af4ed1b83eb20b5ac6ff3cb0dae2e"
    settings = json.loads((folder / "config.json").read_text())
    expected = {
        "rope_parameters": {"rope_theta": 100000.0, "rope_type": "default"},
        "head_dim": 64,
        "vocab_size": 49152,
    }
    expected |= {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2, "unk_token_id": 0}
    expected |= {"rms_norm_eps": 9.999999747378752e-06, "max_position_embeddings": 8192, "tie_word_embeddings": True}
    assert {name: settings[name] for name in expected} == expected


def test_two_at_once(tiny, cache):
    """Both are held back until both wait, then let go together. One converts, the other finds it done. They know of each other
    by a file alone, as two processes do. Only this test finds two that write one model at the same time."""
    said: tuple[list[str], ...] = ([], [])
    waits = (Event(), Event())

    def convert(at: int) -> Path:
        return converted(tiny, lambda words, _share: (said[at].append(words), waits[at].set())).folder

    cache.mkdir()
    with ThreadPoolExecutor(2) as threads:
        with FileLock(cache / f"tiny-{file_sha256(tiny)[:12]}-v{conversion.CONVERSION}.lock"):
            made = [threads.submit(convert, at) for at in range(2)]
            assert all(one.wait(PATIENCE) for one in waits)
            assert all("Waiting" in words[0] for words in said)
        folders = {one.result() for one in made}
    assert sum(any("converting its weights" in words for words in lines) for lines in said) == 1
    assert folders == {converted(tiny).folder}
    assert_same_weights(load_file(folders.pop() / "model.safetensors"))
    assert unfinished(cache) == []


# --- what can go wrong


def test_a_cache_folder_that_cannot_be_written(tiny, cache):
    cache.write_text("in the way")
    with refused("model", rf"(?s)cannot be kept in {re.escape(str(cache))}.*HEADLIGHT_CACHE"):
        converted(tiny)


def test_a_disk_that_fills_up(tiny, cache):
    """A limit on file sizes stands for the full disk: the write of the weights really fails half way."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with refused("model", rf"(?s)cannot be kept in {re.escape(str(cache))}.*HEADLIGHT_CACHE"):
            converted(tiny)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert unfinished(cache) == []
    assert converted(tiny).folder.is_dir()


@pytest.mark.parametrize(
    ("what", "why"),
    [
        (slice(0, 0), "does not begin like a GGUF file"),
        ((0, "4s", b"JSON"), "does not begin like a GGUF file"),
        (slice(0, 4), "ends within its header"),
        (slice(0, 1_000), "ends within its header. Copy or download it again"),
        (slice(0, 60_000), r"ends after 60,000 of [\d,]+ bytes. Copy or download it again"),
        ((4, "<I", 9), "GGUF file of version 9"),
        ((8, "<Q", 2**60), "announces 1,152,921,504,606,846,976 tensors; at most 100,000"),
        ((16, "<Q", 2**60), "announces 1,152,921,504,606,846,976 settings; at most 10,000"),
        ((24, "<Q", 2**60), "ends within its header"),  # a name of so many bytes
        (("tokenizer.ggml.tokens", 4 + 4, "<Q", 2**60), "announces .* entries of arrays; at most 2,000,000"),
        (("tokenizer.ggml.tokens", 0, "<I", 99), "'tokenizer.ggml.tokens' of an unknown type"),
        (("blk.1.ffn_up.weight", 20, "<I", 99), "tensor 'blk.1.ffn_up.weight' of the type 99, which is unknown"),
        (("blk.1.ffn_up.weight", 20, "<I", 15), "tensor 'blk.1.ffn_up.weight' of the type Q8_K, which cannot be deq"),
        (("blk.1.ffn_up.weight", 20, "<I", 12), r"of the shape \[64, 32\], which Q4_K cannot have"),
        (("blk.1.ffn_up.weight", 0, "<I", 99), "announces 99 dimensions"),
        (("blk.1.ffn_up.weight", 4, "<Q", 2**60), "'blk.1.ffn_up.weight', which takes .* bytes .* 8,192 bytes lie"),
        # A type or a place that does not fit the bytes: the numbers would be others.
        (("blk.1.ffn_up.weight", 20, "<I", 1), r"takes 4,096 bytes .* F16 .*\[64, 32\], and 8,192 .* 'blk.1.ffn_down"),
        (("blk.1.ffn_down.weight", 20, "<I", 1), "takes 4,096 bytes .* F16 .* 8,192 .* and the end of the file"),
        (("blk.0.ffn_norm.weight", 16, "<Q", 32), "'blk.0.attn_norm.weight', which takes 128 bytes"),
        (("blk.0.ffn_norm.weight", 16, "<Q", 2**63), "'blk.0.attn_norm.weight', which takes 128 bytes"),
        (("blk.0.attn_norm.weight", 16, "<Q", 32), "does not begin with its first tensor, 'blk.0.attn_norm.weight'"),
        (slice(0, -1), r"ends after [\d,]+ of [\d,]+ bytes"),
        (1, "'blk.1.ffn_down.weight', which takes 8,192 bytes .* 8,193 bytes lie .* the end of the file"),
        (("eos_token_id", -12, "12s", b"bos_token_id"), "has the setting 'tokenizer.ggml.bos_token_id' twice"),
        (("blk.1.ffn_up", -12, "12s", b"blk.0.ffn_up"), "holds 2 tensors named 'blk.0.ffn_up.weight'"),
    ],
)
def test_a_file_that_is_not_sound(what, why, tiny, cache, tmp_path):
    """Refused with a reason, and in a moment: nothing of an announced length is made. what: a part of its contents, so many
    bytes behind them, or a place in them, counted from their beginning or from a name, and what is written there."""
    content = bytearray(tiny.read_bytes())
    if isinstance(what, slice):
        content = content[what]
    elif isinstance(what, int):
        content += bytes(what)
    else:
        *names, place, form, value = what
        for name in names:
            place += content.index(name.encode()) + len(name)
        struct.pack_into(form, content, place, value)
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(content)
    with refused("model", rf"broken\.gguf .*{why}"):
        converted(broken)
    assert not cache.exists() or (unfinished(cache) == [] and not list(cache.glob(f"*/{MANIFEST}")))


UP = "blk.1.ffn_up.weight"


@pytest.mark.parametrize(
    ("changed", "tensors", "why"),
    [
        ({"architecture": "gemma"}, {}, r"'gemma'\. GGUF files are read if theirs is one of .*llama.*qwen3"),
        ({"block_count": 500}, {}, "cannot be read as a language model: .*network of more than"),
        ({"feed_forward_length": 2**31}, {}, "cannot be read as a language model: .*network of more than"),
        ({}, {UP: None}, "lacks 1 of the weights .*such as model.layers.1.mlp.up_proj.weight"),
        ({}, {"blk.1.odd.weight": (2, 32)}, "tensor 'blk.1.odd.weight', which a LlamaForCausalLM does not have"),
        ({}, {UP: (63, 32)}, r"up_proj.weight of the shape \[63, 32\], where .* \[64, 32\]"),
        ({}, {"token_embd.weight": (200, 32)}, "lists 258 tokens and has embeddings for 200"),
        ({}, {"token_embd.weight": None}, "no matrix of token embeddings"),
    ],
)
def test_a_file_whose_model_is_not_known_or_not_whole(changed, tensors, why, tmp_path):
    """None of its numbers is made up, and none is left out: they would be another model's."""
    zeros = {name: np.zeros(shape, np.float32) for name, shape in tensors.items() if shape is not None}
    kept = {name: values for name, values in tiny_tensors().items() if name not in tensors}
    path = write_tiny(tmp_path / "odd.gguf", kept | zeros, **changed)
    with refused("model", rf"odd\.gguf .*{why}") as raised:
        converted(path)
    assert "\n" not in str(raised.value)


def test_another_dtype_has_a_folder_of_its_own_unless_the_exact_one_is_there(tiny, cache):
    rounded = converted(tiny, dtype="bfloat16")
    assert rounded.folder.name.endswith("-bfloat16")
    half = AutoModelForCausalLM.from_pretrained(rounded.folder, dtype="auto")
    assert half.dtype == torch.bfloat16
    exact = converted(tiny)
    assert exact.folder == converted(tiny, dtype="float64").folder == converted(tiny, dtype="float16").folder
    assert {path.name for path in cache.iterdir() if path.is_dir()} == {exact.folder.name, rounded.folder.name}
    for name, weight in AutoModelForCausalLM.from_pretrained(exact.folder).state_dict().items():
        assert torch.equal(weight.bfloat16(), half.state_dict()[name]), name


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"HEADLIGHT_CACHE": "/a/b"}, "/a/b"),
        ({"HEADLIGHT_CACHE": "~/b"}, "/home/ann/b"),
        ({"HEADLIGHT_CACHE": "", "XDG_CACHE_HOME": "/x"}, "/x/headlight"),
        ({}, "/home/ann/.cache/headlight"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders for caches")
def test_the_cache_folder(variables, folder, monkeypatch):
    for name in ("HEADLIGHT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", "/home/ann")
    assert cache_folder() == Path(folder)
