"""The settings of a network in a GGUF file: which there are, what they may say, and what is meant where a file says nothing.

llama.cpp writes these files and runs them, so its reading counts (llama-model.cpp and models/*.cpp in its sources). A setting
that it refuses is refused here, by its name; what it takes for a missing one is taken here; where 0 means none, it means none.
Settings that are in no table are refused, because the numbers could be those of another model. The window of Phi 3 and the two
limits of YaRN are what the model was trained with, and are read although llama.cpp computes without them.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .gguf_files import GgufFile, Setting

Values = Mapping[str, Any]
_NEEDED: Any = object()  # stands for the default of a setting that a file must have


@dataclass(frozen=True)
class Rule:
    """What a setting may say.

    kind     as `Setting.kind`. "each": "uint32", or a list of one number for every layer, all equal; "list": the same, and they
             need not be equal; "layers": every how many layers one has no window, or a list of those that have one; "" for what
             llama.cpp does not read
    words    the allowed values in words
    allows   whether a value is allowed
    default  the value where a file says nothing, or a function of the settings before it in the table
    unset    a value that says no more than a missing setting
    field    its name in transformers' configurations; None if it is used in another way, or not needed
    """

    kind: str
    words: str
    allows: Callable[[Any], bool]
    default: Any = _NEEDED
    unset: Any = _NEEDED
    field: str | None = None


def _whole(field: str | None = None, default: Any = _NEEDED, least: int = 1, kind: str = "uint32", **more: Any) -> Rule:
    return Rule(kind, f"a whole number from {least}", lambda value: value >= least, default, field=field, **more)


def _real(field: str | None = None, default: Any = _NEEDED, **more: Any) -> Rule:
    return Rule("float32", "a positive number", lambda value: 0 < value < math.inf, default, field=field, **more)


def _from_0(field: str | None = None, default: Any = _NEEDED, **more: Any) -> Rule:
    return Rule("float32", "a number from 0", lambda value: 0 <= value < math.inf, default, field=field, **more)


def _only(kind: str, *values: Any, default: Any = _NEEDED, field: str | None = None) -> Rule:
    """Values with which transformers' network computes. It knows no others."""
    return Rule(kind, " or ".join(map(repr, values)), lambda value: value in values, default, field=field)


def _width_by_heads(values: Values) -> int:
    return values["embedding_length"] // values["attention.head_count"]


_IGNORED = _whole(default=None, least=0)
_UNREAD = Rule("", "anything", lambda _: True, None)
_COMMON = {
    "block_count": Rule("uint32", "a whole number from 1 to 512", lambda v: 0 < v <= 512, field="num_hidden_layers"),
    "context_length": _whole("max_position_embeddings"),
    "embedding_length": _whole("hidden_size"),
    "feed_forward_length": _whole("intermediate_size", kind="each"),
    "attention.head_count": _whole("num_attention_heads", kind="each"),
    "attention.head_count_kv": _whole("num_key_value_heads", lambda v: v["attention.head_count"], kind="each"),
    "attention.key_length": _whole("head_dim", _width_by_heads),
    "attention.value_length": _whole(None, _width_by_heads),
    "attention.causal": _only("bool", True, default=True),
    "expert_count": _only("uint32", 0, default=0),
    "expert_used_count": _only("each", 0, default=0),
    "vocab_size": _IGNORED,
    "pooling_type": _IGNORED,
    "tensor_data_layout": _UNREAD,
    "rope.dimension_count": _whole(None, lambda v: v["attention.key_length"]),
    "rope.freq_base": _real(None, 10_000.0),
    "rope.scaling.type": _only("string", "none", "linear", "yarn", "longrope", default="linear"),
    "rope.scale_linear": _from_0(None, 0.0),
    "rope.scaling.factor": _from_0(None, lambda v: v["rope.scale_linear"]),
    "rope.scaling.original_context_length": _whole(None, lambda v: v["context_length"], least=0, unset=0),
    "rope.scaling.attn_factor": _real(None, 1.0),
    "rope.scaling.finetuned": _only("bool", True, False, default=False),
    "rope.scaling.yarn_beta_fast": _real(None, 32.0),
    "rope.scaling.yarn_beta_slow": _real(None, 1.0),
}


