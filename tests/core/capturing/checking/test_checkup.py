"""The check-up finds planted faults by their names, and nothing in models that are right."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as t
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from core import check_model, load_model
from core.capturing.checking.checkup import CHECKS
from core.capturing.checking.reading import TEXT
from core.models.model import Model
from tests.core.models.test_adapters import adapted, base
from tests.core.tiny_models import GROUPED, LOCAL, TINY, WEIGHTS_ONLY, randomised, tiny
from tests.depth import QUICK, sampled, thorough
from tests.refusals import refused


def failed(model: Model) -> set[str]:
    return {name for name, finding in check_model(model, seconds=600).findings.items() if finding.holds is False}


OTHERS: dict[str, Callable[[], Any]] = {  # precisions, and networks some layers of which have no rotation
    "bfloat16": lambda: TINY["Llama"]().bfloat16(),
    "float64": lambda: TINY["Llama"]().double(),
    "Cohere 2": lambda: t.Cohere2ForCausalLM(t.Cohere2Config(**GROUPED, **LOCAL)),
    "EXAONE 4": lambda: t.Exaone4ForCausalLM(t.Exaone4Config(**GROUPED, **LOCAL)),
    "Llama 4": lambda: t.Llama4TextModel(t.Llama4TextConfig(**GROUPED, no_rope_layers=[1, 0])),
}


@pytest.mark.parametrize("name", sampled([*TINY, *OTHERS], (*QUICK, "bfloat16")))
def test_architectures_are_clean(name: str) -> None:
    checkup = check_model(load_model(randomised((TINY | OTHERS)[name]())), seconds=600)
    assert checkup.holds, str(checkup)
    assert checkup.findings["own code"].holds, str(checkup)
    assert sum(finding.holds is True for finding in checkup.findings.values()) >= 6


@pytest.mark.parametrize("name", sampled(["all-MiniLM-L6-v2", "SmolLM2-135M-Instruct"], ["all-MiniLM-L6-v2"]))
def test_the_included_models_are_clean(name: str) -> None:
    checkup = check_model(load_model(name), seconds=600)
    assert checkup.holds, str(checkup)
    assert checkup.is_whole
    table = checkup.table.set_index("check").holds
    assert table[
        ["own code", "attention", "matrix products", "projections", "padding", "tokens", "leftovers", "weights"]
    ].all()


Plant = Callable[[Any], object]  # puts a fault into a module, or into a model


def instead(forward: Callable[..., Any]) -> Plant:
    """What is run in the place of a module's forward, which it gets as its first argument."""
    return lambda module: setattr(module, "forward", partial(forward, module.forward))


def times(factor: float) -> Plant:
    return instead(lambda own, *read, **options: own(*read, **options) * factor)


def masked(make: Callable[[torch.Tensor], torch.Tensor]) -> Plant:
    """An attention module that is given another mask, made from ones for all pairs."""

    def attend(own: Callable, *read: Any, **options: Any) -> Any:
        ones = torch.ones(1, 1, *[options["hidden_states"].shape[1]] * 2)
        return own(*read, **options | {"attention_mask": make(ones)})

    return instead(attend)


def stale(own: Callable, *read: Any, **options: Any) -> Any:
    kept = next((part for part in options.values() if isinstance(part, t.Cache)), None)
    if kept is not None and kept.get_seq_length():
        kept.layers[0].keys = kept.layers[0].keys.roll(1, dims=2)
    return own(*read, **options)


def heads_swapped(own: Callable, x: torch.Tensor) -> torch.Tensor:
    return own(x).unflatten(-1, (2, 8)).flip(-2).flatten(-2)


