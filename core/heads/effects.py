"""Which heads matter for one answer: its change when a head is muted, a whole layer, or a token hidden.

The answer is the log probability of one next token, or the sentence vector of a model that predicts none. Muting sets what
a head itself returns to 0, before W_O mixes the heads of its layer (Michel et al. 2019, "Are Sixteen Heads Really Better
than One?", https://arxiv.org/abs/1905.10650). These are the edits `mute_heads` and `block_keys`, many variants of them at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ..capturing.branching import LayerHead, batches
from ..capturing.calls.rows import output_without_keys
from ..errors import InputError
from ..models.calls import Call, wide
from ..models.inputs import TokenNumbers, all_inputs
from ..models.model import Model
from ..models.modules import Kind
from ..progress import OnProgress
from .interventions import Interventions, Piece

SUSPECTS = 10  # heads that are measured before all others


def head_effects(
    model: Model,
    text: str | None = None,
    token: int | None = None,
    *,
    pair: str | None = None,
    target: str | TokenNumbers | None = None,
    input_ids: TokenNumbers | None = None,
    kind: Kind | None = None,
    on_progress: OnProgress | None = None,
) -> pd.DataFrame:
    """Mute each head in turn and measure the effect on the answer: a row a head with the columns layer, head and effect.

    effect  for a model with a language-model head: the change of the log probability (in nats) of `token` as the next token;
            below 0 where the head helped. For any other: 1 - cosine of the sentence vectors (core.models.sentences), from 0
            (nothing changes) to 2
    token   a token's number; None: the most probable next token
    kind    which heads, as in `Capture.trace`; in an encoder-decoder model the decoder always gives the answer

    text, pair, target and input_ids as in `capture`, and its errors; InputError with the field "token" for one that is not
    in the vocabulary, or any in a model that predicts none.
    """
    effects = Effects(model, all_inputs(model, text, pair=pair, target=target, input_ids=input_ids), token, kind)
    return effects.table("effect", effects.of_heads(), on_progress)


def probability_after(before: float, effect: float) -> float:
    """The probability of a next token after an effect, by which its log probability changes."""
    return before * math.exp(effect)


def rank_correlation(one: ArrayLike, other: ArrayLike) -> float:
    """How far two numbers of every head order the heads alike, from -1 to 1 (Spearman 1904); NaN where one never differs. Heads
    for which either number is NaN do not count."""
    both = pd.DataFrame({"one": np.ravel(one), "other": np.ravel(other)})
    return float(both.corr(method="spearman").to_numpy()[0, 1])


class Effects(Interventions):
    """The effects of muting and hiding in one pass on its answer. Each effect is as in `head_effects`.

    token   the number of the next token whose log probability is the answer; None for a sentence vector
    """

    def __init__(
        self, model: Model, inputs: Mapping[str, Tensor], token: int | None = None, kind: Kind | None = None
    ) -> None:
        """inputs: from `core.models.inputs.all_inputs`. The other arguments and the errors are those of `head_effects`."""
        super().__init__(model, inputs, kind)
        self._inputs = inputs
        self._kind: Kind = self._pass.kinds[self._calls[0]]
        self.token = int(self._pass.answer.argmax()) if token is None and self._pass.predicts else token
        if self.token is not None and not self._pass.predicts:
            raise InputError(
                f"{model.name} has no language-model head: it predicts no next token. Leave the token out to see the effect "
                f"on the sentence vector.",
                field="token",
            )
        if self.token is not None:
            self._check_token(self.token)

    def of_heads(self) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """(layer, effects [heads]) of each head muted alone, from the last layer, which comes at once, to the first."""
        return self._by_layer(self.layers, self._muted_in_pieces())

    def suspects_first(self) -> Iterator[Piece]:
        """((layers, heads), their effects) of each head muted alone, in pieces: the batches with `suspects` first, the
        strongest before the others, then those from the last layer to the first.

        The batches are those of `of_heads`, so the numbers are the same to the last bit.
        """
        rank = {head: place for place, head in enumerate(self.suspects())}

        def first(piece: Piece) -> int:
            return min(rank.get(head, len(rank)) for head in zip(*piece[0], strict=True))

        yield from sorted(self._muted_in_pieces(), key=first)

    def _muted_in_pieces(self) -> Iterator[Piece]:
        """Pieces of whole layers, if a batch can hold as many heads."""
        size, whole = self._pass.at_once, max(self.heads)
        return self._heads_in_pieces(self.layers, size - size % whole if size > whole else size, self.muted)

    def suspects(self, count: int = SUSPECTS) -> list[LayerHead]:
        """The (layer, head) whose muting should change the answer most, the strongest first; [] if torch cannot follow the
        network backwards.

        One pass forward and one backward give the gradient of the answer with respect to the output of every head. For a next
        token, muting changes its log probability to first order by minus the output times the gradient (Michel et al. 2019,
        eq. 2; attribution patching, Nanda 2023, https://www.neelnanda.io/mechanistic-interpretability/attribution-patching).

        A sentence vector has many numbers, and one pass backward follows one of them: the vector along a random direction, at
        right angles to itself. How the output of a head lies to this gradient is chance, so their lengths are multiplied, of
        the mean output over all tokens and of the sum of the gradients.

        What is not of first order is left out. So these heads are only where to look first: what they do to the answer is
        measured by muting them.
        """
        try:
            gradients = self._pass.gradients(self._along)
        except RuntimeError:  # frozen weights, or an architecture with a step that has no gradient
            return []
        sizes: dict[LayerHead, float] = {}
        for layer, number in enumerate(self._calls):
            by_head = self._by_head(wide(self._pass.calls[number].output[0]), wide(gradients[number]))
            sizes.update({(layer, head): size for head, size in enumerate(by_head.tolist())})
        return sorted(sizes, key=lambda head: -sizes[head])[:count]

    def _along(self, answer: Tensor) -> Tensor:
        """One number of an answer, whose gradient tells how much the heads matter: see `suspects`."""
        if self.token is not None:
            return answer.log_softmax(dim=-1)[self.token]
        direction = torch.randn(answer.shape, generator=torch.Generator().manual_seed(0)).to(answer)
        own = answer.detach() / answer.detach().norm()
        return answer @ (direction - (direction @ own) * own)

    def _by_head(self, output: Tensor, gradient: Tensor) -> Tensor:
        """[heads] how much muting should change the answer, from the outputs of the heads and the gradients with respect to
        them, both [queries, heads, d_v]: see `suspects`."""
        if self.token is not None:
            return (output * gradient).sum(dim=(0, 2)).abs()
        return output.mean(dim=0).norm(dim=-1) * gradient.sum(dim=0).norm(dim=-1)

    def of_layers(self) -> Iterator[tuple[int, float]]:
        """(layer, effect) of all heads of a layer muted together, from the last layer to the first. The layer's attention then
        gives nothing but the bias of W_O."""
        return _each_of(self.layers_in_pieces())

    def layers_in_pieces(self) -> Iterator[Piece]:
        """`of_layers` in pieces: (layers, their effects)."""
        muted = [[(layer, head) for head in range(self.heads[layer])] for layer in reversed(range(self.layers))]
        for together in batches(muted, self._pass.at_once):
            yield [layer for ((layer, _), *_) in together], partial(self.muted, together)

    def of_keys(self) -> Iterator[tuple[int, float]]:
        """(position, effect) of each token hidden in all heads of all layers, from the first to the last.

        No query may attend to it then, its own included, as with `Edits(block_keys=...)`. One that may attend to nothing
        else, as that of the first token of a causal model, gets 0. In an encoder-decoder model it is hidden from the encoder
        and from the decoder's look at the encoder, or, of kind "decoder", among what the decoder has written.
        """
        return _each_of(self.keys_in_pieces())

    def keys_in_pieces(self) -> Iterator[Piece]:
        """`of_keys` in pieces: (positions, their effects)."""
        read = "decoder_input_ids" if self._kind == "decoder" else "input_ids"
        for keys in batches(list(range(self._inputs[read].shape[1])), self._pass.at_once):
            yield keys, partial(self._hidden, keys)

    def _hidden(self, keys: list[int]) -> list[float]:
        """The effect of each of these tokens hidden."""
        where = (self._kind,) if self._kind in ("self", "decoder") else ("encoder", "cross")
        kinds = self._pass.kinds

        def blocked(number: int, call: Call) -> Tensor:
            return output_without_keys(call, keys) if kinds[number] in where else call.output

        first = next(number for number, kind in enumerate(kinds) if kind in where)
        return self._effects(self._pass.go_on(first, len(keys), blocked))

    def muted(self, heads: list[list[LayerHead]]) -> list[float]:
        """The effect of each of these sets of heads, muted together."""
        return self._effects(self._pass.replacing(self._calls, heads, lambda *_: 0))

    @torch.inference_mode()
    def _effects(self, answers: Tensor | None) -> list[float]:
        if answers is None:
            return []
        plain = self._pass.answer[None]
        if self.token is None:
            return (1 - torch.cosine_similarity(answers.double(), plain.double(), dim=-1)).tolist()
        changed, before = (logits[:, self.token] - logits.logsumexp(dim=-1) for logits in (answers, plain))
        return (changed - before).tolist()


def _each_of(pieces: Iterator[Piece]) -> Iterator[tuple[int, float]]:
    for places, measured in pieces:
        yield from zip(places, measured(), strict=True)
