"""Estimates of the time and the memory of a run, before it starts.

Memory and operations are counted from the model's configuration and parameters. The speed of this machine is learned from the
runs that it has done: a busy machine is slower, and its latest runs predict the next one best.
"""

from __future__ import annotations

import inspect
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Literal

import numpy as np
import torch

from ..errors import InputError
from ..models.model import Model
from ..models.modules import kind_of
from ..units import bytes_in_words, seconds_in_words
from .capture import capture
from .continuing import MAX_BYTES

Work = Literal["reading", "measuring"]

# Names in configurations of the width of the MLPs' hidden layer, and of a limit to how far a head looks.
_MLP_WIDTHS = ("intermediate_size", "ffn_dim", "encoder_ffn_dim", "d_ff", "hidden_dim", "n_inner")
_WINDOWS = ("sliding_window", "local_attention")
# Fused projections: a value that is a part of their result keeps queries and keys before rotation in memory, too.
_FUSED = {"query_key_value", "qkv_proj", "Wqkv"}
_KEY_OR_VALUE = {"k", "v", "k_proj", "v_proj"}

# Further costs, measured on both offline models. They matter for short texts compared with long ones, and for measuring
# compared with reading before anything has been measured; the speed of the machine is learned.
_FETCHING = 16  # fetching the parameters from memory takes as long as computing so many tokens
_WEIGHT = 700  # measuring an attention weight takes as long as so many operations
_QUERY = 130  # summing up a query of a head takes as long as measuring so many weights
_LAYER = 76_000  # preparing a layer takes as long as measuring so many weights

_ASSUMED = 2e-11  # seconds an operation, as long as nothing has run
_RUNS = 8  # number of latest runs of a model that count
_FADING = 0.7  # the weight of a run, relative to the run after it
_ENOUGH = 0.1  # the total weight from which an estimate counts as known: one run of a tenth of the size
_DOUBT = 10  # an estimate that too few runs support may be too long by this factor
_TRIAL_TOKENS, _TRIAL_SECONDS = 64, 0.3
_WORTH_A_TRIAL = 1.0  # the estimated seconds from which a model is tried out


# --- the speed of this machine


@dataclass(frozen=True)
class Run:
    """The cost of a run, timed elsewhere: operations as they are counted below, and seconds.

    model  the model's label: in another dtype or on another device its speed is that of another model
    """

    model: str
    work: Work
    operations: int
    seconds: float


class Speeds:
    """The speed of this machine with its models, learned from runs. Threads may share it."""

    def __init__(self) -> None:
        self._runs: deque[Run] = deque(maxlen=16 * _RUNS)
        self._lock = Lock()

    def learn(self, run: Run) -> None:
        with self._lock:
            self._runs.append(run)

    def latest(self, model: str, work: Work) -> list[Run]:
        """The latest runs of a model and kind of work, the last one last."""
        with self._lock:
            return [run for run in self._runs if (run.model, run.work) == (model, work)][-_RUNS:]

    def seconds(self, model: str, work: Work, operations: int) -> tuple[float, bool]:
        """Estimate the seconds of so many operations: (seconds, whether runs of about this size support the estimate).

        The estimate is the weighted median of seconds an operation over the latest runs of this model and kind of work. A run
        counts less the more it differs in size and the more runs came after it. With too few runs of measuring, those of
        reading count too, since the first measurements are mostly preparation. Without any run a speed is assumed.
        """
        runs = self.latest(model, work)
        by_reading = []
        if work == "measuring" and self.latest(model, "reading"):
            by_reading = [self.seconds(model, "reading", operations)[0]]
        if not runs:
            return (by_reading or [operations * _ASSUMED])[0], False
        sizes = np.array([run.operations for run in runs], dtype=float)
        rates = np.array([run.seconds for run in runs]) / sizes
        counts = np.minimum(sizes / operations, operations / sizes) * _FADING ** np.arange(len(runs))[::-1]
        rate = np.quantile(rates, 0.5, weights=counts, method="inverted_cdf")
        seconds, known = operations * float(rate), bool(counts.sum() >= _ENOUGH)
        return seconds if known else min([seconds, *by_reading]), known


# --- estimates


