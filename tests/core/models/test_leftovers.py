"""Weights that a network does not read, and weights that it has from nowhere: refused, or said where no number changes."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers as t

from core.models.loading import load_model
from tests.core.models.folders import Change, Weights, configured, refusal, weighted
from tests.core.tiny_models import DECODER, GROUPED, LOCAL_EXPERTS, RELATIVE, SMALL, T5, TINY, VIT, randomised

BERT, GPT2 = TINY["BERT"], TINY["GPT-2"]
UP = "model.layers.0.mlp.up_proj"
TRIANGLE = torch.ones(64, 64).tril()[None, None]
ROTARY = "model.layers.0.self_attn.rotary_emb.inv_freq"
MASK = "transformer.h.0.attn.bias"
POSITIONS = "embeddings.position_ids"


def llama(**settings: object) -> t.PreTrainedModel:
    return t.LlamaForCausalLM(t.LlamaConfig(**GROUPED | settings))


def parted() -> t.PreTrainedModel:
    network = t.T5ForConditionalGeneration(t.T5Config(**T5, decoder_start_token_id=0))
    for part in (network.lm_head, network.decoder.embed_tokens):
        part.weight = torch.nn.Parameter(torch.randn(64, 32))
    return network


def frequencies(theta: float) -> torch.Tensor:
    return 1 / theta ** (torch.arange(0, 8, 2) / 8)


def adding(name: str, tensor: torch.Tensor) -> Change:
    return weighted(lambda weights: weights.update({name: tensor}))


def without(part: str) -> Change:
    return weighted(lambda weights: [weights.pop(name) for name in list(weights) if part in name])


def stored_as(part: str, dtype: torch.dtype) -> Change:
    return weighted(lambda weights: weights.update({n: weights[n].to(dtype) for n in weights if part in n}))


def copied(name: str, copy: str) -> Change:
    return weighted(lambda weights: weights.update({copy: 2 * weights[name]}))


def packed(weights: Weights) -> None:
    weights |= {f"{UP}.qweight": torch.ones(4), f"{UP}.scales": weights.pop(f"{UP}.weight")}


def prefixed(weights: Weights) -> None:
    for name in list(weights):
        weights[f"bert.{name}"] = weights.pop(name)


def one_more_layer(weights: Weights) -> None:
    weights |= {name.replace("layers.1", "layers.2"): weights[name] for name in weights if "layers.1" in name}
    weights["model.layers.2.eh_proj.weight"] = torch.ones(32, 64)


def tied_twice(weights: Weights) -> None:
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]


def saved(make: Callable[[], t.PreTrainedModel], changes: list[Change], folder: Path) -> t.PreTrainedModel:
    network = randomised(make())
    network.save_pretrained(folder)
    for change in changes:
        change(folder)
    return network


ONE_LAYER = configured(num_hidden_layers=1, layer_types=None)
POSING = adding("model.layers.1.eh_proj.weight", torch.ones(32, 64))
LINEAR = adding("linear.weight", torch.ones(2, 32))
BESIDE = adding("encoder.layer.2.output.dense.weight", torch.ones(32, 48))
OLD_NAME = copied("embeddings.LayerNorm.weight", "embeddings.LayerNorm.gamma")
NO_REAL_NUMBERS = {"I8": torch.int8, "BOOL": torch.bool, "C64": torch.complex64, "F8_E5M2": torch.float8_e5m2}
# The network, what is said of it, and the changes of its folder.
REFUSED: dict[str, tuple] = {
    "biases that the config denies": (
        lambda: llama(attention_bias=True),
        r"holds model\.layers\.0\.self_attn\.k_proj\.bias and 7 more weights, which LlamaForCausalLM does not read",
        configured(attention_bias=False),
    ),
    "a layer that the config denies": (llama, r"layers\.1\.input_layernorm\.weight and 8 more weights", ONE_LAYER),
    "a layer that poses as one for further tokens": (llama, "and 9 more weights", POSING, ONE_LAYER),
    "a layer of an encoder": (BERT, r"encoder\.layer\.1\..* and 15 more weights", ONE_LAYER),
    "a bias of a head": (llama, r"lm_head\.bias, which", adding("lm_head.bias", torch.ones(64))),
    "a norm": (llama, "q_norm", adding("model.layers.0.self_attn.q_norm.weight", torch.ones(8))),
    "an adapter": (llama, "lora_A", adding("base_model.q_proj.lora_A.weight", torch.ones(8, 32))),
    "a head without a body": (BERT, r"linear\.weight, which", LINEAR),
    "a layer beside a prefixed body": (BERT, r"2\.output\.dense\.weight, which BertModel", weighted(prefixed), BESIDE),
    "a mask that is none": (GPT2, r"attn\.bias", adding(MASK, torch.ones(1, 1, 64, 64))),
    "a bias that poses as a mask": (GPT2, r"attn\.bias", adding(MASK, torch.ones(96))),
    "positions in another order": (BERT, "position_ids", adding(POSITIONS, torch.arange(512).flip(0)[None])),
    "rotary positions where none are": (BERT, "inv_freq", adding("rotary.inv_freq", frequencies(1e4))),
    "one weight under two names": (
        llama,
        r"holds model\.layers\.0\.mlp\.up_proj\.weight twice: as layers\.0\.mlp\.up_proj\.weight and as model\.layers",
        copied(f"{UP}.weight", "layers.0.mlp.up_proj.weight"),
    ),
    "one weight under an old name and a new one": (BERT, r"holds embeddings\.LayerNorm\.weight twice", OLD_NAME),
    **{
        f"numbers in {said}": (llama, rf"layers\.0\.mlp\.up_proj\.weight in {said}, where", stored_as("up_proj", dtype))
        for said, dtype in NO_REAL_NUMBERS.items()
    },
    "packed weights of a quantisation": (llama, r"up_proj\.qweight and 1 more weight, which Llama", weighted(packed)),
    "a tied weight of another size": (
        lambda: llama(tie_word_embeddings=True),
        r"has tied weights of other shapes than its config\.json",
        weighted(lambda weights: weights.update({"lm_head.weight": torch.ones(70, 32)})),
    ),
    "a tied weight that is in no file": (llama, r"for 1 parts of Llama.*such as lm_head\.weight", without("lm_head")),
    "a name that is no name": (llama, r"holds a\\n\\u202e, which", adding("a\n\u202e", torch.ones(1))),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_may_change_a_number_is_refused(case, tmp_path):
    make, said, *changes = REFUSED[case]
    saved(make, changes, tmp_path)
    assert re.search(said, refusal(tmp_path))


OTHER_ROTARY = f"leaves out {ROTARY}: rotary frequencies other than those of its config.json, which it uses."
TASK = "BertModel leaves out cls.predictions.bias and 4 more weights: the head of a task."
LINEAR_TASK = "BertModel leaves out linear.weight: the head of a task."
LACKS = "The files lack pooler.dense.bias and 1 more weight: a pooler, of random numbers here, which no"
IN_T5 = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
LOCAL = {"num_layers": 2, "num_heads": 4, "attention_types": [[["local"], 2]]}
WINDOWS = adding("transformer.h.0.attn.attention.bias", TRIANGLE - TRIANGLE.tril(-4))
COLBERT, FURTHER = configured(architectures=["ColBERT"]), configured(num_nextn_predict_layers=1)
ZEROS = "final_logits_bias"
TWO_EACH = "By its config.json"
TWO = f"{TWO_EACH} lm_head.weight is model.embed_tokens.weight (tie_word_embeddings), and its files hold two"
# The network, the notes that are made of it by what they say, and the changes of its folder.
SAID: dict[str, tuple] = {
    "nothing left over": (llama, ()),
    "masks": (GPT2, (), adding(MASK, TRIANGLE.bool()), adding("transformer.h.0.attn.masked_bias", torch.tensor(-1e4))),
    "masks of windows": (lambda: t.GPTNeoForCausalLM(t.GPTNeoConfig(**SMALL | LOCAL)), (), WINDOWS),
    "rotary frequencies": (llama, (), adding(ROTARY, frequencies(1e4))),
    "rounded rotary frequencies": (llama, (), adding(ROTARY, frequencies(1e4).bfloat16())),
    "other rotary frequencies": (llama, (OTHER_ROTARY,), adding(ROTARY, frequencies(5e5))),
    "numbers of positions": (BERT, (), adding(POSITIONS, torch.arange(512)[None])),
    "more positions than are read": (BERT, (), adding(POSITIONS, torch.arange(900)[None])),
    "a bias that T5 never had": (TINY["T5"], (), adding(IN_T5, torch.ones(32, 4))),
    "the head of a task": (lambda: t.BertForMaskedLM(t.BertConfig(**SMALL)), (TASK, LACKS)),
    "a head of an unknown kind": (BERT, (LINEAR_TASK,), weighted(prefixed), LINEAR, COLBERT),
    "classes of images": (
        lambda: t.ViTForImageClassification(t.ViTConfig(**VIT)),
        (
            "Its folder has no preproc",
            "ViTModel leaves out classifier.bias and 1 more weight: the head",
            "The files lack pooler",
        ),
        without("pooler"),
    ),
    "the value of a text": (llama, ("leaves out v_head",), adding("v_head.summary.weight", torch.ones(1, 32))),
    "layers for further tokens": (llama, ("9 more weights: layers that predict",), weighted(one_more_layer), FURTHER),
    "modules for further tokens": (llama, ("leaves out mtp.a: layers",), adding("mtp.a", torch.ones(2))),
    "a tower for images": (llama, ("leaves out vision_tower.a: for images",), adding("vision_tower.a", torch.ones(2))),
    "positions that DeBERTa's class leaves out": (
        lambda: t.DebertaModel(t.DebertaConfig(**SMALL, **RELATIVE, position_biased_input=False)),
        ("leaves out embeddings.position_embeddings.weight: as transformers does in every such model",),
        adding("embeddings.position_embeddings.weight", torch.ones(512, 32)),
    ),
    "a bias that is 0": (TINY["BART"], (f"The files lack {ZEROS}: transformers fills them in",), without(ZEROS)),
    "a tied weight that is there twice": (lambda: llama(tie_word_embeddings=True), (), weighted(tied_twice)),
    "a tied weight that differs": (llama, (TWO,), configured(tie_word_embeddings=True)),
    "a head and embeddings of a decoder that differ": (
        parted,
        (f"{TWO_EACH} decoder.embed_tokens", f"{TWO_EACH} lm_head"),
    ),
    "double precision": (llama, (), stored_as("proj", torch.float64)),
    "experts, which are merged": (lambda: t.MixtralForCausalLM(t.MixtralConfig(**GROUPED | LOCAL_EXPERTS)), ()),
    "queries, keys and values in one": (lambda: t.GPTNeoXForCausalLM(t.GPTNeoXConfig(**DECODER)), ()),
}


@pytest.mark.parametrize("case", SAID)
def test_what_changes_no_number_is_said_or_known(case, tmp_path):
    make, said, *changes = SAID[case]
    network = saved(make, changes, tmp_path)
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
