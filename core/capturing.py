"""Running a model and keeping what each of its heads did.

transformers asks a registry which function computes attention. The function registered here computes it exactly as the
model would without us (torch's scaled_dot_product_attention, or the architecture's own eager code where that cannot) and
hands the queries, keys and values of the pass to the recorder of whoever started it. Nothing is patched, no hook is left
behind, and passes in different threads do not see each other. This is the only file that knows that function's signature.

What is kept grows linearly with the text; a head's [queries, keys] stages are computed when somebody asks for its trace.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch.nn.functional import pad
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from core.attention import AttentionTrace, attend
from core.calls import Call as Call
from core.calls import Kind as Kind
from core.calls import permissions, wide
from core.certifying import Certificate, certify_call
from core.errors import InputError, WeightsOnlyError
from core.images import patch_grid
from core.model_inputs import TooLongError as TooLongError
from core.model_inputs import image_inputs, run, target_ids, text_inputs
from core.tokens import token_texts
from core.weights_only import NoAttentionError, require_weights

if TYPE_CHECKING:
    from core.models import Model

IMPLEMENTATION = "headlight"

Watch = Callable[[int], None]


class _Recorder:
    """Keeps the attention calls of one pass, and says after each how many there have been."""

    def __init__(self, watch: Watch | None) -> None:
        self.calls: list[Call] = []
        self.watch = watch

    def keep(self, call: Call) -> None:
        parts = call.query.shape[0]
        if parts != 1:  # Swin's windows, for example
            raise WeightsOnlyError(
                f"{type(call.module).__name__} computes attention within {parts} separate parts of what it reads. "
                f"Such parts are not shown. Choose another model.",
                field="model",
            )
        self.calls.append(call)
        if self.watch is not None:
            self.watch(len(self.calls))


_recorder: ContextVar[_Recorder | None] = ContextVar("recorder", default=None)

# Arguments of an attention call that change nothing about its scores, or that the mask already contains.
_WITHOUT_EFFECT = {
    "cache_position",
    "cu_seq_lens_k",
    "cu_seq_lens_q",
    "deterministic",
    "head_mask",
    "layer_idx",
    "logits_to_keep",
    "max_length_k",
    "max_length_q",
    "num_items_in_batch",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "past_key_values",
    "position_embeddings",
    "position_ids",
    "return_dict",
    "seq_idx",
    "use_cache",
    "window_size",
}


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    position_bias: torch.Tensor | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    sliding_window: int | None = None,
    **others: object,
) -> tuple[torch.Tensor, None]:
    recorder = _recorder.get()
    unknown = sorted(name for name in others.keys() - _WITHOUT_EFFECT if others[name] is not None)
    if unknown and recorder is not None:
        raise WeightsOnlyError(
            f"{type(module).__name__} computes its attention with {', '.join(unknown)}, which is not understood here. "
            f"Its stages are not shown, because they would be wrong.",
            field="model",
        )
    is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    causal_without_mask = bool(is_causal) and attention_mask is None and query.shape[2] > 1
    if softcap is None and s_aux is None:
        output, _ = sdpa_attention_forward(
            module,
            query,
            key,
            value,
            attention_mask,
            dropout=dropout,
            scaling=scale,
            is_causal=is_causal,
            position_bias=position_bias,
        )
    else:
        output = _eager(module, query, key, value, attention_mask, causal_without_mask, scale, dropout, softcap, s_aux)
    if recorder is not None:
        recorder.keep(
            Call(
                module,
                query,
                key,
                value,
                attention_mask,
                causal_without_mask,
                scale,
                position_bias,
                softcap,
                s_aux,
                output,
                sliding_window,
            )
        )
    return output, None


def _eager(module, query, key, value, mask, causal_without_mask, scale, dropout, softcap, sinks) -> torch.Tensor:
    """The architecture's own attention code, for what torch's fused function cannot do (soft caps, sinks)."""
    own = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
    if own is None:
        raise WeightsOnlyError(
            f"{type(module).__name__} needs a soft cap or sinks but has no attention code of its own to compute them.",
            field="model",
        )
    if causal_without_mask:
        mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()[None, None]
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, torch.finfo(query.dtype).min)
    extras = {"softcap": softcap, "s_aux": sinks}
    extras = {name: extra for name, extra in extras.items() if extra is not None}
    output, _ = own(module, query, key, value, mask, scaling=scale, dropout=dropout, **extras)
    return output


AttentionInterface.register(IMPLEMENTATION, _attention)
# Without a mask function of the same name transformers passes no mask at all and causal models read the future.
AttentionMaskInterface.register(IMPLEMENTATION, sdpa_mask)


@dataclass(frozen=True, eq=False)
class Capture:
    """One pass of a model over one text, from which any head's trace can be had.

    Layers and heads count from 0. `kind` says which attention is meant: "self" in encoders and decoders alone; "encoder",
    "decoder" (its self-attention) and "cross" (decoder queries, encoder keys) in encoder-decoder models. None: the first.
    `grid` is (rows, columns) of the patches of a picture, whose capture has no input_ids; None for a text.
    """

    model: Model
    input_ids: tuple[int, ...]
    target_ids: tuple[int, ...]
    calls: dict[Kind, tuple[Call, ...]]
    logits: NDArray[np.floating] | None = field(repr=False)
    grid: tuple[int, int] | None = None

    @property
    def prefix_tokens(self) -> int:
        """How many tokens stand before the patches of a picture; 0 for a text."""
        if self.grid is None:
            return 0
        rows, columns = self.grid
        return self._first_call.key.shape[2] - rows * columns

    @property
    def _first_call(self) -> Call:
        return self.calls[self.kinds[0]][0]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(kind for kind in get_args(Kind) if kind in self.calls)

    def tokens(self, kind: Kind | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(query tokens, key tokens) as the tokenizer made them; "[CLS]" and "patch <row>,<column>" for a picture."""
        kind = self._kind(kind)
        if not self.input_ids:
            return (patches := self._patches(), patches)
        source = token_texts(self.model.tokenizer, self.input_ids)
        target = token_texts(self.model.tokenizer, self.target_ids)
        return target if kind in ("decoder", "cross") else source, target if kind == "decoder" else source

    def layers(self, kind: Kind | None = None) -> int:
        """How many layers have this kind of attention."""
        return len(self.layer_calls(kind))

    def layer_calls(self, kind: Kind | None = None) -> tuple[Call, ...]:
        """What each of these layers handed to its attention function and got back."""
        return self.calls[self._kind(kind)]

    def heads(self, kind: Kind | None = None) -> int:
        """How many query heads a layer has."""
        return self.calls[self._kind(kind)][0].query.shape[1]

    def key_head(self, layer: int, head: int, kind: Kind | None = None) -> tuple[int, int]:
        """Which key/value head this query head reads, and how many there are (grouped-query attention)."""
        call = self._call(layer, head, kind)
        key_heads = call.key.shape[1]
        return head // (call.query.shape[1] // key_heads), key_heads

    def trace(self, layer: int, head: int, kind: Kind | None = None) -> AttentionTrace:
        """One head's stages, from the very queries, keys and values that the model used, in float32 or its own float64."""
        call = self._call(layer, head, kind)
        key_head, _ = self.key_head(layer, head, kind)
        queries, keys = call.query.shape[2], call.key.shape[2]
        allowed, bias = permissions(call, slice(head, head + 1), range(queries))
        beyond = (0, keys - allowed.shape[2])  # keys that no query may attend to
        return attend(
            _numpy(call.query[0, head]),
            _numpy(call.key[0, key_head]),
            _numpy(call.value[0, key_head]),
            mask=pad(allowed, beyond)[0].numpy(force=True),
            bias=None if bias is None else _numpy(pad(bias, beyond)[0]),
            scale=call.scale,
            softcap=call.softcap,
            sinks=None if call.sinks is None else float(call.sinks.detach().flatten()[head]),
        )

    def certificate(self, layer: int, head: int, kind: Kind | None = None) -> Certificate:
        """Compare one head's stages with what the model's own attention returned, without holding all of them at once."""
        return certify_call(self._call(layer, head, kind), head, self.model)

    def model_output(self, layer: int, head: int, kind: Kind | None = None) -> NDArray[np.floating]:
        """What the model's own attention returned for one head, before W_O: [queries, d_v]."""
        return _numpy(self._call(layer, head, kind).output[0, :, head])

    def agreement(self, layer: int, kind: Kind | None = None) -> float:
        """max |our output - the model's own attention output| over the heads of a layer, empty rows left out."""
        return max(self.certificate(layer, head, kind).difference for head in range(self.heads(kind)))

    def next_tokens(self, k: int = 5) -> list[tuple[str, float]]:
        """The k most probable tokens after the text and their probabilities, for models with a language-model head."""
        if self.logits is None:
            raise InputError(f"{self.model.name} has no language-model head: it predicts no next token.", field="model")
        shifted = np.exp(self.logits - self.logits.max())
        probabilities = shifted / shifted.sum()
        best = np.argsort(-probabilities, kind="stable")[:k]
        texts = token_texts(self.model.tokenizer, best.tolist())
        return [(text, float(probabilities[token])) for text, token in zip(texts, best, strict=True)]

    def _patches(self) -> tuple[str, ...]:
        if self.grid is None:
            return tuple(f"position {place}" for place in range(self._first_call.key.shape[2]))
        rows, columns = self.grid
        further = max(self.prefix_tokens - 1, 0)
        are_registers = further == getattr(self.model.network.config, "num_register_tokens", 0)
        first = ("[CLS]", *(f"[{'REG' if are_registers else 'extra'} {number + 1}]" for number in range(further)))
        return (
            *first[: self.prefix_tokens],
            *(f"patch {row},{column}" for row in range(rows) for column in range(columns)),
        )

    def _kind(self, kind: Kind | None) -> Kind:
        if kind is None:
            return self.kinds[0]
        if kind not in self.calls:
            raise InputError(f"{self.model.name} has no {kind} attention, only {', '.join(self.kinds)}.", field="kind")
        return kind

    def _call(self, layer: int, head: int, kind: Kind | None) -> Call:
        if not 0 <= layer < self.layers(kind):
            raise InputError(f"There is no layer {layer}: they run from 0 to {self.layers(kind) - 1}.", field="layer")
        call = self.calls[self._kind(kind)][layer]
        if not 0 <= head < call.query.shape[1]:
            raise InputError(f"There is no head {head}: they run from 0 to {call.query.shape[1] - 1}.", field="head")
        return call


