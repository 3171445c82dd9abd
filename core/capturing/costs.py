"""The memory of a pass and its operations, counted from the model's configuration and parameters before it starts.

target_tokens is everywhere the number of tokens of an encoder-decoder model's decoder.
"""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from ..models.calls import IMPLEMENTATIONS
from ..models.model import Model
from ..models.modules import kind_of
from .capture import capture
from .continuing import MAX_BYTES

# Names in configurations of the width of the MLPs' hidden layer, and of a limit to how far a head looks.
_MLP_WIDTHS = ("intermediate_size", "ffn_dim", "encoder_ffn_dim", "d_ff", "hidden_dim", "n_inner")
_WINDOWS = ("sliding_window", "local_attention")
# Fused projections: a value that is a part of their result keeps queries and keys before rotation in memory, too.
_FUSED = {"query_key_value", "qkv_proj", "Wqkv"}
_KEY_OR_VALUE = {"k", "v", "k_proj", "v_proj"}


def operations(model: Model, tokens: int, *, target_tokens: int = 1, cached: int = 0) -> tuple[int, int]:
    """Count the operations of one pass: (those with parameters, those between tokens). Half of them are multiplications.

    cached  number of tokens of the growing text whose keys and values are cached, as is then the text that an encoder has
            read; the other tokens are computed

    2 for each parameter and each token that it is applied to, without tables of embeddings, and with the prediction of one
    next token; 4 × d_head for each pair of a query and a key in each head, half of all pairs if attention is causal.
    Kaplan et al. 2020, https://arxiv.org/abs/2001.08361, table 1. Layers that share parameters (ALBERT) count once, and all
    experts count where each token uses a few (gpt-oss).
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
    # torch's fused kernel skips the blocks of keys that no query of a block may attend to.
    layers = _layers(model, tokens, target_tokens, cached)
    pairs = sum(queries * keys - (queries * (queries - 1) // 2 if causal else 0) for queries, keys, causal in layers)
    heads = _largest(model.text_config, "num_attention_heads")
    return 2 * sum(applied.values()), 4 * heads * _head_size(model) * pairs


def kept_bytes(model: Model, tokens: int, *, target_tokens: int = 1) -> int:
    """Bytes of the queries, keys, values and outputs of all layers, of their masks and biases, and of what they returned."""
    return call_bytes(model, tokens, target_tokens=target_tokens) + _returned_bytes(model, tokens, target_tokens)


def call_bytes(model: Model, tokens: int, *, target_tokens: int = 1) -> int:
    """Of these only the bytes of queries, keys, values, outputs, masks and biases."""
    config = model.text_config
    heads = _largest(config, "num_attention_heads")
    key_heads = _largest(config, "num_key_value_heads") or heads
    rows = sum(queries * heads + keys * key_heads for queries, keys, _ in _layers(model, tokens, target_tokens))
    fused = any(name.rpartition(".")[2] in _FUSED for name, _ in model.network.named_modules())
    # A layer that attends twice (DiffLlama) has two values and outputs for each query and key.
    parts = 2 if any(name.endswith("lambda_q1") for name, _ in model.network.named_parameters()) else 1
    numbers = (1 + parts + fused) * rows * _head_size(model) + _bias_numbers(model, tokens, target_tokens)
    return numbers * model.network.dtype.itemsize + _mask_bytes(model, tokens, target_tokens)


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
    config, names = model.network.config, [name for name, _ in model.network.named_parameters()]
    config = getattr(config, "vision_config", config)
    width = getattr(config, "hidden_size", model.text_config.hidden_size)  # a tower of several parts does not say it
    inner = getattr(config, "intermediate_size", 4 * width)
    if pixels.ndim == 2:  # the processor has cut it into patches
        patches, is_fused = len(pixels), any("visual" in name and ".qkv." in name for name in names)
    elif pixels.ndim == 3:  # and has filled them up to a fixed number, so that there is a mask
        patches, is_fused = pixels.shape[1], False
    else:
        height, side = pixels.shape[-2:], np.broadcast_to(getattr(config, "patch_size", 16), 2)
        has_class = any(name.endswith(("class_embedding", "cls_token")) for name in names)
        patches = pixels[..., 0, 0].numel() // 3 * (int(np.prod(np.array(height) // side)) + has_class)
        is_fused = False
    layers = list(model.kinds.values()).count("vision")
    size = model.network.dtype.itemsize
    kept = layers * patches * width * (6 if is_fused else 4) * size
    mask = (tokens**2 if "token_type_ids" in inputs else 0) + (patches**2 if pixels.ndim == 3 else 0)
    passing = 2 * patches * (width + inner) * size + 3 * pixels.nbytes
    return kept + mask + call_bytes(model, tokens), max(passing, passing_bytes(model, tokens))


# --- the parts of a model


def _layers(model: Model, tokens: int, target_tokens: int, cached: int = 0) -> Iterator[tuple[int, int, bool]]:
    """(queries, keys, whether the pairs after each query are skipped) of each attention call."""
    config, written = model.text_config, target_tokens - cached
    # With a mask, as of a window, torch's kernel goes through all pairs.
    one_way = model.has_language_model_head and not model.is_encoder_decoder
    causal = one_way and not (_is_windowed(model, tokens) or _masks_always(model))
    queries = tokens - cached if not model.is_encoder_decoder else 0 if cached else tokens
    for _ in range(config.num_hidden_layers):
        yield queries, tokens, causal
    for _ in range(_decoder_layers(model)):
        yield written, target_tokens, not _masks_always(model)
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


def _is_windowed(model: Model, tokens: int) -> bool:
    """Whether some layer has a sliding window that is shorter than the text."""
    windows = [window for name in _WINDOWS if (window := getattr(model.text_config, name, None))]
    return bool(windows) and tokens > min(windows)


def _mask_bytes(model: Model, tokens: int, target_tokens: int) -> int:
    """Bytes of the masks, which layers share: of windows; where torch's function does not leave it out, of each causal kind. A
    layer that chooses keys for each query (DeepSeek V3.2) has a mask of its own."""
    if getattr(model.text_config, "index_topk", None):
        return model.text_config.num_hidden_layers * tokens**2
    if not (model.has_language_model_head and _masks_always(model)):
        return tokens**2 if _is_windowed(model, tokens) else 0
    kinds = len({*(getattr(model.text_config, "layer_types", None) or [""])})
    return kinds * (target_tokens if model.is_encoder_decoder else tokens) ** 2


def _masks_always(model: Model) -> bool:
    return model.network.config._attn_implementation == IMPLEMENTATIONS["eager"]


def _bias_numbers(model: Model, tokens: int, target_tokens: int) -> int:
    """Numbers of T5's position biases: one for each head and pair, which all layers of a stack share."""
    config = model.text_config
    if not getattr(config, "relative_attention_num_buckets", None):
        return 0
    decoder = target_tokens * (target_tokens + tokens) if model.is_encoder_decoder else 0
    return config.num_attention_heads * (tokens**2 + decoder)


def _head_size(model: Model) -> int:
    config = model.text_config
    return _largest(config, "head_dim") or config.hidden_size // _largest(config, "num_attention_heads")


def _largest(config: Any, name: str) -> Any:
    """A field of a configuration, the largest where each layer has its own (Gemma 4); None if there is no such field."""
    try:
        return getattr(config, name, None)
    except RuntimeError:  # transformers' word for a field of layers that is asked of the whole
        return max(getattr(layer, name) for layer in config.per_layer_config)


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
