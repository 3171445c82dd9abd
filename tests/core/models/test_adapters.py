"""LoRA adapters: the model with one merged into it computes what peft computes with the two side by side."""

import hashlib
from pathlib import Path

import pytest
import torch
import transformers as t
from peft import LoraConfig, PeftModel, get_peft_model

from core.models import adapters
from core.models.adapters import CONFIG, WEIGHTS
from core.models.loading import load_model, load_outline, model_revision, model_size
from tests.core.models.folders import Change, edit, edit_weights, refusal, removed
from tests.core.tiny_models import SMALL, TINY, number_words, randomised

IDS = torch.tensor([[3, 14, 15, 9, 26, 5]])
QUERY = "base_model.model.model.layers.1.self_attn.q_proj"


def base(tmp_path: Path, name: str, network: t.PreTrainedModel | None = None) -> Path:
    folder = tmp_path / name
    randomised(network or TINY[name]()).save_pretrained(folder)
    return folder


def adapted(folder: Path, kind: type[t.PreTrainedModel], **settings: object) -> tuple[Path, PeftModel]:
    """(the folder of an adapter as peft writes it, the model with the adapter beside it)."""
    defaults = {"init_lora_weights": False, "r": 4, "lora_alpha": 6, "lora_dropout": 0.1}
    torch.manual_seed(1)
    whole = get_peft_model(kind.from_pretrained(folder), LoraConfig(**defaults | settings))  # type: ignore[arg-type]
    with torch.no_grad():
        for weight in (weight for weight in whole.parameters() if weight.requires_grad and not weight.eq(0).all()):
            weight += 0.1 * torch.randn_like(weight)
    whole.save_pretrained(str(place := folder.parent / "adapter"))
    return place, whole.eval()


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    return base(tmp_path, "Llama")


