"""GGUF files of many architectures and quantisations: the same logits as the network that was written into the file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as t
from gguf import GGMLQuantizationType as Quantisation

from core.models.loading import load_model, model_size
from tests.core.gguf_files import VOCABULARY, stored_as, write_gguf
from tests.refusals import refused

pytestmark = pytest.mark.usefixtures("cache")
WEIGHTS_ONLY = {"bloom", "falcon"}

SIZES = {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
DECODER = SIZES | {"num_key_value_heads": 2, "vocab_size": VOCABULARY, "max_position_embeddings": 64}
IDS = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
SAID = {"block_count": 2, "context_length": 64, "embedding_length": 256, "feed_forward_length": 256}
SAID |= {"attention.head_count": 4, "attention.head_count_kv": 2}
NORM = {"attention.layer_norm_epsilon": 1e-5}
RMS = {"attention.layer_norm_rms_epsilon": 1e-6}
WIDE = RMS | {"attention.key_length": 128, "attention.value_length": 128}
TURNED = {"rope.freq_base": 5e4}
EXPERTS = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 256}

FALCON_SIZES = {k: v for k, v in SIZES.items() if k != "intermediate_size"} | {"vocab_size": VOCABULARY} | IDS
FALCON_SAID = SAID | {"context_length": 2048, "feed_forward_length": 1024, "attention.layer_norm_epsilon": 1e-4}
FALCON_SAID |= {"tensor_data_layout": "jploski"}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": 5e4}
YARN_SAID = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 16}
T5_SIZES = IDS | {"d_model": 256, "d_kv": 64, "d_ff": 256, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4}
T5_SIZES |= {"vocab_size": VOCABULARY, "relative_attention_num_buckets": 16, "layer_norm_epsilon": 1e-5}
T5_SIZES |= {"decoder_start_token_id": 3}
T5_SAID = NORM | {"context_length": 512, "embedding_length": 256, "feed_forward_length": 256}
T5_SAID |= {"block_count": 2, "decoder_block_count": 3, "decoder_start_token_id": 3}
T5_SAID |= {"attention.head_count": 4, "attention.key_length": 64, "attention.value_length": 64}
T5_SAID |= {"attention.relative_buckets_count": 16, "attention.layer_norm_rms_epsilon": 1e-5}
LONG = {"short_factor": [1.0 + 0.1 * i for i in range(32)], "long_factor": [2.0 + 0.3 * i for i in range(32)]}


def llama3_frequencies() -> np.ndarray:
    """As llama.cpp's convert_hf_to_gguf.py computes the tensor rope_freqs of Llama 3."""
    inverse = 1.0 / 1e4 ** (torch.arange(0, 64, 2, dtype=torch.float32) / 64)
    wavelengths = 2 * np.pi / inverse.double().numpy()
    smooth = np.clip((16 / wavelengths - 1.0) / (4.0 - 1.0), 0, 1)  # 1 up to a length of 16 / 4, 0 from one of 16
    return (1 / ((1 - smooth) / 4.0 + smooth)).astype(np.float32)


def untied(config: t.T5Config) -> t.T5ForConditionalGeneration:
    """A T5 1.1, which has a matrix of its own for logits. transformers ties the two until it has read them from files."""
    network = t.T5ForConditionalGeneration(config)
    network.lm_head.weight = torch.nn.Parameter(network.shared.weight.detach().flip(0))
    return network


def causal(family: str, text: str | None = None, **config: object) -> Callable[[], t.PreTrainedModel]:
    """A network of this family's, with the sizes above unless others are given. text: the family of its configuration"""
    return lambda: getattr(t, f"{family}ForCausalLM")(getattr(t, f"{text or family}Config")(**DECODER | IDS | config))


def falcon(**config: object) -> Callable[[], t.PreTrainedModel]:
    return lambda: t.FalconForCausalLM(t.FalconConfig(**FALCON_SIZES, layer_norm_epsilon=1e-4, **config))


def rope(kind: str, theta: float, **others: object) -> dict[str, Any]:
    return {"rope_type": kind, "rope_theta": theta, **others}


def by_kind(full: dict[str, Any], sliding: dict[str, Any]) -> dict[str, Any]:
    """Rotary embedding that layers with a window have of their own."""
    return {"rope_parameters": {"full_attention": full, "sliding_attention": sliding}}