def _experts(count: str, used: str, width: str | None = "moe_intermediate_size", **more: Any) -> dict[str, Rule]:
    return {
        "expert_count": _whole(count, **more),
        "expert_used_count": _whole(used, kind="each", **more),
        "expert_feed_forward_length": _whole(width, kind="each", **more),
    }


def _rules(epsilon: str, *others: dict[str, Rule]) -> dict[str, Rule]:
    """The common ones of an architecture and its own. epsilon: the field of that of its norms, by the root of the mean square
    unless it is called otherwise"""
    kind = "" if epsilon.startswith(("layer_norm", "norm_epsilon")) else "rms_"
    rules = _COMMON | {f"attention.layer_norm_{kind}epsilon": _from_0(epsilon)}
    for own in others:
        rules |= own
    return rules


# Architectures in which the heads share the width of the network.
_SHARED_WIDTH = {"attention.key_length": _whole(None, _width_by_heads)}
_WINDOW = {"attention.sliding_window": _whole("sliding_window", default=None, least=0, unset=0)}
_UNREAD_WINDOW = {"attention.sliding_window": _UNREAD}
_LAYERS = Rule("layers", "a whole number or a list", lambda _: True)
_SOFTMAX = {"expert_gating_func": _only("", 0, 1, default=None)}  # the function that weighs the experts
_QWEN_EXPERTS = {
    **_experts("num_experts", "num_experts_per_tok"),
    **_SOFTMAX,
    "expert_feed_forward_length": _whole(
        "moe_intermediate_size",
        lambda v: v["feed_forward_length"] // v["expert_used_count"],
        least=0,
        kind="each",
        unset=0,
    ),
}

