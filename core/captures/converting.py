"""Passes that other libraries recorded, as files: a TransformerLens cache, or the attention calls of an nnsight trace.

Neither library is needed or imported here. Where something is lacking, or is not what a pass holds, the certificates of the
opened file are red.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError, model_error
from ..record_pass import BEST, SHAPING, WITHOUT_EFFECT, BatchError, BatchText, PassFile, causal_alone, vocabulary


@contextmanager
def _of_batch() -> Iterator[None]:
    """What is wrong with a batch as an InputError."""
    try:
        yield
    except BatchError as error:
        raise InputError(str(error), field=error.field) from None


@_of_batch()
def save_transformer_lens(
    bridge: Any,
    cache: Mapping[str, Tensor],
    input_ids: Any,
    path: str | os.PathLike[str],
    logits: Tensor,
    *,
    row: int = 0,
    attention_mask: Any = None,
    position_ids: Any = None,
) -> None:
    """Write what `logits, cache = bridge.run_with_cache(...)` of a TransformerBridge returned for one text.

    input_ids, row, attention_mask, position_ids  as in `save_nnsight`

    Raises InputError: field "model" for attention whose scores are more than scaled and capped dot products; others as
    `save_nnsight`.
    """
    config, file = bridge.cfg, PassFile()
    unusual = config.positional_embedding_type in ("alibi", "relative_positional_bias") or config.use_local_attn
    if unusual or config.attention_dir not in ("causal", "bidirectional"):
        raise model_error(
            "A cache of TransformerLens holds no masks and biases other than the causal mask. Record this model with "
            "record_pass.py."
        )
    batch, tokens, *_ = cache["blocks.0.attn.hook_v"].shape
    text = BatchText((batch, tokens), input_ids, row, attention_mask, position_ids, bridge.tokenizer)
    for layer in range(config.n_layers):
        at = f"blocks.{layer}.attn."
        names = {
            part: f"{at}hook_rot_{part}" if f"{at}hook_rot_{part}" in cache else f"{at}hook_{part}" for part in "qk"
        }
        found = {"query": names["q"], "key": names["k"], "value": f"{at}hook_v", "output": f"{at}hook_z"}
        arrays = {part: text.of_heads(cache[name].transpose(1, 2)) for part, name in found.items()}
        softcap = config.attn_scores_soft_cap if config.attn_scores_soft_cap > 0 else None
        divisor = arrays["query"].shape[2] ** 0.5 if config.attn_scale <= 0 else config.attn_scale
        scale = 1 / divisor if config.use_attn_scale else 1.0
        file.add("self", layer, arrays, causal=config.attention_dir == "causal", scale=scale, softcap=softcap, label="")
    _write(file, path, config.model_name, bridge.tokenizer, text, logits)


@_of_batch()
def save_nnsight(
    calls: Iterable[tuple[Any, Any]],
    name: str,
    tokenizer: Any,
    input_ids: Any,
    path: str | os.PathLike[str],
    logits: Tensor | None = None,
    *,
    row: int = 0,
    attention_mask: Any = None,
    position_ids: Any = None,
) -> None:
    """Write what an nnsight trace of a decoder or an encoder over one text has saved.

    calls  for each layer (inputs, output) of its call of transformers' attention function, saved in the trace as
           `layer.self_attn.source.attention_interface_1.inputs` and `.output`; `.source` prints the name in other architectures
    name   of the model
    input_ids       of the text, or of the whole batch; so are attention_mask and position_ids
    row             the text of the batch
    attention_mask  1 for its tokens and 0 for padding, which is left out. None: there is no padding
    position_ids    which the pass was given. They are needed where padding comes before the text

    Raises InputError: field "model" for an argument of the call that is not known here; "input_ids", "attention_mask",
    "position_ids" or "logits" where these do not fit the calls, or where the text attended to padding.
    """
    file, text = PassFile(), None
    for layer, (((module, query, key, value, *rest), options), (output, *_)) in enumerate(calls):
        known = WITHOUT_EFFECT | SHAPING.keys() | {"attention_mask"}
        if unknown := sorted(word for word in options.keys() - known if options[word] is not None):
            raise InputError(f"{', '.join(unknown)} of the attention call is not known here.", field="model")
        size, told = (query.shape[0], query.shape[2]), options.get("position_ids")
        positions = told if position_ids is None and isinstance(told, Tensor) and told.ndim < 3 else position_ids
        text = text or BatchText(size, input_ids, row, attention_mask, positions, tokenizer)
        mask = rest[0] if rest else options.get("attention_mask")
        ran = getattr(getattr(module, "config", None), "_attn_implementation", None)
        causal = causal_alone("eager" if ran == "eager" else "sdpa", module, query, mask, options.get("is_causal"))
        bias, sinks, scale = (options.get(word) for word in ("position_bias", "s_aux", "scaling"))
        inputs = {"query": query, "key": key, "value": value, "output": output.transpose(1, 2)}
        arrays = {part: text.of_heads(array) for part, array in inputs.items()}
        arrays |= {} if sinks is None else {"sinks": sinks.flatten()}
        file.add(
            "self",
            layer,
            arrays,
            mask=text.permissions(mask, text, causal=causal),
            bias=None if bias is None else text.of_pairs(bias, text),
            causal=causal,
            scale=query.shape[-1] ** -0.5 if scale is None else float(scale),
            softcap=options.get("softcap"),
            label="",
        )
    if text is None:
        raise InputError("There are no attention calls. Save those of every layer in the trace.", field="calls")
    _write(file, path, name, tokenizer, text, logits)


def _write(
    file: PassFile, path: str | os.PathLike[str], name: str, tokenizer: Any, text: BatchText, logits: Tensor | None
) -> None:
    """Write the file. logits: [batch, tokens, vocabulary] or less tokens, the last of them last"""
    ids, dtype = {*text.ids}, str(file.arrays["self.0.query"].dtype).removeprefix("torch.")
    file.arrays["input_ids"] = torch.tensor(text.ids)
    if logits is not None:
        if -text.last > logits.shape[1]:
            raise InputError(
                "There are no logits at the last token of the text, only at padding after it. Keep those of all tokens.",
                field="logits",
            )
        file.arrays["logits"] = logits[text.row, text.last].detach().float().cpu().contiguous()
        ids |= {*file.arrays["logits"].argsort(descending=True)[:BEST].tolist()}
    about = {"name": name, "revision": "not known", "dtype": dtype, "predicts": logits is not None, "both": False}
    file.save(path, model=about, vocabulary=None if tokenizer is None else vocabulary(tokenizer, ids))