@dataclass(frozen=True)
class Estimate:
    """The estimated time and memory of a run.

    seconds        of the pass, and of measuring every head if that is part of the run
    known          whether earlier runs of about that size support the estimate; otherwise it may be wrong several times over
    kept_bytes     memory of the capture
    passing_bytes  further memory that the pass needs while it runs
    """

    seconds: float
    known: bool
    kept_bytes: int
    passing_bytes: int

    @property
    def at_least(self) -> float:
        """The shortest time that the run may take, in seconds."""
        return self.seconds if self.known else self.seconds / _DOUBT

    @property
    def memory_bytes(self) -> int:
        """The peak of memory, apart from the loaded model."""
        return self.kept_bytes + self.passing_bytes


def in_words(estimate: Estimate) -> str:
    """An estimate in words: "about 20 s and 1.3 GB"."""
    return f"about {seconds_in_words(estimate.seconds)} and {bytes_in_words(estimate.memory_bytes)}"


def estimate(model: Model, tokens: int, speeds: Speeds, *, measuring: bool = False, target_tokens: int = 1) -> Estimate:
    """Estimate the time and memory of capturing a text, and of measuring every head if `measuring`.

    tokens         number of tokens of the text
    speeds         the speed of this machine; if too little is known for long work, the model is tried out for a moment
    target_tokens  number of tokens of an encoder-decoder model's decoder

    Raises InputError for less than one token and for models that read images (field "model"), whose inputs always have the
    same length; and the errors of `capture` for models that cannot be captured.
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
    if not known and seconds > _WORTH_A_TRIAL:
        trial = reading_operations(model, _trial_tokens(model))
        if all(run.operations < trial for run in speeds.latest(model.label, "reading")):
            speeds.learn(try_out(model))
            seconds, known = from_runs()
    memory = (count(model, tokens, target_tokens=target_tokens) for count in (kept_bytes, passing_bytes))
    return Estimate(seconds, known, *memory)


def try_out(model: Model, clock: Callable[[], float] = time.perf_counter) -> Run:
    """Time a pass over a few random tokens, twice if there is time: the first pass also fetches the model from memory.

    The trial ends after 0.3 seconds at the next layer; the layers until then stand for the others.
    """
    tokens = _trial_tokens(model)
    ids = np.random.default_rng(0).integers(model.text_config.vocab_size, size=tokens)
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


class _TimeIsUp(Exception):
    """The trial has taken long enough."""


def _trial_tokens(model: Model) -> int:
    return min(_TRIAL_TOKENS, model.max_tokens or _TRIAL_TOKENS)


# --- operations and bytes, counted; target_tokens: of an encoder-decoder model's decoder


def reading_operations(model: Model, tokens: int, *, target_tokens: int = 1) -> int:
    """The cost of one pass: its operations, and fetching the parameters."""
    linear, _ = operations(model, tokens + _FETCHING, target_tokens=target_tokens)
    _, attention = operations(model, tokens, target_tokens=target_tokens)
    return linear + attention


def measuring_operations(model: Model, tokens: int) -> int:
    """The cost of measuring every head after the pass, in operations of a pass.

    In an encoder-decoder model these are the heads of the encoder.
    """
    config = model.text_config
    pairs = _pairs(tokens, tokens, not _reads_both_ways(model))
    weights = config.num_attention_heads * (pairs + _QUERY * tokens) + _LAYER
    return _WEIGHT * config.num_hidden_layers * weights


def operations(model: Model, tokens: int, *, target_tokens: int = 1, cached: int = 0) -> tuple[int, int]:
    """Count the operations of one pass: (those with parameters, those between tokens). Half of them are multiplications.

    cached  number of tokens of the growing text whose keys and values are cached, as is then the text that an encoder has
            read; the other tokens are computed

    2 for each parameter and each token that it is applied to, without tables of embeddings, and with the prediction of one
    next token; 4 × d_head for each pair of a query and a key in each head, half of all pairs if attention is causal.
    Kaplan et al. 2020, https://arxiv.org/abs/2001.08361, table 1. Layers that share parameters (ALBERT) count once, and all
    experts count where each token uses a few (gpt-oss); speeds measured on the same model make up for both.
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
        predictions = _predictions(model, tokens - cached, target_tokens - cached)
        applied[id(predicting)] = predicting.weight.numel() * predictions
        applied.pop(id(predicting.weight), None)
    pairs = sum(_pairs(*layer) for layer in _layers(model, tokens, target_tokens, cached))
    return 2 * sum(applied.values()), 4 * model.text_config.num_attention_heads * _head_size(model) * pairs


