"""The network in a GGUF file, for transformers: its configuration, and the names and layouts of its weights.

transformers knows how llama.cpp names and lays out the weights of each architecture; its tables are used here, for one tensor
at a time. Every setting of the architecture is either used or known not to matter, and every tensor has its place in the
network. A file with anything else is refused by its name.
"""

import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
import transformers
from gguf import MODEL_ARCH_NAMES, get_tensor_name_map
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_gguf_pytorch_utils import TENSOR_PROCESSORS, GGUFTensor, TensorProcessor

from .bounds import forbidden_length
from .gguf_files import GgufFile, GgufTensor
from .gguf_settings import NOT_TURNED, PARTLY_TURNED, SETTINGS, Values, read_settings
from .gguf_tokens import end_tokens, special_tokens, suppressed_tokens

# transformers' names for the configurations of the architectures: of some models a file has only what reads text.
_MODEL_TYPES = {"gemma3": "gemma3_text", "gemma4": "gemma4_text", "qwen2moe": "qwen2_moe", "qwen3moe": "qwen3_moe"}
# Architectures with a matrix of its own for logits, and one that has none.
_OWN_OUTPUT = {"gpt-oss", "minimax-m2", "nemotron", "qwen2moe", "stablelm"}
_NO_OUTPUT = {"gemma2"}

# Weights whose names the gguf package does not know, and those of their tensors in the file, both within a layer.
_FURTHER_NAMES = {
    "mlp.experts.gate_up_proj": ("ffn_gate_exps", "ffn_up_exps"),
    "mlp.experts.gate_up_proj_bias": ("ffn_gate_exps.bias", "ffn_up_exps.bias"),
    "mlp.experts.down_proj_bias": ("ffn_down_exps.bias",),
    "mlp.e_score_correction_bias": ("exp_probs_b.bias",),
    "router.scale": ("ffn_gate_inp.scale",),
    "router.per_expert_scale": ("ffn_down_exps.scale",),
}

_UNUSED = "unused"  # stands for the names of weights that transformers leaves unread too


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
        network = kind(config)
    network.generation_config.update(eos_token_id=end_tokens(file), suppress_tokens=suppressed_tokens(file) or None)
    return network


def _configuration(file: GgufFile) -> PreTrainedConfig:
    name = file.architecture
    if name not in SETTINGS:
        known = ", ".join(SETTINGS)
        file.refuse(f"has the architecture {name[:60]!r}. GGUF files are read if theirs is one of {known}")
    values = read_settings(file)
    fields = {rule.field: values[key] for key, rule in SETTINGS[name].items() if rule.field is not None}
    fields |= _special_ids(file) | _of_tensors(file)
    if name not in NOT_TURNED:
        fields["rope_parameters"] = rope_parameters(file, values)
    if name in _OWN_FIELDS:
        fields |= _OWN_FIELDS[name](file, values)
    if (forbidden := forbidden_length(fields)) is not None:
        file.refuse(forbidden)
    model_type = _MODEL_TYPES.get(name, name.replace("-", "_"))
    if file.shape("enc.blk.1.attn_rel_b.weight") is not None:
        model_type = "umt5"  # it has a bias for positions in every layer, T5 in the first
    return transformers.CONFIG_MAPPING[model_type](**fields)


def _special_ids(file: GgufFile) -> dict[str, Any]:
    """Tokens with a role. Without a word about them transformers takes some for granted, which the vocabulary may not have."""
    ids = special_tokens(file)
    named = {"unk_token_id": ids["unk"]} if "unk" in ids else {}
    if (name := file.settings.get("general.name")) is not None:
        named["_model_name_or_path"] = name.value
    return named | {f"{role}_token_id": ids.get(role) for role in ("bos", "eos", "pad")}


def _of_tensors(file: GgufFile) -> dict[str, Any]:
    """Values that a file says by the tensors that it has."""
    name, embedding = file.architecture, file.shape("token_embd.weight")
    if embedding is None or len(embedding) != 2:
        file.refuse("has no matrix of token embeddings (token_embd.weight), so it is not a language model")
    tied = file.shape("output.weight") is None
    if tied and name in _OWN_OUTPUT:
        file.refuse("lacks the matrix that gives the logits (output.weight)")
    if not tied and name in _NO_OUTPUT:
        file.refuse(f"holds the tensor 'output.weight', with which llama.cpp does not compute in a {name} file")
    values: dict[str, Any] = {"vocab_size": embedding[0], "tie_word_embeddings": tied}
    if name == "stablelm":
        values["use_qkv_bias"] = file.shape("blk.0.attn_q.bias") is not None
        values["use_parallel_residual"] = file.shape("blk.0.ffn_norm.weight") is None
    if name == "falcon":
        values["new_decoder_architecture"] = file.shape("blk.0.attn_norm_2.weight") is not None
    if name == "lfm2":
        values["conv_bias"] = file.shape("blk.0.shortconv.in_proj.bias") is not None
        values["block_auto_adjust_ff_dim"] = False  # the width in the file is the adjusted one
    if name == "t5":
        values["feed_forward_proj"] = "relu" if file.shape("enc.blk.0.ffn_gate.weight") is None else "gated-gelu"
    return values


