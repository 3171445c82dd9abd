"""Any class of transformers, built small: one table of rules says by the name of a field what becomes of its default value.

The configuration of a class is made as transformers makes it by default, and every field that has a rule is set anew, in the
configuration itself and in those inside it. What depends on such fields transformers derives again, such as the layers that
have a sliding window.
"""

import copy
from collections.abc import Mapping
from itertools import cycle, islice
from typing import Any

import torch
import transformers
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto

MAPPINGS = {
    "causal": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "masked": "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "encoder-decoder": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "image": "MODEL_FOR_IMAGE_MAPPING_NAMES",
    "image classification": "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    "picture and text": "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
}
MOST_PARAMETERS = 110_000_000

LAYERS = 4  # so that a pattern of layers shows
HIDDEN, HEADS, HEAD_DIM, WIDER = 64, 4, 16, 96
VOCABULARY, SPECIAL = 128, 64  # tokens from SPECIAL on stand for images and the like
SIDE, IMAGE = 64, 111  # of a picture in pixels, and the token for a part of it where a configuration names none
WINDOW, FIRST_LENGTH = 8, 16  # of sliding windows and chunks; before rotary positions are stretched


def _in_turn(types: list) -> list | None:
    """A pattern of layers, with every type that it has; None if it has only one, which transformers derives."""
    if len(kinds := list(dict.fromkeys(types))) < 2:
        return None
    return list(islice(cycle(kinds), LAYERS))


def _heads(number: int | list[int]) -> int | list[int]:
    """One number of heads, or one for each stage: 2, 4, 8 ... where they grow."""
    if isinstance(number, int):
        return HEADS
    return [HEADS if len(set(number)) == 1 else 2**stage for stage in range(1, len(number) + 1)]


def _head_dim(_: int, config: PreTrainedConfig) -> int:
    """DeepSeek's is that of the part that is rotated."""
    return 8 if hasattr(type(config), "qk_rope_head_dim") else HEAD_DIM


def _grouped(config: PreTrainedConfig) -> int:
    """Two query heads a key head, but for compressed keys (DeepSeek), which every query head unpacks for itself."""
    return HEADS if hasattr(type(config), "kv_lora_rank") else 2


def _rope(parameters: Mapping[str, Any], config: PreTrainedConfig) -> dict[str, Any]:
    """Of rotary positions, for each type of layers or for all."""
    if "mrope_section" in getattr(config, "ignore_keys_at_rope_validation", ()):
        parameters = {"mrope_section": None} | dict(parameters)  # some classes expect it that do not say so
    small = {"original_max_position_embeddings": FIRST_LENGTH, "mrope_section": [2, 3, 3]}
    small |= {"short_factor": [1.0] * 8, "long_factor": [1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0]}
    return {
        name: _rope(value, config) if isinstance(value, Mapping) else small.get(name, value)
        for name, value in parameters.items()
    }


