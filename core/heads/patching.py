"""Patching: the outputs of heads from the pass over one text, put into the pass over another text of equal length.

Patching puts what a head returned for one text (the source), before W_O mixes heads, into the pass over the other, and
asks how far the answer moves towards the source's (Meng et al. 2022, https://arxiv.org/abs/2202.05262; Heimersheim and Nanda
2024, https://arxiv.org/abs/2404.15255). Path patching lets it act through one later head alone (Wang et al. 2022,
https://arxiv.org/abs/2211.00593; Goldowsky-Dill et al. 2023, https://arxiv.org/abs/2304.05969).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..capturing.branching import Branches, LayerHead, PassOver, batches, heads_by_call, with_heads
from ..errors import InputError
from ..models.calls import Call
from ..models.inputs import TokenNumbers, all_inputs, require_same_length
from ..models.model import Model
from ..models.modules import Kind
from ..models.tokens import token_texts
from .effects import check_head, check_token, table


def patch_effects(
    model: Model,
    text: str,
    source: str,
    *,
    target: str | TokenNumbers | None = None,
    kind: Kind | None = None,
    through: LayerHead | None = None,
    answers: tuple[int, int] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> pd.DataFrame:
    """Measure how far each head's output from the pass over `source` moves the answer to `text`: a row a head, with the columns
    layer, head and moved.

    moved    0: as unpatched, 1: as for the source; beyond both where it moves back or too far. With a language-model head it is
             (LD patched - LD text) / (LD source - LD text), where LD is the logit of the text's answer less that of the
             source's; else how far the sentence vector moves along the line from the text's to the source's
    through  (layer, head): only what passes through this later head. Until there all other heads after the patched one
             return what they do unpatched, while everything between them is computed anew; then its output alone is put into
             the unpatched pass. NaN for heads of its own layer and of later ones, from which no path leads there
    answers  the two tokens' numbers, of the text and of the source; None: the most probable next token of each
    target   what the decoder of an encoder-decoder model has written, in both passes; it is always the decoder that answers
    kind, on_progress  as in `head_effects`; the layers are counted

    Raises InputError (field "source") for texts of different length, or with the same answer; (field "layer" or "head") if
    `through` is not there; the errors of `capture`.
    """
    patching = Patching(model, text, source, target=target, kind=kind, answers=answers)
    by_layer = {layer: np.full(heads, np.nan) for layer, heads in enumerate(patching.heads)}
    for done, (layer, moved) in enumerate(patching.of_heads(through), start=1):
        by_layer[layer] = moved
        if on_progress is not None:
            on_progress(done)
    return table(by_layer, "moved")


class Patching:
    """Two passes, and the effects of heads of one in the other. Each number is as in `patch_effects`.

    answers  the numbers of the text's and the source's answer; None for sentence vectors
    probabilities  [pass, answer]: of both answers in the pass over the text, then over the source; None for sentence vectors
    layers, heads  how many there are of the chosen kind of attention, and in each of its layers
    nbytes   the memory of both passes
    """

    def __init__(
        self,
        model: Model,
        text: str,
        source: str,
        *,
        target: str | TokenNumbers | None = None,
        kind: Kind | None = None,
        answers: tuple[int, int] | None = None,
        max_tokens: int | None = None,
        truncate: bool = False,
    ) -> None:
        limit = {"max_tokens": max_tokens, "truncate": truncate}
        read = [all_inputs(model, words, target=target, **limit) for words in (text, source)]
        require_same_length(model, *(inputs["input_ids"][0].tolist() for inputs in read), field="source")
        self._pass, other = (Branches(model, inputs) for inputs in read)
        self._sources = other.calls
        self.nbytes = self._pass.nbytes + other.nbytes
        self._calls = self._pass.layers(kind)
        self.heads = self._pass.heads(kind)
        self.layers = len(self.heads)
        logits = torch.stack([self._pass.answer, other.answer]).double()
        self.answers: tuple[int, int] | None = None
        self.probabilities: NDArray[np.float64] | None = None
        if self._pass.predicts:
            self.answers = _answers(model, logits, answers)
            self.probabilities = logits.softmax(dim=-1)[:, list(self.answers)].numpy(force=True)
            # The logit difference is how far the logits lie along this line.
            self._line = torch.zeros_like(logits[0])
            self._line[self.answers[0]], self._line[self.answers[1]] = 1, -1
        else:
            self._line = logits[1] - logits[0]
        self._start = logits[0] @ self._line
        self._whole = logits[1] @ self._line - self._start
        if not abs(float(self._whole)) > 1e-9:
            raise InputError("Both texts lead to the same answer. Give two with different answers.", field="source")

    def of_heads(self, through: LayerHead | None = None) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """(layer, moved [heads]) of each head patched alone, from the last layer that counts to the first, since only what is
        above a patched head has to be computed again."""
        if through is not None:
            check_head(self.heads, *through)
        reaching = self.layers if through is None else through[0]
        order = [(layer, head) for layer in reversed(range(reaching)) for head in range(self.heads[layer])]
        moved = self._patched([[sender] for sender in order]) if through is None else self._along(order, through)
        for layer, group in groupby(zip(order, moved, strict=True), key=lambda measured: measured[0][0]):
            yield layer, np.array([share for _, share in group])

    def of_several(self, heads: Iterable[LayerHead]) -> float:
        """How far these heads move the answer together. Raises InputError where there is no such head."""
        chosen = sorted(set(heads))
        for layer, head in chosen:
            check_head(self.heads, layer, head)
        return next(self._patched([chosen])) if chosen else 0.0

    def _patched(self, variants: list[list[LayerHead]]) -> Iterator[float]:
        for together in batches(variants, self._pass.at_once):
            yield from self._moved(self._pass.replacing(self._calls, together, self._source))

    def _along(self, senders: list[LayerHead], through: LayerHead) -> Iterator[float]:
        receiver, head = self._calls[through[0]], through[1]
        for together in batches([[sender] for sender in senders], self._pass.at_once):
            patched = heads_by_call(self._calls, together)
            received: list[Tensor] = []

            def held(
                number: int,
                call: Call,
                patched: dict[int, list[tuple[int, int]]] = patched,
                received: list[Tensor] = received,
            ) -> Tensor:
                """All heads as unpatched but the sender, until the receiver has answered to what arrives."""
                if number == receiver:
                    received.append(call.output[:, :, head].clone())
                    raise PassOver
                plain = self._pass.calls[number].output.expand_as(call.output)
                return with_heads(plain, patched.get(number, ()), partial(self._source, number))

            def only_received(number: int, call: Call, received: list[Tensor] = received) -> Tensor:
                if number != receiver:
                    return call.output
                output = call.output.clone()
                output[:, :, head] = received[0]
                return output

            self._pass.go_on(min(patched), len(together), held)
            yield from self._moved(self._pass.go_on(receiver, len(together), only_received))

    def _source(self, number: int, head: int) -> Tensor:
        """[queries, d_v]: what a head of a call gives in the pass over the source."""
        return self._sources[number].output[0, :, head]

    def _moved(self, answers: Tensor | None) -> list[float]:
        return [] if answers is None else ((answers.double() @ self._line - self._start) / self._whole).tolist()


def _answers(model: Model, logits: Tensor, wanted: tuple[int, int] | None) -> tuple[int, int]:
    if wanted is not None:
        for token in wanted:
            check_token(model, logits[0], token)
    one, other = wanted or (int(best) for best in logits.argmax(dim=-1))
    if one == other:
        name = token_texts(model.tokenizer, [one])[0]
        advice = "Give texts with different answers"
        if model.is_encoder_decoder:
            advice = "Give a target that stops where the answers to the two texts begin to differ"
        raise InputError(
            f"Both texts have the same answer, “{name}”. {advice}, or say which two tokens to compare.",
            field="source",
        )
    return one, other