def _with_windows(file: GgufFile, values: Values) -> dict[str, Any]:
    """Layers with a window and others, and the scale of Gemma's scores."""
    sliding = values["attention.sliding_window_pattern"]
    if values["attention.sliding_window"] is None:
        sliding = [False] * len(sliding)
    elif not any(sliding):
        file.refuse(f"has {file.architecture}.attention.sliding_window and no layer with this window")
    fields: dict[str, Any] = {"layer_types": ["sliding_attention" if each else "full_attention" for each in sliding]}
    if file.architecture in ("gemma2", "gemma3"):
        # The largest models divide by another number, which llama.cpp knows by the number of layers too.
        largest = {"gemma2": 46, "gemma3": 62}[file.architecture] == values["block_count"]
        width = values["embedding_length"] // values["attention.head_count"]
        fields["query_pre_attn_scalar"] = width if largest else values["attention.key_length"]
    return fields


def _of_lfm2(file: GgufFile, values: Values) -> dict[str, Any]:
    """Layers without keys are convolutions."""
    keys = values["attention.head_count_kv"]
    kinds = ["full_attention" if number else "conv" for number in keys]
    return {"layer_types": kinds, "num_key_value_heads": _by_kind(file, kinds, keys)["full_attention"]}


def _of_gemma4(file: GgufFile, values: Values) -> dict[str, Any]:
    fields = _with_windows(file, values)
    kinds, widths = fields["layer_types"], values["feed_forward_length"]
    keys = _by_kind(file, kinds, values["attention.head_count_kv"])
    full = kinds.index("full_attention")
    own = file.shape("per_layer_token_embd.weight") or file.shape("token_embd.weight") or [0]
    return fields | {
        "num_global_key_value_heads": keys["full_attention"],
        "num_key_value_heads": keys.get("sliding_attention", keys["full_attention"]),
        "intermediate_size": min(widths),
        "use_double_wide_mlp": min(widths) < max(widths),
        "attention_k_eq_v": file.shape(f"blk.{full}.attn_v.weight") is None,
        "enable_moe_block": values["expert_count"] is not None,
        "final_logit_softcapping": values["final_logit_softcapping"] or None,
        "vocab_size_per_layer_input": own[0],
    }


def _by_kind(file: GgufFile, kinds: list[str], keys: list[int]) -> dict[str, int]:
    """The number of keys in layers of each kind."""
    found = dict(zip(kinds, keys, strict=True))
    if "full_attention" not in found or any(found[kind] != number for kind, number in zip(kinds, keys, strict=True)):
        file.refuse(
            f"has {file.architecture}.attention.head_count_kv = {keys}; transformers' network needs layers without a "
            f"window, and as many keys in all layers of a kind"
        )
    return found


_OWN_FIELDS: dict[str, Callable[[GgufFile, Values], dict[str, Any]]] = {
    "gemma2": _with_windows,
    "gemma3": _with_windows,
    "gemma4": _of_gemma4,
    "gpt-oss": _with_windows,
    "lfm2": _of_lfm2,
    "phi3": lambda _, values: {"original_max_position_embeddings": values["rope.scaling.original_context_length"]},
}


def weights(file: GgufFile, network: PreTrainedModel) -> dict[str, Callable[[], torch.Tensor]]:
    """The weights of the network by name: functions that read the values from the file, in float32. Raises InputError (field
    "model") if a tensor of the file has no place in the network."""
    processor: Any = _PROCESSORS.get(file.architecture, TensorProcessor)(config=network.config.to_dict())
    names = _names(file, network, processor)
    parts: dict[str, list[GgufTensor]] = {}
    for tensor in file.tensors:
        if tensor.name in FACTORS:
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


# --- rotary embedding: its base, how much of a head it turns, and how it is scaled for longer texts
#
# llama.cpp divides the angle of each pair of numbers by the factor of linear scaling and by that pair's own factor, which
# stands in a tensor of the file, and multiplies all cosines and sines by one number. transformers does the same under the name
# longrope. YaRN is the other way that both know.

# Tensors of factors: Llama 3's and Gemma 4's, and Phi 3's for texts above and up to the length that it was trained with first.
_ALL, _LONG, _SHORT = FACTORS = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")


