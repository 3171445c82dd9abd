"""The attention calls of a model's pass: the function that transformers calls for them, and its arguments.

transformers asks a registry which function computes attention. The function registered here computes it exactly as the
model itself would (by torch's scaled_dot_product_attention, or by the architecture's own eager code where torch's cannot)
and hands its queries, keys and values to a listener. Nothing is patched, no hook is left behind, and passes in different
threads do not hear each other. This is the only file that knows the signature of that function.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from traceback import walk_tb
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface

from ..attention.shaping import Shaped, Shaping
from ..errors import WeightsOnlyError
from ..progress import stop_point
from ..record_pass import MASKS, SHAPING, WITHOUT_EFFECT, UnknownAttentionError, attended, causal_alone, chosen
from .modules import Kind

# The names of the function in transformers, by the way in which transformers computes a network's attention by itself: by
# torch's function, or by the architecture's own code, which expects masks in another form.
IMPLEMENTATIONS = {"sdpa": "headlight", "eager": "headlight-eager"}
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
    way: str = "sdpa",
    indices: Tensor | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    stop_point()
    listener = _listener.get()
    unknown = sorted(name for name in options.keys() - WITHOUT_EFFECT - SHAPING.keys() if options[name] is not None)
    if unknown and listener is not None:
        raise WeightsOnlyError(
            f"{type(module).__name__} computes its attention with {', '.join(unknown)}, which is not understood here. "
            f"Its stages are not shown, because they would be wrong.",
            field="model",
        )
    attention_mask = chosen(attention_mask, indices, key.shape[2])
    inputs, lengths = (query, key, value), []
    scaling, *others, sliding_window, is_causal = map(options.get, SHAPING)
    causal = causal_alone(way, module, query, attention_mask, is_causal)
    bounds = options.get("cu_seq_lens_q")
    if bounds is not None and way == "sdpa" and attention_mask is None and not causal:
        lengths = bounds.diff().tolist()
    each = zip(*(part.split(lengths or part.shape[2], dim=2) for part in inputs), strict=True)
    try:
        outputs = [attended(way, module, q, k, v, attention_mask, **options) for q, k, v in each]
    except UnknownAttentionError as error:
        raise WeightsOnlyError(str(error), field="model") from error
    output = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=1)
    if listener is None:
        return output, None
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    shaping = Shaping(scale, attention_mask, *others)
    parts = part_numbers(lengths) if len(lengths) > 1 else None
    return listener(Call(module, *inputs, shaping, output, causal, sliding_window, parts)).output, None


def part_numbers(lengths: Sequence[int]) -> Tensor:
    """`Call.parts` of parts of these lengths, one after another."""
    return torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))


for _name, _way in ((IMPLEMENTATIONS["sdpa"], "sdpa"), (IMPLEMENTATIONS["eager"], "eager"), (PACKED, "sdpa")):
    AttentionInterface.register(_name, partial(_attention, way=_way))
    # Without a mask function of the same name transformers passes no mask at all and causal models read the future.
    AttentionMaskInterface.register(_name, MASKS[_way])
