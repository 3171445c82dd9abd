"""From a GGUF file to transformers: the configuration, the names and layouts of the weights, the tokenizer.

transformers knows how llama.cpp names and lays out the weights of each architecture; its tables are used here, for one tensor
at a time. But it ignores much of a file's metadata, such as the scaling of rotary embedding, and then computes with defaults of
its own. Here every setting of the architecture is either used or known not to matter, and every tensor has its place in the
network. A file with anything else is refused by its name.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
import torch
import transformers
from gguf import MODEL_ARCH_NAMES, get_tensor_name_map
from tokenizers import Regex, Tokenizer, normalizers
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence, Split
from transformers import PreTrainedConfig, PreTrainedModel, TokenizersBackend
from transformers.integrations.ggml import GGUF_CONFIG_DEFAULTS_MAPPING, GGUF_CONFIG_MAPPING
from transformers.integrations.gguf.gguf_tokenizer_mapping import (
    GGUF_PRE_TOKENIZER_SPLITS,
    GGUF_TOKENIZER_TYPES,
    convert_gguf_tokenizer,
    get_gguf_tokenizer,
)
from transformers.modeling_gguf_pytorch_utils import TENSOR_PROCESSORS, GGUFTensor, TensorProcessor

from .bounds import forbidden_length
from .gguf_files import GgufFile, GgufTensor

# The architectures that are read, as llama.cpp names them, and their names in transformers' tables. transformers' tables have
# more; those are left out that no test compares with a network of transformers.
ARCHITECTURES = {
    "bloom": "bloom",
    "falcon": "falcon",
    "gemma2": "gemma2",
    "gemma3": "gemma3",
    "gemma4": "gemma4",
    "gpt-oss": "gpt_oss",
    "gpt2": "gpt2",
    "lfm2": "lfm2",
    "llama": "llama",  # Mistral too
    "minimax-m2": "minimax_m2",
    "nemotron": "nemotron",
    "phi3": "phi3",
    "qwen2": "qwen2",
    "qwen2moe": "qwen2_moe",
    "qwen3": "qwen3",
    "qwen3moe": "qwen3_moe",
    "stablelm": "stablelm",
    "starcoder2": "starcoder2",
    "t5": "t5",
}
_TEXT_PARTS = {"gemma3": "gemma3_text", "gemma4": "gemma4_text"}  # model types of which a file has only what reads text

# Settings that transformers' tables lack or get wrong, and their names in a configuration that has a field for them.
_FURTHER = {
    "context_length": "max_position_embeddings",
    "feed_forward_length": "intermediate_size",
    "decoder_block_count": "num_decoder_layers",
    "embedding_length_per_layer_input": "hidden_size_per_layer_input",
    "attention.head_count_kv": "num_kv_heads",
    "attention.layer_norm_epsilon": "layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon": "norm_eps",
    "attention.shared_kv_layers": "num_kv_shared_layers",
    "rope.freq_base": "rope_theta",
    "rope.freq_base_swa": "rope_local_base_freq",
    "attention.sliding_window": "sliding_window",
    "attention.sliding_window_pattern": "sliding_window_pattern",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "gemma4.attention.key_length_swa": "head_dim",
    "gemma4.expert_count": "num_experts",
    "expert_used_count": "top_k_experts",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "expert_weights_norm": "norm_topk_prob",
}
# Names that a configuration takes without having a field for them.
_WITHOUT_FIELD = {"rope_theta", "rope_local_base_freq", "sliding_window_pattern"}

# Settings that do not matter, or that shapes and other settings say as well.
_IMPLIED = {
    "bloom.attention.head_count_kv",
    "bloom.context_length",
    "bloom.feed_forward_length",
    "gemma4.attention.value_length_swa",
    "gemma4.rope.dimension_count_swa",
    "t5.attention.layer_norm_rms_epsilon",
    "vocab_size",
    "expert_feed_forward_length",
    "attention.key_length",
    "attention.value_length",
    "rope.dimension_count",
    "use_parallel_residual",
    "tensor_data_layout",
    "pooling_type",
}
# Settings that must have this value where they are there: the only way in which transformers computes.
_FIXED = {"attention.causal": True, "expert_gating_func": 1, "minimax-m2.expert_gating_func": 2}

# Weights whose names the gguf package does not know, and those of their tensors in the file, both within a layer.
_FURTHER_NAMES = {
    "mlp.experts.gate_up_proj": ("ffn_gate_exps", "ffn_up_exps"),
    "mlp.experts.gate_up_proj_bias": ("ffn_gate_exps.bias", "ffn_up_exps.bias"),
    "mlp.experts.down_proj_bias": ("ffn_down_exps.bias",),
    "mlp.e_score_correction_bias": ("exp_probs_b.bias",),
    "router.scale": ("ffn_gate_inp.scale",),
    "router.per_expert_scale": ("ffn_down_exps.scale",),
}

_ROPE = "rope.scaling."
_YARN = {
    "factor": "factor",
    "original_context_length": "original_max_position_embeddings",
    "yarn_beta_fast": "beta_fast",
    "yarn_beta_slow": "beta_slow",
}
# Tensors of factors that divide the frequencies of rotary embedding: Llama 3's, and Phi 3's for long and short texts.
_FREQUENCIES, _LONG, _SHORT = "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"
_FACTORS = (_FREQUENCIES, _LONG, _SHORT)

_UNUSED = "unused"  # stands for the names of weights that transformers leaves unread too

# Values of tokenizer.ggml.pre (how a text is split before tokens are merged) as in llama.cpp's llama-vocab.cpp, besides those
# that transformers knows. It takes GPT-2's way for all others; some of these models were trained with every digit split off.
_LIKE_GPT2 = {
    "gpt-2",
    "mpt",
    "olmo",
    "jais",
    "trillion",
    "phi-2",
    "jina-es",
    "jina-de",
    "gigachat",
    "mellum",
    "modern-bert",
}
_DIGITS_ALONE = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva"}

# A file without this setting is older than it. llama.cpp then splits off punctuation, splits what is left in GPT-2's way, and
# numbers into groups of three digits from the left, whatever the model was trained with.
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_OLD = (r"[\p{P}$+<=>^~|]+", _GPT2, r"\p{N}+", r"[0-9]{3}")
_SPLITS = {
    None: _OLD,
    "": _OLD,
    "default": _OLD,
    "falcon": (r"[\p{P}$+<=>^~|`]+", _GPT2, r"[0-9]{3}"),
    "bloom": (r" ?[^(\s|.,!?…。，、।۔،)]+",),
}

_SPECIAL = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}  # ours: the file's


def outline(file: GgufFile) -> PreTrainedModel:
    """The network that the header describes, on torch's meta device, where it takes no memory.

    Raises InputError (field "model") for an architecture or a setting that is not known, ValueError and others for what
    transformers does not accept.
    """
    config = _configuration(file)
    causal, translating = transformers.MODEL_FOR_CAUSAL_LM_MAPPING, transformers.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING
    kind: Any = (translating if config.is_encoder_decoder else causal)[type(config)]
    config.architectures = [kind.__name__]
    with torch.device("meta"):
        return kind(config)


def _configuration(file: GgufFile) -> PreTrainedConfig:
    name = file.architecture
    if name not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        file.refuse(f"has the architecture {name[:60]!r}. GGUF files are read if theirs is one of {known}")
    table = GGUF_CONFIG_MAPPING[ARCHITECTURES[name]]
    model_type = _TEXT_PARTS.get(name, ARCHITECTURES[name])
    if file.shape("enc.blk.1.attn_rel_b.weight") is not None:
        model_type = "umt5"  # it has a bias for positions in every layer, T5 in the first
    kind = transformers.CONFIG_MAPPING[model_type]
    known_fields = {field.name for field in fields(kind)} | set(kind.attribute_map) | _WITHOUT_FIELD
    settings = {
        key.removeprefix(f"{name}."): value for key, value in file.settings.items() if key.startswith(f"{name}.")
    }
    values: dict[str, Any] = dict(GGUF_CONFIG_DEFAULTS_MAPPING.get(model_type, {}))
    rope = {key.removeprefix(_ROPE): settings.pop(key) for key in [*settings] if key.startswith(_ROPE)}
    for key, value in settings.items():
        alone = f"{name}.{key}"
        ours = _FURTHER.get(alone, _FURTHER.get(key))
        ours = ours if ours in known_fields else table.get(key)
        fixed = _FIXED.get(alone, _FIXED.get(key))
        if fixed is None and ours is not None:
            values[ours] = value
        elif fixed != value and not _IMPLIED & {key, alone}:
            file.refuse(
                f"has the setting {name}.{key[:60]} = {str(value)[:60]}, which transformers' {kind.__name__} does not know. "
                f"Its numbers could be those of another model. Take the same model as a folder with safetensors"
            )
    values |= _of_the_tokenizer(file) | _of_tensors(file, model_type) | _scaling(file, rope)
    _set_layers(values)
    if name == "gemma4":
        _set_gemma4(file, values)
    if (forbidden := forbidden_length(values)) is not None:
        file.refuse(forbidden)
    config = kind(**values)
    _set_head(file, config, settings)
    return config


def _of_the_tokenizer(file: GgufFile) -> dict[str, Any]:
    ids = {
        f"{ours}_token_id": file.settings.get(f"tokenizer.ggml.{theirs}_token_id") for ours, theirs in _SPECIAL.items()
    }
    named = {"_model_name_or_path": file.settings["general.name"]} if "general.name" in file.settings else {}
    return named | {key: number for key, number in ids.items() if number is not None}


def _of_tensors(file: GgufFile, model_type: str) -> dict[str, Any]:
    """Values that a file says by the tensors that it has."""
    embedding = file.shape("token_embd.weight")
    if embedding is None or len(embedding) != 2:
        file.refuse("has no matrix of token embeddings (token_embd.weight), so it is not a language model")
    values: dict[str, Any] = {"vocab_size": embedding[0], "tie_word_embeddings": file.shape("output.weight") is None}
    if model_type == "stablelm":
        values["use_qkv_bias"] = file.shape("blk.0.attn_q.bias") is not None
        values["use_parallel_residual"] = file.shape("blk.0.ffn_norm.weight") is None
    if model_type == "falcon":
        values["new_decoder_architecture"] = file.shape("blk.0.attn_norm_2.weight") is not None
    if model_type == "lfm2":
        values["conv_bias"] = file.shape("blk.0.shortconv.in_proj.bias") is not None
        values["block_auto_adjust_ff_dim"] = False  # the width in the file is the adjusted one
    if file.architecture == "t5":
        values["feed_forward_proj"] = "relu" if file.shape("enc.blk.0.ffn_gate.weight") is None else "gated-gelu"
    return values


def _set_layers(values: dict[str, Any]) -> None:
    """Replace the values of which a file has one for each layer."""
    pattern, heads, widths = map(values.get, ("sliding_window_pattern", "num_key_value_heads", "intermediate_size"))
    if isinstance(pattern, list):
        del values["sliding_window_pattern"]
        values["layer_types"] = ["sliding_attention" if sliding else "full_attention" for sliding in pattern]
    if isinstance(heads, list):
        kinds = values.setdefault("layer_types", ["full_attention" if number else "conv" for number in heads])
        by_kind = dict(zip(kinds, heads, strict=True))
        values["num_global_key_value_heads"] = by_kind["full_attention"]
        values["num_key_value_heads"] = by_kind.get("sliding_attention", by_kind["full_attention"])
    if isinstance(widths, list):
        values |= {"intermediate_size": min(widths), "use_double_wide_mlp": min(widths) < max(widths)}


def _set_gemma4(file: GgufFile, values: dict[str, Any]) -> None:
    """Set what only Gemma 4 has."""
    factors = [each for tensor in file.tensors if tensor.name == _FREQUENCIES for each in file.values(tensor).tolist()]
    if set(factors) != {1.0, float(np.float32(1e30))} or not isinstance(values.get("layer_types"), list):
        file.refuse("does not say which layers and dimensions Gemma 4 rotates, as llama.cpp's converter does")
    rope = {"rope_type": "proportional", "partial_rotary_factor": factors.count(1.0) / len(factors)}
    values["rope_parameters"] = {
        "full_attention": rope | {"rope_theta": values.pop("rope_theta")},
        "sliding_attention": {"rope_type": "default", "rope_theta": values.pop("rope_local_base_freq")},
    }
    full = values["layer_types"].index("full_attention")
    values["attention_k_eq_v"] = file.shape(f"blk.{full}.attn_v.weight") is None
    values["enable_moe_block"] = "num_experts" in values
    values["vocab_size_per_layer_input"] = (file.shape("per_layer_token_embd.weight") or [values["vocab_size"]])[0]


def _scaling(file: GgufFile, rope: dict[str, Any]) -> dict[str, Any]:
    """How rotary embedding is scaled for longer texts.

    rope  the settings rope.scaling.*
    """
    factors = {tensor.name: file.values(tensor).ravel().tolist() for tensor in file.tensors if tensor.name in _FACTORS}
    length = file.settings.get(f"{file.architecture}.context_length", 0)
    trained = rope.get("original_context_length", length)
    kind = rope.get("type", "none")
    if _FREQUENCIES in factors and file.architecture != "gemma4":
        # Llama 3's scaling as its result. transformers takes factors as they are under the name longrope.
        both = {"short_factor": factors[_FREQUENCIES], "long_factor": factors[_FREQUENCIES]}
        return {
            "rope_scaling": {"rope_type": "longrope", "attention_factor": 1.0, "factor": 1.0} | both,
            "original_max_position_embeddings": length,
        }
    if _LONG in factors and _SHORT in factors:
        scaling = {"rope_type": "longrope", "short_factor": factors[_SHORT], "long_factor": factors[_LONG]}
        if "attn_factor" in rope:
            scaling["attention_factor"] = rope["attn_factor"]
        return {"rope_scaling": scaling, "original_max_position_embeddings": trained}
    if kind == "linear" and rope.keys() <= {"type", "factor", "finetuned"}:
        return {"rope_scaling": {"rope_type": "linear", "factor": rope["factor"]}}
    if kind == "yarn" and rope.keys() <= {"type", "finetuned", *_YARN}:
        yarn = {"rope_type": "yarn", "original_max_position_embeddings": trained}
        if file.architecture == "gpt-oss":
            yarn["truncate"] = False  # as in OpenAI's two models, though no file says so
        return {"rope_scaling": yarn | {ours: rope[theirs] for theirs, ours in _YARN.items() if theirs in rope}}
    # Phi 3 with short texts has the lengths and no factors.
    if kind == "none" and rope.get("attn_factor", 1.0) == 1.0:
        # Without a word about it, transformers scales gpt-oss by 32.
        return {"rope_scaling": {"rope_type": "default"}} if file.architecture == "gpt-oss" else {}
    return file.refuse(f"scales its rotary embedding in a way that is not known here ({_ROPE}* = {str(rope)[:100]})")


def _set_head(file: GgufFile, config: Any, settings: dict[str, Any]) -> None:
    """Set what depends on the size of a head, which few files say in the same way."""
    if (size := settings.get("attention.key_length")) is not None and file.architecture not in (
        "gemma4",
        "t5",
        "t5encoder",
    ):
        if getattr(config, "head_dim", config.hidden_size // config.num_attention_heads) != size:
            config.head_dim = size
        if hasattr(config, "query_pre_attn_scalar"):
            # Gemma's largest models divide by another number, which llama.cpp knows by the number of layers too (gemma2.cpp,
            # gemma3.cpp).
            largest = {"gemma2": 46, "gemma3": 62}.get(file.architecture) == config.num_hidden_layers
            config.query_pre_attn_scalar = config.hidden_size // config.num_attention_heads if largest else size
    rope = getattr(config, "rope_parameters", None)
    if rope and "rope_theta" in rope and (rotated := settings.get("rope.dimension_count")):
        share = rotated / (getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)
        if share != rope.get("partial_rotary_factor", 1.0):
            rope["partial_rotary_factor"] = share


def weights(file: GgufFile, network: PreTrainedModel) -> dict[str, Callable[[], torch.Tensor]]:
    """The weights of the network by name: functions that read the values from the file, in float32.

    Raises InputError (field "model") if a tensor of the file has no place in the network.
    """
    processor: Any = _PROCESSORS.get(file.architecture, TensorProcessor)(config=network.config.to_dict())
    names = _names(file, network, processor)
    parts: dict[str, list[GgufTensor]] = {}
    for tensor in file.tensors:
        if tensor.name in _FACTORS:
            continue
        name = names.get(tensor.name) or names.get(tensor.name.removesuffix(".weight"))
        if name is None:
            file.refuse(f"holds the tensor {tensor.name[:60]!r}, which a {type(network).__name__} does not have")
        if name != _UNUSED:
            parts.setdefault(name, []).append(tensor)
    for name, count in Counter(names.values()).items():
        if 0 < len(parts.get(name, [])) < count:
            file.refuse(f"lacks one of the {count} tensors that become {name}")

    def read(name: str) -> torch.Tensor:
        # transformers joins tensors that become one, such as the two halves of a layer's experts, in what it has parsed.
        joined: dict[str, dict[str, torch.Tensor]] = {"tensors": {}}
        values: Any = None
        for tensor in parts[name]:
            values = file.values(tensor)
            values = processor.process(values, tensor.name, tensor_key_mapping=names, parsed_parameters=joined).weights
        if name in joined["tensors"]:
            return joined["tensors"][name]
        # Copies only what is still the mapped file, which must not be written to.
        return torch.from_numpy(np.require(values, np.float32, ["C", "W"]))

    return {name: partial(read, name) for name in parts}


class _GptOss(TensorProcessor):
    """transformers has the experts' matrices transposed, and the columns of gate and up by turns."""

    def process(self, weights: np.ndarray, name: str, **kwargs: Any) -> GGUFTensor:
        if "_exps." not in name:
            return GGUFTensor(weights, name, {})
        if name.endswith(".weight"):
            weights = np.swapaxes(weights, 1, 2)
        if "_down_" not in name:
            joined = kwargs["parsed_parameters"]["tensors"]
            both = kwargs["tensor_key_mapping"][name.removesuffix(".weight")]
            if both not in joined:
                joined[both] = torch.empty(*weights.shape[:-1], 2 * weights.shape[-1])
            joined[both][..., "_up_" in name :: 2] = torch.tensor(weights)
        return GGUFTensor(weights, name, {})