# What a field becomes, by its name: a number, or a function of its default value (with two arguments: and its configuration).
_SIZES = (
    (
        LAYERS,
        "num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers num_encoder_layers layers depth "
        "num_decoder_layers speech_encoder_layers t2u_encoder_layers t2u_decoder_layers conf_num_hidden_layers "
        "decoder_num_hidden_layers num_layers_per_stack",
    ),
    (
        HEADS,
        "n_head n_heads encoder_attention_heads decoder_attention_heads attention_heads "
        "num_encoder_attention_heads num_decoder_attention_heads swa_num_attention_heads num_sliding_attention_heads "
        "conf_num_attention_heads decoder_num_attention_heads speech_encoder_attention_heads t2u_encoder_attention_heads "
        "t2u_decoder_attention_heads index_n_heads linear_num_heads resampler_n_heads resampler_heads num_query_groups",
    ),
    (
        HEAD_DIM,
        "swa_head_dim global_head_dim d_kv d_head v_head_dim qk_nope_head_dim index_head_dim "
        "attention_head_size linear_key_head_dim linear_value_head_dim linear_head_dim resampler_head_dim resampler_dim_head "
        "kv_channels dim_head query_pre_attn_scalar rotary_dim",
    ),
    (
        HIDDEN,
        "hidden_size d_model n_embd embed_dim dim emb_dim encoder_hidden_size decoder_hidden_size embedding_size "
        "out_hidden_size text_hidden_size vision_hidden_size projector_hidden_size hidden_dim word_embed_proj_dim "
        "embedding_dim lru_width cross_attention_hidden_size projection_dim output_dim vision_output_dim "
        "input_embedding_size output_embedding_size hidden_size_global backbone_hidden_size entity_emb_size "
        "prediction_head_size downsample_hidden_size router_hidden_size d_latents pooler_output_size "
        "pooler_hidden_size audio_hidden_size adapter_out_dim adapter_in_dim adapter_input_size projection_hidden_size",
    ),
    (
        WIDER,
        "intermediate_size encoder_ffn_dim decoder_ffn_dim ffn_dim d_ff d_inner dim_ff dff moe_intermediate_size "
        "shared_expert_intermediate_size ffn_hidden_size expert_ffn_hidden_size mlp_dim intermediate_size_mlp "
        "dense_intermediate_size shared_intermediate_size moe_shared_expert_intermediate_size shared_experts_intermediate_size "
        "decoder_intermediate_size speech_encoder_intermediate_size t2u_encoder_ffn_dim t2u_decoder_ffn_dim feed_forward_size "
        "share_expert_dim moe_hidden_size projection_intermediate_size alignment_intermediate_size merged_hidden_size",
    ),
    (
        VOCABULARY,
        "vocab_size src_vocab_size tgt_vocab_size decoder_vocab_size vocab_size_per_layer_input t2u_vocab_size "
        "entity_vocab_size audio_vocab_size char_vocab_size unpadded_vocab_size",
    ),
    (
        4,
        "num_experts n_routed_experts num_local_experts moe_num_experts num_codebooks linear_num_value_heads "
        "linear_num_key_heads max_num_tiles",
    ),
    (
        2,
        "num_experts_per_tok num_experts_per_token moe_topk moe_top_k moe_k max_window_layers global_attn_every_n_layers "
        "sliding_window_pattern _sliding_window_pattern full_attention_interval attn_layer_period decoder_sparse_step "
        "encoder_sparse_step no_rope_layer_interval cross_attention_frequency hidden_size_per_layer_input_heads",
    ),
    (
        1,
        "n_group topk_group n_shared_experts num_shared_experts attn_layer_offset first_k_dense_replace mamba_n_groups "
        "n_groups "
        "num_expert_group",
    ),
    (
        WINDOW,
        "sliding_window sliding_window_size attention_chunk_size local_attention attention_window attention_window_size "
        "local_attention_window_len keep_window_size index_topk",
    ),
    (
        8,
        "q_lora_rank kv_lora_rank mamba_d_state state_size ssm_state_size laurel_rank "
        "hidden_size_per_layer_input o_lora_rank gated_norm_rank adapter_rank",
    ),
    (
        128,
        "max_position_embeddings n_positions max_seq_len n_ctx max_source_positions max_target_positions context_length "
        "max_encoder_position_embeddings max_decoder_position_embeddings",
    ),
    (FIRST_LENGTH, "original_max_position_embeddings"),
)
RULES: dict[str, Any] = {name: size for size, names in _SIZES for name in names.split()}
RULES |= {
    "num_attention_heads": _heads,
    "num_attention_heads_per_layer": [HEADS] * LAYERS,
    "num_heads": _heads,
    "head_dim": _head_dim,
    "num_key_value_heads": lambda _, config: _grouped(config),
    "qk_rope_head_dim": lambda size: size and 8,
    "attention_head_dim": lambda _, config: HEAD_DIM * (2 if config.model_type.startswith("zamba") else 1),
    "num_kv_shared_layers": lambda number: min(number, 1),
    "activation_sparsity_pattern": lambda shares: shares[:LAYERS],
    "attention_types": lambda _: [[["global", "local"], LAYERS // 2]],
    "index_kpool": 4,
    "width_coefficient": 0.2,
    "num_filters": 8,
    "num_cross_attention_heads": 1,
    "encoder_hash_byte_group_vocab": VOCABULARY,
    "swa_num_key_value_heads": 2,
    "num_kv_heads": 2,
    "layer_types": _in_turn,
    "mlp_layer_types": _in_turn,
    "layers_block_type": _in_turn,
    "block_types": _in_turn,
    "rope_parameters": _rope,
    "rope_scaling": _rope,
    "use_sliding_window": True,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "image_size": lambda size: [SIDE, SIDE] if isinstance(size, list | tuple) else SIDE,
    "mm_tokens_per_image": 4,
    "pooling_kernel_size": 2,
    "image_grid_pinpoints": [[SIDE, 2 * SIDE], [2 * SIDE, SIDE]],
    "vision_feature_layer": lambda layer: layer if isinstance(layer, int) else [-2, -1],
    "downsample_channels": [32, HIDDEN],
    "intermediate_layers_indices": [1, 3],
}

# Fields that transformers leaves empty, and that some classes need.
EMPTY = {
    "head_dim": HEAD_DIM,
    "num_key_value_heads": 2,
    "vocab_size": VOCABULARY,
    "num_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": WIDER,
    "n_shared_experts": 1,
    "image_token_id": IMAGE,
}

# What no rule says, by the name of a configuration. "default": what it needs to be made at all.
TWO_LAYERS_OF_EACH = ["full_attention", "sliding_attention"] * 2
PLAIN_ROPE = {"rope_type": "default", "rope_theta": 10_000.0}
YARN = PLAIN_ROPE | {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": FIRST_LENGTH}
GLM_ROPE = {"rope_parameters": PLAIN_ROPE | {"mrope_section": [1, 1, 2], "partial_rotary_factor": 0.5}}
CODES = range(4)  # of parts of pictures that are tokens of the vocabulary
RESNET = {"model_type": "resnet", "embedding_size": 16, "hidden_sizes": [16, 32, 48, 64], "depths": [1] * 4}
WITHOUT_TIMM = {"use_timm_backbone": False, "backbone": None, "backbone_config": RESNET | {"out_features": ["stage4"]}}
SPECIAL_ROWS: dict[str, dict[str, Any]] = {
    "AriaConfig": {"projector_patch_to_query_dict": {4: 2}},
    "BambaConfig": {"attn_layer_indices": [1, 3]},
    "ChameleonConfig": {"vocabulary_map": {"<image>": IMAGE} | {f"IMGIMG{'ABCD'[code]}Z": 60 + code for code in CODES}},
    "ChameleonVQVAEConfig": {"num_embeddings": len(CODES)},
    "CohereCompassTextConfig": {
        "layer_types": TWO_LAYERS_OF_EACH,
        "rope_parameters": dict.fromkeys(TWO_LAYERS_OF_EACH, PLAIN_ROPE),
    },
    **dict.fromkeys(
        ("ConditionalDetrConfig", "DabDetrConfig", "DeformableDetrConfig", "DetrConfig", "TableTransformerConfig"),
        WITHOUT_TIMM,
    ),
    "DbrxAttentionConfig": {"rope_theta": 10_000.0, "clip_qkv": 8},
    "DeepseekOcr2TextConfig": {"mlp_layer_types": ["dense", "sparse"] * 2},
    "DiffusionGemmaTextConfig": {"top_k_experts": 2},
    "Emu3Config": {
        "vocabulary_map": {"<image>": IMAGE, "<|extra_200|>": 59}
        | {f"<|visual token {code:06}|>": 60 + code for code in CODES}
    },
    "Emu3VQVAEConfig": {"base_channels": 32, "hidden_size": 128, "codebook_size": len(CODES)},
    "Ernie4_5_VLMoeTextConfig": {"rope_parameters": PLAIN_ROPE | {"mrope_section": [3, 3, 2]}},
    "EsmConfig": {"mask_token_id": 3, "pad_token_id": 0},
    "EsmcConfig": {"num_key_value_heads": HEADS},
    "FunnelConfig": {"block_sizes": [2, 1, 1]},
    "Gemma4AssistantConfig": {
        "default": {"text_config": {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0}},
        "text_config": {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0},
    },
    "Glm4vTextConfig": GLM_ROPE,
    "Glm4vMoeTextConfig": GLM_ROPE,
    "Glm5NextTextConfig": {"qk_rope_head_dim": 0},
    "GlmOcrTextConfig": GLM_ROPE,
    "Granite4VisionConfig": {"deepstack_layer_map": [[-1, 1]], "downsample_rate": "1/2"},
    "GraniteMoeHybridConfig": {"layer_types": ["linear_attention", "full_attention"] * 2},
    "HrmTextConfig": {"num_layers_per_stack": None, "num_hidden_layers": 2},
    "HunYuanVLTextConfig": {"rope_parameters": PLAIN_ROPE | {"mrope_section": [2, 2, 2, 2]}},
    "Lfm2MoeConfig": {"layer_types": ["conv", "full_attention"] * 2},
    "Llama4VisionConfig": {
        "intermediate_size": 4 * HIDDEN,
        "projector_input_dim": WIDER,
        "projector_output_dim": WIDER,
        "vision_output_dim": WIDER,
    },
    "Mamba2Config": {"num_heads": 8, "head_dim": 16},
    "Mistral4Config": {"rope_parameters": YARN | {"partial_rotary_factor": 1 / 3, "llama_4_scaling_beta": 0.1}},
    "MllamaVisionConfig": {"vision_output_dim": 3 * HIDDEN},
    "MuseGlimmerConfig": {"out_hidden_size": 4 * HIDDEN},
    "MuseSparkConfig": {"out_hidden_size": 4 * HIDDEN},
    "NemotronH_Omni_Reasoning_V3_Config": {"vision_config": {"video_temporal_patch_size": 2}},
    "PaddleOCRTextConfig": {"rope_parameters": PLAIN_ROPE | {"mrope_section": [2, 3, 3]}},
    "Qwen4ExpTextConfig": {
        "indexer_n_heads": 2,
        "indexer_kv_heads": 1,
        "indexer_head_dim": HEAD_DIM,
        "indexer_budget": WINDOW,
        "indexer_compress_ratio": 2,
    },
    "ReformerConfig": {"axial_pos_shape": [8, 16], "axial_pos_embds_dim": [16, 48]},
    "Step3p7TextConfig": {"sliding_window": WINDOW},
    "UnlimitedOcrTextConfig": {"num_key_value_heads": HEADS},
    "XmodConfig": {"default_language": "en_XX"},
    "ZayaConfig": {"num_experts_per_tok": 1},
}


def every_class() -> dict[str, list[str]]:
    """The mappings that each class stands in, by its name."""
    found: dict[str, list[str]] = {}
    for mapping, table in MAPPINGS.items():
        for classes in getattr(modeling_auto, table).values():
            for name in (classes,) if isinstance(classes, str) else classes:
                if mapping not in found.setdefault(name, []):
                    found[name].append(mapping)
    return found


def small_config(kind: type[PreTrainedConfig], **more: Any) -> PreTrainedConfig:
    """The default configuration of this kind, made small. more: further fields"""
    special = SPECIAL_ROWS.get(kind.__name__, {})
    default = special.get("default", {})
    if getattr(kind(**default), "vision_config", more) is None:  # Gemma 4 has a tower only if it is told so
        default |= {"vision_config": {}}
    return kind(**_small_fields(kind(**default)) | more)


def _small_fields(config: PreTrainedConfig) -> dict[str, Any]:
    special = SPECIAL_ROWS.get(type(config).__name__, {})
    fields = {name: small for name, value in vars(config).items() if (small := _small(name, value, config)) is not None}
    for name in config.sub_configs:
        if isinstance(part := getattr(config, name, None), PreTrainedConfig):
            fields[name] = _small_fields(part) | ({"model_type": part.model_type} if part.model_type else {})
    if config.is_encoder_decoder:  # another token than the one for padding, which some leave out of what they attend to
        fields["decoder_start_token_id"] = 1
    for name, value in special.items():
        if name != "default":
            fields[name] = fields[name] | value if name in config.sub_configs and name in fields else value
    return fields


def _small(name: str, value: Any, config: PreTrainedConfig) -> Any:
    """What becomes of a field; None if it stays as transformers makes it."""
    if value is None:
        return EMPTY.get(name)
    if isinstance(value, PreTrainedConfig):
        return None
    rule = RULES.get(name)
    if callable(rule):
        return rule(value, config) if rule.__code__.co_argcount == 2 else rule(value)
    if rule is not None:
        return None if isinstance(value, list | tuple) and isinstance(rule, int) else rule
    if name.endswith(("_token_id", "_token_index", "_patch_id")) and isinstance(value, int) and value >= VOCABULARY:
        return SPECIAL + sum(map(ord, name)) % (VOCABULARY - SPECIAL)
    return None


def small_network(name: str) -> PreTrainedModel:
    """A network of this class, with shaken weights. Raises what transformers raises."""
    kind = getattr(transformers, name)
    # BERT and others read both ways unless told that they write, and Reformer only forwards unless told otherwise.
    alone = {("causal",): True, ("masked",): False}.get(tuple(every_class().get(name, [])))
    is_told = alone is not None and hasattr(kind.config_class, "is_decoder")
    config = small_config(kind.config_class, **{"is_decoder": alone} if is_told else {})
    with torch.device("meta"):
        sizes = {name: parameter.numel() for name, parameter in kind(copy.deepcopy(config)).named_parameters()}
    if (count := sum(sizes.values())) > MOST_PARAMETERS:
        largest = max(sizes, key=sizes.__getitem__)
        raise ValueError(f"{count:,} parameters are left, most in {largest} ({sizes[largest]:,})")
    torch.manual_seed(0)
    return shaken(kind(config))


def shaken(network: PreTrainedModel) -> PreTrainedModel:
    """With uneven weights, biases that count and norms other than 1; the same ones every time."""
    torch.manual_seed(0)
    held = dict(network.state_dict(keep_vars=True))
    with torch.no_grad():
        for tensor in {id(tensor): tensor for tensor in held.values()}.values():
            if tensor.is_floating_point():
                tensor.nan_to_num_(0.0, 0.0, 0.0)
                noise = torch.randn(tensor.shape, dtype=tensor.dtype) * 0.2
                tensor += (
                    noise if isinstance(tensor, torch.nn.Parameter) else noise.abs()
                )  # a variance is no less than 0
    return network.eval()