USUAL = {"rope_parameters": rope("default", 5e4)}
LLAMA_3 = rope("llama3", 1e4, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0)
FOUR_EXPERTS = USUAL | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 256}
QWEN2_MOE = FOUR_EXPERTS | {"shared_expert_intermediate_size": 256}
QWEN2_MOE_SAID = {"expert_shared_feed_forward_length": 256}
QWEN3_MOE = FOUR_EXPERTS | {"head_dim": 128, "norm_topk_prob": True}
LOCAL = {"head_dim": 128, "query_pre_attn_scalar": 128, "sliding_window": 4}
GEMMA4 = {"num_hidden_layers": 6, "sliding_window": 4, "final_logit_softcapping": 3.0}
GEMMA4 |= {"layer_types": ["sliding_attention", "full_attention"] * 3}
GEMMA4 |= {"head_dim": 64, "global_head_dim": 128, "num_global_key_value_heads": 1, "attention_k_eq_v": True}
GEMMA4 |= {"hidden_size_per_layer_input": 32, "vocab_size_per_layer_input": VOCABULARY, "num_kv_shared_layers": 2}
GEMMA4 |= {"use_double_wide_mlp": True, "enable_moe_block": True, "num_experts": 4, "top_k_experts": 2}
GEMMA4 |= {"moe_intermediate_size": 256}
GEMMA4 |= by_kind(rope("proportional", 5e5, partial_rotary_factor=0.25), rope("default", 2e4))
GEMMA4_SAID = {"block_count": 6, "feed_forward_length": [256] * 4 + [512] * 2, "embedding_length_per_layer_input": 32}
GEMMA4_SAID |= {"attention.head_count_kv": [2, 1] * 3, "attention.shared_kv_layers": 2, "final_logit_softcapping": 3.0}
GEMMA4_SAID |= {"attention.sliding_window": 4, "attention.sliding_window_pattern": [True, False] * 3}
GEMMA4_SAID |= {"attention.key_length_swa": 64, "attention.value_length_swa": 64}
GEMMA4_SAID |= {"rope.freq_base": 5e5, "rope.freq_base_swa": 2e4}
GEMMA4_SAID |= {"rope.dimension_count": 128, "rope.dimension_count_swa": 64}
GEMMA3 = {"num_hidden_layers": 6} | by_kind(rope("linear", 1e6, factor=8.0), rope("default", 1e4))
GEMMA3_SAID = {"block_count": 6, "attention.sliding_window": 4, "rope.freq_base": 1e6}
GEMMA3_SAID |= {"rope.scaling.type": "linear", "rope.scaling.factor": 8.0}
PHI3 = {"sliding_window": 20, "rms_norm_eps": 1e-6, "original_max_position_embeddings": 16}
PHI3_SAID = {"rope.freq_base": 1e4, "rope.dimension_count": 64, "rope.scaling.original_context_length": 16}
PHI3_SAID |= {"rope.scaling.attn_factor": float(np.sqrt(1 + np.log(4) / np.log(16))), "attention.sliding_window": 20}
GPT_OSS = {"head_dim": 128, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 4, "rms_norm_eps": 1e-6}
GPT_OSS_YARN = {"original_max_position_embeddings": 512, "beta_fast": 24.0, "beta_slow": 2.0, "truncate": False}
GPT_OSS |= {"rope_parameters": YARN | GPT_OSS_YARN}
GPT_OSS_SAID = {"rope.scaling.original_context_length": 512, "attention.sliding_window": 4}
GPT_OSS_SAID |= {"rope.scaling.yarn_beta_fast": 24.0, "rope.scaling.yarn_beta_slow": 2.0}
BLOOM = {"hidden_size": 256, "n_layer": 2, "n_head": 4, "vocab_size": VOCABULARY, "layer_norm_epsilon": 1e-4}
BLOOM_SAID = {"feed_forward_length": 1024, "attention.head_count_kv": 4, "attention.layer_norm_epsilon": 1e-4}
LFM2 = {"num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"], "conv_L_cache": 4, "norm_eps": 1e-4}
LFM2_SAID = {"block_count": 3, "attention.head_count_kv": [0, 2, 0], "attention.layer_norm_rms_epsilon": 1e-4}
LFM2_SAID |= {"vocab_size": VOCABULARY, "shortconv.l_cache": 4}
GPT2 = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 48, "vocab_size": VOCABULARY}
GPT2_SAID = {"block_count": 2, "context_length": 48, "embedding_length": 64, "feed_forward_length": 256}
GPT2_SAID |= {"attention.head_count": 4}
NEMOTRON_SAID = {"rope.dimension_count": 32, "attention.layer_norm_rms_epsilon": 1e-5}
MINIMAX = USUAL | {"head_dim": 128, "num_local_experts": 4, "num_experts_per_tok": 2, "rotary_dim": 64}
MINIMAX_SAID = {"expert_gating_func": 2, "rope.dimension_count": 64}
LLAMA_SAID = {"rope.freq_base": 1e4, "rope.dimension_count": 64}
STABLELM_SAID = {"rope.dimension_count": 16, "use_parallel_residual": True}
CAPPED = {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}
GATED = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
SCALED = LLAMA_3 | {"original_max_position_embeddings": 16}
TWO_KEYS = {"attention.head_count_kv": 2}

