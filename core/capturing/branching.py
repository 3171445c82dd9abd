"""One pass over a text, continued many times: with other heads from an attention call on, or with other streams at its end.

Everything before the first change is the same in all of them, so it is computed once (`core.capturing.continuing`). The
continuations run side by side as a batch. The `Edits` of a capture are made in a single pass, head by head: here every pass of
the batch has other edits, and one write into the output of a call makes all of them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Any, get_args

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only
from torch.utils.checkpoint import checkpoint

from ..errors import InputError, model_error, text_error
from ..models.calls import Call, heard_by, wide
from ..models.inputs import replaced_tokens, run
from ..models.model import Model, require_model
from ..models.modules import Kind
from .capture import Capture, not_captured
from .continuing import Layers, Visit, stream_in, with_layers, with_stream
from .finite import NotFiniteError
from .recorder import record
from .rounding import OF_LOGITS

# Tokens of one batch, of all its continuations together: more are not faster, and would take more memory.
BATCH_TOKENS = 512

# The output of an attention call of a batch, from the number of the call in its pass and the call, whose tensors begin with the
# dimension of the continuations: [continuations, queries, heads, d_v].
CallEdit = Callable[[int, Call], Tensor]
LayerHead = tuple[int, int]


class PassOver(Exception):
    """Raised by a `CallEdit` that needs no more: the rest of the pass is not computed."""


class Branches:
    """One pass over one text, and its continuations.

    calls   the attention calls of the plain pass, on the CPU, in their order; the number of a call is its position there
    predicts  whether the answer is the logits of the next token, rather than a sentence vector
    answer  the result of the plain pass, on the CPU, in float32 or the model's own float64: the logits of the next token
            [vocabulary] for a model with a language-model head; for any other the sentence vector (core.models.sentences)
    tokens  how many the text has, or the decoder has written if these are more
    """

    def __init__(self, model: Model, inputs: Mapping[str, Tensor]) -> None:
        """inputs: from `core.models.inputs.all_inputs`. Errors as in `capture`."""
        if not model.captures:
            raise not_captured(model)
        self.predicts = model.has_language_model_head
        # Without a language-model head nothing on top of the last hidden state is needed.
        network: Any = model.network if self.predicts else model.network.base_model
        self._model = replace(model, network=network)
        self._inputs = dict(inputs)
        layers = Layers(self._model)
        calls, returned = record(self._model, self._inputs, layers=layers)
        if not calls:
            raise not_captured(model)
        self._begun = layers.begun(self._inputs)
        self.calls = self._begun.calls
        self.answer = self._answer(returned)[0]
        self.tokens = max(ids.shape[1] for ids in self._inputs.values())

    def layers(self, kind: Kind | None = None) -> tuple[tuple[int, ...], ...]:
        """The numbers of the calls that are layer 0 of this kind of attention, layer 1, ...: one call a layer, or one for each
        of its parts. None: the kind that a capture shows first. Raises InputError where the model has no such attention."""
        kinds = [call.kind for call in self.calls]
        known = [kind for kind in get_args(Kind) if kind in kinds]
        if kind is not None and kind not in known:
            raise InputError(f"{self._model.name} has no {kind} attention, only {', '.join(known)}.", field="kind")
        layers: dict[int, tuple[int, ...]] = {}
        for number, call in enumerate(self.calls):
            if call.kind == (kind or known[0]):
                layers[call.layer] = (*layers.get(call.layer, ()), number)
        return tuple(layers.values())

    @property
    def nbytes(self) -> int:
        """Bytes that the plain pass keeps in memory."""
        return sum(call.nbytes for call in self.calls) + self._begun.nbytes

    @property
    def at_once(self) -> int:
        """The number of continuations that are best computed together."""
        return max(1, BATCH_TOKENS // self.tokens)

    def replacing(
        self,
        calls: Sequence[Sequence[int]],
        variants: Sequence[Sequence[LayerHead]],
        given: Callable[[int, int], Tensor | float],
    ) -> Tensor | None:
        """Continue the pass as several variants, in each of which some heads return another output.

        calls     the numbers of the calls of each layer
        variants  the heads of each variant, one or more
        given     (number of the call, head) -> the other output [queries, d_v], or one number for all of it

        Returns the answers as `go_on` does.
        """
        replaced = heads_by_call(calls, variants)

        def edit(number: int, call: Call) -> Tensor:
            heads = replaced.get(number)
            return with_heads(call.output, heads, partial(given, number)) if heads else call.output

        return self.go_on(min(replaced), len(variants), edit)

    def go_on(self, first: int, variants: int, edit: CallEdit) -> Tensor | None:
        """Continue the pass as several variants.

        first  the number of the first call that an edit changes: layers before it are not computed again
        edit   called at every attention call that is computed

        Returns the answers [variants, ...] as in `answer`; None where the edit raises `PassOver`. Raises NotFiniteError for an
        answer that is NaN or infinite.
        """
        layers = Layers(self._model, self._begun, first, variants=variants, keeps=False)
        inputs = {name: part.expand(variants, *part.shape[1:]) for name, part in self._inputs.items()}

        def heard(call: Call) -> Call:
            number = layers.calls
            layers.calls += 1
            return replace(call, output=edit(number, call).to(call.output.device))

        with suppress(PassOver), heard_by(heard):
            answers = self._answer(run(layers.model(), inputs))
            if not bool(answers.amax(dim=-1).isfinite().all()):
                raise NotFiniteError(self._model, changed=True)
            return answers
        return None

    def gradients(self, of: Callable[[Tensor], Tensor]) -> list[Tensor]:
        """The gradient of a number with respect to the output of each attention call: [queries, heads, d_v], on the CPU.

        of  makes the number from the answer

        This is one pass forward and one backward. On the way back each layer is computed again, so that nothing more than the
        inputs of the layers has to be kept. Raises RuntimeError if torch cannot follow the network backwards.
        """
        again = partial(checkpoint, use_reentrant=False, preserve_rng_state=False)
        network = with_layers(self._model.network, self._model.lists_of_layers, again)
        outputs: list[Tensor] = []

        def heard(call: Call) -> Call:
            outputs.append(call.output)
            return call

        with heard_by(heard):
            returned = run(replace(self._model, network=network), self._inputs, gradients=True)
        with torch.enable_grad():
            number = of(self._answer(returned)[0])
        return [gradient[0].cpu() for gradient in torch.autograd.grad(number, outputs)]

    def _answer(self, returned: Any) -> Tensor:
        """[variants, vocabulary or size of the sentence vector]."""
        if self.predicts:
            return wide(returned.logits[:, -1]).cpu()
        hidden = getattr(returned, "last_hidden_state", None)
        if hidden is None:
            raise model_error(
                f"{self._model.name} returns neither the logits of a next token nor a last hidden state: there is nothing "
                f"to see an effect on. Choose another model."
            )
        return self._model.sentence.of(wide(hidden)).cpu()


def heads_by_call(
    calls: Sequence[Sequence[int]], variants: Sequence[Sequence[LayerHead]]
) -> dict[int, list[tuple[int, int]]]:
    """By the number of a call: the (variant, head) that are replaced there. calls: the numbers of the calls of each layer."""
    replaced: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for variant, heads in enumerate(variants):
        for layer, head in heads:
            for number in calls[layer]:
                replaced[number].append((variant, head))
    return replaced


def with_heads(output: Tensor, replaced: Iterable[tuple[int, int]], given: Callable[[int], Tensor | float]) -> Tensor:
    """A copy of an output [variants, queries, heads, d_v] in which each (variant, head) gives `given(head)`."""
    output = output.clone()
    for variant, head in replaced:
        output[variant, :, head] = given(head)
    return output


def batches(variants: list, size: int) -> Iterator[list]:
    """The variants in their order, `size` at a time."""
    return (variants[start : start + size] for start in range(0, len(variants), size))


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
            raise text_error(
                "This pass kept nothing of its layers: it is a step of a generation, or kept components. Capture the text "
                "alone."
                if begun is None
                else f"Nothing was kept of the layers of {capture.model.name}: the text is too long, or they do not stand in a "
                f"list, one after another. Try a shorter text."
            )
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
            why = f"The output of {self._model.name} does not follow from what its layers return, one after another."
            raise model_error(why)

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
