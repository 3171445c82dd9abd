"""Passes that other libraries recorded, as files: a TransformerLens cache, or the attention calls of an nnsight trace.

Neither library is needed or imported here. Where something is lacking, or is not what a pass holds, the certificates of the
opened file are red.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..record_pass import BEST, WITHOUT_EFFECT, PassFile, vocabulary


def save_transformer_lens(
    bridge: Any, cache: Mapping[str, Tensor], input_ids: Sequence[int], path: str | os.PathLike[str], logits: Tensor
) -> None:
    """Write what `logits, cache = bridge.run_with_cache(...)` of a TransformerBridge over one text returned.

    Raises InputError (field "model") for attention whose scores are more than scaled and capped dot products.
    """
    config, file = bridge.cfg, PassFile()
    unusual = config.positional_embedding_type in ("alibi", "relative_positional_bias") or config.use_local_attn
    if unusual or config.attention_dir not in ("causal", "bidirectional"):
        raise InputError(
            "A cache of TransformerLens holds no masks and biases other than the causal mask. Record this model with "
            "record_pass.py.",
            field="model",
        )
    for layer in range(config.n_layers):
        at = f"blocks.{layer}.attn."
        names = {
            part: f"{at}hook_rot_{part}" if f"{at}hook_rot_{part}" in cache else f"{at}hook_{part}" for part in "qk"
        }
        found = {"query": names["q"], "key": names["k"], "value": f"{at}hook_v", "output": f"{at}hook_z"}
        arrays = {part: cache[name][0].transpose(0, 1) for part, name in found.items()}
        softcap = config.attn_scores_soft_cap if config.attn_scores_soft_cap > 0 else None
        divisor = arrays["query"].shape[2] ** 0.5 if config.attn_scale <= 0 else config.attn_scale
        scale = 1 / divisor if config.use_attn_scale else 1.0
        file.add("self", layer, arrays, causal=config.attention_dir == "causal", scale=scale, softcap=softcap, label="")
    _write(file, path, config.model_name, bridge.tokenizer, input_ids, logits)


def save_nnsight(
    calls: Iterable[tuple[Any, Any]],
    name: str,
    tokenizer: Any,
    input_ids: Sequence[int],
    path: str | os.PathLike[str],
    logits: Tensor | None = None,
) -> None:
    """Write what an nnsight trace of a decoder or an encoder over one text has saved.

    calls  for each layer (inputs, output) of its call of transformers' attention function, saved in the trace as
           `layer.self_attn.source.attention_interface_1.inputs` and `.output`; `.source` prints the name in other architectures
    name   of the model

    Raises InputError (field "model") for an argument of the call that is not known here.
    """
    file = PassFile()
    for layer, (((module, query, key, value, *rest), options), (output, *_)) in enumerate(calls):
        known = {"scaling", "is_causal", "softcap", "s_aux", "position_bias", "sliding_window", "attention_mask"}
        if unknown := sorted(word for word in options.keys() - WITHOUT_EFFECT - known if options[word] is not None):
            raise InputError(f"{', '.join(unknown)} of the attention call is not known here.", field="model")
        mask = rest[0] if rest else options.get("attention_mask")
        is_causal = options.get("is_causal")
        is_causal = getattr(module, "is_causal", False) if is_causal is None else is_causal
        bias, sinks, scale = (options.get(word) for word in ("position_bias", "s_aux", "scaling"))
        arrays = {"query": query[0], "key": key[0], "value": value[0], "output": output[0].transpose(0, 1)}
        arrays |= {} if sinks is None else {"sinks": sinks.flatten()}
        file.add(
            "self",
            layer,
            arrays,
            mask=None if mask is None else mask[0],
            bias=None if bias is None else bias[0],
            causal=bool(is_causal) and mask is None and query.shape[2] > 1,
            scale=query.shape[-1] ** -0.5 if scale is None else float(scale),
            softcap=options.get("softcap"),
            label="",
        )
    _write(file, path, name, tokenizer, input_ids, logits)


def _write(
    file: PassFile,
    path: str | os.PathLike[str],
    name: str,
    tokenizer: Any,
    input_ids: Sequence[int],
    logits: Tensor | None,
) -> None:
    """Write the file. logits: [1, tokens, vocabulary] or less tokens, the last of them last"""
    ids, dtype = {*map(int, input_ids)}, str(file.arrays["self.0.query"].dtype).removeprefix("torch.")
    file.arrays["input_ids"] = torch.tensor([*map(int, input_ids)])
    if logits is not None:
        file.arrays["logits"] = logits[0, -1].detach().float().cpu().contiguous()
        ids |= {*file.arrays["logits"].argsort(descending=True)[:BEST].tolist()}
    about = {"name": name, "revision": "not known", "dtype": dtype, "predicts": logits is not None, "both": False}
    file.save(path, model=about, vocabulary=None if tokenizer is None else vocabulary(tokenizer, ids))
