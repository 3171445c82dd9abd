"""Weights that a network does not read, and weights that it has from nowhere: refused, or said where no number changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers as t

from core.models.loading import load_model
from tests.core.models.folders import Weights, edit_config, edit_weights, refusal
from tests.core.tiny_models import DECODER, GROUPED, RELATIVE, SMALL, TINY, VIT, randomised

UP = "model.layers.0.mlp.up_proj"
TRIANGLE = torch.ones(64, 64).tril()[None, None]
ROTARY = "model.layers.0.self_attn.rotary_emb.inv_freq"


def llama(**settings: object) -> t.PreTrainedModel:
    return t.LlamaForCausalLM(t.LlamaConfig(**GROUPED | settings))


def frequencies(theta: float) -> torch.Tensor:
    return 1 / theta ** (torch.arange(0, 8, 2) / 8)


def nothing(_weights: Weights) -> None:
    pass


def adding(**tensors: torch.Tensor) -> Callable[[Weights], None]:
    return lambda weights: weights.update({name.replace("__", "."): tensor for name, tensor in tensors.items()})


def without(part: str) -> Callable[[Weights], None]:
    return lambda weights: [weights.pop(name) for name in list(weights) if part in name] and None


def stored_as(part: str, dtype: torch.dtype) -> Callable[[Weights], None]:
    return lambda weights: weights.update({name: weights[name].to(dtype) for name in weights if part in name})


def copied(name: str, copy: str) -> Callable[[Weights], None]:
    return lambda weights: weights.update({copy: 2 * weights[name]})


def in_8_bits(weights: Weights) -> None:
    """As bitsandbytes writes them."""
    for name in [name for name in weights if name.endswith("proj.weight")]:
        weights[name.replace("weight", "SCB")] = weights[name].abs().amax(1)
        weights[name] = (weights[name] / weights[name].abs().amax(1, keepdim=True) * 127).to(torch.int8)


def prefixed(prefix: str, **tensors: torch.Tensor) -> Callable[[Weights], None]:
    def change(weights: Weights) -> None:
        for name in list(weights):
            weights[f"{prefix}.{name}"] = weights.pop(name)
        adding(**tensors)(weights)

    return change


def one_more_layer(weights: Weights) -> None:
    weights |= {name.replace("layers.1", "layers.2"): weights[name] for name in weights if "layers.1" in name}
    weights["model.layers.2.eh_proj.weight"] = torch.ones(32, 64)


def saved(make: Callable[[], t.PreTrainedModel], change: Callable[[Weights], object], folder: Path, **config: object):
    """The network, and its folder with other weights or another config.json."""
    network = randomised(make())
    network.save_pretrained(folder)
    edit_weights(folder, change)
    edit_config(folder, **config)
    return network


ONE_LAYER = {"num_hidden_layers": 1, "layer_types": None}
REFUSED = {
    "biases that the config denies": (
        lambda: llama(attention_bias=True),
        nothing,
        {"attention_bias": False},
        r"holds model\.layers\.0\.self_attn\.k_proj\.bias and 7 more weights, which LlamaForCausalLM does not read",
    ),
    "a layer that the config denies": (
        llama,
        nothing,
        ONE_LAYER,
        r"model\.layers\.1\.input_layernorm\.weight and 8 more weights",
    ),
    "a layer that poses as one for further tokens": (
        llama,
        adding(model__layers__1__eh_proj__weight=torch.ones(32, 64)),
        ONE_LAYER,
        "and 9 more weights",
    ),
    "a layer of an encoder": (
        TINY["BERT"],
        nothing,
        {"num_hidden_layers": 1},
        r"encoder\.layer\.1\..* and 15 more weights",
    ),
    "a bias of a head": (llama, adding(lm_head__bias=torch.ones(64)), {}, r"lm_head\.bias, which"),
    "a norm": (llama, adding(model__layers__0__self_attn__q_norm__weight=torch.ones(8)), {}, "q_norm"),
    "an adapter": (llama, adding(base_model__q_proj__lora_A__weight=torch.ones(8, 32)), {}, "lora_A"),
    "a head without a body": (TINY["BERT"], adding(linear__weight=torch.ones(2, 32)), {}, r"linear\.weight, which"),
    "a layer beside a body with a prefix": (
        TINY["BERT"],
        prefixed("bert", encoder__layer__2__output__dense__weight=torch.ones(32, 48)),
        {},
        r"encoder\.layer\.2\.output\.dense\.weight, which BertModel",
    ),
    "a mask that is none": (
        TINY["GPT-2"],
        adding(transformer__h__0__attn__bias=torch.ones(1, 1, 64, 64)),
        {},
        r"attn\.bias",
    ),
    "a bias that poses as a mask": (
        TINY["GPT-2"],
        adding(transformer__h__0__attn__bias=torch.ones(96)),
        {},
        r"attn\.bias",
    ),
    "positions in another order": (
        TINY["BERT"],
        adding(embeddings__position_ids=torch.arange(512).flip(0)[None]),
        {},
        "position_ids",
    ),
    "rotary positions where none are": (TINY["BERT"], adding(rotary__inv_freq=frequencies(1e4)), {}, "inv_freq"),
    "one weight under two names": (
        llama,
        copied("model.layers.0.mlp.up_proj.weight", "layers.0.mlp.up_proj.weight"),
        {},
        r"holds model\.layers\.0\.mlp\.up_proj\.weight twice: as layers\.0\.mlp\.up_proj\.weight and as model\.layers",
    ),
    "one weight under an old name and a new one": (
        TINY["BERT"],
        copied("embeddings.LayerNorm.weight", "embeddings.LayerNorm.gamma"),
        {},
        r"holds embeddings\.LayerNorm\.weight twice",
    ),
    "8 bits with scales": (llama, in_8_bits, {}, r"holds model\.layers\.0\.mlp\.down_proj\.weight in I8, where"),
    **{
        f"numbers in {dtype}": (
            llama,
            stored_as("up_proj", dtype),
            {},
            rf"layers\.0\.mlp\.up_proj\.weight in {said}, where",
        )
        for dtype, said in (
            (torch.int8, "I8"),
            (torch.uint8, "U8"),
            (torch.bool, "BOOL"),
            (torch.int64, "I64"),
            (torch.complex64, "C64"),
            (torch.float8_e4m3fn, "F8_E4M3"),
            (torch.float8_e5m2, "F8_E5M2"),
        )
    },
    "packed weights of a quantisation": (
        llama,
        lambda weights: weights.update({f"{UP}.qweight": torch.ones(4), f"{UP}.scales": weights.pop(f"{UP}.weight")}),
        {},
        r"up_proj\.qweight and 1 more weight, which LlamaForCausalLM does not read",
    ),
    "a tied weight that is in no file": (
        llama,
        without("lm_head"),
        {},
        r"no weights for 1 parts of .*such as lm_head\.weight",
    ),
    "a name that is no name": (llama, adding(**{"a\n\u202e": torch.ones(1)}), {}, r"holds a\\n\\u202e, which"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_may_change_a_number_is_refused(case: str, tmp_path: Path) -> None:
    make, change, config, said = REFUSED[case]
    saved(make, change, tmp_path, **config)
    assert re.search(said, refusal(tmp_path))


# Each with the notes that are made of it, by what they say.
SAID = {
    "nothing left over": (llama, nothing, {}, ()),
    "masks": (
        TINY["GPT-2"],
        adding(transformer__h__0__attn__bias=TRIANGLE.bool(), transformer__h__0__attn__masked_bias=torch.tensor(-1e4)),
        {},
        (),
    ),
    "masks of windows": (
        lambda: t.GPTNeoForCausalLM(
            t.GPTNeoConfig(**SMALL | {"num_layers": 2, "num_heads": 4}, attention_types=[[["local"], 2]])
        ),
        adding(transformer__h__0__attn__attention__bias=TRIANGLE - TRIANGLE.tril(-4)),
        {},
        (),
    ),
    "rotary frequencies": (llama, adding(**{ROTARY: frequencies(1e4)}), {}, ()),
    "rounded rotary frequencies": (llama, adding(**{ROTARY: frequencies(1e4).bfloat16()}), {}, ()),
    "other rotary frequencies": (
        llama,
        adding(**{ROTARY: frequencies(5e5)}),
        {},
        (
            f"LlamaForCausalLM leaves out {ROTARY}: rotary frequencies other than those of its config.json, which it uses.",
        ),
    ),
    "numbers of positions": (TINY["BERT"], adding(embeddings__position_ids=torch.arange(512)[None]), {}, ()),
    "more positions than are read": (TINY["BERT"], adding(embeddings__position_ids=torch.arange(900)[None]), {}, ()),
    "a bias that T5 never had": (
        TINY["T5"],
        adding(decoder__block__0__layer__1__EncDecAttention__relative_attention_bias__weight=torch.ones(32, 4)),
        {},
        (),
    ),
    "the head of a task": (
        lambda: t.BertForMaskedLM(t.BertConfig(**SMALL)),
        nothing,
        {},
        (
            "BertModel leaves out cls.predictions.bias and 4 more weights: the head of a task.",
            "The files lack pooler.dense.bias and 1 more weight: a pooler, of random numbers here, which no "
            "attention reads.",
        ),
    ),
    "a head of an unknown kind": (
        TINY["BERT"],
        prefixed("bert", linear__weight=torch.ones(2, 32)),
        {"architectures": ["ColBERT"]},
        ("BertModel leaves out linear.weight: the head of a task.",),
    ),
    "classes of images": (
        lambda: t.ViTForImageClassification(t.ViTConfig(**VIT)),
        without("pooler"),
        {},
        ("ViTModel leaves out classifier.bias and 1 more weight: the head", "The files lack pooler"),
    ),
    "the value of a text": (llama, adding(v_head__summary__weight=torch.ones(1, 32)), {}, ("leaves out v_head",)),
    "layers for further tokens": (
        llama,
        one_more_layer,
        {"num_nextn_predict_layers": 1},
        ("and 9 more weights: layers that predict",),
    ),
    "modules for further tokens": (
        llama,
        adding(mtp__fc__weight=torch.ones(2)),
        {},
        ("leaves out mtp.fc.weight: layers that",),
    ),
    "a tower for images": (
        llama,
        adding(vision_tower__a=torch.ones(2)),
        {},
        ("leaves out vision_tower.a: for images",),
    ),
    "positions that DeBERTa's class leaves out": (
        lambda: t.DebertaModel(t.DebertaConfig(**SMALL, **RELATIVE, position_biased_input=False)),
        adding(embeddings__position_embeddings__weight=torch.ones(512, 32)),
        {},
        ("leaves out embeddings.position_embeddings.weight: as transformers does in every such model",),
    ),
    "a bias that is 0": (
        TINY["BART"],
        without("final_logits_bias"),
        {},
        ("The files lack final_logits_bias: transformers fills them in",),
    ),
    "a tied weight that is there twice": (
        lambda: llama(tie_word_embeddings=True),
        lambda weights: weights.update({"lm_head.weight": weights["model.embed_tokens.weight"]}),
        {},
        (),
    ),
    "a tied weight that differs": (llama, nothing, {"tie_word_embeddings": True}, ()),
    "double precision": (llama, stored_as("proj", torch.float64), {}, ()),
    "experts, which are merged": (
        lambda: t.MixtralForCausalLM(t.MixtralConfig(**GROUPED, num_local_experts=2, num_experts_per_tok=1)),
        nothing,
        {},
        (),
    ),
    "queries, keys and values in one": (lambda: t.GPTNeoXForCausalLM(t.GPTNeoXConfig(**DECODER)), nothing, {}, ()),
}


@pytest.mark.parametrize("case", SAID)
def test_what_changes_no_number_is_said_or_known(case: str, tmp_path: Path) -> None:
    make, change, config, said = SAID[case]
    network = saved(make, change, tmp_path, **config)
    model = load_model(tmp_path)
    assert len(model.notes) == len(said)
    assert all(part in note for part, note in zip(said, model.notes, strict=True))
    body = network if type(model.network) is type(network) else network.base_model
    if model.reads_images:
        inputs = {"pixel_values": torch.randn(1, 3, 12, 12)}
    else:
        ids = torch.tensor([[5, 9, 17, 33, 8]])
        inputs = {"input_ids": ids} | ({"decoder_input_ids": ids} if model.is_encoder_decoder else {})
    with torch.no_grad():
        torch.testing.assert_close(model.network(**inputs)[0], body(**inputs)[0], rtol=0, atol=1e-4)
