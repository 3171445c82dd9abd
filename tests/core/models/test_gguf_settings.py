"""Settings of GGUF files that mean "none" or "the usual", and those that no network can have: read as llama.cpp reads them."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFValueType as Type

from core.models.gguf_files import read_gguf
from core.models.gguf_networks import outline
from core.models.gguf_settings import SETTINGS
from tests.core.gguf_files import VOCABULARY, write_gguf
from tests.core.models.test_gguf_networks import BESIDE, FILES
from tests.refusals import refused

SAID = {name.split()[0]: settings for name, (_, settings) in FILES.items()}
SLIDING, FULL = "sliding_attention", "full_attention"
NAN, INFINITE = math.nan, math.inf
EPSILON = "attention.layer_norm_rms_epsilon"


def config_of(path: Path, architecture: str, changed: dict[str, Any], **tensors: Any) -> Any:
    """The configuration of a network by these settings; None leaves one out. Only the tensors are there that it depends on."""
    width = SAID[architecture]["embedding_length"]
    names = ["token_embd.weight"] if architecture == "gemma2" else ["token_embd.weight", "output.weight"]
    held = {name: np.zeros((VOCABULARY, width), np.float32) for name in names}
    if architecture == "gemma4":
        held |= BESIDE["gemma4 IQ4_NL"]
    held |= {f"{name}.weight": np.array(values, np.float32) for name, values in tensors.items()}
    return outline(read_gguf(write_gguf(path, architecture, SAID[architecture] | changed, held))).config


def test_every_architecture_has_rules_and_a_network():
    assert SAID.keys() == SETTINGS.keys()


@pytest.mark.parametrize(
    ("architecture", "changed", "fields"),
    [
        # Windows: Phi 4's files say 0, and mean none.
        ("phi3", {"attention.sliding_window": 0}, {"sliding_window": None}),
        ("phi3", {"attention.sliding_window": None}, {"sliding_window": None}),
        ("gemma2", {"attention.sliding_window": None}, {"sliding_window": 4096}),
        ("gemma3", {"attention.sliding_window": 0}, {"layer_types": [FULL] * 6}),
        ("gemma3", {"attention.sliding_window": None}, {"layer_types": [FULL] * 6}),
        ("gemma3", {"attention.sliding_window_pattern": 3}, {"layer_types": [SLIDING, SLIDING, FULL] * 2}),
        ("gpt-oss", {"attention.sliding_window_pattern": 0}, {"layer_types": [SLIDING] * 2}),
        ("gemma2", {"attention.sliding_window_pattern": [False, True]}, {"layer_types": [FULL, SLIDING]}),
        ("gemma2", {"attention.sliding_window_pattern": [True]}, {"layer_types": [SLIDING, FULL]}),
        ("lfm2", {"attention.sliding_window": 0}, {}),
        ("qwen2", {"attention.sliding_window": 4}, {"sliding_window": None}),
        # Soft caps.
        ("gemma2", {"attn_logit_softcapping": None}, {"attn_logit_softcapping": 50.0}),
        ("gemma2", {"final_logit_softcapping": None}, {"final_logit_softcapping": 30.0}),
        ("gemma3", {"final_logit_softcapping": 0.0}, {"final_logit_softcapping": None}),
        ("gemma4", {"final_logit_softcapping": 0.0}, {"final_logit_softcapping": None}),
        ("gemma4", {"final_logit_softcapping": None}, {"final_logit_softcapping": 30.0}),
        # Heads.
        ("llama", {"attention.head_count_kv": None}, {"num_key_value_heads": 4, "head_dim": 64}),
        ("qwen2", {"attention.head_count_kv": [2, 2]}, {"num_key_value_heads": 2}),
        ("qwen3", {"attention.key_length": None, "attention.value_length": None}, {"head_dim": 64}),
        ("t5", {"attention.key_length": None, "attention.value_length": None}, {"d_kv": 64}),
        ("t5", {"decoder_block_count": None}, {"num_decoder_layers": 2}),
        ("gemma3", {}, {"query_pre_attn_scalar": 128}),
        ("gemma3", {"block_count": 62}, {"query_pre_attn_scalar": 64}),
        # Experts.
        ("llama", {"expert_count": 0, "expert_used_count": 0}, {}),
        ("qwen2moe", {"expert_feed_forward_length": 0}, {"moe_intermediate_size": 128}),
        ("qwen3moe", {"expert_feed_forward_length": None}, {"moe_intermediate_size": 128}),
        ("qwen2moe", {"expert_shared_feed_forward_length": 0}, {"shared_expert_intermediate_size": 256}),
        ("qwen3moe", {"expert_weights_norm": True, "expert_gating_func": 1}, {"norm_topk_prob": True}),
        ("gpt-oss", {"feed_forward_length": None}, {"intermediate_size": 256}),
        # Tokens with a role: without a word about one there is none, whatever transformers takes for granted.
        ("phi3", {"tokenizer.ggml.padding_token_id": None}, {"pad_token_id": None}),
        ("phi3", {"tokenizer.ggml.padding_token_id": VOCABULARY}, {"pad_token_id": None}),
        ("lfm2", {"tokenizer.ggml.eos_token_id": None}, {"eos_token_id": None, "bos_token_id": 0}),
        # What llama.cpp does not read may be of any type.
        ("stablelm", {"use_parallel_residual": "yes"}, {"use_parallel_residual": True}),
        ("llama", {"tensor_data_layout": 3}, {}),
    ],
)
def test_none_and_the_usual(architecture, changed, fields, tmp_path):
    config = config_of(tmp_path / "said.gguf", architecture, changed)
    assert {name: getattr(config, name) for name in fields} == fields


def linear(factor: float) -> dict[str, Any]:
    return {"rope_type": "linear", "factor": factor}


DEFAULT = {"rope_type": "default"}
TWO_BASES = {FULL: linear(8.0) | {"rope_theta": 1e6}, SLIDING: DEFAULT | {"rope_theta": 2e4}}
STRETCHED = {"rope_type": "longrope", "short_factor": [2.0] * 32, "long_factor": [2.0] * 32, "attention_factor": 1.5}


@pytest.mark.parametrize(
    ("architecture", "changed", "rope"),
    [
        ("llama", {"rope.freq_base": None}, DEFAULT | {"rope_theta": 10_000.0}),
        ("llama", {"rope.scaling.factor": 4.0}, linear(4.0)),  # without a type it is linear
        ("llama", {"rope.scale_linear": 4.0}, linear(4.0)),  # its old name
        ("llama", {"rope.scaling.factor": 2.0, "rope.scale_linear": 4.0}, linear(2.0)),
        ("llama", {"rope.scaling.factor": 0.0, "rope.scale_linear": 4.0}, DEFAULT),
        ("llama", {"rope.scaling.type": "none", "rope.scaling.factor": 4.0}, DEFAULT),
        ("llama", {"rope.scaling.type": "linear"}, DEFAULT),
        ("llama", {"rope.scaling.factor": 2.0, "rope.scaling.attn_factor": 1.5}, STRETCHED),
        ("qwen2", {"rope.scaling.original_context_length": 0}, {"original_max_position_embeddings": 64}),
        ("qwen2", {"rope.scaling.attn_factor": 2.0}, {"attention_factor": 2 * (0.1 * math.log(4) + 1)}),
        ("qwen2", {"rope.scaling.yarn_beta_fast": 8.0}, {"beta_fast": 8.0, "beta_slow": 1.0, "truncate": True}),
        ("stablelm", {"rope.dimension_count": None}, {"partial_rotary_factor": 1.0}),
        ("nemotron", {"rope.dimension_count": None}, {"partial_rotary_factor": 1.0}),
        ("phi3", {"rope.dimension_count": 64}, {"original_max_position_embeddings": 64}),
        ("gemma3", {"rope.freq_base_swa": 2e4}, TWO_BASES),  # its windows have a base of their own
    ],
)
def test_rotary_embedding(architecture, changed, rope, tmp_path):
    changed = {"rope.scaling.original_context_length": None} | changed if architecture == "phi3" else changed
    found = config_of(tmp_path / "said.gguf", architecture, changed).rope_parameters
    assert {name: found[name] for name in rope} == rope


def test_factors_of_llama_3_beside_linear_scaling(tmp_path):
    factors = np.linspace(1, 4, 32, dtype=np.float32)
    found = config_of(tmp_path / "l.gguf", "llama", {"rope.scaling.factor": 2.0}, rope_freqs=factors).rope_parameters
    assert found["short_factor"] == found["long_factor"] == (2.0 * factors).tolist()


@pytest.mark.parametrize(
    ("architecture", "changed", "why"),
    [
        ("llama", {"block_count": None}, "lacks the setting llama.block_count"),
        ("llama", {"block_count": 0}, "block_count = 0, which has to be a whole number from 1 to 512"),
        ("llama", {"block_count": 513}, "from 1 to 512"),
        ("llama", {"block_count": [2]}, r"count = .*, which is of the type \[int32\] and has to be of .* uint32"),
        ("llama", {"context_length": 0}, "context_length = 0, which has to be a whole number from 1"),
        ("llama", {"attention.head_count": 0}, "head_count = 0, which has to be a whole number from 1"),
        ("llama", {"attention.head_count_kv": 3}, "head_count_kv = 3, which has to be a divisor of its 4 heads"),
        ("gpt2", {"attention.head_count_kv": 2}, "head_count_kv = 2, which has to be its 4 heads"),
        ("bloom", {"feed_forward_length": 512}, "feed_forward_length = 512, which has to be four times"),
        ("llama", {"feed_forward_length": [256, 128]}, "has to be the same in all layers"),
        ("llama", {"feed_forward_length": [256]}, "one for each of 2 layers"),
        ("llama", {"feed_forward_length": [-1, -1]}, "has to be a whole number from 1"),
        ("llama", {EPSILON: None}, f"lacks the setting llama.{EPSILON}"),
        ("llama", {EPSILON: NAN}, "epsilon = nan, which has to be a number from 0"),
        ("llama", {EPSILON: -1e-6}, "has to be a number from 0"),
        ("llama", {EPSILON: (Type.FLOAT64, 1e-6)}, "of the type float64"),
        ("llama", {"rope.freq_base": 0.0}, "freq_base = 0.0, which has to be a positive number"),
        ("llama", {"rope.freq_base": INFINITE}, "freq_base = inf, which has to be a positive number"),
        ("llama", {"rope.dimension_count": 32}, "dimension_count = 32, which has to be the size of a head, 64"),
        ("stablelm", {"rope.dimension_count": 15}, "dimension_count = 15, which has to be an even number up to 64"),
        ("stablelm", {"rope.dimension_count": 66}, "has to be an even number up to 64"),
        ("llama", {"rope.scaling.type": "dynamic"}, "type = 'dynamic', which has to be 'none' or 'linear' or 'yarn'"),
        ("llama", {"rope.scaling.factor": -1.0}, "factor = -1.0, which has to be a number from 0"),
        ("llama", {"attention.causal": False}, "causal = False, which has to be True"),
        ("llama", {"expert_count": 8}, "expert_count = 8, which has to be 0"),
        ("llama", {"embedding_scale": 2.0}, r"the setting llama\.embedding_scale = 2\.0, which is not known"),
        ("starcoder2", {"attention.sliding_window": 4}, "sliding_window = 4, which is not known"),
        ("qwen2", {"attention.key_length": 32}, "key_length = 32, which has to be 256 / 4"),
        ("qwen3", {"attention.value_length": 64}, "value_length = 64, which has to be 128, as the keys'"),
        ("qwen3moe", {"expert_weights_norm": False}, "expert_weights_norm = False, which has to be True"),
        ("minimax-m2", {"expert_gating_func": None}, "lacks the setting minimax-m2.expert_gating_func"),
        ("minimax-m2", {"expert_gating_func": 1}, "expert_gating_func = 1, which has to be 2"),
        ("gpt-oss", {"expert_used_count": 5}, "expert_used_count = 5, which has to be at most its 4 experts"),
        ("gemma2", {"attn_logit_softcapping": 0.0}, "attn_logit_softcapping = 0.0, which has to be a positive number"),
        ("gpt-oss", {"attention.sliding_window_pattern": 1}, "sliding_window and no layer with this window"),
        ("gemma3", {"attention.sliding_window_pattern": [False] * 6}, "sliding_window and no layer with this window"),
        ("gemma2", {"rope.freq_base_swa": 5.0}, "two bases of rotary embedding"),
        ("gemma2", {"rope.scaling.type": "none", "rope.scaling.factor": 2.0}, "'none' and a factor"),
        ("gemma4", {"attention.sliding_window_pattern": 2}, "sliding_window_pattern = 2, which has to be a list"),
        ("gemma4", {"rope.scaling.factor": 2.0}, "scales its rotary embedding"),
        ("gemma4", {"attention.head_count_kv": [2, 1, 2, 2, 2, 1]}, "as many keys in all layers of a kind"),
        ("lfm2", {"attention.head_count_kv": 0}, "needs layers without a window"),
        ("lfm2", {"attention.sliding_window": 4}, "sliding_window = 4, which has to be 0"),
        ("t5", {"attention.relative_buckets_count": 0}, "has to be a whole number from 1"),
        ("t5", {"pooling_type": 1}, "pooling_type = 1, which has to be 0"),
        ("gemma4", {"feed_forward_length": [512, 256] * 3}, "another one at most in layers that share keys"),
    ],
)
def test_what_no_network_can_have(architecture, changed, why, tmp_path):
    with refused("model", why):
        config_of(tmp_path / "odd.gguf", architecture, changed)


@pytest.mark.parametrize(
    ("architecture", "changed", "tensors", "why"),
    [
        ("llama", {}, {"rope_freqs": [1.0] * 31}, "not 32 positive numbers"),
        ("llama", {}, {"rope_freqs": [0.0] * 32}, "not 32 positive numbers"),
        ("llama", {}, {"rope_freqs": [NAN] * 32}, "not 32 positive numbers"),
        ("llama", {}, {"rope_factors_long": [1.0] * 32}, "with which llama.cpp does not compute in a llama file"),
        ("llama", {"rope.scaling.type": "longrope"}, {"rope_factors_long": [1.0] * 32}, "has only one of the tensors"),
        ("qwen2", {}, {"rope_freqs": [1.0] * 32}, "with which llama.cpp does not compute in a qwen2 file"),
        ("llama", {"rope.scaling.type": "yarn"}, {"rope_freqs": [1.0] * 32}, "scales its rotary embedding twice"),
        ("gemma2", {}, {"output": [[0.0] * 256] * VOCABULARY}, "weight', with which llama.cpp does not compute"),
        ("gemma4", {}, {"rope_freqs": [2.0] * 64}, "does not say which numbers Gemma 4 turns"),
    ],
)
def test_tensors_beside_the_layers(architecture, changed, tensors, why, tmp_path):
    with refused("model", why):
        config_of(tmp_path / "odd.gguf", architecture, changed, **tensors)