def capture(
    model: Model,
    text: str | None = None,
    *,
    pair: str | None = None,
    target: str | None = None,
    input_ids: Sequence[int] | NDArray[np.integer] | None = None,
    image: ArrayLike | None = None,
    most_tokens: int | None = None,
    cut: bool = False,
    watch: Watch | None = None,
) -> Capture:
    """Run the model once over a text, or a picture, and keep what its heads did.

    text       what the model reads, with the special tokens its tokenizer adds
    pair       a second text, for encoders that take two
    target     what the decoder of an encoder-decoder model has written so far; None: only its start token
    input_ids  token numbers instead of a text
    image      for models that read pictures: [height, width, 3], uint8 or real numbers from 0 to 1 (core.images.read_image)
    most_tokens  a limit below the model's own, for texts
    cut        keep the first tokens that fit, instead of raising TooLongError
    watch      called after every attention call of the pass with how many there have been, of `model.attention_calls`;
               whatever it raises ends the pass there and reaches the caller

    Raises InputError for a blank text, or a picture where texts are read; TooLongError; WeightsOnlyError for
    architectures that do not hand out their queries, and NoAttentionError for those without attention.
    """
    if not model.captures:
        raise _not_captured(model)
    if image is not None and not (text is None and input_ids is None):
        raise InputError("Give a picture or a text, not both.", field="image")
    if image is not None:
        inputs = image_inputs(model, image)
    else:
        inputs = text_inputs(model, text, pair=pair, input_ids=input_ids, most_tokens=most_tokens, cut=cut)
    written: tuple[int, ...] = ()
    if model.is_encoder_decoder:
        written = target_ids(model, target, most_tokens, cut)
        inputs["decoder_input_ids"] = torch.tensor([written])
    calls, logits = _run(model, inputs, watch)
    ids = tuple(inputs["input_ids"][0].tolist()) if image is None else ()
    patches = None if image is None else patch_grid(model, calls[0].key.shape[2])
    return Capture(model, ids, written, _by_kind(model, calls), logits, patches)


