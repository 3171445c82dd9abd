"""The attention calls of a model's pass: the function that transformers calls for them, and its arguments.

transformers asks a registry which function computes attention. The function registered here computes it exactly as the
model itself would (by torch's scaled_dot_product_attention, or by the architecture's own eager code where torch's cannot)
and hands its queries, keys and values to a listener. Nothing is patched, no hook is left behind, and passes in different
threads do not hear each other. This is the only file that knows the signature of that function.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from traceback import walk_tb

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from ..attention.shaping import Shaped, Shaping
from ..errors import WeightsOnlyError
from ..progress import stop_point
from ..record_pass import WITHOUT_EFFECT
from .modules import Kind

IMPLEMENTATION = "headlight"
# The same function. By this name Qwen-VL's vision tower takes it for flash attention and makes one call for all its windows.
PACKED = "headlight-flash"


@dataclass(frozen=True, eq=False)
class Call(Shaped):
    """One attention call of a forward pass, as torch tensors of batch size 1.

    query   [1, heads, queries, d_k]     after rotary embedding and normalisation: the scores are computed from it
    key     [1, key_heads, keys, d_k]    key_heads divides heads: several query heads share one (grouped-query attention)
    value   [1, key_heads, keys, d_v]
    shaping what shapes the scores, as the model's code gives it; its fields are attributes of the call too: `call.scale`
            mask    [1, 1 or heads, queries, keys] bool (True: may attend) or additive; None: every pair, or causal if `causal`
            bias    [1, heads, queries, keys] added to the scaled scores, or None
            sinks   [heads], or with axes of length 1; or None
    output  [1, queries, heads, d_v]     what the model's own attention returned, before W_O
    causal  whether a query may attend to no later key, where there is no mask
    sliding_window  keys must be less than this many tokens away; `mask` contains this limit already
    parts   [queries] the number of the part that each token belongs to, if tokens attend only within their own part: a tile of
            an image, or a window; None: there is one part
    kind    of attention
    layer   its number among those with this kind of attention
    part    its number in the layer: 0, unless the network attends again there with the same queries and keys (DiffLlama)

    What records a pass fills in the last three.
    """

    module: torch.nn.Module
    query: Tensor
    key: Tensor
    value: Tensor
    shaping: Shaping
    output: Tensor
    causal: bool = False
    sliding_window: int | None = None
    parts: Tensor | None = None
    kind: Kind = "self"
    layer: int = 0
    part: int = 0

    @property
    def heads(self) -> int:
        """Number of query heads."""
        return self.query.shape[1]

    @property
    def group(self) -> int:
        """Number of query heads that share one key head; query head h reads key head h // group."""
        return self.query.shape[1] // self.key.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of its queries, keys, values and outputs."""
        return sum(part.nbytes for part in (self.query, self.key, self.value, self.output))


def wide(tensor: Tensor) -> Tensor:
    """Convert a tensor to float32, which holds every float16 and bfloat16 exactly; float64 stays float64."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


_listener: ContextVar[Callable[[Call], Call] | None] = ContextVar("listener", default=None)


@contextmanager
def heard_by(listener: Callable[[Call], Call] | None) -> Iterator[None]:
    """Call the listener after every attention call within this context and thread; None: no listener.

    The listener returns the call whose output the pass continues with: the same call or an edited one. An exception that it
    raises ends the pass and reaches the caller.
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def came_from_a_call(error: BaseException) -> bool:
    """Whether an error was raised within an attention call (by a listener, for example), not by the network around it."""
    return any(frame.f_code is _attention.__code__ for frame, _ in walk_tb(error.__traceback__))


def _attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    sliding_window: int | None = None,
    cu_seq_lens_q: Tensor | None = None,
    **others: object,
) -> tuple[Tensor, None]:
    stop_point()
    listener = _listener.get()
    unknown = sorted(name for name in others.keys() - WITHOUT_EFFECT if others[name] is not None)
    if unknown and listener is not None:
        raise WeightsOnlyError(
            f"{type(module).__name__} computes its attention with {', '.join(unknown)}, which is not understood here. "
            f"Its stages are not shown, because they would be wrong.",
            field="model",
        )
    # A module without `is_causal` and without a mask masks nothing, as in its own eager code (Splinter, ALIGN, CLAP): causal
    # modules without `is_causal` bring a mask (Doge).
    is_causal = getattr(module, "is_causal", False) if is_causal is None else is_causal
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    causal_without_mask = bool(is_causal) and attention_mask is None and query.shape[2] > 1
    inputs = (module, query, key, value)
    lengths: list[int] = []
    if cu_seq_lens_q is not None and attention_mask is None and not is_causal:
        lengths = cu_seq_lens_q.diff().tolist()
    shaping = Shaping(scale, attention_mask, position_bias, softcap, s_aux)
    if shaping.is_plain:
        options = {"dropout": dropout, "scaling": scale, "is_causal": is_causal, "position_bias": position_bias}
        each = zip(*(part.split(lengths or part.shape[2], dim=2) for part in inputs[1:]), strict=True)
        outputs = [sdpa_attention_forward(module, q, k, v, attention_mask, **options)[0] for q, k, v in each]
        output = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=1)
    else:
        mask = attention_mask
        if causal_without_mask:
            mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()[None, None]
        output = _eager(*inputs, mask, scaling=scale, dropout=dropout, softcap=softcap, s_aux=s_aux)
    if listener is None:
        return output, None
    parts = part_numbers(lengths) if len(lengths) > 1 else None
    return listener(Call(*inputs, shaping, output, causal_without_mask, sliding_window, parts)).output, None


def part_numbers(lengths: Sequence[int]) -> Tensor:
    """`Call.parts` of parts of these lengths, one after another."""
    return torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))


def _eager(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: object
) -> Tensor:
    """Compute attention by the architecture's own code: torch's fused function has no soft caps and no sinks."""
    own = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
    if own is None:
        why = f"{type(module).__name__} needs a soft cap or sinks but has no attention code of its own to compute them."
        raise WeightsOnlyError(why, field="model")
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, torch.finfo(query.dtype).min)
    given = {name: option for name, option in options.items() if option is not None}
    output, _ = own(module, query, key, value, mask, **given)
    return output


AttentionInterface.register(IMPLEMENTATION, _attention)
AttentionInterface.register(PACKED, _attention)
# Without a mask function of the same name transformers passes no mask at all and causal models read the future.
AttentionMaskInterface.register(IMPLEMENTATION, sdpa_mask)
AttentionMaskInterface.register(PACKED, sdpa_mask)
