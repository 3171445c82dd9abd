"""Before a long run: how long it will take, and how much memory.

Memory and operations are counted from the model's configuration and parameters. How fast this machine does them is measured
on the model itself by a short pass, once, and can be used for any length.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from core.capturing.capture import capture
from core.errors import InputError
from core.models.model import Model
from core.models.modules import kind_of

# What configurations call the width of the hidden layer of their MLPs, and a limit to how far a head looks.
_MLP_WIDTHS = ("intermediate_size", "ffn_dim", "encoder_ffn_dim", "d_ff", "hidden_dim", "n_inner")
_WINDOWS = ("sliding_window", "local_attention")
# A value that is cut out of one projection of all three keeps the queries and keys before their rotation in memory too.
_FUSED = {"query_key_value", "qkv_proj", "Wqkv"}
_KEY_OR_VALUE = {"k", "v", "k_proj", "v_proj"}


@dataclass(frozen=True)
class Rates:
    """How fast this machine is with one model.

    pass_operation      seconds for one operation (an addition or a multiplication) of a pass, attention included
    attention_operation seconds for one operation of attention within a pass
    measured_weight     seconds for one attention weight that is computed to be measured: its score and its softmax
    """

    pass_operation: float
    attention_operation: float
    measured_weight: float


@dataclass(frozen=True)
class Estimate:
    """What a run will need, roughly.

    seconds            for the pass
    measuring_seconds  for computing the weights of all heads besides, with nothing done with them yet
    kept_bytes         what a capture keeps for as long as it is there
    passing_bytes      what the pass needs above that while it runs
    """

    seconds: float
    measuring_seconds: float
    kept_bytes: int
    passing_bytes: int

    @property
    def memory_bytes(self) -> int:
        """Above the loaded model, at the peak."""
        return self.kept_bytes + self.passing_bytes


@dataclass(frozen=True)
class _Attention:
    """One layer's attention as far as it costs: from how many tokens to how many, and whether only to earlier ones."""

    queries: int
    keys: int
    causal: bool

    @property
    def pairs(self) -> int:
        # torch's fused kernel leaves out the blocks of keys that no query of a block may attend to.
        return self.queries * (self.keys + 1) // 2 if self.causal else self.queries * self.keys


def estimate(model: Model, tokens: int, rates: Rates | None = None, *, target_tokens: int = 1) -> Estimate:
    """What one capture of so many tokens needs; `target_tokens` is how many the decoder of an encoder-decoder has written.

    rates   of `measure_rate`, which is called where none are given

    Raises InputError for less than one token, and whatever capturing raises for models that cannot be captured.
    """
    if tokens < 1 or target_tokens < 1:
        raise InputError(f"{min(tokens, target_tokens)} tokens cannot be read; at least 1 is needed.", field="tokens")
    rates = measure_rate(model) if rates is None else rates
    linear, attention = operations(model, tokens, target_tokens=target_tokens)
    return Estimate(
        seconds=linear * rates.pass_operation + attention * rates.attention_operation,
        measuring_seconds=_pairs(model, tokens, target_tokens) * rates.measured_weight,
        kept_bytes=kept_bytes(model, tokens, target_tokens=target_tokens),
        passing_bytes=passing_bytes(model, tokens, target_tokens=target_tokens),
    )


def operations(model: Model, tokens: int, *, target_tokens: int = 1) -> tuple[int, int]:
    """Additions and multiplications of one pass: (those with parameters, those between tokens).

    2 for each parameter and token it is applied to, tables of embeddings left out and the prediction of the next token
    counted once; 4 × d_head for each pair of a query and a key in each head, half of all pairs if attention is causal.
    Kaplan et al. 2020, https://arxiv.org/abs/2001.08361, table 1. Layers that share parameters (ALBERT) are counted
    once, experts of which each token uses a few (gpt-oss) all; rates measured on the same model make up for both.
    """
    network = model.network
    applied = {
        id(parameter): parameter.numel() * _rows(model, name, tokens, target_tokens)
        for name, parameter in network.named_parameters()
    }
    for module in network.modules():
        if isinstance(module, torch.nn.Embedding):
            applied.pop(id(module.weight), None)
    predicting = network.get_output_embeddings() if model.has_language_model_head else None
    if predicting is not None:
        applied[id(predicting)] = predicting.weight.numel() * _predictions(model, tokens, target_tokens)
        applied.pop(id(predicting.weight), None)
    return 2 * sum(applied.values()), 4 * _head_size(model) * _pairs(model, tokens, target_tokens)