def kept_bytes(model: Model, tokens: int, *, target_tokens: int = 1) -> int:
    """Bytes of the queries, keys, values and outputs of all layers, of their masks and biases, and of what they returned."""
    return _call_bytes(model, tokens, target_tokens) + _returned_bytes(model, tokens, target_tokens)


def _call_bytes(model: Model, tokens: int, target_tokens: int) -> int:
    config = model.text_config
    heads = config.num_attention_heads
    key_heads = getattr(config, "num_key_value_heads", None) or heads
    rows = sum(queries * heads + keys * key_heads for queries, keys, _ in _layers(model, tokens, target_tokens))
    fused = any(name.rpartition(".")[2] in _FUSED for name, _ in model.network.named_modules())
    numbers = (3 if fused else 2) * rows * _head_size(model) + _bias_numbers(model, tokens, target_tokens)
    return numbers * model.network.dtype.itemsize + (tokens**2 if _is_windowed(model, tokens) else 0)


def component_bytes(model: Model, tokens: int, *, target_tokens: int = 1) -> int:
    """Bytes that a pass with components keeps beyond those of `kept_bytes`; it keeps nothing of what its layers returned.

    Counted in passes over one and two tokens, since what is kept grows linearly. So this also tells whether the model can be
    taken apart. Raises InputError as `capture` does.
    """

    def kept(read: int, written: int) -> int:
        target = [3] * (written - 1) if model.is_encoder_decoder else None
        components = capture(model, input_ids=[3] * read, target=target, components=True).components
        assert components is not None
        return components.nbytes

    first = kept(1, 1)
    further = (tokens - 1) * (kept(2, 1) - first)
    if target_tokens > 1:
        further += (target_tokens - 1) * (kept(1, 2) - first)
    return first + further - _returned_bytes(model, tokens, target_tokens)


def passing_bytes(model: Model, tokens: int, *, target_tokens: int = 1) -> int:
    """Bytes that a pass needs at its peak besides what is kept: one layer's activations and the logits, roughly.

    The activations are twice the residual stream and three times the hidden layer of a gated MLP, and if torch's fused
    attention cannot be used (soft caps, sinks), also three times the scores of all heads of a layer.
    """
    config, width = model.text_config, model.text_config.hidden_size
    inner = next((size for name in _MLP_WIDTHS if (size := getattr(config, name, None))), 4 * width)
    longest = max(tokens, target_tokens) if model.is_encoder_decoder else tokens
    numbers = longest * (2 * width + 3 * inner) + _bias_numbers(model, tokens, target_tokens)
    has_sinks = any(name.endswith("sinks") for name, _ in model.network.named_parameters())
    if has_sinks or getattr(config, "attn_logit_softcapping", None):
        numbers += 3 * config.num_attention_heads * longest**2
    if model.has_language_model_head:
        numbers += 2 * config.vocab_size * _predictions(model, tokens, target_tokens)
    return numbers * model.network.dtype.itemsize


def image_bytes(model: Model, inputs: Mapping[str, torch.Tensor]) -> tuple[int, int]:
    """Bytes of a pass over an image with a text: (those that are kept, further ones at its peak), before anything is computed.

    inputs  from `core.models.inputs.image_text_inputs`: the processor has cut the image into tiles and patches already

    The vision tower keeps the queries, keys, values and outputs of all its patches, and at its peak needs two layers' worth of
    its stream and of the hidden layer of its MLP. Text and image tokens count as in `kept_bytes` and `passing_bytes`, with the
    mask of models whose image tokens see each other; what layers returned is not kept.
    """
    tokens, pixels = inputs["input_ids"].shape[1], inputs["pixel_values"]
    config, names = model.network.config.vision_config, [name for name, _ in model.network.named_parameters()]
    width, inner = config.hidden_size, getattr(config, "intermediate_size", 4 * config.hidden_size)
    if pixels.ndim == 2:  # the processor has cut it into patches
        patches, is_fused = len(pixels), any("visual" in name and ".qkv." in name for name in names)
    else:
        height, side = pixels.shape[-2:], np.broadcast_to(config.patch_size, 2)
        has_class = any(name.endswith(("class_embedding", "cls_token")) for name in names)
        patches = pixels[..., 0, 0].numel() // 3 * (int(np.prod(np.array(height) // side)) + has_class)
        is_fused = False
    layers = list(model.kinds.values()).count("vision")
    size = model.network.dtype.itemsize
    kept = layers * patches * width * (6 if is_fused else 4) * size
    mask = tokens**2 if "token_type_ids" in inputs else 0
    passing = 2 * patches * (width + inner) * size + 3 * pixels.nbytes
    return kept + mask + _call_bytes(model, tokens, 1), max(passing, passing_bytes(model, tokens))