def _run(
    model: Model, inputs: dict[str, torch.Tensor], watch: Watch | None
) -> tuple[list[Call], NDArray[np.floating] | None]:
    recorder = _Recorder(watch)
    token = _recorder.set(recorder)
    try:
        result = run(model, inputs)
    finally:
        _recorder.reset(token)
    if not recorder.calls:
        raise _not_captured(model)
    logits = _numpy(result.logits[0, -1]) if model.has_language_model_head else None
    return recorder.calls, logits


def _by_kind(model: Model, calls: list[Call]) -> dict[Kind, tuple[Call, ...]]:
    names = {id(module): name for name, module in model.network.named_modules()}
    grouped: dict[Kind, list[Call]] = {}
    for call in calls:
        grouped.setdefault(_kind_of(names[id(call.module)], model.is_encoder_decoder), []).append(call)
    return {kind: tuple(group) for kind, group in grouped.items()}


def _kind_of(module_name: str, is_encoder_decoder: bool) -> Kind:
    if not is_encoder_decoder:
        return "self"
    parts = module_name.lower().split(".")
    if "decoder" not in parts:
        return "encoder"
    crossing = ("encoder_attn", "encdecattention", "crossattention", "cross_attn")
    return "cross" if any(part in crossing for part in parts) else "decoder"


def _numpy(tensor: torch.Tensor) -> NDArray[np.floating]:
    return wide(tensor).numpy(force=True)


def _not_captured(model: Model) -> InputError:
    try:
        require_weights(model)
    except NoAttentionError as error:
        return error
    return WeightsOnlyError(
        f"{type(model.network).__name__} keeps its queries, keys and values to itself: transformers hands out only its "
        f"attention weights, so the stages before them cannot be shown. Choose another model.",
        field="model",
    )
