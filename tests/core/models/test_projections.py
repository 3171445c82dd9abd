"""The matrices of a head, checked against what transformers computed with them in a forward pass.

A listener notes what each architecture hands to its attention and what comes back; hooks note what the attention modules read,
and what their output projections made of the result.
"""

import inspect
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
import torch
import transformers as t
from torch import nn
from transformers.pytorch_utils import Conv1D

from core.models import calls
from core.models.loading import load_model
from core.models.model import Model
from core.models.modules import kind_of
from core.models.projections import head_weights
from tests.core.tiny_models import FALCON, GROUPED, LOCAL_EXPERTS, SEQ2SEQ, SMALL, T5, TINY, WEIGHTS_ONLY
from tests.depth import sampled
from tests.refusals import refused

TOKENS = 7
IDS_READ = torch.arange(5, 5 + TOKENS)[None]


@dataclass
class Heard:
    """An attention call. read: what the query is made from; memory: what key and value are; output: of the module"""

    call: calls.Call
    read: np.ndarray  # [queries, d_model]
    memory: np.ndarray  # [keys, d_model]
    output: np.ndarray | None = None  # [queries, d_model]


def heard(network: nn.Module, **inputs: torch.Tensor) -> list[Heard]:
    """Every attention call of a forward pass, in the order in which they happen."""
    read: dict[nn.Module, tuple[torch.Tensor, torch.Tensor]] = {}
    found: list[Heard] = []

    def note_input(module, args, kwargs):
        x = args[0] if args else kwargs.get("hidden_states")
        memory = kwargs.get("key_value_states", kwargs.get("encoder_hidden_states"))
        read[module] = x, x if memory is None else memory

    def note_output(_module, _args, output):
        """The first matrix to act after an attention call is the output projection, whatever it is called."""
        if found and found[-1].output is None:
            found[-1].output = numpy(output)

    def listen(call):
        found.append(Heard(call, *map(numpy, read[call.module])))
        return call

    modules = list(network.modules())
    hooks = [module.register_forward_pre_hook(note_input, with_kwargs=True) for module in modules]
    hooks += [m.register_forward_hook(note_output) for m in modules if isinstance(m, nn.Linear | Conv1D)]
    with calls.heard_by(listen), torch.no_grad():
        network(**inputs)
    for hook in hooks:
        hook.remove()
    return found


def numpy(tensor: torch.Tensor) -> np.ndarray:
    """The first of the batch, in float64."""
    return tensor[0].double().numpy(force=True)


def worst(a: np.ndarray, b: np.ndarray) -> float:
    assert a.shape == b.shape
    return float(np.abs(a - b).max())