FIRST, SECOND = (f"model.layers.{layer}.self_attn" for layer in range(2))
PATCHES = "embeddings.patch_embeddings.projection"
READS_PADDING = instead(lambda own, *read, **options: own(*read, **options | {"attention_mask": None}))
WITHOUT_BIAS = instead(lambda own, x: own(x) - own.__self__.bias)
LATE = instead(lambda own, x, position_ids, **options: own(x, position_ids + 1, **options))
FAULTS: dict[str, tuple[str, str, str, Plant]] = {
    "queries 1 % too large": ("matrix products", "Llama", f"{FIRST}.q_proj", times(1.01)),
    "keys 1 % too large": ("matrix products", "Llama", f"{FIRST}.k_proj", times(1.01)),
    "values 1 % too large": ("matrix products", "Llama", f"{FIRST}.v_proj", times(1.01)),
    "W_O 1 % too large": ("matrix products", "Llama", f"{FIRST}.o_proj", times(1.01)),
    "a norm 1 % too large": ("other modules", "Llama", "model.norm", times(1.01)),
    "a norm without its bias": ("other modules", "GPT-2", "transformer.h.0.ln_1", WITHOUT_BIAS),
    "a convolution 1 % too large": ("other modules", "ViT", PATCHES, times(1.01)),
    "an expert that is left out": ("other modules", "gpt-oss", "model.layers.1.mlp.experts", times(0.5)),
    "swapped key heads": ("projections", "Llama", f"{FIRST}.v_proj", instead(heads_swapped)),
    "ignored scale": ("scale", "Llama", FIRST, lambda m: setattr(m, "scaling", 1.0)),
    "wrong rotary base": ("rotary positions", "Llama", "model.rotary_emb", lambda m: m.inv_freq.mul_(0.9)),
    "no rotation": ("rotary positions", "SmolLM3", FIRST, lambda m: setattr(m, "use_rope", 0)),
    "rotation in a layer without": ("rotary positions", "SmolLM3", SECOND, lambda m: setattr(m, "use_rope", 1)),
    "positions from 1": ("absolute positions", "GPT-2", "transformer.wpe", instead(lambda own, ids: own(ids + 1))),
    "no mask": ("later tokens", "Llama", FIRST, masked(torch.Tensor.bool)),
    "a mask of -10,000": ("padding", "Llama", FIRST, masked(lambda ones: -10_000 * ones.triu(1))),
    "another window": ("window", "Mistral", FIRST, masked(lambda ones: ones.tril().triu(-2).bool())),
    "no soft cap": ("soft cap", "Gemma 2", FIRST, lambda m: setattr(m, "attn_logit_softcapping", None)),
    "stale cache": ("cache", "Llama", "model", instead(stale)),
    "padding that is read": ("padding", "BERT", "encoder", READS_PADDING),
    "NaN": ("finite numbers", "Llama", f"{FIRST}.v_proj", lambda m: m.weight.data.fill_(torch.nan)),
}


@pytest.mark.parametrize(("check", "architecture", "module", "plant"), FAULTS.values(), ids=FAULTS)
def test_planted_faults_are_found(check: str, architecture: str, module: str, plant: Plant) -> None:
    network = tiny(architecture)
    model = load_model(network)
    plant(network.get_submodule(module))
    assert check in failed(model)


def test_what_changes_no_number_is_not_called_failed() -> None:
    network = tiny("Llama")
    model = load_model(network)
    LATE(network.model.rotary_emb)  # rotations depend on distances alone
    checkup = check_model(model, seconds=600)
    assert checkup.holds
    finding = checkup.findings["rotary positions"]
    assert finding.holds is None
    assert finding.detail.startswith(
        "Not looked at, as this check does not know the network: In layer 0 positions begin at 1"
    )


def test_one_percent_is_found_in_bfloat16() -> None:
    network = tiny("Llama").bfloat16()
    model = load_model(network)
    for module in (f"{FIRST}.v_proj", "model.layers.1.input_layernorm"):
        times(1.01)(network.get_submodule(module))
    assert {"matrix products", "other modules"} <= failed(model)