LINEAR = ["q_proj", "v_proj", "down_proj"]
FORMS = {
    "LoRA": ("Llama", {}),
    "rsLoRA": ("Llama", {"use_rslora": True}),
    "DoRA": ("Llama", {"use_dora": True}),
    "ranks and alphas": ("Llama", {"rank_pattern": {"q_proj": 2}, "alpha_pattern": {"1.mlp.down_proj": 32}}),
    "patterns": (
        "Llama",
        {
            "target_modules": r".*\.(q|v)_proj",
            "exclude_modules": r".*1\.self_attn\.v_proj",
            "rank_pattern": {r"^model\.layers\.0\.self_attn\.[q]_proj": 2, "q_proj": 3},
            "alpha_pattern": {"v_pro.": 32},
        },
    ),
    "some layers": ("Llama", {"layers_to_transform": [1], "layers_pattern": "layers"}),
    "whole modules": ("Llama", {"modules_to_save": ["embed_tokens", "lm_head"]}),
    "biases": ("Qwen2", {"bias": "lora_only"}),
    "transposed weights": ("GPT-2", {"target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True}),
    "DoRA on transposed weights": ("GPT-2", {"target_modules": ["c_attn"], "fan_in_fan_out": True, "use_dora": True}),
    "encoder and decoder": ("T5", {"target_modules": ["q", "v"]}),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_merged_model_computes_what_the_adapter_was_trained_for(form: str, tmp_path: Path) -> None:
    name, settings = FORMS[form]
    folder, whole = adapted(base(tmp_path, name), type(TINY[name]()), **{"target_modules": LINEAR} | settings)
    more = {"decoder_input_ids": IDS} if name == "T5" else {}
    model = load_model(folder)
    with torch.no_grad():
        expected, plain, given = (
            network(input_ids=IDS, **more).logits
            for network in (whole, load_model(tmp_path / name).network, model.network)
        )
    torch.testing.assert_close(given, expected, rtol=1e-5, atol=1e-5)
    assert (plain - expected).abs().max() > 0.01
    assert model.name == f"{name} + adapter"
    assert model.notes == (f"This is {name} + adapter: the weights of the model with the adapter merged into them.",)
    assert all(weight.requires_grad for weight in model.network.parameters())


def test_an_adapter_says_what_it_is(llama: Path) -> None:
    folder, _ = adapted(llama, t.LlamaForCausalLM, target_modules=LINEAR)
    model, digest = load_model(folder), hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
    assert model.revision == f"{load_model(llama).revision} + adapter sha256 {digest}" == model_revision(folder)
    assert load_outline(folder).name == model.name
    assert model_size(folder) == model_size(llama)
    assert model.tokenizer is None
    for place in (llama, folder):  # the adapter's, or else its model's
        tokenizer = number_words()
        tokenizer.add_tokens(place.name)
        tokenizer.save_pretrained(place)
        assert load_model(folder).tokenizer.tokenize(place.name) == [place.name]  # type: ignore[union-attr]


def test_the_head_of_a_task_is_left_out_and_said(tmp_path: Path) -> None:
    kind = t.BertForSequenceClassification
    bert = base(tmp_path, "BERT", kind(t.BertConfig(**SMALL)))
    folder, whole = adapted(bert, kind, target_modules=["query", "value"], task_type="SEQ_CLS")
    model = load_model(folder)
    with torch.no_grad():
        expected = whole(input_ids=IDS, output_hidden_states=True).hidden_states[-1]
        torch.testing.assert_close(model.network(input_ids=IDS).last_hidden_state, expected, rtol=1e-5, atol=1e-5)
    assert "The adapter's base_model.model.classifier.weight is left out: the head of a task." in model.notes
    assert not any("modules_to_save" in note for note in model.notes)


def settled(**changes: object) -> Change:
    return lambda folder: edit(folder / CONFIG, **changes)


def changed(change: Change) -> Change:
    return lambda folder: edit_weights(folder, change, WEIGHTS)  # type: ignore[arg-type]


REFUSED: dict[str, tuple[Change, str]] = {
    "another kind": (settled(peft_type="IA3"), "of the kind IA3"),
    "no kind": (settled(peft_type=None), "of the kind None"),
    "no model": (settled(base_model_name_or_path=None), "does not name its model. Write the name"),
    "a model that is not here": (settled(base_model_name_or_path="/nowhere/x"), "There is no folder '/nowhere/x'"),
    "changed weights": (settled(init_lora_weights="pissa_niter_4"), "for weights that pissa_niter_4 has changed"),
    "a revision": (settled(revision="v2"), "for revision v2 of its model. Download that revision"),
    "a later setting": (settled(alora_invocation_tokens=[1]), "the setting alora_invocation_tokens"),
    "an unknown setting": (settled(better={"by": 2}), "the setting better"),
    "no settings": (lambda folder: (folder / CONFIG).write_text("["), f"{CONFIG} that cannot be read"),
    "no weights": (removed(WEIGHTS), f"has no {WEIGHTS}"),
    "half of its weights": (lambda folder: (folder / WEIGHTS).write_bytes(b"\0" * 20), "damaged or incomplete weights"),
    "one tensor less": (changed(lambda w: w.pop(f"{QUERY}.lora_B.weight")), "no weights that fit"),  # type: ignore[attr-defined]
    "one tensor more": (
        changed(lambda w: w.update({QUERY.replace("1", "7") + ".lora_B.weight": torch.ones(32, 4)})),  # type: ignore[attr-defined]
        "holds base_model.model.model.layers.7.self_attn.q_proj.lora_B",
    ),
    "two copies of a matrix": (
        changed(lambda w: w.update({f"{QUERY}.lora_A.default.weight": torch.ones(4, 32)})),  # type: ignore[attr-defined]
        f"two tensors for one place: {QUERY}.lora_A.default.weight and {QUERY}.lora_A.weight",
    ),
    "a copy by another name": (
        changed(lambda w: w.update({QUERY.replace("model.l", "l") + ".lora_A.weight": torch.ones(4, 32)})),  # type: ignore[attr-defined]
        "two tensors for one place: base_model.model.layers.1",
    ),
    "a rank beyond memory": (settled(r=2_000_000), "announces the rank 2,000,000"),
    "a rank of a module": (settled(rank_pattern={"q_proj": 9}), "announces the rank 9"),
    "a rank of A alone": (
        changed(lambda w: w.update({f"{QUERY}.lora_A.weight": torch.ones(5, 32)})),  # type: ignore[attr-defined]
        f"holds {QUERY}.lora_A.weight of the shape [5, 32], where",
    ),
    "no rank": (settled(r=0), "with 0 as its r, which has to be a whole number from 1"),
    "a text as a rank": (settled(rank_pattern={"q_proj": "4"}), "as its rank_pattern, which has to be whole numbers"),
    "no alpha": (settled(lora_alpha=None), "with None as its lora_alpha, which has to be a number"),
    "an endless alpha": (settled(lora_alpha=1e300), "as its lora_alpha, which has to be a number"),
    "a text for true or false": (settled(use_dora="false"), "with 'false' as its use_dora"),
    "no modules": (settled(target_modules=[3]), "with [3] as its target_modules"),
    "no pattern": (settled(target_modules="("), "with '(' in its target_modules, which is not a regular expression"),
    "a pattern of gigabytes": (settled(rank_pattern={"(?:(?:a{1000}){1000}){1000}": 4}), "of a kind that is read here"),
    "a pattern in itself": (settled(target_modules="(?R)|q_proj"), "of a kind that is read here"),
    "a pattern with errors": (settled(alpha_pattern={"(?:q_proj){e<=3}": 4}), "of a kind that is read here"),
    "a pattern of layers": (settled(layers_pattern="(a+)+"), "with '(a+)+' as its layers_pattern"),
    "whole numbers": (
        changed(lambda w: w.update({f"{QUERY}.lora_A.weight": torch.ones(4, 32, dtype=torch.int8)})),  # type: ignore[attr-defined]
        f"holds {QUERY}.lora_A.weight in torch.int8, where",
    ),
    "not a number": (
        changed(lambda w: w[f"{QUERY}.lora_A.weight"].fill_(torch.nan)),  # type: ignore[index]
        f"holds {QUERY}.lora_A.weight, with numbers that are not finite",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_adapter_is_refused_by_what_is_wrong(case: str, llama: Path) -> None:
    folder, _ = adapted(llama, t.LlamaForCausalLM, target_modules=LINEAR)
    change, said = REFUSED[case]
    change(folder)
    message = refusal(folder)
    assert "adapter" in message
    assert said in message


@pytest.mark.parametrize("name", ["rank_pattern", "alpha_pattern", "target_modules", "exclude_modules"])
def test_a_pattern_that_would_be_matched_for_years_is_refused(name: str, llama: Path, monkeypatch) -> None:
    monkeypatch.setattr(adapters, "_LONGEST", 0.2)
    folder, _ = adapted(llama, t.LlamaForCausalLM, target_modules=LINEAR)
    endless = r"((\w|\w\w|\.)+)+(?!.*)"
    edit(folder / CONFIG, **{name: {endless: 4} if name.endswith("pattern") else endless})
    assert f"in its {name}, which takes too long to match" in refusal(folder)


def test_what_the_settings_do_not_announce_is_said_and_what_they_announce_is_there(tmp_path: Path) -> None:
    name = "model.embed_tokens.weight"
    folder, _ = adapted(base(tmp_path, "Qwen2"), t.Qwen2ForCausalLM, target_modules=LINEAR)
    edit_weights(folder, lambda tensors: tensors.update({f"base_model.model.{name}": torch.ones(64, 32)}), WEIGHTS)
    model = load_model(folder)
    assert model.network.get_parameter(name).eq(1).all()
    assert f"The adapter replaces {name}, which its {CONFIG} does not announce." in model.notes
    edit(folder / CONFIG, rank_pattern={"q_proj": 4}, alpha_pattern={"v_proj": 6, "k_pr.*": 9, "x": 1})
    assert "No module of the adapter uses its alpha_pattern of k_pr.* and 1 more." in load_model(folder).notes
    edit(folder / CONFIG, alpha_pattern={}, modules_to_save=["wte"])
    assert "No module of the adapter uses its modules_to_save of wte." in load_model(folder).notes
    edit(folder / CONFIG, bias="lora_only", modules_to_save=None)
    assert "has no weights that fit base_model.model.model.layers.0.self_attn.q_proj.base_layer.bias" in refusal(folder)


def test_adapters_of_other_models(llama: Path, tmp_path: Path) -> None:
    folder, _ = adapted(llama, t.LlamaForCausalLM, target_modules=LINEAR)
    base(tmp_path, "wide", t.LlamaForCausalLM(t.LlamaConfig(**SMALL | {"hidden_size": 64})))
    for other, said in {
        base(tmp_path, "GPT-2"): "could not be merged into GPT-2",
        tmp_path / "wide": "has no weights that fit",
        folder: "is itself an adapter",
    }.items():
        edit(folder / CONFIG, base_model_name_or_path=str(other))
        assert said in refusal(folder)


@pytest.mark.parametrize(
    "settings",
    [{"target_modules": ["c_attn"]}, {"target_modules": ["model"]}, {"layers_to_transform": [9]}, {"task_type": "x"}],
    ids=str,
)
def test_settings_that_do_not_fit_a_model_are_refused_in_our_words(settings: dict, llama: Path) -> None:
    folder, _ = adapted(llama, t.LlamaForCausalLM, target_modules=LINEAR)
    edit(folder / CONFIG, **settings)
    message = refusal(folder)
    assert f"could not be merged into Llama: its {CONFIG} names modules, layers or a task" in message
    assert not any(words in message for words in ("Please", "Currently", "Note:", "Must be", "LlamaModel"))


def test_a_weight_that_two_modules_share_is_not_changed(tmp_path: Path) -> None:
    folder, _ = adapted(base(tmp_path, "GPT-2"), t.GPT2LMHeadModel, target_modules=["wte"])
    edit_weights(folder, lambda tensors: [tensors.pop(name) for name in [*tensors] if "lora_" not in name], WEIGHTS)
    assert "a weight that its model also uses elsewhere" in refusal(folder)
