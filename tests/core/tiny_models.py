"""Tiny networks with random weights: one for each architecture that Headlight promises to read, and others."""

from __future__ import annotations

import copy

import torch
import transformers as t
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 64}
FALCON = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 64}
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
DECODER = SMALL | IDS | {"max_position_embeddings": 64}
GROUPED = DECODER | {"num_key_value_heads": 2, "head_dim": 8}
LOCAL = {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 64, "n_positions": 64}
SEQ2SEQ = IDS | {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "vocab_size": 64,
    "max_position_embeddings": 64,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": 64}
VIT = {key: size for key, size in SMALL.items() if key != "vocab_size"} | {"image_size": 12, "patch_size": 4}

TINY = {
    "BERT": lambda: t.BertModel(t.BertConfig(**SMALL)),
    "RoBERTa": lambda: t.RobertaModel(t.RobertaConfig(**SMALL)),
    "DistilBERT": lambda: t.DistilBertModel(
        t.DistilBertConfig(dim=32, n_layers=2, n_heads=4, hidden_dim=48, vocab_size=64)
    ),
    "ELECTRA": lambda: t.ElectraModel(t.ElectraConfig(**SMALL, embedding_size=16)),
    "ALBERT": lambda: t.AlbertModel(
        t.AlbertConfig(**SMALL | {"num_hidden_layers": 4}, embedding_size=16, num_hidden_groups=2)
    ),
    "ModernBERT": lambda: t.ModernBertModel(
        t.ModernBertConfig(**SMALL, local_attention=4, global_attn_every_n_layers=2, pad_token_id=0)
    ),
    "GPT-2": lambda: t.GPT2LMHeadModel(t.GPT2Config(**GPT2)),
    "GPT-NeoX": lambda: t.GPTNeoXForCausalLM(t.GPTNeoXConfig(**DECODER)),
    "OPT": lambda: t.OPTForCausalLM(t.OPTConfig(**FALCON, ffn_dim=48, word_embed_proj_dim=32)),
    "Phi": lambda: t.PhiForCausalLM(t.PhiConfig(**DECODER)),
    "Phi-3": lambda: t.Phi3ForCausalLM(t.Phi3Config(**DECODER, num_key_value_heads=2, sliding_window=4)),
    "Llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(**GROUPED)),
    "SmolLM3": lambda: t.SmolLM3ForCausalLM(
        t.SmolLM3Config(**GROUPED, no_rope_layers=[1, 0], use_sliding_window=True, **LOCAL)
    ),
    "Mistral": lambda: t.MistralForCausalLM(t.MistralConfig(**GROUPED, sliding_window=4)),
    "Qwen2": lambda: t.Qwen2ForCausalLM(t.Qwen2Config(**GROUPED, use_sliding_window=True, **LOCAL)),
    "Qwen3": lambda: t.Qwen3ForCausalLM(t.Qwen3Config(**GROUPED, use_sliding_window=True, **LOCAL)),
    "Gemma 2": lambda: t.Gemma2ForCausalLM(
        t.Gemma2Config(**GROUPED, sliding_window=4, attn_logit_softcapping=2.0, query_pre_attn_scalar=8)
    ),
    "Gemma 3": lambda: t.Gemma3ForCausalLM(t.Gemma3TextConfig(**GROUPED, **LOCAL, query_pre_attn_scalar=64)),
    "OLMo 2": lambda: t.Olmo2ForCausalLM(t.Olmo2Config(**DECODER, num_key_value_heads=2)),
    "Cohere": lambda: t.CohereForCausalLM(t.CohereConfig(**DECODER, num_key_value_heads=2, use_qk_norm=True)),
    "Granite": lambda: t.GraniteForCausalLM(
        t.GraniteConfig(**DECODER, num_key_value_heads=2, attention_multiplier=0.2)
    ),
    "T5": lambda: t.T5ForConditionalGeneration(t.T5Config(**T5, decoder_start_token_id=0)),
    "BART": lambda: t.BartForConditionalGeneration(t.BartConfig(**SEQ2SEQ)),
    "Marian": lambda: t.MarianMTModel(t.MarianConfig(**SEQ2SEQ, scale_embedding=True)),
    "gpt-oss": lambda: t.GptOssForCausalLM(
        t.GptOssConfig(**GROUPED, sliding_window=4, num_local_experts=2, num_experts_per_tok=1)
    ),
    "ViT": lambda: t.ViTModel(t.ViTConfig(**VIT)),
}

# Further models of those architectures' families, which read a text and write another.
MORE_READERS_AND_WRITERS = {
    "mT5": lambda: t.MT5ForConditionalGeneration(t.MT5Config(**T5, decoder_start_token_id=0)),
    "mBART": lambda: t.MBartForConditionalGeneration(t.MBartConfig(**SEQ2SEQ)),
    "Pegasus": lambda: t.PegasusForConditionalGeneration(t.PegasusConfig(**SEQ2SEQ)),
    "M2M100": lambda: t.M2M100ForConditionalGeneration(t.M2M100Config(**SEQ2SEQ)),
    "Blenderbot": lambda: t.BlenderbotForConditionalGeneration(t.BlenderbotConfig(**SEQ2SEQ)),
    # Its encoder looks at neighbours only, which is computed in another way.
    "LongT5": lambda: t.LongT5ForConditionalGeneration(
        t.LongT5Config(**T5, decoder_start_token_id=0, local_radius=3, global_block_size=4)
    ),
}

TEXT_TOWER = SMALL | IDS | {"max_position_embeddings": 40, "projection_dim": 16}
SWIN = {
    "spec_size": 32,
    "num_mel_bins": 8,
    "patch_size": 4,
    "patch_stride": [4, 4],
    "patch_embeds_hidden_size": 16,
    "depths": [1, 1],
    "num_attention_heads": [2, 2],
    "hidden_size": 32,
    "window_size": 2,
}


def _towers(family: str, *, text: dict | None = None, image: dict | None = None, **more: object) -> t.PreTrainedModel:
    """Of a family whose classes are called so: a text tower and an image tower."""
    config = getattr(t, f"{family}Config")(
        text_config=TEXT_TOWER | (text or {}),
        vision_config=VIT | {"projection_dim": 16} | (image or {}),
        projection_dim=16,
        **more,
    )
    return getattr(t, f"{family}Model")(config)


# A tower for texts beside one for images or sounds, which are compared in the end. Here the text's can be captured ...
TWO_TOWERS = {
    "CLIP": lambda: _towers("CLIP"),
    "SigLIP": lambda: _towers("Siglip"),
    "SigLIP 2": lambda: _towers("Siglip2", image={"num_patches": 9}),
    "AltCLIP": lambda: _towers("AltCLIP", text={"project_dim": 16}),
    "Chinese-CLIP": lambda: _towers("ChineseCLIP"),
    "MetaCLIP 2": lambda: _towers("MetaClip2"),
    "CLIPSeg": lambda: _towers("CLIPSeg"),
    "OWL-ViT": lambda: _towers("OwlViT"),
    "X-CLIP": lambda: _towers("XCLIP"),
    "AIMv2": lambda: _towers("Aimv2"),
    "ALIGN": lambda: t.AlignModel(
        t.AlignConfig(
            text_config=TEXT_TOWER,
            vision_config={"image_size": 32, "width_coefficient": 0.1, "depth_coefficient": 0.1},
            projection_dim=16,
        )
    ),
    "CLAP": lambda: t.ClapModel(t.ClapConfig(text_config=TEXT_TOWER, audio_config=SWIN, projection_dim=16)),
    "ViT and BERT": lambda: t.VisionTextDualEncoderModel(
        t.VisionTextDualEncoderConfig.from_vision_text_configs(
            t.ViTConfig(**VIT), t.BertConfig(**SMALL), projection_dim=16
        )
    ),
}
# ... and here it exposes only its weights.
TOWERS_WITH_WEIGHTS = {
    "GroupViT": lambda: _towers("GroupViT", projection_intermediate_dim=16),
    "BLIP": lambda: _towers("Blip"),
    "FLAVA": lambda: t.FlavaModel(
        t.FlavaConfig(
            text_config=TEXT_TOWER,
            image_config=VIT,
            multimodal_config={name: size for name, size in SMALL.items() if name != "vocab_size"},
            image_codebook_config={"hidden_size": 8},
            projection_dim=16,
        )
    ),
}

# Architectures whose attention does not say whether it is causal: of these only Doge's is, by its mask.
SILENT_ON_CAUSALITY = {
    "Splinter": lambda: t.SplinterModel(t.SplinterConfig(**SMALL)),
    "LayoutLM": lambda: t.LayoutLMModel(t.LayoutLMConfig(**SMALL)),
    "MarkupLM": lambda: t.MarkupLMModel(t.MarkupLMConfig(**SMALL)),
    "Doge": lambda: t.DogeForCausalLM(t.DogeConfig(**DECODER)),
    "ALIGN's text": lambda: TWO_TOWERS["ALIGN"]().text_model,
    "CLAP's text": lambda: TWO_TOWERS["CLAP"]().text_model,
}

# Some of their layers have attention, and the others something else.
FOUR = {"num_hidden_layers": 4}
THREE = {"num_hidden_layers": 3}
DELTA = {
    "layer_types": ["linear_attention", "full_attention"] * 2,
    "linear_num_value_heads": 2,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
EXPERTS = {"num_experts": 2, "num_experts_per_tok": 1}
LOCAL_EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 4}
HYBRIDS = {
    "Qwen3-Next": lambda: t.Qwen3NextForCausalLM(
        t.Qwen3NextConfig(
            **GROUPED | FOUR | DELTA | EXPERTS, moe_intermediate_size=16, shared_expert_intermediate_size=16
        )
    ),
    "LFM2": lambda: t.Lfm2ForCausalLM(t.Lfm2Config(**GROUPED | THREE, layer_types=["conv", "full_attention", "conv"])),
    "Jamba": lambda: t.JambaForCausalLM(
        t.JambaConfig(
            **DECODER | FOUR | EXPERTS,
            num_key_value_heads=2,
            attn_layer_period=2,
            attn_layer_offset=1,
            expert_layer_period=2,
            expert_layer_offset=1,
            use_mamba_kernels=False,
            mamba_d_state=4,
            mamba_dt_rank=4,
        )
    ),
    "Granite 4": lambda: t.GraniteMoeHybridForCausalLM(
        t.GraniteMoeHybridConfig(
            **DECODER | THREE | LOCAL_EXPERTS | MAMBA,
            num_key_value_heads=2,
            layer_types=["mamba", "attention", "mamba"],
            shared_intermediate_size=16,
        )
    ),
    "Bamba": lambda: t.BambaForCausalLM(
        t.BambaConfig(**DECODER | THREE | MAMBA, num_key_value_heads=2, attn_layer_indices=[1])
    ),
    "RecurrentGemma": lambda: t.RecurrentGemmaForCausalLM(
        t.RecurrentGemmaConfig(**SMALL | THREE, lru_width=32, attention_window_size=4)
    ),
    "MiniMax": lambda: t.MiniMaxForCausalLM(
        t.MiniMaxConfig(**GROUPED | FOUR | LOCAL_EXPERTS, layer_types=DELTA["layer_types"], block_size=4)
    ),
    "Nemotron-H": lambda: t.NemotronHForCausalLM(
        t.NemotronHConfig(**GROUPED | THREE, layers_block_type=["mamba", "attention", "moe"])
    ),
    "OLMo hybrid": lambda: t.OlmoHybridForCausalLM(t.OlmoHybridConfig(**DECODER | FOUR | DELTA, num_key_value_heads=2)),
}

XLNET = {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48, "vocab_size": 64}
GPT_NEO = {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "vocab_size": 64, "max_position_embeddings": 64}
RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}