def test_modules_that_are_not_looked_at_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(tiny("gpt-oss"))
    finding = check_model(model, seconds=600).findings["other modules"]
    said = "7 norms and other modules return what they do in float64. Not looked at: GptOssTopKRouter."
    assert (finding.holds, finding.detail) == (True, said)
    monkeypatch.setattr("core.capturing.checking.from_weights.MOST_WEIGHTS", 100)
    finding = check_model(model, seconds=600).findings["other modules"]
    assert finding.holds
    assert finding.detail.endswith("Not looked at: GptOssExperts, GptOssTopKRouter.")


@pytest.fixture
def on_disk(tmp_path: Path) -> Model:
    """A tiny Phi, which has biases, with the words of the fixed text."""
    words = [word for word, _ in Whitespace().pre_tokenize_str(TEXT)]
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(["<s>", "?", *words]))}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    t.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>").save_pretrained(tmp_path)
    randomised(TINY["Phi"]()).save_pretrained(tmp_path)
    return load_model(tmp_path)


def cut(model: Model) -> None:
    file = model.folder / "model.safetensors"  # type: ignore[operator]
    (part := file.with_suffix(".part")).write_bytes(file.read_bytes()[:-4])
    part.replace(file)


def begin_twice(model: Model) -> None:
    twice = TemplateProcessing(single="<s> <s> $A", special_tokens=[("<s>", 0)])
    model.tokenizer.backend_tokenizer.post_processor = twice


@thorough
@pytest.mark.parametrize(
    ("check", "plant"),
    [
        ("leftovers", lambda model: setattr(model.network.get_submodule(f"{FIRST}.q_proj"), "bias", None)),
        ("leftovers", cut),
        ("weights", lambda model: model.network.get_parameter(f"{FIRST}.q_proj.weight").data.mul_(1.01)),
        ("weights", lambda model: model.network.get_parameter("model.layers.1.input_layernorm.bias").data.add_(1)),
        ("weights", lambda model: model.network.get_parameter("model.embed_tokens.weight").data[-1].mul_(1.01)),
        ("tokens", lambda model: model.tokenizer.add_tokens(["The cat"])),
        ("beginning and end", begin_twice),
    ],
)
def test_faults_between_a_model_and_its_files_are_found(on_disk: Model, check: str, plant: Plant) -> None:
    assert not failed(on_disk)
    plant(on_disk)
    assert check in failed(on_disk)


def test_layers_between_those_that_are_looked_at_have_the_weights_of_their_files(tmp_path: Path) -> None:
    randomised(t.LlamaForCausalLM(t.LlamaConfig(**GROUPED | {"num_hidden_layers": 6}))).save_pretrained(tmp_path)
    model = load_model(tmp_path)
    assert check_model(model, seconds=600).findings["weights"].detail == (
        "All 57 tensors of the network are those of the files."
    )
    model.network.get_parameter("model.layers.2.self_attn.q_proj.weight").data.mul_(1.01)
    assert "weights" in failed(model)


@thorough
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_positions_that_no_file_holds_are_those_that_the_class_computes(dtype: str, tmp_path: Path) -> None:
    tiny("Marian").save_pretrained(tmp_path)
    model = load_model(tmp_path, dtype=dtype)
    assert "embed_positions" not in check_model(model, seconds=600).findings["weights"].detail
    assert "weights" not in failed(model)
    model.network.get_parameter("model.decoder.embed_positions.weight").data[-1].mul_(1.1)
    detail = check_model(model, seconds=600).findings["weights"].detail
    assert "model.decoder.embed_positions.weight has other numbers than MarianMTModel computes." in detail


MERGED: dict[str, dict[str, Any]] = {
    "LoRA": {},
    "rsLoRA": {"use_rslora": True},
    "ranks and alphas": {"rank_pattern": {"q_proj": 2}, "alpha_pattern": {"0.self_attn.q_proj": 32}},
    "embeddings": {"target_modules": ["embed_tokens"]},
    "GPT-2": {"target_modules": ["c_attn"]},
}


