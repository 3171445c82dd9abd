"""Before a long run: how long it will take, and how much memory.

Memory and operations are counted from the model's configuration and parameters; how fast this machine does them is learned from
what it has done (`core.capturing.speeds`).
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch

from ..errors import InputError
from ..models.model import Model
from ..models.modules import kind_of
from ..units import bytes_in_words, seconds_in_words
from .capture import capture
from .speeds import Run, Speeds, Work

# What configurations call the width of the hidden layer of their MLPs, and a limit to how far a head looks.
_MLP_WIDTHS = ("intermediate_size", "ffn_dim", "encoder_ffn_dim", "d_ff", "hidden_dim", "n_inner")
_WINDOWS = ("sliding_window", "local_attention")
# A value that is cut out of one projection of all three keeps the queries and keys before their rotation in memory too.
_FUSED = {"query_key_value", "qkv_proj", "Wqkv"}
_KEY_OR_VALUE = {"k", "v", "k_proj", "v_proj"}

# What else things cost, as timed on both offline models. Only how a short text compares with a long one depends on it, and
# measuring with reading while nothing has been measured: how fast the machine is, is learned.
_FETCHING = 16  # tokens in whose time the parameters are fetched from memory
_WEIGHT = 700  # operations in whose time an attention weight is measured
_QUERY = 130  # weights in whose time a query of a head is summed up, however few keys it has
_LAYER = 76_000  # weights in whose time a layer is prepared

_DOUBT = 10  # by how much an estimate may be too long that has less to go by
_TRIAL_TOKENS, _TRIAL_SECONDS = 64, 0.3
_WORTH_A_TRIAL = 1.0  # seconds that work seems to take


@dataclass(frozen=True)
class Estimate:
    """What a run will need, roughly.

    seconds        for the pass, and for measuring every head where that was asked for
    known          whether runs of about that size tell; otherwise the seconds may be wrong several times over
    kept_bytes     what a capture keeps for as long as it is there
    passing_bytes  what the pass needs above that while it runs
    """

    seconds: float
    known: bool
    kept_bytes: int
    passing_bytes: int

    @property
    def at_least(self) -> float:
        """Seconds that it takes even if the estimate is as much too long as it may be."""
        return self.seconds if self.known else self.seconds / _DOUBT

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
        # torch's fused kernel leaves out the blocks of keys that no query of a block may attend to. The last query sees all.
        forbidden = self.queries * (self.queries - 1) // 2 if self.causal else 0
        return self.queries * self.keys - forbidden


def estimate(model: Model, tokens: int, speeds: Speeds, *, measuring: bool = False, target_tokens: int = 1) -> Estimate:
    """What it needs to capture so many tokens, and to measure every head if `measuring`.

    speeds         what this machine has been seen to do; where that is too little to judge long work by, the model is tried
                   out for a moment
    target_tokens  how many the decoder of an encoder-decoder has written

    Raises InputError for less than one token and for models that read images (field "model"), whose length is always the
    same; and whatever capturing raises for models that cannot be captured.
    """
    if model.reads_images:
        raise InputError(f"{model.name} reads images; times are estimated for texts only.", field="model")
    if tokens < 1 or target_tokens < 1:
        raise InputError(f"{min(tokens, target_tokens)} tokens cannot be read; at least 1 is needed.", field="tokens")
    work: dict[Work, int] = {"reading": reading_operations(model, tokens, target_tokens=target_tokens)}
    if measuring:
        work["measuring"] = measuring_operations(model, tokens)

    def from_runs() -> tuple[float, bool]:
        seconds, known = zip(*(speeds.seconds(model.label, *part) for part in work.items()), strict=True)
        return sum(seconds), all(known)

    seconds, known = from_runs()
    if not known and seconds > _WORTH_A_TRIAL and not _was_tried_out(model, speeds):
        speeds.learn(try_out(model))
        seconds, known = from_runs()
    return Estimate(
        seconds=seconds,
        known=known,
        kept_bytes=kept_bytes(model, tokens, target_tokens=target_tokens),
        passing_bytes=passing_bytes(model, tokens, target_tokens=target_tokens),
    )


def reading_operations(model: Model, tokens: int, *, target_tokens: int = 1) -> int:
    """What one pass costs: its operations, and the fetching of the parameters."""
    linear, _ = operations(model, tokens + _FETCHING, target_tokens=target_tokens)
    _, attention = operations(model, tokens, target_tokens=target_tokens)
    return linear + attention


def measuring_operations(model: Model, tokens: int) -> int:
    """What measuring every head costs after the pass, in operations of the pass.

    Of an encoder-decoder the heads of the encoder.
    """
    config = model.network.config.get_text_config()
    pairs = _Attention(tokens, tokens, causal=not _reads_both_ways(model)).pairs
    weights = config.num_attention_heads * (pairs + _QUERY * tokens) + _LAYER
    return _WEIGHT * config.num_hidden_layers * weights


def try_out(model: Model, clock: Callable[[], float] = time.perf_counter) -> Run:
    """A pass over a few random tokens, twice if there is time: the first fetches the model from memory.

    It ends at the layer after which 0.3 seconds have gone by; what has been done until then stands for the rest.
    """
    tokens = _trial_tokens(model)
    ids = np.random.default_rng(0).integers(model.network.config.get_text_config().vocab_size, size=tokens)
    times = [clock()]

    def tell(_: int) -> None:
        times.append(clock())
        if times[-1] - times[0] >= _TRIAL_SECONDS:
            raise _TimeIsUp

    with suppress(_TimeIsUp):
        for _ in range(2):
            capture(model, input_ids=ids, on_progress=tell)
    calls = model.attention_calls or 1
    last = times[-calls - 1 :]
    seconds = (last[-1] - last[0]) / (len(last) - 1) * calls
    return Run(model.label, "reading", reading_operations(model, tokens), seconds)


def _was_tried_out(model: Model, speeds: Speeds) -> bool:
    """Or has lately read a text of that length."""
    least = reading_operations(model, _trial_tokens(model))
    return any(run.operations >= least for run in speeds.latest(model.label, "reading"))


def _trial_tokens(model: Model) -> int:
    return min(_TRIAL_TOKENS, model.max_tokens or _TRIAL_TOKENS)


class _TimeIsUp(Exception):
    pass


def operations(model: Model, tokens: int, *, target_tokens: int = 1, cached: int = 0) -> tuple[int, int]:
    """Additions and multiplications of one pass: (those with parameters, those between tokens), as many of one as of the other.

    cached  how many tokens of the growing text have their keys and values in a cache, and with them the text that an encoder
            has read; the others are computed

    2 for each parameter and token it is applied to, tables of embeddings left out and the prediction of the next token
    counted once; 4 × d_head for each pair of a query and a key in each head, half of all pairs if attention is causal.
    Kaplan et al. 2020, https://arxiv.org/abs/2001.08361, table 1. Layers that share parameters (ALBERT) are counted
    once, experts of which each token uses a few (gpt-oss) all; rates measured on the same model make up for both.
    """
    network = model.network
    applied = {
        id(parameter): parameter.numel() * _rows(model, name, tokens, target_tokens, cached)
        for name, parameter in network.named_parameters()
    }
    for module in network.modules():
        if isinstance(module, torch.nn.Embedding):
            applied.pop(id(module.weight), None)
    predicting = network.get_output_embeddings() if model.has_language_model_head else None
    if predicting is not None:
        applied[id(predicting)] = predicting.weight.numel() * _predictions(
            model, tokens - cached, target_tokens - cached
        )
        applied.pop(id(predicting.weight), None)
    return 2 * sum(applied.values()), 4 * _head_size(model) * _pairs(model, tokens, target_tokens, cached)


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


def in_words(estimate: Estimate) -> str:
    """Such as "about 20 s and 1.3 GB". 1 GB is 10⁹ bytes."""
    return f"about {seconds_in_words(estimate.seconds)} and {bytes_in_words(estimate.memory_bytes)}"


# --- the parts of a model


def _layers(model: Model, tokens: int, target_tokens: int, cached: int = 0) -> Iterator[_Attention]:
    config = model.network.config.get_text_config()
    both_ways = _reads_both_ways(model)
    # A window is a mask, and with a mask torch's kernel goes through all pairs.
    causal = not both_ways and not _is_windowed(model, tokens)
    read = tokens - cached if not model.is_encoder_decoder else 0 if cached else tokens
    for _ in range(config.num_hidden_layers):
        yield _Attention(read, tokens, causal)
    if model.is_encoder_decoder:
        decoder_layers = getattr(config, "decoder_layers", None) or getattr(config, "num_decoder_layers", 0)
        for _ in range(decoder_layers):
            yield _Attention(target_tokens - cached, target_tokens, True)
            yield _Attention(target_tokens - cached, tokens, False)


def _pairs(model: Model, tokens: int, target_tokens: int, cached: int) -> int:
    """Pairs of a query and a key in all layers and heads."""
    heads = model.network.config.get_text_config().num_attention_heads
    return heads * sum(layer.pairs for layer in _layers(model, tokens, target_tokens, cached))


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


def _rows(model: Model, parameter: str, tokens: int, target_tokens: int, cached: int) -> int:
    """To how many tokens a parameter is applied: the decoder's to what it has written, but for cross-attention's keys."""
    if not model.is_encoder_decoder:
        return tokens - cached
    encoded = 0 if cached else tokens
    match kind_of(parameter, is_encoder_decoder=True):
        case "cross" if set(parameter.split(".")) & _KEY_OR_VALUE:
            return encoded
        case "cross" | "decoder":
            return target_tokens - cached
    return encoded


def _predictions(model: Model, tokens: int, target_tokens: int) -> int:
    """For how many positions the scores of the next token are computed."""
    if "logits_to_keep" in inspect.signature(model.network.forward).parameters:
        return 1
    return target_tokens if model.is_encoder_decoder else tokens