def kept_bytes(model: Model, tokens: int, *, target_tokens: int = 1) -> int:
    """Bytes of the queries, keys, values and outputs of all layers, and of the masks and biases that belong to them."""
    config, size = model.network.config.get_text_config(), model.network.dtype.itemsize
    heads, head_size = config.num_attention_heads, _head_size(model)
    key_heads = getattr(config, "num_key_value_heads", None) or heads
    fused = any(name.rpartition(".")[2] in _FUSED for name, _ in model.network.named_modules())
    numbers = 0
    for layer in _layers(model, tokens, target_tokens):
        from_queries, from_keys = layer.queries * heads * head_size, layer.keys * key_heads * head_size
        numbers += 2 * from_queries + 2 * from_keys + fused * (from_queries + from_keys)
    numbers += _bias_numbers(model, tokens, target_tokens)
    return numbers * size + (tokens**2 if _is_windowed(model, tokens) else 0)


def passing_bytes(model: Model, tokens: int, *, target_tokens: int = 1) -> int:
    """About what a pass needs at its peak besides what is kept: one layer's activations, and the next token's scores.

    The residual stream four times over and the hidden layer of a gated MLP three times; where torch's fused attention cannot
    be used (soft caps, sinks), the scores of all heads of a layer three times over as well.
    """
    config, size = model.network.config.get_text_config(), model.network.dtype.itemsize
    heads, width = config.num_attention_heads, config.hidden_size
    inner = next((found for name in _MLP_WIDTHS if (found := getattr(config, name, None))), 4 * width)
    longest = max(tokens, target_tokens) if model.is_encoder_decoder else tokens
    numbers = longest * (4 * width + 3 * inner) + _bias_numbers(model, tokens, target_tokens)
    if getattr(config, "attn_logit_softcapping", None) or any(
        n.endswith("sinks") for n, _ in model.network.named_parameters()
    ):
        numbers += 3 * heads * longest**2
    if model.has_language_model_head:
        numbers += 2 * config.vocab_size * _predictions(model, tokens, target_tokens)
    return numbers * size


def measure_rate(model: Model, tokens: int = 96) -> Rates:
    """How fast this machine runs this model: a short pass over random tokens, and the attention of one layer.

    Each is done three times; the first warms up, and of the others the faster counts, because
    whatever else the machine does only adds to it. The attention is that of 1,024 tokens: torch's kernel works in other,
    slower blocks on short texts.

    Raises InputError (field "model") for models that read pictures, whose length is always the same.
    """
    if model.reads_images:
        raise InputError(f"{model.name} reads pictures; times are estimated for texts only.", field="model")
    config = model.network.config.get_text_config()
    tokens = min(tokens, model.max_tokens or tokens)
    ids = np.random.default_rng(0).integers(config.vocab_size, size=tokens)
    linear, attention = operations(model, tokens)
    heads, size, length, rows = config.num_attention_heads, _head_size(model), 1024, 64
    query, key, value = torch.randn(3, 1, heads, length, size, dtype=model.network.dtype, device=model.network.device)
    causal = not _reads_both_ways(model)
    pairs = heads * _Attention(length, length, causal).pairs

    def attend() -> None:
        torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=causal)

    def weigh() -> None:
        (query[:, :, :rows].float() @ key.float().mT).softmax(-1)

    with torch.inference_mode():
        attending = _fastest(attend) / (4 * size * pairs)
        weighing = _fastest(weigh) / (heads * rows * length)
    passing = _fastest(lambda: capture(model, input_ids=ids), times=3)
    return Rates(max(passing - attention * attending, passing / 2) / linear, attending, weighing)


