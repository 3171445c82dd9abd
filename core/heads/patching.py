"""Patching: the outputs of heads from the pass over one text, put into the pass over another text of equal length.

Patching puts what a head returned for one text (the source), before W_O mixes heads, into the pass over the other, and
asks how far the answer moves towards the source's (Meng et al. 2022, https://arxiv.org/abs/2202.05262; Heimersheim and Nanda
2024, https://arxiv.org/abs/2404.15255). Path patching lets it act through one later head alone (Wang et al. 2022,
https://arxiv.org/abs/2211.00593; Goldowsky-Dill et al. 2023, https://arxiv.org/abs/2304.05969).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..capturing.branching import Branches, LayerHead, PassOver, heads_by_call, with_heads
from ..errors import InputError, check_index
from ..models.calls import Call
from ..models.inputs import TokenNumbers, all_inputs, require_same_length
from ..models.model import Model
from ..models.modules import Kind
from ..models.tokens import token_texts
from ..progress import OnProgress
from .interventions import Interventions, Piece


def patch_effects(
    model: Model,
    text: str,
    source: str,
    *,
    target: str | TokenNumbers | None = None,
    kind: Kind | None = None,
    through: LayerHead | None = None,
    answers: tuple[int, int] | None = None,
    on_progress: OnProgress | None = None,
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
    kind     as in `head_effects`

    Raises InputError (field "source") for texts of different length, or with the same answer; (field "layer" or "head") if
    `through` is not there; the errors of `capture`.
    """
    patching = Patching(model, text, source, target=target, kind=kind, answers=answers)
    return patching.table("moved", patching.of_heads(through), on_progress)


class Patching(Interventions):
    """Two passes, and the effects of heads of one in the other. Each number is as in `patch_effects`.

    answers  the numbers of the text's and the source's answer; None for sentence vectors
    probabilities  [pass, answer]: of both answers in the pass over the text, then over the source; None for sentence vectors
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
        super().__init__(model, read[0], kind)
        other = Branches(model, read[1])
        self._sources = other.calls
        self.nbytes = self._pass.nbytes + other.nbytes
        logits = torch.stack([self._pass.answer, other.answer]).double()
        self.answers: tuple[int, int] | None = None
        self.probabilities: NDArray[np.float64] | None = None
        if self._pass.predicts:
            self.answers = self._both_answers(logits, answers)
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
        """(layer, moved [heads]) of each head patched alone, from the last layer that counts to the first."""
        return self._by_layer(self._layers_before(through), self.heads_in_pieces(through))

    def heads_in_pieces(self, through: LayerHead | None = None) -> Iterator[Piece]:
        """`of_heads` in pieces: ((layers, heads), how far they move the answer)."""
        layers = self._layers_before(through)
        return self._heads_in_pieces(layers, self._pass.at_once, partial(self.moved, through=through))

    def _layers_before(self, through: LayerHead | None) -> int:
        """How many layers can act. Raises InputError for a head that is not there."""
        if through is None:
            return self.layers
        check_index(through[0], self.layers, "layer")
        check_index(through[1], self.heads[through[0]], "head")
        return through[0]

    def moved(self, heads: list[list[LayerHead]], through: LayerHead | None = None) -> list[float]:
        """How far each of these sets of heads, patched together, moves the answer."""
        plain = through is None
        answers = self._pass.replacing(self._calls, heads, self._source) if plain else self._through(heads, through)
        return [] if answers is None else ((answers.double() @ self._line - self._start) / self._whole).tolist()

    def _through(self, senders: list[list[LayerHead]], receiver: LayerHead) -> Tensor | None:
        """The answers if one head alone receives what each sender changes."""
        last, head = self._calls[receiver[0]], receiver[1]
        patched = heads_by_call(self._calls, senders)
        received: list[Tensor] = []

        def held(number: int, call: Call) -> Tensor:
            """All heads as unpatched but the sender, until the receiver has answered to what arrives."""
            if number == last:
                received.append(call.output[:, :, head].clone())
                raise PassOver
            plain = self._pass.calls[number].output.expand_as(call.output)
            return with_heads(plain, patched.get(number, ()), partial(self._source, number))

        def only_received(number: int, call: Call) -> Tensor:
            if number != last:
                return call.output
            output = call.output.clone()
            output[:, :, head] = received[0]
            return output

        self._pass.go_on(min(patched), len(senders), held)
        return self._pass.go_on(last, len(senders), only_received)

    def _source(self, number: int, head: int) -> Tensor:
        """[queries, d_v]: what a head of a call gives in the pass over the source."""
        return self._sources[number].output[0, :, head]

    def _both_answers(self, logits: Tensor, wanted: tuple[int, int] | None) -> tuple[int, int]:
        for token in wanted or ():
            self._check_token(token)
        one, other = wanted or (int(best) for best in logits.argmax(dim=-1))
        if one == other:
            name = token_texts(self._model.tokenizer, [one])[0]
            advice = "Give texts with different answers"
            if self._model.is_encoder_decoder:
                advice = "Give a target that stops where the answers to the two texts begin to differ"
            message = f"Both texts have the same answer, “{name}”. {advice}, or say which two tokens to compare."
            raise InputError(message, field="source")
        return one, other