def rope_parameters(file: GgufFile, values: Values) -> dict[str, Any]:
    """transformers' rope_parameters. values: those of `read_settings`. Raises InputError (field "model") for what transformers
    cannot compute, and for factors that do not fit."""
    name, kind = file.architecture, values["rope.scaling.type"]
    size, turned = values["attention.key_length"], values["rope.dimension_count"]
    factor = 1.0 if kind == "none" else values["rope.scaling.factor"] or 1.0
    factors = _factors(file, kind, turned // 2)
    theta, local = {"rope_theta": values["rope.freq_base"]}, {"rope_theta": values.get("rope.freq_base_swa")}
    if name == "gemma4":
        if kind == "yarn" or factor != 1 or values["rope.scaling.attn_factor"] != 1:
            file.refuse("scales its rotary embedding (gemma4.rope.scaling), and transformers' Gemma 4 does not")
        every = {"rope_type": "proportional", "partial_rotary_factor": _share_of_gemma4(file, factors)}
        return {"full_attention": every | theta, "sliding_attention": {"rope_type": "default"} | local}
    scaling = _yarn(file, values, factor, factors) if kind == "yarn" else _scaled(values, factor, factors)
    if name == "gemma3":
        return {"full_attention": scaling | theta, "sliding_attention": _scaled(values, 1.0, {}) | local}
    if name in ("gemma2", "gpt-oss"):
        if local != theta:
            why = f"has two bases of rotary embedding ({name}.rope.freq_base_swa), and transformers' network has one"
            file.refuse(why)
        if kind == "none" and values["rope.scaling.factor"] not in (0, 1):
            # llama.cpp then scales in the layers with a window, and in no others.
            file.refuse(f"has {name}.rope.scaling.type = 'none' and a factor ({name}.rope.scaling.factor) at once")
    if name in PARTLY_TURNED:
        share = turned / size
        # transformers cuts off what stands behind the point.
        theta["partial_rotary_factor"] = share if int(size * share) == turned else math.nextafter(share, 1)
    return scaling | theta


def _factors(file: GgufFile, kind: str, pairs: int) -> dict[str, list[float]]:
    """The factors in the tensors of a file, one for each pair of numbers."""
    known = {"llama": {_LONG, _SHORT} if kind == "longrope" else {_ALL}, "phi3": {_LONG, _SHORT}, "gemma4": {_ALL}}
    found = {tensor.name: file.values(tensor).ravel() for tensor in file.tensors if tensor.name in FACTORS}
    for name, factors in found.items():
        if name not in known.get(file.architecture, ()):
            why = f"holds the tensor {name!r}, with which llama.cpp does not compute in a {file.architecture} file"
            file.refuse(why)
        if factors.shape != (pairs,) or not (np.isfinite(factors) & (factors > 0)).all():
            file.refuse(f"has factors of rotary embedding that are not {pairs} positive numbers (tensor {name!r})")
    if (_LONG in found) != (_SHORT in found):
        file.refuse(f"has only one of the tensors {_LONG!r} and {_SHORT!r}")
    return {name: factors.tolist() for name, factors in found.items()}


def _scaled(values: Values, factor: float, factors: dict[str, list[float]]) -> dict[str, Any]:
    stretch = values["rope.scaling.attn_factor"]
    if not factors and stretch == 1:
        return {"rope_type": "default"} if factor == 1 else {"rope_type": "linear", "factor": factor}
    pairs: int = values["rope.dimension_count"] // 2
    every = factors.get(_ALL, [1.0] * pairs)
    return {
        "rope_type": "longrope",
        "short_factor": [factor * each for each in factors.get(_SHORT, every)],
        "long_factor": [factor * each for each in factors.get(_LONG, every)],
        "factor": 1.0,
        "attention_factor": stretch,
        "original_max_position_embeddings": values["rope.scaling.original_context_length"],
    }


def _yarn(file: GgufFile, values: Values, factor: float, factors: dict[str, list[float]]) -> dict[str, Any]:
    if factors:
        file.refuse("scales its rotary embedding twice: by YaRN, and by factors in a tensor")
    return {
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": values["rope.scaling.original_context_length"],
        "beta_fast": values["rope.scaling.yarn_beta_fast"],
        "beta_slow": values["rope.scaling.yarn_beta_slow"],
        "attention_factor": values["rope.scaling.attn_factor"] * (0.1 * math.log(max(1.0, factor)) + 1.0),
        # gpt-oss was trained without rounding the limits of YaRN, though no file says so.
        "truncate": file.architecture != "gpt-oss",
    }


def _share_of_gemma4(file: GgufFile, factors: dict[str, list[float]]) -> float:
    """The part of a head that a layer without a window turns: the file divides the other angles by 1e30."""
    each = factors.get(_ALL, [])
    turned = each.count(1.0)
    if not turned or each != [1.0] * turned + [float(np.float32(1e30))] * (len(each) - turned):
        file.refuse("does not say which numbers Gemma 4 turns, as llama.cpp's converter does (rope_freqs.weight)")
    return turned / len(each)