def in_words(estimate: Estimate, *, measuring: bool = False) -> str:
    """Such as "about 20 s and 1.3 GB"; with the measuring of all heads if `measuring`. 1 GB is 10⁹ bytes."""
    seconds = estimate.seconds + (estimate.measuring_seconds if measuring else 0)
    return f"about {_duration(seconds)} and {_size(estimate.memory_bytes)}"


# --- the parts of a model


def _layers(model: Model, tokens: int, target_tokens: int) -> Iterator[_Attention]:
    config = model.network.config.get_text_config()
    both_ways = _reads_both_ways(model)
    # A window is a mask, and with a mask torch's kernel goes through all pairs.
    causal = not both_ways and not _is_windowed(model, tokens)
    for _ in range(config.num_hidden_layers):
        yield _Attention(tokens, tokens, causal)
    if model.is_encoder_decoder:
        decoder_layers = getattr(config, "decoder_layers", None) or getattr(config, "num_decoder_layers", 0)
        for _ in range(decoder_layers):
            yield _Attention(target_tokens, target_tokens, True)
            yield _Attention(target_tokens, tokens, False)


def _pairs(model: Model, tokens: int, target_tokens: int) -> int:
    """Pairs of a query and a key in all layers and heads."""
    heads = model.network.config.get_text_config().num_attention_heads
    return heads * sum(layer.pairs for layer in _layers(model, tokens, target_tokens))


def _reads_both_ways(model: Model) -> bool:
    return model.is_encoder_decoder or not model.has_language_model_head


def _is_windowed(model: Model, tokens: int) -> bool:
    """Whether some layer needs a mask because it looks less far than the text is long."""
    config = model.network.config.get_text_config()
    windows = [window for name in _WINDOWS if (window := getattr(config, name, None))]
    return bool(windows) and tokens > min(windows)


def _bias_numbers(model: Model, tokens: int, target_tokens: int) -> int:
    """T5's relative positions: one number for each head and pair, in each stack once and used by all its layers."""
    config = model.network.config.get_text_config()
    if not getattr(config, "relative_attention_num_buckets", None):
        return 0
    decoder = target_tokens * (target_tokens + tokens) if model.is_encoder_decoder else 0
    return config.num_attention_heads * (tokens**2 + decoder)


def _head_size(model: Model) -> int:
    config = model.network.config.get_text_config()
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def _rows(model: Model, parameter: str, tokens: int, target_tokens: int) -> int:
    """To how many tokens a parameter is applied: the decoder's to what it has written, but for cross-attention's keys."""
    if not model.is_encoder_decoder:
        return tokens
    match kind_of(parameter, is_encoder_decoder=True):
        case "cross" if set(parameter.split(".")) & _KEY_OR_VALUE:
            return tokens
        case "cross" | "decoder":
            return target_tokens
    return tokens


def _predictions(model: Model, tokens: int, target_tokens: int) -> int:
    """For how many positions the scores of the next token are computed."""
    if "logits_to_keep" in inspect.signature(model.network.forward).parameters:
        return 1
    return target_tokens if model.is_encoder_decoder else tokens


# --- clocks and words


def _fastest(action: Callable[[], object], times: int = 3) -> float:
    """Seconds; the first time of all, in which memory is fetched and kernels are chosen, does not count."""
    action()
    durations = []
    for _ in range(times - 1):
        start = time.perf_counter()
        action()
        durations.append(time.perf_counter() - start)
    return min(durations)


def _duration(seconds: float) -> str:
    if seconds < 0.95:
        return f"{max(seconds, 0.1):.1f} s"
    if seconds < 9.5:
        return f"{seconds:.0f} s"
    if seconds < 57.5:
        return f"{5 * round(seconds / 5)} s"
    minutes = max(1, round(seconds / 60))
    return "1 minute" if minutes == 1 else f"{minutes} minutes"


def _size(count: int) -> str:
    if count < 999_500_000:
        return f"{max(1, round(count / 1e6))} MB"
    return f"{count / 1e9:.1f} GB"