SETTINGS: dict[str, dict[str, Rule]] = {
    "bloom": _rules("layer_norm_epsilon", _SHARED_WIDTH)
    | {"context_length": _whole(), "feed_forward_length": _whole(kind="each")},
    "falcon": _rules("layer_norm_epsilon", _SHARED_WIDTH)
    | {
        "feed_forward_length": _whole("ffn_hidden_size", kind="each"),
        "attention.head_count_kv": _whole("num_kv_heads", lambda v: v["attention.head_count"], kind="each"),
    },
    "gemma2": _rules("rms_norm_eps")
    | {
        "attention.sliding_window": _whole("sliding_window", 4096),
        "attention.sliding_window_pattern": replace(_LAYERS, default=2),
        "attn_logit_softcapping": _real("attn_logit_softcapping", 50.0),
        "final_logit_softcapping": _real("final_logit_softcapping", 30.0),
        "rope.freq_base_swa": _real(None, lambda v: v["rope.freq_base"]),
    },
    "gemma3": _rules("rms_norm_eps", _WINDOW)
    | {
        "attention.sliding_window_pattern": replace(_LAYERS, default=6),
        "final_logit_softcapping": _from_0("final_logit_softcapping", None, unset=0),
        "rope.freq_base_swa": _real(None, 10_000.0),
    },
    "gemma4": _rules("rms_norm_eps", _experts("num_experts", "top_k_experts", default=None, least=0, unset=0))
    | {
        "feed_forward_length": _whole(kind="list"),
        "embedding_length_per_layer_input": _whole("hidden_size_per_layer_input", least=0),
        "attention.head_count_kv": _whole(None, lambda v: v["attention.head_count"], kind="list"),
        "attention.key_length": _whole("global_head_dim", _width_by_heads),
        "attention.key_length_swa": _whole("head_dim"),
        "attention.value_length_swa": _whole(),
        "attention.sliding_window": _whole("sliding_window"),
        "attention.sliding_window_pattern": replace(_LAYERS, words="a list", allows=lambda v: isinstance(v, list)),
        "attention.shared_kv_layers": _whole("num_kv_shared_layers", 0, least=0),
        "final_logit_softcapping": _from_0("final_logit_softcapping", 30.0),
        "rope.dimension_count_swa": _whole(None, lambda v: v["rope.dimension_count"]),
        "rope.freq_base_swa": _real(None, 10_000.0),
    },
    "gpt-oss": _rules(
        "rms_norm_eps", _experts("num_local_experts", "num_experts_per_tok", "intermediate_size"), _SOFTMAX
    )
    | {
        "feed_forward_length": _whole(None, None, least=0, kind="each"),
        "attention.sliding_window": _whole("sliding_window"),
        "attention.sliding_window_pattern": replace(_LAYERS, default=2),
        "rope.freq_base_swa": _real(None, lambda v: v["rope.freq_base"]),
    },
    "gpt2": _rules("layer_norm_epsilon", _SHARED_WIDTH) | {"feed_forward_length": _whole("n_inner", kind="each")},
    "lfm2": _rules("norm_eps", _SHARED_WIDTH)
    | {
        "attention.head_count_kv": _whole(None, lambda v: v["attention.head_count"], least=0, kind="list"),
        "attention.sliding_window": _only("uint32", 0, default=0),
        "shortconv.l_cache": _whole("conv_L_cache"),
    },
    "llama": _rules("rms_norm_eps"),  # Mistral too
    "minimax-m2": _rules("rms_norm_eps", _experts("num_local_experts", "num_experts_per_tok", None))
    | {"expert_gating_func": _only("uint32", 2)},
    "nemotron": _COMMON
    | _SHARED_WIDTH
    | {"attention.layer_norm_epsilon": _from_0("norm_eps"), "attention.layer_norm_rms_epsilon": _UNREAD},
    "phi3": _rules("rms_norm_eps", _SHARED_WIDTH, _WINDOW),
    "qwen2": _rules("rms_norm_eps", _SHARED_WIDTH, _UNREAD_WINDOW),
    "qwen2moe": _rules("rms_norm_eps", _SHARED_WIDTH, _UNREAD_WINDOW, _QWEN_EXPERTS)
    | {
        "expert_shared_feed_forward_length": _whole(
            "shared_expert_intermediate_size", lambda v: v["feed_forward_length"], least=0, unset=0
        ),
        "expert_weights_norm": _only("", False, default=False, field="norm_topk_prob"),
    },
    "qwen3": _rules("rms_norm_eps", _UNREAD_WINDOW),
    "qwen3moe": _rules("rms_norm_eps", _UNREAD_WINDOW, _QWEN_EXPERTS)
    | {
        "feed_forward_length": _whole("intermediate_size", 0, least=0, kind="each"),
        "expert_weights_norm": _only("", True, default=True, field="norm_topk_prob"),
    },
    "stablelm": _rules("layer_norm_eps", _SHARED_WIDTH, {"use_parallel_residual": _UNREAD}),
    "starcoder2": _rules("norm_epsilon", _SHARED_WIDTH),
    "t5": _COMMON
    | {
        "context_length": _whole(),
        "feed_forward_length": _whole("d_ff", kind="each"),
        "decoder_block_count": _whole("num_decoder_layers", lambda v: v["block_count"]),
        "decoder_start_token_id": _whole("decoder_start_token_id", None, least=0),
        "attention.layer_norm_epsilon": _UNREAD,
        "attention.layer_norm_rms_epsilon": _from_0("layer_norm_epsilon"),
        "attention.relative_buckets_count": _whole("relative_attention_num_buckets"),
        "pooling_type": _only("uint32", 0, default=0),  # llama.cpp would pool what the encoder gives
    },
}
_OWN_KEYS = {"bloom", "gpt2", "t5"}  # every head has its own key and value
NOT_TURNED = {"bloom", "gpt2", "t5"}  # without rotary embedding
PARTLY_TURNED = {"minimax-m2", "nemotron", "phi3", "stablelm"}  # rotary embedding may turn a part of a head only


def read_settings(file: GgufFile) -> dict[str, Any]:
    """The settings of the file's architecture by their names without it, such as "block_count"; those that a file leaves out
    have the values that llama.cpp takes for them. A "list" has a value for every layer.

    Raises InputError (field "model") for a setting that is unknown, missing, of another type or not allowed.
    """
    name = file.architecture
    rules, prefix = SETTINGS[name], f"{name}."
    said = {key.removeprefix(prefix): value for key, value in file.settings.items() if key.startswith(prefix)}
    for key, setting in said.items():
        if key not in rules:
            file.refuse(
                f"has the setting {prefix}{key[:60]} = {setting}, which is not known here. Its numbers could be those of "
                f"another model. Take the same model as a folder with safetensors"
            )
    values: dict[str, Any] = {}
    for key, rule in rules.items():
        values[key] = _value(file, prefix + key, rule, said.get(key), values)
    _check(file, values)
    return values


