"""What a network does after its last layer, on streams that its layers returned.

That is the last norm, the language-model head, and whatever an architecture has beside them: multipliers, soft caps, biases.
The pass is continued from what was kept of another one (`core.capturing.continuing`): no layer computes anything, and the last
one returns the streams that are asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from ..errors import InputError
from ..models.calls import wide
from ..models.inputs import replaced_tokens, run
from ..models.model import require_model
from .capture import Capture
from .rounding import OF_LOGITS
from .twins import Visit, stream_in, with_layers, with_stream


class Tail:
    """The end of the network of one pass; in an encoder-decoder model that of its decoder.

    streams  [1, tokens, d_model] before the first layer, and after each: of layers without attention too
    """

    def __init__(self, capture: Capture) -> None:
        """Raises InputError for a pass that kept nothing of its layers, and for a network with more between its layers and its
        output, or between two layers."""
        self._model, begun = capture.model, capture.begun
        if begun is None or not begun.returned:
            require_model(capture.model, "What follows a layer")
            raise InputError(_why_nothing(capture), field="text")
        self._inputs: dict[str, Tensor] = replaced_tokens(self._model, dict(begun.inputs), capture.edits.tokens)
        device = self._model.network.device
        self._returned = [tree_map_only(Tensor, lambda part: part.to(device), part) for part, _ in begun.returned]
        read: list[Tensor] = []

        def visit(_: Callable, *inputs: Any, **options: Any) -> Any:
            read.append(stream_in((inputs, options)))
            return self._returned[len(read) - 1]

        logits = wide(self._run(visit, self._inputs, logits_to_keep=1)[0, -1])
        gave = [stream_in(part) for part in self._returned]
        first = len(gave) - 1
        while first and read[first] is gave[first - 1]:
            first -= 1
        self.streams = [read[first], *gave[first:]]
        expected = torch.as_tensor(capture.logits).to(logits)
        unit = torch.finfo(self._model.network.dtype).eps * expected.abs().max()
        is_one_shape = {stream.shape for stream in self.streams} == {(1, *self.streams[0].shape[1:])}
        # Only the layers of a decoder may come after others, those of the encoder.
        is_whole = is_one_shape and (first == 0 or self._model.is_encoder_decoder)
        if not is_whole or (logits - expected).abs().max() > OF_LOGITS * unit:
            raise InputError(
                f"The output of {self._model.name} does not follow from what its layers return, one after another.",
                field="model",
            )

    @torch.inference_mode()
    def logits(self, streams: Tensor) -> Tensor:
        """The logits [some, positions, vocabulary] of streams [some, positions, d_model], with at most as many positions as the
        pass has tokens."""
        last, visits = len(self._returned) - 1, cycle(range(len(self._returned)))

        def visit(*_: Any, **__: Any) -> Any:
            number = next(visits)
            return with_stream(self._returned[last], streams) if number == last else self._returned[number]

        some, positions = streams.shape[:2]
        # The network is to see as many texts and tokens. Which ones does not matter: no layer reads them.
        own = ["decoder_input_ids"] if self._model.is_encoder_decoder else self._inputs
        cut = {name: self._inputs[name][:, :positions].expand(some, -1) for name in own}
        return self._run(visit, self._inputs | cut, logits_to_keep=0)

    def _run(self, visit: Visit, inputs: dict[str, Tensor], **options: Any) -> Tensor:
        network = with_layers(self._model.network, self._model.lists_of_layers, visit)
        return run(replace(self._model, network=network), inputs, **options).logits


def _why_nothing(capture: Capture) -> str:
    if capture.begun is None:
        return "This pass kept nothing of its layers: it is a step of a generation, or kept components. Capture the text alone."
    return (
        f"Nothing was kept of the layers of {capture.model.name}: the text is too long, or they do not stand in a list, one "
        f"after another. Try a shorter text."
    )