def model_of(network: t.PreTrainedModel, dtype: torch.dtype = torch.float64) -> Model:
    """With no bias at 0 and no norm's weight at 1, as most are in a new network."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.3)
    return load_model(network.eval().to(dtype))


def albert(layers: int, **groups: int) -> t.AlbertModel:
    return t.AlbertModel(t.AlbertConfig(**SMALL | {"num_hidden_layers": layers}, embedding_size=16, **groups))


FEWER = {"d_model": 24, "decoder_layers": 3, "decoder_attention_heads": 3}
NARROW_DECODER = t.BertConfig(**SMALL | {"hidden_size": 24}, is_decoder=True, add_cross_attention=True)
# Beside the usual ones: heads that are wider than their share, layers that share modules, other numbers of heads in a decoder.
NETWORKS = TINY | {
    "Llama, wide heads": lambda: t.LlamaModel(t.LlamaConfig(**GROUPED | {"head_dim": 12}, attention_bias=True)),
    "ALBERT, 14 groups": lambda: albert(18, num_hidden_groups=14),  # 9 / (18 / 14) is a little less than 7 in floats
    "ALBERT, 2 groups of 2": lambda: albert(5, num_hidden_groups=2, inner_group_num=2),
    "ModernBERT, biases": lambda: t.ModernBertModel(t.ModernBertConfig(**SMALL, attention_bias=True, pad_token_id=0)),
    "ModernBERT, decoder": lambda: t.ModernBertDecoderModel(t.ModernBertDecoderConfig(**SMALL, pad_token_id=0)),
    "Persimmon": lambda: t.PersimmonModel(t.PersimmonConfig(**SMALL, qk_layernorm=False)),
    "Phi, shared keys": lambda: t.PhiModel(t.PhiConfig(**SMALL, num_key_value_heads=2)),
    "Gemma 2, one key": lambda: t.Gemma2Model(t.Gemma2Config(**GROUPED | {"num_key_value_heads": 1})),
    "Granite, biases": lambda: t.GraniteModel(t.GraniteConfig(**SMALL, num_key_value_heads=2, attention_bias=True)),
    "gpt-oss": lambda: t.GptOssModel(  # YaRN, its usual way, makes queries and keys longer
        t.GptOssConfig(**GROUPED | LOCAL_EXPERTS, rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
    ),
    "two BERTs": lambda: t.EncoderDecoderModel(encoder=TINY["BERT"](), decoder=t.BertLMHeadModel(NARROW_DECODER)),
    "T5, narrow heads": lambda: t.T5Model(t.T5Config(**T5 | {"d_kv": 5}, num_decoder_layers=3)),
    "BART, fewer heads": lambda: t.BartModel(t.BartConfig(**SEQ2SEQ | FEWER)),
}


def differences(model: Model, one: Heard, layer: int, kind: str) -> dict[str, float]:
    """How far our matrices are from what one attention call worked with, at worst, over all heads."""
    call = one.call
    query, key, value = (numpy(part) for part in (call.query, call.key, call.value))
    heads, key_heads = len(query), len(key)
    weights = [head_weights(model, layer, head, kind) for head in range(heads)]
    assert [w.key_head for w in weights] == [head * key_heads // heads for head in range(heads)]

    queries = normed(call.module, "q_norm", [one.read @ w.W_Q + w.b_Q for w in weights])
    keys = normed(call.module, "k_norm", [one.memory @ w.W_K + w.b_K for w in weights[:: heads // key_heads]])
    if isinstance(model.network, t.OPTForCausalLM):
        queries = queries * call.module.scaling
    found = {"query": worst(queries, query), "key": worst(keys, key)}
    values = [one.memory @ w.W_V + w.b_V for w in weights]
    found["value"] = max(worst(ours, value[w.key_head]) for ours, w in zip(values, weights, strict=True))
    mixed = sum(numpy(call.output)[:, head] @ w.W_O for head, w in enumerate(weights))
    found["output"] = worst(mixed + weights[0].b_O, one.output)
    return found


def normed(module: nn.Module, name: str, projected: list[np.ndarray]) -> np.ndarray:
    """All heads' queries (or keys) as [heads, tokens, d_head], after the module's own norm where it has one."""
    x = np.stack(projected, axis=1)  # [tokens, heads, d_head]
    norm = getattr(module, name, None)
    if norm is None:
        return x.swapaxes(0, 1)
    flat = norm.weight.shape == (x[0].size,)  # OLMo 2 normalises over all heads at once
    given = torch.from_numpy(x.reshape(len(x), -1) if flat else x)[None].to(norm.weight.dtype)
    with torch.no_grad():
        return numpy(norm(given)).reshape(x.shape).swapaxes(0, 1)


def places(model: Model, calls: int) -> list[tuple[str, int]]:
    """The kind and layer of each attention call, in the order in which a forward pass makes them."""
    if not model.is_encoder_decoder:
        return [("self", layer) for layer in range(calls)]
    decoder = [(kind, layer) for layer in range((calls - 2) // 2) for kind in ("decoder", "cross")]
    return [("encoder", 0), ("encoder", 1), *decoder]


@pytest.mark.parametrize("name", sampled(NETWORKS))
def test_the_matrices_are_those_of_the_forward_pass(name):
    is_exact = name != "gpt-oss"  # whose experts compute in float32
    model = model_of(NETWORKS[name](), torch.float64 if is_exact else torch.float32)
    inputs = {"input_ids": IDS_READ}
    if name == "ViT":
        inputs = {"pixel_values": torch.randn(1, 3, 12, 12, dtype=torch.float64)}
    if model.is_encoder_decoder:
        inputs["decoder_input_ids"] = IDS_READ[:, 1:6]
    if "position_ids" in inspect.signature(model.network.forward).parameters:
        inputs["position_ids"] = torch.zeros_like(IDS_READ)  # rotary embedding turns nothing there
    is_turned = any("rotary" in module for module, _ in model.network.named_modules())
    found = heard(model.network, **inputs)
    assert len(found) == model.attention_calls
    for one, (kind, layer) in zip(found, places(model, len(found)), strict=True):
        assert one.call.value.abs().max() > 0.1
        for what, difference in differences(model, one, layer, kind).items():
            # Rotary embeddings and some norms are computed in float32 whatever the network's own numbers are.
            in_double = is_exact and (what in ("value", "output") or not is_turned)
            assert difference <= (1e-12 if in_double else 5e-6), f"{kind} layer {layer}: {what}"


def test_cross_attention_of_a_decoder_alone():
    model = model_of(t.BertModel(NARROW_DECODER))
    found = heard(model.network, input_ids=IDS_READ, encoder_hidden_states=torch.rand(1, 9, 24, dtype=torch.float64))
    for one, (layer, kind) in zip(found, product((0, 1), ("self", "cross")), strict=True):
        assert max(differences(model, one, layer, kind).values()) < 1e-12


def as_heads(x: np.ndarray) -> np.ndarray:
    """[heads, tokens, d_head], from whatever order the axes are in."""
    tokens, size = x.shape.index(TOKENS), x.shape.index(8)
    return x.transpose(3 - tokens - size, tokens, size)


def falcon(**settings: object) -> tuple:
    config = t.FalconConfig(**FALCON, bias=True, **settings)
    return lambda: t.FalconModel(config), "_split_heads", "self_attention.dense"


GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 64}
# The network, the method that splits queries, keys and values into heads, the name of the output projection.
OWN_CODE = {
    "GPT-J": (WEIGHTS_ONLY["GPT-J"], "_split_heads", "attn.out_proj"),
    "GPT-Neo": (WEIGHTS_ONLY["GPT-Neo"], "_split_heads", "attention.out_proj"),
    "GPT": (lambda: t.OpenAIGPTModel(t.OpenAIGPTConfig(**GPT)), "split_heads", "attn.c_proj"),
    "BLOOM": (WEIGHTS_ONLY["BLOOM"], "_reshape", "self_attention.dense"),
    "Falcon, a key for each query": falcon(multi_query=False),
    "Falcon, one key": falcon(multi_query=True),
    "Falcon, two keys": falcon(num_kv_heads=2, new_decoder_architecture=True),
}


@pytest.mark.parametrize(("make", "method", "output_name"), OWN_CODE.values(), ids=OWN_CODE)
def test_architectures_with_attention_code_of_their_own(make, method, output_name, monkeypatch):
    """These never call an attention function, but split into heads in a method of their own, before rotary embedding."""
    model = model_of(make())
    attention_class = next(type(module) for module in model.network.modules() if hasattr(module, method))
    split = getattr(attention_class, method)
    reads, parts, outputs = [], [], []

    def noting_split(self, *args, **kwargs):
        made = split(self, *args, **kwargs)
        parts.extend([made] if isinstance(made, torch.Tensor) else made)
        return made

    def note_input(_module, args, kwargs):
        reads.append(numpy(args[0] if args else kwargs["hidden_states"]))

    monkeypatch.setattr(attention_class, method, noting_split)
    for module_name, module in model.network.named_modules():
        if isinstance(module, attention_class):
            module.register_forward_pre_hook(note_input, with_kwargs=True)
        if module_name.endswith(output_name):
            module.register_forward_hook(lambda _module, _args, made: outputs.append(numpy(made)))
    with torch.no_grad():
        attentions = model.network(IDS_READ, output_attentions=True).attentions

    heads_first = [as_heads(numpy(part)) for part in parts]
    for layer in range(2):
        x, (query, key, value) = reads[layer], heads_first[3 * layer : 3 * layer + 3]
        weights = [head_weights(model, layer, head) for head in range(4)]
        mixed = weights[0].b_O
        for head, w in enumerate(weights):
            of_key = head if len(key) == 4 else w.key_head  # Falcon repeats its keys, or broadcasts its only one
            assert worst(x @ w.W_Q + w.b_Q, query[head]) < 1e-12
            assert worst(x @ w.W_K + w.b_K, key[of_key]) < 1e-12
            assert worst(x @ w.W_V + w.b_V, value[of_key]) < 1e-12
            mixed = mixed + numpy(attentions[layer])[head] @ (x @ w.W_V + w.b_V) @ w.W_O
        assert worst(mixed, outputs[layer]) < 1e-6  # some of them compute the weights in float32


@pytest.fixture(scope="module")
def llama() -> Model:
    return model_of(NETWORKS["Llama, wide heads"]())


def test_unpacks_into_the_four_matrices_and_heads_of_a_group_share_key_and_value(llama):
    a, b, other = (head_weights(llama, 0, head) for head in (0, 1, 2))
    assert [one is two for one, two in zip(a, (a.W_Q, a.W_K, a.W_V, a.W_O), strict=True)] == [True] * 4
    assert (a.W_Q.shape, a.W_O.shape, a.b_O.shape, a.b_Q.shape) == ((32, 12), (12, 32), (32,), (12,))
    assert (a.key_head, b.key_head, other.key_head) == (0, 0, 1)
    np.testing.assert_array_equal((a.W_K, a.W_V), (b.W_K, b.W_V))
    assert (a.W_Q != b.W_Q).all()
    assert (a.W_V != other.W_V).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_arrays_are_read_only_copies_in_float64_where_the_network_is_and_in_float32_otherwise(dtype):
    model = model_of(TINY["GPT-2"](), dtype)
    weights = head_weights(model, 0, 0)
    before = weights.W_Q.copy()
    with torch.no_grad():
        model.network.transformer.h[0].attn.c_attn.weight.zero_()
    np.testing.assert_array_equal(weights.W_Q, before)
    for array in (*weights, weights.b_Q, weights.b_K, weights.b_V, weights.b_O):
        assert array.dtype == (np.float64 if dtype == torch.float64 else np.float32)
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize("number", [-1, 4, 1.0, None])
def test_a_layer_or_a_head_that_is_not_there(llama, number):
    for field, there, place in (("layer", "from 0 to 1", (number, 0)), ("head", "from 0 to 3", (0, number))):
        with refused(field, rf"no {field} .*{there}"):
            head_weights(llama, *place)


def test_kind_that_the_model_lacks(llama):
    with refused("kind", "no cross attention, only self"):
        head_weights(llama, 0, 0, "cross")
    bart = model_of(TINY["BART"]())
    with refused("kind", "no self attention, only encoder, decoder, cross"):
        head_weights(bart, 0, 0, "self")
    np.testing.assert_array_equal(head_weights(bart, 1, 2).W_Q, head_weights(bart, 1, 2, "encoder").W_Q)


def of(model_type: str, **config: object):
    return lambda: t.AutoModel.from_config(t.AutoConfig.for_model(model_type, **config))


QWEN_3_5 = of("qwen3_5_text", **SMALL, layer_types=["full_attention"] * 2, num_key_value_heads=2, head_dim=8)
MOBILE_BERT = of("mobilebert", **SMALL, intra_bottleneck_size=16, true_hidden_size=16)
# The network, and what the message has to name.
REFUSED = {
    "DeBERTa": (WEIGHTS_ONLY["DeBERTa"], "in_proj"),
    "DeBERTa v2": (WEIGHTS_ONLY["DeBERTa-v2"], "query_proj, key_proj, value_proj"),
    "XLNet": (WEIGHTS_ONLY["XLNet"], "layer_norm"),
    "FNet": (of("fnet", **SMALL), "encoder"),
    "GPT-2, cross": (of("gpt2", n_embd=24, n_layer=2, n_head=4, add_cross_attention=True), "q_attn"),
    "CodeGen": (WEIGHTS_ONLY["CodeGen"], "qkv_proj, out_proj"),
    "GPTBigCode": (of("gpt_bigcode", n_embd=24, n_layer=2, n_head=4, multi_query=False), "c_attn"),
    "DeepSeek V3": (of("deepseek_v3", **SMALL), "kv_b_proj"),
    "Longformer": (of("longformer", **SMALL, attention_window=4), "what query_global, key_global, value_global"),
    "AFMoE, gated": (of("afmoe", **SMALL, num_key_value_heads=2, num_dense_layers=2), "what gate_proj"),
    "DiffLlama": (of("diffllama", **SMALL), "what lambda_q1"),
    "Qwen3.5, query and gate in one": (QWEN_3_5, r"32 to 64, 32 to 16, 32 to 16, 32 to 32\) do not add up"),
    "MobileBERT, values read from elsewhere": (MOBILE_BERT, "do not add up"),
    "SqueezeBERT, grouped convolutions": (of("squeezebert", **SMALL, embedding_size=32), "query, key, value"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_architectures_whose_matrices_cannot_be_told_are_refused(name):
    make, named = REFUSED[name]
    with torch.device("meta"):
        model = load_model(make())
    with refused("model", f"architecture are not supported.*{named}"):
        head_weights(model, 0, 0, "cross" if "cross" in name else None)


def test_quantised_matrices_are_refused():
    model = model_of(TINY["Mistral"]())
    projection = model.network.model.layers[0].self_attn.v_proj
    projection.weight.data = projection.weight.data.to(torch.float8_e4m3fn)
    with refused("model", r"Linear of torch\.float8_e4m3fn is not a plain matrix"):
        head_weights(model, 0, 0)
    head_weights(model, 1, 0)


def test_the_kind_of_modules_of_other_architectures():
    kinds = {"decoder.layers.0.cross_attention": "cross", "text_decoder.layers.0.self_attn": "decoder"}
    for name, kind in {**kinds, "text_encoder.layers.0.self_attn": "encoder", "shared": "encoder"}.items():
        assert kind_of(name, is_encoder_decoder=True) == kind
    assert kind_of("transformer.h.0.crossattention", is_encoder_decoder=False) == "cross"  # GPT-2 beside an encoder