def _value(file: GgufFile, key: str, rule: Rule, setting: Setting | None, before: Values) -> Any:
    value: Any = rule.default
    if setting is not None:
        value = _read(file, key, rule, setting, before)
    if setting is None or value == rule.unset:
        if rule.default is _NEEDED:
            file.refuse(f"lacks the setting {key}")
        value = rule.default(before) if callable(rule.default) else rule.default
        if value is not None and not rule.allows(value):
            file.refuse(f"lacks the setting {key}, which by the others is {value} and has to be {rule.words}")
    layers = before.get("block_count", 0)
    if rule.kind == "list" and not isinstance(value, list):
        return [value] * layers
    return _with_window(value, layers) if rule.kind == "layers" else value


def _with_window(said: Any, layers: int) -> list[bool]:
    """Which layers have a window."""
    if isinstance(said, list):
        return [layer < len(said) and bool(said[layer]) for layer in range(layers)]
    return [said == 0 or layer % said < said - 1 for layer in range(layers)]


def _read(file: GgufFile, key: str, rule: Rule, setting: Setting, before: Values) -> Any:
    def refuse(why: str) -> Any:
        file.refuse(f"has the setting {key} = {setting}, which {why}")

    value, per_layer = setting.value, rule.kind in ("each", "list", "layers")
    if rule.kind:
        file.said(key, ["uint32", "[uint32]", "[int32]", "[bool]"] if per_layer else [rule.kind])
    numbers = value if isinstance(value, list) and rule.kind in ("each", "list") else [value]
    if not all(map(rule.allows, numbers)):
        refuse(f"has to be {rule.words}")
    if rule.kind in ("each", "list") and isinstance(value, list):
        if len(value) != before["block_count"]:
            refuse(f"has to be one number, or one for each of {before['block_count']} layers")
        if rule.kind == "each" and len({*value}) > 1:
            refuse("has to be the same in all layers, as in transformers' network")
        return value if rule.kind == "list" else int(value[0])
    return value


def _check(file: GgufFile, values: Values) -> None:
    """Raise InputError unless the numbers of experts and of heads, and the sizes of heads, fit together."""
    name, width = file.architecture, values["embedding_length"]

    def check(holds: bool, key: str, words: str) -> None:
        if not holds:
            file.refuse(f"has {name}.{key} = {values[key]}, which has to be {words}")

    if name == "bloom":  # transformers' has no setting for it
        fits = values["feed_forward_length"] == 4 * width
        check(fits, "feed_forward_length", f"four times its embedding_length, {4 * width}")
    if name == "gemma4":
        widths, own = values["feed_forward_length"], values["block_count"] - values["attention.shared_kv_layers"]
        fits = widths == [min(widths)] * own + widths[-1:] * (len(widths) - own)
        check(fits, "feed_forward_length", "one number, and another one at most in layers that share keys")
    if experts := values["expert_count"]:
        check(values["expert_used_count"] <= experts, "expert_used_count", f"at most its {experts} experts")
    heads, size = values["attention.head_count"], values["attention.key_length"]
    keys = values["attention.head_count_kv"]
    for number in {*keys} if isinstance(keys, list) else {keys}:
        fits = number == heads if name in _OWN_KEYS else not number or heads % number == 0
        check(fits, "attention.head_count_kv", f"{'' if name in _OWN_KEYS else 'a divisor of '}its {heads} heads")
    if SETTINGS[name]["attention.key_length"].field is None:
        check(heads * size == width, "attention.key_length", f"{width} / {heads}")
    for kind in ("", "_swa") if name == "gemma4" else ("",):
        size, turned = values[f"attention.key_length{kind}"], values[f"rope.dimension_count{kind}"]
        check(values[f"attention.value_length{kind}"] == size, f"attention.value_length{kind}", f"{size}, as the keys'")
        if name in PARTLY_TURNED:
            check(turned <= size and turned % 2 == 0, "rope.dimension_count", f"an even number up to {size}")
        elif name not in NOT_TURNED:
            fits = turned == size and size % 2 == 0
            check(fits, f"rope.dimension_count{kind}", f"the size of a head, {size}, and even")