@pytest.mark.parametrize("dtype", sampled(["float32", "bfloat16", "float16"], ["float32"]))
@pytest.mark.parametrize("form", MERGED)
def test_weights_with_an_adapter_are_those_of_both_files(
    form: str, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.models.read_again.SLICE", 520)  # bytes: parts of rows
    name = form if form in TINY else "Llama"
    folder, _ = adapted(base(tmp_path, name), type(TINY[name]()), **{"target_modules": ["q_proj"]} | MERGED[form])
    model = load_model(folder, dtype=dtype)
    finding = check_model(model, seconds=600).findings["weights"]
    assert finding.holds
    assert finding.detail.startswith("All ")
    ends = (*MERGED[form].get("target_modules", []), "q_proj")
    weight = next(weight for name, weight in model.network.named_parameters() if name.endswith(f"{ends[0]}.weight"))
    weight.data[-1].mul_(1.02)
    assert "weights" in failed(model)


def test_weights_that_an_adapter_makes_otherwise_are_not_looked_at(tmp_path: Path) -> None:
    targets = {"target_modules": ["q_proj"], "use_dora": True}
    folder, _ = adapted(base(tmp_path, "Llama"), t.LlamaForCausalLM, **targets)
    model = load_model(folder)
    detail = check_model(model, seconds=600).findings["weights"].detail
    assert detail.startswith("19 of 21 tensors of the network are those of the files. Not looked at")
    assert "model.layers.0.self_attn.q_proj.weight and 1 more" in detail
    model.network.get_parameter(f"{FIRST}.k_proj.weight").data.mul_(1.01)
    assert "weights" in failed(model)


def test_the_weights_have_a_time_of_their_own(on_disk: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(1000))  # a second whenever somebody looks
    monkeypatch.setattr("core.capturing.checking.from_files.processor_time", lambda: float(next(times)))
    checkup = check_model(on_disk, seconds=8)
    finding = checkup.findings["weights"]
    assert finding.holds
    assert finding.detail.startswith("8 of 33 tensors of the network are those of the files. The 8 seconds")
    assert checkup.skipped == ("weights",)
    assert not checkup.is_whole
    assert checkup.summary.startswith("Partly checked")


def test_it_ends_when_its_time_is_over() -> None:
    checkup = check_model(load_model(tiny("Llama")), seconds=0)
    assert checkup.holds
    assert {name for name, finding in checkup.findings.items() if finding.holds is not None} == {"own code"}
    assert "were over" in str(checkup)
    assert not checkup.is_whole
    assert checkup.summary.startswith("Partly checked on this machine")


def test_its_sentences_name_what_failed() -> None:
    network = tiny("Llama")
    model = load_model(network)
    FAULTS["ignored scale"][3](network.get_submodule(FIRST))
    checkup = check_model(model, seconds=600)
    assert not checkup.holds
    assert "failed on this machine: own code, scale." in checkup.summary
    assert "multiplied by 1, and the configuration says 0.35355" in str(checkup)


def fails(*_: object, **__: object) -> None:
    raise OSError("no more")


def test_a_check_and_a_model_that_raise_count_as_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    network = tiny("Llama")
    model = load_model(network)
    monkeypatch.setitem(CHECKS, "scale", fails)
    finding = check_model(model, seconds=600).findings["scale"]
    assert (finding.holds, finding.detail) == (None, "The check could not be made: no more.")
    instead(fails)(network.model.layers[0].mlp)
    checkup = check_model(model, seconds=600)
    assert {finding.holds for finding in checkup.findings.values()} == {None}
    assert "The model could not be read" in str(checkup)
    assert checkup.summary.startswith("Not checked on this machine")


def test_models_without_queries_are_refused() -> None:
    with refused("model"):
        check_model(load_model(WEIGHTS_ONLY["BLOOM"]()))
