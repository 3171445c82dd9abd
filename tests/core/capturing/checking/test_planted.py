"""Faults of every kind and place: the check-up names each of them, with the network's own code as the judge and the files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as t
from torch import Tensor, nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from core import check_model, load_model
from tests.core.capturing.checking.test_checkup import Plant, failed, instead, times
from tests.core.tiny_models import GROUPED, SHARED, TINY, randomised
from tests.depth import thorough

Change = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, ...]]  # of queries, keys and values in their heads
Allowed = Callable[[Tensor, Tensor], Tensor]  # which pairs may attend, by the places of queries [n, 1] and keys [m]

MORE = {
    "Mixtral": lambda: t.MixtralForCausalLM(t.MixtralConfig(**GROUPED, num_local_experts=4, num_experts_per_tok=2)),
    "Granite": lambda: t.GraniteForCausalLM(
        t.GraniteConfig(**SHARED, attention_multiplier=0.2, residual_multiplier=0.5, embedding_multiplier=3.0)
    ),
    "BERT with a head": lambda: t.BertForMaskedLM(TINY["BERT"]().config),
    "untied": lambda: t.LlamaForCausalLM(t.LlamaConfig(**GROUPED, tie_word_embeddings=False)),
    "six layers": lambda: t.LlamaForCausalLM(t.LlamaConfig(**GROUPED | {"num_hidden_layers": 6})),
}


def network(name: str) -> t.PreTrainedModel:
    return randomised((TINY | MORE)[name]())


# --- kinds of faults


def before_attention(change: Change, allowed: Allowed | None = None) -> Plant:
    """Queries, keys and values [1, heads, tokens, size] that are changed after their rotation, when attention reads them, and
    another mask."""

    def plant(module: Any) -> None:
        module.planted = change, allowed, ALL_ATTENTION_FUNCTIONS[module.config._attn_implementation]
        module.config = type(module.config)(**module.config.to_dict())
        module.config._attn_implementation = "planted"

    return plant


def attending(allowed: Allowed) -> Plant:
    return before_attention(lambda *read: read, allowed)


def _planted(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **options: Any) -> Any:
    change, allowed, attend = module.planted
    if allowed is not None:
        mask = allowed(torch.arange(key.shape[2])[-query.shape[2] :, None], torch.arange(key.shape[2]))[None, None]
    return attend(module, *change(query, key, value), mask, **options)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, "planted", _planted)


def turned(x: Tensor, sign: float, first: int = 0) -> Tensor:
    """Rotated as Llama rotates 8 numbers, further or back."""
    angles = torch.arange(first, first + x.shape[2])[:, None] * 10_000 ** (-torch.arange(4) / 4)
    cos, sin = (part.repeat(1, 2) for part in (angles.cos(), sign * angles.sin()))
    return x * cos + torch.cat([-x[..., 4:], x[..., :4]], -1) * sin


def put(**attributes: object) -> Plant:
    def plant(module: Any) -> None:
        for name, value in attributes.items():
            setattr(module, name, value)

    return plant


def replaced(part: str, make: Callable[[], nn.Module]) -> Plant:
    return lambda module: module.set_submodule(part, make())


def returned(change: Callable[[Tensor], Tensor]) -> Plant:
    """A module whose result is changed."""
    return instead(lambda own, *read, **options: change(own(*read, **options)))


def without_residual(own: Callable, x: Tensor, *read: Any, **options: Any) -> Any:
    return own(x, *read, **options) - x


def twice(own: Callable, x: Tensor, *read: Any, **options: Any) -> Any:
    return own(own(x, *read, **options), *read, **options)


def negated(own: Callable, x: Tensor) -> Any:
    return own(-x)


def without_sinks(own: Callable, *read: Any, **options: Any) -> Any:
    module, kept = own.__self__, own.__self__.sinks
    module._parameters["sinks"] = torch.full_like(kept, -1e4)
    try:
        return own(*read, **options)
    finally:
        module._parameters["sinks"] = kept


def first_expert(own: Callable, x: Tensor, chosen: Tensor, *read: Any) -> Tensor:
    return own(x, chosen * 0, *read)


def in_bfloat16(own: Callable, x: Tensor) -> Tensor:
    return own(x.bfloat16().float()).bfloat16().float()


def off(name: str) -> Plant:
    """A module that is given nothing under this name."""
    return instead(lambda own, *read, **options: own(*read, **options | {name: None}))


def skipped(_own: Callable, x: Tensor, *_read: Any, **_options: Any) -> Tensor:
    return x


def dropped(module: Any) -> None:
    for part in module.modules():
        part.train()


# --- the faults: the architecture, the place, the fault

CAUSAL: Allowed = lambda query, key: key <= query  # noqa: E731
LLAMA, BERT, GPT2 = "model.layers.0.self_attn", "encoder.layer.0.attention", "transformer.h.0"
LAST = "model.layers.1"
T5_BIAS = "encoder.block.0.layer.0.SelfAttention"
FLIPPED = before_attention(lambda q, k, v: (q, k.flip(1), v))
FAULTS: dict[str, tuple[str, str, Plant]] = {
    # queries, keys and values
    "keys not rotated": ("Llama", LLAMA, before_attention(lambda q, k, v: (q, turned(k, -1), v))),
    "queries not rotated": ("Llama", LLAMA, before_attention(lambda q, k, v: (turned(q, -1), k, v))),
    "keys rotated twice": ("Llama", LLAMA, before_attention(lambda q, k, v: (q, turned(k, 1), v))),
    "keys from position 1": ("Llama", LLAMA, before_attention(lambda q, k, v: (q, turned(turned(k, -1), 1, 1), v))),
    "keys scaled": ("Llama", LLAMA, before_attention(lambda q, k, v: (q, 1.1 * k, v))),
    "keys of other heads": ("Llama", LLAMA, FLIPPED),
    "numbers of keys in another order": ("Llama", LLAMA, before_attention(lambda q, k, v: (q, k.roll(1, -1), v))),
    "keys of other tokens": ("Llama", LLAMA, before_attention(lambda q, k, v: (q, k.roll(1, 2), v))),
    "queries of other heads": ("Llama", LLAMA, before_attention(lambda q, k, v: (q[:, [0, 2, 1, 3]], k, v))),
    "values of other heads": ("Llama", LLAMA, before_attention(lambda q, k, v: (q, k, v.flip(1)))),
    "values scaled": ("BERT", f"{BERT}.self", before_attention(lambda q, k, v: (q, k, 1.01 * v))),
    "values rotated": ("Llama", LLAMA, before_attention(lambda q, k, v: (q, k, turned(v, 1)))),
    "keys of cross-attention scaled": (
        "BART",
        "model.decoder.layers.1.encoder_attn",
        before_attention(lambda q, k, v: (q, 1.1 * k, v)),
    ),
    "q_norm and k_norm left out": (
        "Qwen3",
        LLAMA,
        lambda module: [replaced(norm, nn.Identity)(module) for norm in ("q_norm", "k_norm")],
    ),
    "k_norm left out": ("Qwen3", LLAMA, replaced("k_norm", nn.Identity)),
    "angles scaled": ("Llama", "model.rotary_emb", put(attention_scaling=1.1)),
    "another scale": ("GPT-2", f"{GPT2}.attn", put(scaling=0.3)),
    "Granite's scale ignored": ("Granite", LLAMA, put(scaling=8**-0.5)),
    "sinks ignored": ("gpt-oss", LLAMA, instead(without_sinks)),
    # masks and positions
    "BERT attends causally": ("BERT", f"{BERT}.self", attending(CAUSAL)),
    "BERT attends to neighbours": ("BERT", f"{BERT}.self", attending(lambda query, key: (query - key).abs() <= 2)),
    "ViT attends causally": ("ViT", "layers.0.attention", attending(CAUSAL)),
    "T5's encoder attends causally": ("T5", T5_BIAS, attending(CAUSAL)),
    "a decoder sees the next token": ("Llama", f"{LAST}.self_attn", attending(lambda query, key: key <= query + 1)),
    "the first token is hidden": (
        "GPT-2",
        f"{GPT2}.attn",
        attending(lambda query, key: (key <= query) & ((key > 0) | (query == 0))),
    ),
    "no window": ("Mistral", LLAMA, attending(CAUSAL)),
    "no relative bias": ("T5", f"{T5_BIAS}.relative_attention_bias", returned(torch.zeros_like)),
    "buckets of a decoder": ("T5", T5_BIAS, put(is_decoder=True)),
    "OPT's positions from 1": ("OPT", "model.decoder.embed_positions", put(offset=3)),
    "no positions": ("GPT-2", "transformer.wpe", returned(torch.zeros_like)),
    "another type of tokens": ("BERT", "embeddings.token_type_embeddings", instead(lambda own, ids: own(ids + 1))),
    # what comes between
    "a residual left out": ("Llama", "model.layers.0", instead(without_residual)),
    "BERT's residual left out": ("BERT", f"{BERT}.output", instead(lambda own, x, residual: own(x, 0 * residual))),
    "a layer left out": ("Llama", LAST, instead(skipped)),
    "a layer twice": ("Llama", "model.layers.0", instead(twice)),
    "Granite's residual multiplier ignored": ("Granite", "model.layers.0", put(residual_multiplier=1.0)),
    "Granite's embedding multiplier ignored": ("Granite", "model", put(embedding_multiplier=1.0)),
    "Gemma 2's embedding halved": ("Gemma 2", "model.embed_tokens", lambda module: module.embed_scale.mul_(0.5)),
    "another activation": ("Llama", f"{LAST}.mlp", put(act_fn=nn.GELU())),
    "an activation that is nearly the same": (
        "BERT",
        "encoder.layer.0.intermediate",
        put(intermediate_act_fn=nn.GELU(approximate="tanh")),
    ),
    "ReLU in GPT-2": ("GPT-2", f"{GPT2}.mlp", put(act=nn.ReLU())),
    "an eps of RMSNorm": ("Llama", f"{LAST}.input_layernorm", put(variance_epsilon=1e-2)),
    "an eps of LayerNorm": ("BERT", f"{BERT}.output.LayerNorm", put(eps=1e-2)),
    "the last norm left out": ("Llama", "model", replaced("norm", nn.Identity)),
    "a norm behind attention left out": (
        "Gemma 2",
        "model.layers.0",
        replaced("post_attention_layernorm", nn.Identity),
    ),
    "a feed-forward left out": ("GPT-2", f"{GPT2}.mlp", returned(torch.zeros_like)),
    "a feed-forward in bfloat16": ("Llama", f"{LAST}.mlp", instead(in_bfloat16)),
    "dropout that stays on": ("BERT", "encoder", dropped),
    "the router negated": ("Mixtral", f"{LAST}.mlp.gate", instead(negated)),
    "one expert instead of two": ("Mixtral", f"{LAST}.mlp.gate", put(top_k=1)),
    "always the first expert": ("Mixtral", f"{LAST}.mlp.experts", instead(first_expert)),
    "a head without its transformation": ("BERT with a head", "cls.predictions", replaced("transform", nn.Identity)),
    "logits doubled": ("untied", "lm_head", times(2)),
}


# Weights in memory that are not those of the file: the architecture, the part, and the row, of which one number is another.
WEIGHTS: dict[str, tuple[str, str, int]] = {
    "W_Q of a layer in between": ("six layers", "model.layers.2.self_attn.q_proj.weight", -1),
    "a norm": ("Llama", f"{LAST}.input_layernorm.weight", 0),
    "a bias of a norm": ("BERT", f"{BERT}.output.LayerNorm.bias", 0),
    "positions": ("GPT-2", "transformer.wpe.weight", -1),
    "types of tokens": ("BERT", "embeddings.token_type_embeddings.weight", 1),
    "an embedding that the text lacks": ("Llama", "model.embed_tokens.weight", -1),
    "an untied head": ("untied", "lm_head.weight", -1),
    "experts": ("Mixtral", f"{LAST}.mlp.experts.down_proj", 2),
    "a router": ("Mixtral", f"{LAST}.mlp.gate.weight", 0),
    "sinks": ("gpt-oss", f"{LAST}.self_attn.sinks", 0),
    "a relative bias": ("T5", f"{T5_BIAS}.relative_attention_bias.weight", -1),
    "k_norm": ("Qwen3", f"{LAST}.self_attn.k_norm.weight", 0),
    "patches": ("ViT", "embeddings.patch_embeddings.projection.weight", 0),
}
SAMPLE = ("keys not rotated", "keys of other heads", "k_norm left out", "BERT attends causally", "no relative bias")
SAMPLE += ("a residual left out", "Granite's embedding multiplier ignored", "another activation", "an eps of RMSNorm")
SAMPLE += ("the router negated", "experts", "sinks")


def sampled(faults: dict[str, Any]) -> list[Any]:
    """All of them, most only in the thorough depth."""
    marks = {name: () if name in SAMPLE else thorough for name in faults}
    return [pytest.param(*fault, id=name, marks=marks[name]) for name, fault in faults.items()]


@pytest.mark.parametrize(("architecture", "module", "plant"), sampled(FAULTS))
def test_a_network_that_runs_other_code_fails(architecture: str, module: str, plant: Plant) -> None:
    made = network(architecture)
    model = load_model(made)
    plant(made.get_submodule(module))
    torch.manual_seed(0)
    assert failed(model) - {"finite numbers"}


@pytest.mark.parametrize(("architecture", "module"), [("Llama", LLAMA), ("BERT", f"{BERT}.self"), ("T5", T5_BIAS)])
def test_what_plants_them_changes_nothing_by_itself(architecture: str, module: str) -> None:
    made = network(architecture)
    model = load_model(made)
    before_attention(lambda *read: read)(made.get_submodule(module))
    assert not failed(model)


@pytest.mark.parametrize(("architecture", "part", "row"), sampled(WEIGHTS))
def test_a_network_with_another_weight_than_its_file_fails(
    architecture: str, part: str, row: int, tmp_path: Path
) -> None:
    network(architecture).save_pretrained(tmp_path)
    model = load_model(tmp_path)
    with torch.no_grad():
        model.network.get_parameter(part)[row].view(-1)[-1].mul_(1.01)
    finding = check_model(model, seconds=600).findings["weights"]
    assert finding.holds is False
    assert finding.detail.startswith(f"{part} has other numbers than ")