# --- the parts of a model


def _layers(model: Model, tokens: int, target_tokens: int, cached: int = 0) -> Iterator[tuple[int, int, bool]]:
    """(queries, keys, whether the pairs after each query are skipped) of each attention call."""
    config, written = model.text_config, target_tokens - cached
    # A window is a mask, and with a mask torch's kernel goes through all pairs.
    causal = not _reads_both_ways(model) and not _is_windowed(model, tokens)
    queries = tokens - cached if not model.is_encoder_decoder else 0 if cached else tokens
    for _ in range(config.num_hidden_layers):
        yield queries, tokens, causal
    for _ in range(_decoder_layers(model)):
        yield written, target_tokens, True
        yield written, tokens, False


def _returned_bytes(model: Model, tokens: int, target_tokens: int) -> int:
    """Bytes of what all layers returned, as far as they are kept."""
    config = model.text_config
    numbers = config.hidden_size * (config.num_hidden_layers * tokens + _decoder_layers(model) * target_tokens)
    return min(numbers * model.network.dtype.itemsize, MAX_BYTES)


def _decoder_layers(model: Model) -> int:
    """Number of layers of an encoder-decoder model's decoder; 0 for any other model."""
    config = model.text_config
    if not model.is_encoder_decoder:
        return 0
    return getattr(config, "decoder_layers", None) or getattr(config, "num_decoder_layers", 0)


def _pairs(queries: int, keys: int, causal: bool) -> int:
    """Number of pairs that are computed, if the last query sees all keys."""
    # torch's fused kernel skips the blocks of keys that no query of a block may attend to.
    return queries * keys - (queries * (queries - 1) // 2 if causal else 0)


def _reads_both_ways(model: Model) -> bool:
    return model.is_encoder_decoder or not model.has_language_model_head


def _is_windowed(model: Model, tokens: int) -> bool:
    """Whether some layer has a sliding window that is shorter than the text."""
    windows = [window for name in _WINDOWS if (window := getattr(model.text_config, name, None))]
    return bool(windows) and tokens > min(windows)


def _bias_numbers(model: Model, tokens: int, target_tokens: int) -> int:
    """Numbers of T5's position biases: one for each head and pair, which all layers of a stack share."""
    config = model.text_config
    if not getattr(config, "relative_attention_num_buckets", None):
        return 0
    decoder = target_tokens * (target_tokens + tokens) if model.is_encoder_decoder else 0
    return config.num_attention_heads * (tokens**2 + decoder)


def _head_size(model: Model) -> int:
    config = model.text_config
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def _rows(model: Model, parameter: str, tokens: int, target_tokens: int, cached: int) -> int:
    """Number of tokens that a parameter is applied to: the decoder's own, except for the keys of cross-attention."""
    if not model.is_encoder_decoder:
        return tokens - cached
    kind = kind_of(parameter, is_encoder_decoder=True)
    reads_encoder = kind == "encoder" or (kind == "cross" and set(parameter.split(".")) & _KEY_OR_VALUE)
    return target_tokens - cached if not reads_encoder else 0 if cached else tokens


def _predictions(model: Model, tokens: int, target_tokens: int) -> int:
    """Number of positions at which logits are computed."""
    if "logits_to_keep" in inspect.signature(model.network.forward).parameters:
        return 1
    return target_tokens if model.is_encoder_decoder else tokens
