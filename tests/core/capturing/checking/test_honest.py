"""Networks that are run as their own code says: no check fails, in any precision, with uneven weights and biases that count."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers as t

from core import check_model, load_model
from tests.core.tiny_models import (
    GROUPED,
    HYBRIDS,
    IDS,
    MORE_READERS_AND_WRITERS,
    SILENT_ON_CAUSALITY,
    SMALL,
    TINY,
    TWO_TOWERS,
    randomised,
)
from tests.depth import thorough

DECODER = SMALL | IDS | {"max_position_embeddings": 64, "num_hidden_layers": 4, "num_key_value_heads": 2}
LATENT = {"num_key_value_heads": 4, "q_lora_rank": 32, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "v_head_dim": 16}
LATENT |= {"qk_nope_head_dim": 16, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
LATENT |= {"n_shared_experts": 1, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1}
YARN = {"rope_type": "yarn", "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 1.0, "beta_fast": 32, "beta_slow": 1}
YARN |= {"original_max_position_embeddings": 32, "rope_theta": 10000.0}
PER_LAYER = {"vocab_size_per_layer_input": 64, "hidden_size_per_layer_input": 16, "sliding_window": 6}
SHARED_KEYS = {"num_hidden_layers": 6, "num_kv_shared_layers": 2, "laurel_rank": 8, "head_dim": 16}
SHARED_KEYS |= {"layer_types": ["sliding_attention", "full_attention"] * 3, "activation_sparsity_pattern": [0.0] * 6}
ZAMBA = {"attention_hidden_size": 64, "attention_head_dim": 16, "n_mamba_heads": 2, "mamba_d_state": 4}
ZAMBA |= {"mamba_dt_rank": 4, "use_mamba_kernels": False, "num_key_value_heads": 4}
ZAMBA |= {"layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid"]}
INKLING = {"head_dim": 8, "swa_head_dim": 8, "swa_num_attention_heads": 4, "swa_num_key_value_heads": 2, "d_rel": 4}
INKLING |= {"sliding_window_size": 4, "rel_extent": 16, "n_routed_experts": 4, "num_experts_per_tok": 2}
INKLING |= {"moe_intermediate_size": 16, "n_shared_experts": 1, "mlp_layer_types": ["dense", "sparse"] * 2}
INKLING |= {"layer_types": ["hybrid_sliding", "hybrid"] * 2}
MIMO = {"head_dim": 12, "v_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
MIMO |= {"sliding_window": 4, "layer_types": ["full_attention", "sliding_attention"] * 2}
MIMO |= {"mlp_layer_types": ["dense", "sparse"] * 2}

# What a check took for a fault when it read the configuration by rules of its own.
OTHERWISE: dict[str, Callable[[], Any]] = {
    "DeepSeek V2 with YaRN": lambda: t.DeepseekV2ForCausalLM(
        t.DeepseekV2Config(**DECODER | LATENT, rope_parameters=YARN)
    ),
    "DeepSeek V3 with YaRN": lambda: t.DeepseekV3ForCausalLM(
        t.DeepseekV3Config(**DECODER | LATENT, rope_parameters=YARN)
    ),
    "Gemma 3n": lambda: t.Gemma3nForCausalLM(t.Gemma3nTextConfig(**DECODER | PER_LAYER | SHARED_KEYS)),
    "Gemma 4": lambda: t.Gemma4ForCausalLM(t.Gemma4TextConfig(**DECODER | PER_LAYER | {"num_hidden_layers": 6})),
    "Gemma 3, both ways": lambda: t.Gemma3ForCausalLM(
        t.Gemma3TextConfig(**GROUPED, sliding_window=6, use_bidirectional_attention=True)
    ),
    "Qwen 2, both ways": lambda: t.Qwen2ForCausalLM(t.Qwen2Config(**GROUPED, is_causal=False)),
    "ESM 2": lambda: t.EsmModel(
        t.EsmConfig(**SMALL | IDS, position_embedding_type="rotary", token_dropout=False), add_pooling_layer=False
    ),
    "DINOv3": lambda: t.DINOv3ViTModel(
        t.DINOv3ViTConfig(
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=96,
            image_size=32,
            patch_size=8,
            num_register_tokens=4,
        )
    ),
    "LayoutLM": SILENT_ON_CAUSALITY["LayoutLM"],
    "Granite 4": HYBRIDS["Granite 4"],
    "Zamba": lambda: t.ZambaForCausalLM(t.ZambaConfig(**DECODER | ZAMBA)),
    "Inkling": lambda: t.InklingForCausalLM(t.InklingTextConfig(**DECODER | INKLING)),
    "MiMo-V2": lambda: t.MiMoV2FlashForCausalLM(t.MiMoV2FlashConfig(**DECODER | MIMO)),
}
HONEST = TINY | MORE_READERS_AND_WRITERS | SILENT_ON_CAUSALITY | HYBRIDS | TWO_TOWERS | OTHERWISE


def networks() -> list[Any]:
    """Each in three precisions; in the quick depth only what is otherwise."""
    return [
        pytest.param(
            name,
            dtype,
            marks=() if name in OTHERWISE and dtype == "float32" else thorough,
            id=f"{name} {dtype}",
        )
        for name in HONEST
        for dtype in ("float32", "bfloat16", "float16")
    ]


@pytest.mark.parametrize(("name", "dtype"), networks())
def test_no_check_fails(name: str, dtype: str) -> None:
    network = randomised(HONEST[name]()).to(getattr(torch, dtype))
    checkup = check_model(load_model(network), seconds=600)
    assert checkup.holds, str(checkup)
    assert checkup.findings["own code"].holds, str(checkup)