# Outside transformers' registry: they expose only their weights.
CAUSAL_WEIGHTS = {
    "GPT-J": lambda: t.GPTJForCausalLM(t.GPTJConfig(**GPT2, rotary_dim=4)),
    "BLOOM": lambda: t.BloomForCausalLM(t.BloomConfig(hidden_size=32, n_layer=2, n_head=4, vocab_size=64)),
    "Falcon": lambda: t.FalconForCausalLM(t.FalconConfig(**FALCON)),
    "GPT-Neo": lambda: t.GPTNeoForCausalLM(
        t.GPTNeoConfig(**GPT_NEO, attention_types=[[["global", "local"], 1]], window_size=4)
    ),
    "CodeGen": lambda: t.CodeGenForCausalLM(t.CodeGenConfig(**GPT2, rotary_dim=4)),
    "MPT": lambda: t.MptForCausalLM(t.MptConfig(d_model=32, n_layers=2, n_heads=4, vocab_size=64, max_seq_len=64)),
}
WEIGHTS_BOTH_WAYS = {
    "DeBERTa": lambda: t.DebertaModel(t.DebertaConfig(**SMALL, **RELATIVE)),
    "DeBERTa-v2": lambda: t.DebertaV2Model(t.DebertaV2Config(**SMALL, **RELATIVE, position_buckets=8)),
    "MPNet": lambda: t.MPNetModel(t.MPNetConfig(**SMALL)),
    "XLNet": lambda: t.XLNetLMHeadModel(t.XLNetConfig(**XLNET)),
    "XLM": lambda: t.XLMModel(t.XLMConfig(emb_dim=32, n_layers=2, n_heads=4, vocab_size=64)),
}
WEIGHTS_ONLY = CAUSAL_WEIGHTS | WEIGHTS_BOTH_WAYS
RECURRENT = {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 64}
# And these not even those.
WITHOUT_WEIGHTS = {
    "Mamba": lambda: t.MambaForCausalLM(t.MambaConfig(**RECURRENT, state_size=4)),
    "RWKV": lambda: t.RwkvForCausalLM(t.RwkvConfig(**RECURRENT, attention_hidden_size=32)),
    "FNet": lambda: t.FNetModel(t.FNetConfig(**RECURRENT, intermediate_size=48)),
    "LED, windows only": lambda: t.LEDForConditionalGeneration(
        t.LEDConfig(
            **{name: size for name, size in SEQ2SEQ.items() if name != "max_position_embeddings"},
            max_encoder_position_embeddings=64,
            max_decoder_position_embeddings=64,
            attention_window=4,
        )
    ),
    "Longformer, windows only": lambda: t.LongformerModel(t.LongformerConfig(**SMALL, attention_window=4)),
    "ProphetNet, scores instead": lambda: t.ProphetNetModel(
        t.ProphetNetConfig(
            hidden_size=32,
            num_encoder_layers=2,
            num_decoder_layers=2,
            num_encoder_attention_heads=4,
            num_decoder_attention_heads=4,
            encoder_ffn_dim=48,
            decoder_ffn_dim=48,
            vocab_size=64,
        )
    ),
    "SqueezeBERT, scores instead": lambda: t.SqueezeBertModel(t.SqueezeBertConfig(**SMALL, embedding_size=32)),
}


def randomised(network: t.PreTrainedModel) -> t.PreTrainedModel:
    """With parameters so large that attention is far from uniform; the same ones every time."""
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            is_norm = name.endswith("weight") and (parameter.ndim == 1 or "_norm" in name)
            parameter.normal_(mean=float(is_norm), std=0.2)
    return network.eval()


def tiny(name: str) -> t.PreTrainedModel:
    return randomised(TINY[name]())


def number_words() -> t.PreTrainedTokenizerFast:
    """A tokenizer for texts such as "5 17 8", whose tokens are these numbers."""
    words = Tokenizer(WordLevel({str(number): number for number in range(64)}, unk_token="0"))
    words.pre_tokenizer = Whitespace()
    return t.PreTrainedTokenizerFast(tokenizer_object=words)


def eager(network: t.PreTrainedModel, **inputs: torch.Tensor):
    """The same pass in transformers' own eager code, on a copy, with all its attention weights."""
    twin = copy.deepcopy(network)
    twin.set_attn_implementation("eager")
    with torch.inference_mode():
        return twin(**inputs, output_attentions=True)