# architecture and quantisation -> (network, the file's settings)
FILES: dict[str, tuple[Callable[[], t.PreTrainedModel], dict[str, Any]]] = {
    "llama Q4_K": (causal("Llama", **USUAL), SAID | RMS | TURNED),
    "llama Q6_K": (causal("Llama", rope_parameters=SCALED), SAID | RMS | LLAMA_SAID),
    "qwen2 Q5_K": (causal("Qwen2", rope_parameters=YARN), SAID | RMS | TURNED | YARN_SAID),
    "qwen2moe Q8_0": (causal("Qwen2Moe", **QWEN2_MOE), SAID | RMS | TURNED | EXPERTS | QWEN2_MOE_SAID),
    "qwen3 Q4_0": (causal("Qwen3", **USUAL, head_dim=128, tie_word_embeddings=True), SAID | TURNED | WIDE),
    "qwen3moe Q5_1": (causal("Qwen3Moe", **QWEN3_MOE), SAID | TURNED | WIDE | EXPERTS),
    "gemma2 Q3_K": (causal("Gemma2", **LOCAL | CAPPED), SAID | WIDE | CAPPED | {"attention.sliding_window": 4}),
    "gemma3 Q2_K": (causal("Gemma3", "Gemma3Text", **LOCAL | GEMMA3), SAID | WIDE | GEMMA3_SAID),
    "phi3 IQ4_XS": (causal("Phi3", **PHI3, rope_parameters=rope("longrope", 1e4, **LONG)), SAID | RMS | PHI3_SAID),
    "stablelm Q5_0": (causal("StableLm", use_qkv_bias=True), SAID | NORM | STABLELM_SAID),
    "starcoder2 BF16": (causal("Starcoder2", **USUAL), SAID | TURNED | NORM),
    "nemotron F16": (causal("Nemotron", **USUAL), SAID | TURNED | NORM | NEMOTRON_SAID),
    "gpt-oss MXFP4": (causal("GptOss", **GPT_OSS), SAID | TURNED | WIDE | EXPERTS | YARN_SAID | GPT_OSS_SAID),
    "gemma4 IQ4_NL": (causal("Gemma4", "Gemma4Text", **GEMMA4), SAID | WIDE | EXPERTS | GEMMA4_SAID),
    "t5 IQ3_S": (lambda: t.T5ForConditionalGeneration(t.T5Config(**T5_SIZES)), T5_SAID),
    "t5 IQ2_S": (lambda: untied(t.T5Config(**T5_SIZES, **GATED)), T5_SAID),
    "t5 TQ2_0": (lambda: t.UMT5ForConditionalGeneration(t.UMT5Config(**T5_SIZES)), T5_SAID),
    "falcon IQ2_XXS": (falcon(num_kv_heads=2, new_decoder_architecture=True), FALCON_SAID | TWO_KEYS),
    "falcon Q4_1": (falcon(num_kv_heads=1), FALCON_SAID | {"attention.head_count_kv": 1}),
    "bloom IQ2_XS": (lambda: t.BloomForCausalLM(t.BloomConfig(**BLOOM, **IDS)), SAID | BLOOM_SAID),
    "lfm2 IQ3_XXS": (causal("Lfm2", **USUAL, **LFM2, block_auto_adjust_ff_dim=False), SAID | TURNED | LFM2_SAID),
    "minimax-m2 IQ1_S": (causal("MiniMaxM2", **MINIMAX), SAID | TURNED | WIDE | EXPERTS | MINIMAX_SAID),
    "gpt2 F32": (lambda: t.GPT2LMHeadModel(t.GPT2Config(**GPT2, **IDS)), NORM | GPT2_SAID),
}
# Tensors in the files beside those of the network.
BESIDE: dict[str, dict[str, np.ndarray]] = {
    "llama Q6_K": {"rope_freqs.weight": llama3_frequencies()},
    "phi3 IQ4_XS": {f"rope_factors_{one}.weight": np.float32(LONG[f"{one}_factor"]) for one in ("short", "long")},
    # The weights of keys that no layer reads are in Google's files, and so in these.
    "gemma4 IQ4_NL": {
        "rope_freqs.weight": np.array([1.0] * 16 + [1e30] * 48, np.float32),
        "blk.5.attn_k.weight": np.ones((128, 256), np.float32),
        "blk.5.attn_k_norm.weight": np.ones(128, np.float32),
    },
    "t5 IQ3_S": {"dec.blk.0.cross_attn_rel_b.weight": np.ones((16, 4), np.float32)},
}


