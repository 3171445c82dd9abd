"""Which heads matter for one answer: its change when heads are muted or patched, or a token hidden.

The answer is the log probability of one next token, or the sentence vector of a model that predicts none. Muting sets what
a head itself returns to 0, before W_O mixes the heads of its layer (Michel et al. 2019, "Are Sixteen Heads Really Better
than One?", https://arxiv.org/abs/1905.10650). Patching puts what a head returned for one text (the source) into the pass over
another of equal length, and asks how far the answer moves towards the source's (Meng et al. 2022,
https://arxiv.org/abs/2202.05262; Heimersheim and Nanda 2024, https://arxiv.org/abs/2404.15255). Path patching lets it act
through one later head alone (Wang et al. 2022, https://arxiv.org/abs/2211.00593; Goldowsky-Dill et al. 2023,
https://arxiv.org/abs/2304.05969). These are the edits of `core.capturing.edits`, many variants of them at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ..capturing.branching import Branches, LayerHead, PassOver, batches, heads_by_call, with_heads
from ..capturing.calls.rows import output_without_keys
from ..errors import InputError, check_index
from ..models.calls import Call, wide
from ..models.inputs import TokenNumbers, all_inputs, require_same_length
from ..models.model import Model
from ..models.modules import Kind
from ..models.tokens import token_texts
from ..progress import OnProgress, step_counter

Measure = Callable[[list[list[LayerHead]]], list[float]]  # a number for each of these sets of heads, changed together
# Places in an array, such as ([layers], [heads]), and what computes the numbers there. It can be called again after an error.
Piece = tuple[Any, Callable[[], list[float]]]


class Interventions:
    """One pass, continued with other outputs of its heads; `layers` is how many there are of the chosen kind of attention,
    `heads` how many each layer has."""

    def __init__(self, model: Model, inputs: Mapping[str, Tensor], kind: Kind | None) -> None:
        self._model = model
        self._pass = Branches(model, inputs)
        self._calls = self._pass.layers(kind)
        self.heads = tuple(self._pass.calls[numbers[0]].heads for numbers in self._calls)
        self.layers = len(self.heads)

    def _heads_in_pieces(self, layers: int, size: int, measure: Measure) -> Iterator[Piece]:
        """Pieces ((layers, heads), their numbers) of each head of the first `layers` layers changed alone, `size` of them at a
        time, from the last of these layers down: only what is above a changed head has to be computed again."""
        each = [[(layer, head)] for layer in reversed(range(layers)) for head in range(self.heads[layer])]
        for together in batches(each, size):
            of_layers, heads = zip(*(head for (head,) in together), strict=True)
            yield (list(of_layers), list(heads)), partial(measure, together)

    def _by_layer(self, layers: int, pieces: Iterable[Piece]) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """(layer, numbers [heads]) from the pieces of the first `layers` layers."""
        numbers = chain.from_iterable(measured() for _, measured in pieces)
        for layer in reversed(range(layers)):
            yield layer, np.fromiter(islice(numbers, self.heads[layer]), np.float64)

    def table(
        self, name: str, by_layer: Iterable[tuple[int, NDArray[np.float64]]], on_progress: OnProgress | None
    ) -> pd.DataFrame:
        """A row a head, with the columns layer, head and `name`; NaN for layers that do not come."""
        numbers = [np.full(heads, np.nan) for heads in self.heads]
        step = step_counter(on_progress)
        for layer, of_heads in by_layer:
            numbers[layer] = of_heads
            step()
        rows = [(layer, head, number) for layer, row in enumerate(numbers) for head, number in enumerate(row)]
        return pd.DataFrame(rows, columns=pd.Index(["layer", "head", name]))

    def _check_token(self, token: int) -> None:
        """Raise InputError for a token that the model cannot predict."""
        last = len(self._pass.answer) - 1
        if not 0 <= token <= last:
            of_model = f"the vocabulary of {self._model.name} has the numbers 0 to {last:,}."
            raise InputError(f"There is no token {token:,}: {of_model}", field="token")


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
        self._kind: Kind = self._pass.calls[self._calls[0][0]].kind
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
        for layer, numbers in enumerate(self._calls):
            both = [(self._pass.calls[number].output[0], gradients[number]) for number in numbers]
            by_head = self._by_head(*(wide(torch.cat(parts, dim=-1)) for parts in zip(*both, strict=True)))
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
        kinds = [call.kind for call in self._pass.calls]

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
        received: dict[int, Tensor] = {}

        def held(number: int, call: Call) -> Tensor:
            """All heads as unpatched but the sender, until the receiver has answered to what arrives."""
            if number in last:
                received[number] = call.output[:, :, head].clone()
                if number == last[-1]:
                    raise PassOver
            plain = self._pass.calls[number].output.expand_as(call.output)
            return with_heads(plain, patched.get(number, ()), partial(self._source, number))

        def only_received(number: int, call: Call) -> Tensor:
            if number not in last:
                return call.output
            output = call.output.clone()
            output[:, :, head] = received[number]
            return output

        self._pass.go_on(min(patched), len(senders), held)
        return self._pass.go_on(last[0], len(senders), only_received)

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
