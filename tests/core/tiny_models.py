"""Tiny networks with random weights: one for each architecture that Headlight promises to read, and others."""

import copy
from collections.abc import Callable

import torch
import transformers as t
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

BODY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
SMALL = BODY | {"vocab_size": 64}
FALCON = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 64}
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
DECODER = SMALL | IDS | {"max_position_embeddings": 64}
SHARED = DECODER | {"num_key_value_heads": 2}
GROUPED = SHARED | {"head_dim": 8}
LOCAL = {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 64, "n_positions": 64}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": 64}
VIT = BODY | {"image_size": 12, "patch_size": 4}
SEQ2SEQ = IDS | {"d_model": 32, "vocab_size": 64, "decoder_start_token_id": 1, "forced_eos_token_id": None}
PROPHETNET = {"hidden_size": 32, "vocab_size": 64}
for part in ("encoder", "decoder"):
    SEQ2SEQ |= {f"{part}_layers": 2, f"{part}_attention_heads": 4, f"{part}_ffn_dim": 48}
    PROPHETNET |= {f"num_{part}_layers": 2, f"num_{part}_attention_heads": 4, f"{part}_ffn_dim": 48}
LED = SEQ2SEQ | {"max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64}
SEQ2SEQ |= {"max_position_embeddings": 64}


def _of(family: str, head: str, **sizes: object) -> Callable[[], t.PreTrainedModel]:
    """What makes a model of a family: the names of its class and of its configuration begin with the family's."""
    return lambda: getattr(t, family + head)(getattr(t, f"{family}Config")(**sizes))


TINY = {
    "BERT": _of("Bert", "Model", **SMALL),
    "RoBERTa": _of("Roberta", "Model", **SMALL),
    "DistilBERT": _of("DistilBert", "Model", dim=32, n_layers=2, n_heads=4, hidden_dim=48, vocab_size=64),
    "ELECTRA": _of("Electra", "Model", **SMALL, embedding_size=16),
    "ALBERT": _of("Albert", "Model", **SMALL | {"num_hidden_layers": 4}, embedding_size=16, num_hidden_groups=2),
    "ModernBERT": _of("ModernBert", "Model", **SMALL, local_attention=4, global_attn_every_n_layers=2, pad_token_id=0),
    "GPT-2": _of("GPT2", "LMHeadModel", **GPT2),
    "GPT-NeoX": _of("GPTNeoX", "ForCausalLM", **DECODER),
    "OPT": _of("OPT", "ForCausalLM", **FALCON, ffn_dim=48, word_embed_proj_dim=32),
    "Phi": _of("Phi", "ForCausalLM", **DECODER),
    "Phi-3": _of("Phi3", "ForCausalLM", **SHARED, sliding_window=4),
    "Llama": _of("Llama", "ForCausalLM", **GROUPED),
    "SmolLM3": _of("SmolLM3", "ForCausalLM", **GROUPED, no_rope_layers=[1, 0], use_sliding_window=True, **LOCAL),
    "Mistral": _of("Mistral", "ForCausalLM", **GROUPED, sliding_window=4),
    "Qwen2": _of("Qwen2", "ForCausalLM", **GROUPED, use_sliding_window=True, **LOCAL),
    "Qwen3": _of("Qwen3", "ForCausalLM", **GROUPED, use_sliding_window=True, **LOCAL),
    "Gemma 2": _of(
        "Gemma2", "ForCausalLM", **GROUPED, sliding_window=4, attn_logit_softcapping=2.0, query_pre_attn_scalar=8
    ),
    "Gemma 3": lambda: t.Gemma3ForCausalLM(t.Gemma3TextConfig(**GROUPED, **LOCAL, query_pre_attn_scalar=64)),
    "OLMo 2": _of("Olmo2", "ForCausalLM", **SHARED),
    "Cohere": _of("Cohere", "ForCausalLM", **SHARED, use_qk_norm=True),
    "Granite": _of("Granite", "ForCausalLM", **SHARED, attention_multiplier=0.2),
    "T5": _of("T5", "ForConditionalGeneration", **T5, decoder_start_token_id=0),
    "BART": _of("Bart", "ForConditionalGeneration", **SEQ2SEQ),
    "Marian": _of("Marian", "MTModel", **SEQ2SEQ, scale_embedding=True),
    "gpt-oss": _of("GptOss", "ForCausalLM", **GROUPED, sliding_window=4, num_local_experts=2, num_experts_per_tok=1),
    "ViT": _of("ViT", "Model", **VIT),
}

# Further models of those architectures' families, which read a text and write another.
MORE_READERS_AND_WRITERS = {
    "mT5": _of("MT5", "ForConditionalGeneration", **T5, decoder_start_token_id=0),
    "mBART": _of("MBart", "ForConditionalGeneration", **SEQ2SEQ),
    "Pegasus": _of("Pegasus", "ForConditionalGeneration", **SEQ2SEQ),
    "M2M100": _of("M2M100", "ForConditionalGeneration", **SEQ2SEQ),
    "Blenderbot": _of("Blenderbot", "ForConditionalGeneration", **SEQ2SEQ),
    # Their encoders look at neighbours only, which is computed in another way.
    "LongT5": _of(
        "LongT5", "ForConditionalGeneration", **T5, decoder_start_token_id=0, local_radius=3, global_block_size=4
    ),
    "PEGASUS-X": _of("PegasusX", "ForConditionalGeneration", **SEQ2SEQ, block_size=4),
    "BigBird-PEGASUS": _of("BigBirdPegasus", "ForConditionalGeneration", **SEQ2SEQ, block_size=4),
}
LOCAL_ENCODERS = ("LongT5", "PEGASUS-X", "BigBird-PEGASUS")

# Some keys of their attention stand for no token: for several tokens, or for those of the encoder and of the decoder.
LOW_RANK = {"q_lora_rank": 16, "qk_rope_head_dim": 4, "o_groups": 2, "o_lora_rank": 16, "hc_mult": 2}
MIXTURE = {"n_routed_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16}
INDEXED = {"index_n_heads": 2, "index_head_dim": 8, "index_topk": 2}
INDEXED |= {"layer_types": ["sliding_attention", "compressed_sparse_attention"]}
T5GEMMA = DECODER | {"num_key_value_heads": 2, "head_dim": 8, "query_pre_attn_scalar": 8}
OTHER_KEYS = {
    "DeepSeek V4": _of("DeepseekV4", "ForCausalLM", **DECODER, head_dim=8, **LOW_RANK, **MIXTURE, **INDEXED),
    "T5Gemma 2": lambda: t.T5Gemma2ForConditionalGeneration(
        t.T5Gemma2Config(encoder={"text_config": T5GEMMA, "vision_config": VIT}, decoder=T5GEMMA, **IDS)
    ),
}

# A layer attends twice, with the same queries and keys and other values; and a layer has two attention modules.
TWICE = {
    "DiffLlama": _of("DiffLlama", "ForCausalLM", **GROUPED | {"num_hidden_layers": 3}),
    "LongCat": _of(
        "LongcatFlash", "ForCausalLM", **DECODER, num_layers=2, ffn_hidden_size=48, expert_ffn_hidden_size=16,
        n_routed_experts=4, moe_topk=2, zero_expert_num=2, q_lora_rank=8, kv_lora_rank=8, qk_nope_head_dim=8,
        qk_rope_head_dim=4, v_head_dim=8, head_dim=4,
    ),
}  # fmt: skip

# Beyond 16 tokens its rotary positions are other ones, also for the tokens before.
FIRST_LENGTH = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 16}
FIRST_LENGTH |= {"short_factor": [1.0] * 4, "long_factor": [1.0, 2.0, 4.0, 8.0]}
LONG_ROPE = {"original_max_position_embeddings": 16, "rope_parameters": FIRST_LENGTH}
PHI3_BEYOND_ITS_FIRST_LENGTH = _of("Phi3", "ForCausalLM", **SHARED, **LONG_ROPE)

TEXT_TOWER = SMALL | IDS | {"max_position_embeddings": 40, "projection_dim": 16}
EFFICIENT_NET = {"image_size": 32, "width_coefficient": 0.1, "depth_coefficient": 0.1}
SWIN = {"hidden_size": 32, "depths": [1, 1], "num_attention_heads": [2, 2], "window_size": 2}
SWIN |= {"spec_size": 32, "num_mel_bins": 8, "patch_size": 4, "patch_stride": [4, 4], "patch_embeds_hidden_size": 16}
FLAVA = {"text_config": TEXT_TOWER, "image_config": VIT, "multimodal_config": BODY}


def _towers(family: str, *, text: dict | None = None, image: dict | None = None, **more: object):
    """Of a family whose classes are called so: a text tower and an image tower."""
    text, image = TEXT_TOWER | (text or {}), VIT | {"projection_dim": 16} | (image or {})
    return _of(family, "Model", text_config=text, vision_config=image, projection_dim=16, **more)


# A tower for texts beside one for images or sounds, which are compared in the end. Here the text's can be captured ...
TWO_TOWERS = {
    "CLIP": _towers("CLIP"),
    "SigLIP": _towers("Siglip"),
    "SigLIP 2": _towers("Siglip2", image={"num_patches": 9}),
    "AltCLIP": _towers("AltCLIP", text={"project_dim": 16}),
    "Chinese-CLIP": _towers("ChineseCLIP"),
    "MetaCLIP 2": _towers("MetaClip2"),
    "CLIPSeg": _towers("CLIPSeg"),
    "OWL-ViT": _towers("OwlViT"),
    "X-CLIP": _towers("XCLIP"),
    "AIMv2": _towers("Aimv2"),
    "ALIGN": _of("Align", "Model", text_config=TEXT_TOWER, vision_config=EFFICIENT_NET, projection_dim=16),
    "CLAP": _of("Clap", "Model", text_config=TEXT_TOWER, audio_config=SWIN, projection_dim=16),
    "ViT and BERT": lambda: t.VisionTextDualEncoderModel(
        t.VisionTextDualEncoderConfig.from_vision_text_configs(
            t.ViTConfig(**VIT), t.BertConfig(**SMALL), projection_dim=16
        )
    ),
}
# ... and here it exposes only its weights.
TOWERS_WITH_WEIGHTS = {
    "GroupViT": _towers("GroupViT", projection_intermediate_dim=16),
    "BLIP": _towers("Blip"),
    "FLAVA": _of("Flava", "Model", **FLAVA, image_codebook_config={"hidden_size": 8}, projection_dim=16),
}

# Architectures whose attention does not say whether it is causal: of these only Doge's and a decoder's are, by their masks.
SILENT_ON_CAUSALITY = {
    "NLLB-MoE": _of("NllbMoe", "ForConditionalGeneration", **SEQ2SEQ, num_experts=2),
    "Splinter": _of("Splinter", "Model", **SMALL),
    "LayoutLM": _of("LayoutLM", "Model", **SMALL),
    "MarkupLM": _of("MarkupLM", "Model", **SMALL),
    "Doge": _of("Doge", "ForCausalLM", **DECODER),
    "ALIGN's text": lambda: TWO_TOWERS["ALIGN"]().text_model,
    "CLAP's text": lambda: TWO_TOWERS["CLAP"]().text_model,
}

# Some of their layers have attention, and the others something else.
FOUR = {"num_hidden_layers": 4}
THREE = {"num_hidden_layers": 3}
ALTERNATING = {"layer_types": ["linear_attention", "full_attention"] * 2}
DELTA = {"linear_num_value_heads": 2, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
EXPERTS = {"num_experts": 2, "num_experts_per_tok": 1}
QWEN3_NEXT = DELTA | EXPERTS | {"moe_intermediate_size": 16, "shared_expert_intermediate_size": 16}
LOCAL_EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 4}
GRANITE_4 = {"layer_types": ["mamba", "attention", "mamba"], "shared_intermediate_size": 16}
JAMBA = {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1}
JAMBA |= {"use_mamba_kernels": False, "mamba_d_state": 4, "mamba_dt_rank": 4}
HYBRIDS = {
    "Qwen3-Next": _of("Qwen3Next", "ForCausalLM", **GROUPED | FOUR | ALTERNATING | QWEN3_NEXT),
    "LFM2": _of("Lfm2", "ForCausalLM", **GROUPED | THREE, layer_types=["conv", "full_attention", "conv"]),
    "Jamba": _of("Jamba", "ForCausalLM", **SHARED | FOUR | EXPERTS | JAMBA),
    "Granite 4": _of("GraniteMoeHybrid", "ForCausalLM", **SHARED | THREE | LOCAL_EXPERTS | MAMBA | GRANITE_4),
    "Bamba": _of("Bamba", "ForCausalLM", **SHARED | THREE | MAMBA, attn_layer_indices=[1]),
    "RecurrentGemma": _of("RecurrentGemma", "ForCausalLM", **SMALL | THREE, lru_width=32, attention_window_size=4),
    "MiniMax": _of("MiniMax", "ForCausalLM", **GROUPED | FOUR | ALTERNATING | LOCAL_EXPERTS, block_size=4),
    "Nemotron-H": _of("NemotronH", "ForCausalLM", **GROUPED | THREE, layers_block_type=["mamba", "attention", "moe"]),
    "OLMo hybrid": _of("OlmoHybrid", "ForCausalLM", **SHARED | FOUR | ALTERNATING | DELTA),
}

# Networks that leave something out for attention functions that are not transformers' own, or where few logits are asked for.
SHARED_KEYS = FOUR | {"num_kv_shared_layers": 2, "vocab_size_per_layer_input": 64, "hidden_size_per_layer_input": 4}
SHARED_KEYS |= {"global_head_dim": 8, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"] * 2}
LATENT = {
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 8,
    "v_head_dim": 8,
    "n_group": 1,
    "topk_group": 1,
}
LATENT |= {"qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "index_n_heads": 2, "index_head_dim": 8, "index_topk": 3}
LATENT |= MIXTURE | {"first_k_dense_replace": 1}
LEAVING_OUT = {
    "Gemma 4": lambda: t.Gemma4ForCausalLM(t.Gemma4TextConfig(**GROUPED | SHARED_KEYS)),
    "DeepSeek V3.2": _of("DeepseekV32", "ForCausalLM", **DECODER, **LATENT),
}

GPT_NEO = {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "vocab_size": 64, "max_position_embeddings": 64}
RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}

# Outside transformers' registry: they expose only their weights.
CAUSAL_WEIGHTS = {
    "GPT-J": _of("GPTJ", "ForCausalLM", **GPT2, rotary_dim=4),
    "BLOOM": _of("Bloom", "ForCausalLM", hidden_size=32, n_layer=2, n_head=4, vocab_size=64),
    "Falcon": _of("Falcon", "ForCausalLM", **FALCON),
    "GPT-Neo": _of("GPTNeo", "ForCausalLM", **GPT_NEO, attention_types=[[["global", "local"], 1]], window_size=4),
    "CodeGen": _of("CodeGen", "ForCausalLM", **GPT2, rotary_dim=4),
    "MPT": _of("Mpt", "ForCausalLM", d_model=32, n_layers=2, n_heads=4, vocab_size=64, max_seq_len=64),
}
WEIGHTS_BOTH_WAYS = {
    "DeBERTa": _of("Deberta", "Model", **SMALL, **RELATIVE),
    "DeBERTa-v2": _of("DebertaV2", "Model", **SMALL, **RELATIVE, position_buckets=8),
    "MPNet": _of("MPNet", "Model", **SMALL),
    "XLNet": _of("XLNet", "LMHeadModel", d_model=32, n_layer=2, n_head=4, d_inner=48, vocab_size=64),
    "XLM": _of("XLM", "Model", emb_dim=32, n_layers=2, n_heads=4, vocab_size=64),
}
WEIGHTS_ONLY = CAUSAL_WEIGHTS | WEIGHTS_BOTH_WAYS
RECURRENT = {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 64}
# And these not even those.
WITHOUT_WEIGHTS = {
    "Mamba": _of("Mamba", "ForCausalLM", **RECURRENT, state_size=4),
    "RWKV": _of("Rwkv", "ForCausalLM", **RECURRENT, attention_hidden_size=32),
    "FNet": _of("FNet", "Model", **RECURRENT, intermediate_size=48),
    "LED, windows only": _of("LED", "ForConditionalGeneration", **LED, attention_window=4),
    "Longformer, windows only": _of("Longformer", "Model", **SMALL, attention_window=4),
    "ProphetNet, scores instead": _of("ProphetNet", "Model", **PROPHETNET),
    "SqueezeBERT, scores instead": _of("SqueezeBert", "Model", **SMALL, embedding_size=32),
}


EVERY = TINY | MORE_READERS_AND_WRITERS | SILENT_ON_CAUSALITY | HYBRIDS | WEIGHTS_ONLY | WITHOUT_WEIGHTS
EVERY |= TWO_TOWERS | TOWERS_WITH_WEIGHTS | OTHER_KEYS | LEAVING_OUT | TWICE


def randomised(network: t.PreTrainedModel) -> t.PreTrainedModel:
    """With parameters so large that attention is far from uniform; the same ones every time."""
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            is_norm = name.endswith("weight") and (parameter.ndim == 1 or "_norm" in name)
            parameter.normal_(mean=float(is_norm), std=0.2)
    return network.eval()


def tiny(name: str) -> t.PreTrainedModel:
    return randomised(EVERY[name]())


def number_words() -> t.PreTrainedTokenizerFast:
    """A tokenizer for texts such as "5 17 8", whose tokens are these numbers."""
    words = Tokenizer(WordLevel({str(number): number for number in range(64)}, unk_token="0"))
    words.pre_tokenizer = Whitespace()
    return t.PreTrainedTokenizerFast(tokenizer_object=words)


def twin_of(network: t.PreTrainedModel, implementation: str = "eager") -> t.PreTrainedModel:
    """A copy that computes its attention in another way: in transformers' own eager code, unless told otherwise. Both share
    their weights."""
    twin = copy.deepcopy(network, {id(numbers): numbers for numbers in (*network.parameters(), *network.buffers())})
    twin.set_attn_implementation(implementation)
    return twin


def eager(network: t.PreTrainedModel, **inputs: torch.Tensor):
    """The same pass in transformers' own eager code, on a copy, with all its attention weights."""
    with torch.inference_mode():
        return twin_of(network)(**inputs, output_attentions=True)