class _Falcon(TensorProcessor):
    """transformers has the queries of a group of heads before their key and value, and then the next group."""

    def process(self, weights: np.ndarray, name: str, **_kwargs: Any) -> GGUFTensor:
        if "attn_qkv" in name:
            width, heads, groups = (self.config[key] for key in ("hidden_size", "num_attention_heads", "num_kv_heads"))
            parts = np.split(weights.reshape(-1, width // heads, width), [heads, heads + groups])
            grouped = [part.reshape(groups, -1, width // heads, width) for part in parts]
            weights = np.concatenate(grouped, axis=1).reshape(weights.shape)
        return GGUFTensor(weights, name, {})


_PROCESSORS = TENSOR_PROCESSORS | {"gpt-oss": _GptOss, "falcon": _Falcon}


def _names(file: GgufFile, network: PreTrainedModel, processor: Any) -> dict[str, str]:
    """The names of the network's weights, by those in the file. transformers' get_gguf_hf_weights_map gives the same, and makes
    the table of names anew for every module of the network: 20 s for SmolLM2."""
    architecture = next(number for number, name in MODEL_ARCH_NAMES.items() if name == file.architecture)
    layers = max(network.config.num_hidden_layers, getattr(network.config, "num_decoder_layers", 0))
    stored = get_tensor_name_map(architecture, layers)
    names: dict[str, str] = {}
    for whole in map(processor.preprocess_name, network.state_dict()):
        name, suffix = whole, ""
        if whole.endswith((".weight", ".bias")):
            name, _, suffix = whole.rpartition(".")
            suffix = f".{suffix}"
        # Some files were made of a network without its language-model head, and name what is inside.
        theirs = stored.get_name(name) or stored.get_name(name.partition(".")[2])
        if theirs is None:
            *_, layer, further = whole.split(".", 3) if whole.count(".") > 2 else ("", "")
            names |= {f"blk.{layer}.{part}": whole for part in _FURTHER_NAMES.get(further, ())}
        else:
            names.setdefault(theirs + suffix, whole)
    for module in network.modules():
        for unused in getattr(module, "_keys_to_ignore_on_load_unexpected", None) or ():
            unused = unused.removesuffix(".weight")
            if theirs := stored.get_name(unused) or stored.get_name(f"model.{unused}"):
                names.setdefault(f"{theirs}.weight", _UNUSED)
    return names


def tokenizer(file: GgufFile) -> TokenizersBackend:
    """The tokenizer that the file describes.

    Raises InputError (field "model") if it is of a kind that is not known, or has other tokens than the file.
    """
    kind, way = (file.settings.get(f"tokenizer.ggml.{key}") for key in ("model", "pre"))
    if kind not in GGUF_TOKENIZER_TYPES:
        known = ", ".join(sorted(GGUF_TOKENIZER_TYPES))
        file.refuse(f"has a tokenizer of the kind {str(kind)[:60]!r}. Kinds that can be read are {known}")
    if kind == "gpt2" and way not in {*GGUF_PRE_TOKENIZER_SPLITS, *_LIKE_GPT2, *_DIGITS_ALONE, *_SPLITS}:
        file.refuse(f"splits texts in a way that is not known here (tokenizer.ggml.pre is {str(way)[:60]!r})")
    architecture, described, settings = get_gguf_tokenizer(str(file.path))
    backend, further = convert_gguf_tokenizer(architecture, described)
    backend = _without_others(backend, len(described["tokens"]))
    if kind == "t5":
        backend = _unigram(file, backend)
    cuts: list[Any] = []
    if kind == "gpt2" and way in _DIGITS_ALONE:
        cuts = [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
    if kind == "gpt2" and way in _SPLITS:
        cuts = [Split(Regex(split), "isolated") for split in _SPLITS[way]]
        cuts.append(ByteLevel(add_prefix_space=False, use_regex=False))
    if cuts:
        whole: Any = Sequence(cuts)
        backend.pre_tokenizer = whole
    made = TokenizersBackend(tokenizer_object=backend, **settings, **further)
    _check_tokens(file, made, described["tokens"])
    return made


def _without_others(backend: Tokenizer, count: int) -> Tokenizer:
    """The tokenizer without special tokens that transformers' classes add of their own accord, such as GPT-2's <|endoftext|>:
    their numbers follow after those of the file's tokens, and the network has no embeddings for them."""
    if backend.get_vocab_size() == count:
        return backend
    content = json.loads(backend.to_str())
    content["added_tokens"] = [token for token in content["added_tokens"] if token["id"] < count]
    return Tokenizer.from_str(json.dumps(content))


def _unigram(file: GgufFile, backend: Tokenizer) -> Tokenizer:
    """The tokenizer with what transformers leaves out: the file's number of the unknown token, its tokens of single bytes, and
    how characters are normalised."""
    content = json.loads(backend.to_str())
    vocabulary = {token for token, _ in content["model"]["vocab"]}
    content["model"]["unk_id"] = file.settings.get("tokenizer.ggml.unknown_token_id", content["model"]["unk_id"])
    content["model"]["byte_fallback"] = {f"<0x{byte:02X}>" for byte in range(256)} <= vocabulary
    made = Tokenizer.from_str(json.dumps(content))
    if characters := file.settings.get("tokenizer.ggml.precompiled_charsmap"):
        made.normalizer = normalizers.Precompiled(bytes(characters))
    return made


def _check_tokens(file: GgufFile, made: TokenizersBackend, tokens: list[str]) -> None:
    if len(made) != len(tokens):
        file.refuse(f"lists {len(tokens):,} tokens, of which a tokenizer with {len(made):,} was made")
    for ours, theirs in _SPECIAL.items():
        number = file.settings.get(f"tokenizer.ggml.{theirs}_token_id")
        if number is not None and getattr(made, f"{ours}_token_id") != number:
            found = getattr(made, f"{ours}_token_id")
            file.refuse(f"has token {number:,} as its {theirs} token, which the tokenizer takes for {found}")
    if (rows := file.shape("token_embd.weight")) and len(tokens) > rows[0]:
        file.refuse(f"lists {len(tokens):,} tokens and has embeddings for {rows[0]:,}")