def made(name: str, folder: Path) -> tuple[Path, t.PreTrainedModel]:
    """(the file, the network whose weights are in it)"""
    network_of, settings = FILES[name]
    architecture, quantisation = name.split()
    torch.manual_seed(0)
    network = network_of().eval()
    kept = network.state_dict()
    buffers = [buffer for name, buffer in network.named_buffers() if name in kept]
    with torch.no_grad():
        for weight in [*network.parameters(), *buffers]:
            weight.add_(torch.randn_like(weight) * 0.1)
        stored = stored_as(network, architecture, Quantisation[quantisation])
    return write_gguf(folder / f"{architecture}.gguf", architecture, settings, stored | BESIDE.get(name, {})), network


@pytest.mark.parametrize("name", FILES)
def test_the_logits_are_those_of_the_network_in_the_file(name, tmp_path):
    path, network = made(name, tmp_path)
    model = load_model(path)
    read = torch.randint(0, VOCABULARY, (1, 24), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        more = {"decoder_input_ids": read} if network.config.is_encoder_decoder else {}
        wanted, found = network(read, **more).logits, model.network(read, **more).logits
    assert wanted.std() > 0.01
    torch.testing.assert_close(found, wanted, atol=2e-5 * float(wanted.std()), rtol=1e-5)
    assert model.captures == (path.stem not in WEIGHTS_ONLY)
    assert model.name == path.stem
    assert model_size(path).numbers == model.size.numbers + sum(map(np.size, BESIDE.get(name, {}).values()))


def test_half_of_the_experts_is_not_made_up(tmp_path):
    path, network = made("gpt-oss MXFP4", tmp_path)
    tensors = stored_as(network, "gpt-oss", Quantisation.MXFP4)
    del tensors["blk.1.ffn_up_exps.weight"]
    write_gguf(path, "gpt-oss", FILES["gpt-oss MXFP4"][1], tensors)
    with refused("model", r"lacks one of the 2 tensors that become model\.layers\.1\.mlp\.experts\.gate_up_proj"):
        load_model(path)


def test_a_falcon_of_the_second_generation_is_refused(tmp_path):
    """It has groups of heads and one norm a layer, and another rotary base than the first, which no file says."""
    config = t.FalconConfig(**FALCON_SIZES, num_kv_heads=2, new_decoder_architecture=True, num_ln_in_parallel_attn=1)
    tensors = stored_as(t.FalconForCausalLM(config), "falcon", Quantisation.Q8_0)
    path = write_gguf(tmp_path / "falcon2.gguf", "falcon", FALCON_SAID | TWO_KEYS, tensors)
    with refused("model", r"query_key_value\.weight of the shape \[512, 256\], where .* \[384, 256\]"):
        load_model(str(path))
