"""Which heads matter for one answer: its change when a head is muted, a whole layer, or a token hidden.

The answer is the log probability of one next token, or the sentence vector of a model that predicts none. Muting sets what
a head itself returns to 0, before W_O mixes the heads of its layer (Michel et al. 2019, "Are Sixteen Heads Really Better
than One?", https://arxiv.org/abs/1905.10650). These are the edits `mute_heads` and `block_keys`, many variants of them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..capturing.branching import Branches, LayerHead, batches
from ..capturing.rows import output_without_keys
from ..errors import InputError, check_index
from ..models.calls import Call
from ..models.inputs import TokenNumbers, all_inputs
from ..models.model import Model
from ..models.modules import Kind


def head_effects(
    model: Model,
    text: str | None = None,
    token: int | None = None,
    *,
    pair: str | None = None,
    target: str | TokenNumbers | None = None,
    input_ids: TokenNumbers | None = None,
    kind: Kind | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> pd.DataFrame:
    """Mute each head in turn and measure the effect on the answer: a row a head with the columns layer, head and effect.

    effect  for a model with a language-model head: the change of the log probability (in nats) of `token` as the next token;
            below 0 where the head helped. For any other: 1 - cosine of the sentence vectors, the means over all tokens of the
            last hidden state, from 0 (nothing changes) to 2
    token   a token's number; None: the most probable next token
    kind    which heads, as in `Capture.trace`; in an encoder-decoder model the decoder always gives the answer
    on_progress  called after every layer with how many are done; what it raises ends the work there and reaches the caller

    text, pair, target and input_ids as in `capture`, and its errors; InputError with the field "token" for one that is not
    in the vocabulary, or any in a model that predicts none.
    """
    inputs = all_inputs(model, text, pair=pair, target=target, input_ids=input_ids)
    by_layer: dict[int, NDArray] = {}
    for layer, effects in Effects(model, inputs, token, kind).of_heads():
        by_layer[layer] = effects
        if on_progress is not None:
            on_progress(len(by_layer))
    return table(by_layer, "effect")


def table(layers: Mapping[int, NDArray], name: str) -> pd.DataFrame:
    """A row a head from the numbers of each layer's heads, in the order of the layers."""
    rows = [(layer, head, number) for layer in sorted(layers) for head, number in enumerate(layers[layer])]
    return pd.DataFrame(rows, columns=pd.Index(["layer", "head", name]))


class Effects:
    """The effects of muting and hiding in one pass on its answer. Each effect is as in `head_effects`.

    token   the number of the next token whose log probability is the answer; None for a sentence vector
    layers, heads  how many there are of the chosen kind of attention, and in each of its layers
    """

    def __init__(
        self, model: Model, inputs: Mapping[str, Tensor], token: int | None = None, kind: Kind | None = None
    ) -> None:
        """inputs: from `core.models.inputs.all_inputs`. The other arguments and the errors are those of `head_effects`."""
        self._pass = Branches(model, inputs)
        self.token = _checked(model, self._pass, token)
        self._calls = self._pass.layers(kind)
        self._kind = self._pass.kinds[self._calls[0]]
        self._inputs = inputs
        self.heads = self._pass.heads(kind)
        self.layers = len(self.heads)

    def of_heads(self) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """(layer, effects [heads]) of each head muted alone, from the last layer to the first.

        The last comes at once, since only what is above a muted head has to be computed again; the first takes longest.
        """
        order = [(layer, head) for layer in reversed(range(self.layers)) for head in range(self.heads[layer])]
        effects = self._muted([[layer_head] for layer_head in order], whole=max(self.heads))
        for layer, group in groupby(zip(order, effects, strict=True), key=lambda measured: measured[0][0]):
            yield layer, np.array([effect for _, effect in group])

    def of_layers(self) -> Iterator[tuple[int, float]]:
        """(layer, effect) of all heads of a layer muted together, from the last layer to the first. The layer's attention then
        gives nothing but the bias of W_O."""
        order = list(reversed(range(self.layers)))
        muted = [[(layer, head) for head in range(self.heads[layer])] for layer in order]
        return zip(order, self._muted(muted), strict=True)

    def of_keys(self) -> Iterator[tuple[int, float]]:
        """(position, effect) of each token hidden in all heads of all layers, from the first to the last.

        No query may attend to it then, its own included, as with `Edits(block_keys=...)`. One that may attend to nothing
        else, as that of the first token of a causal model, gets 0. In an encoder-decoder model it is hidden from the encoder
        and from the decoder's look at the encoder, or, of kind "decoder", among what the decoder has written.
        """
        read = "decoder_input_ids" if self._kind == "decoder" else "input_ids"
        where = {"self": ("self",), "decoder": ("decoder",)}.get(self._kind, ("encoder", "cross"))
        kinds = self._pass.kinds
        first = next(number for number, kind in enumerate(kinds) if kind in where)
        for keys in batches(list(range(self._inputs[read].shape[1])), self._pass.at_once):

            def blocked(number: int, call: Call, keys: list[int] = keys) -> Tensor:
                if kinds[number] not in where:
                    return call.output
                return output_without_keys(call, keys)

            yield from zip(keys, self._effects(self._pass.go_on(first, len(keys), blocked)), strict=True)

    def of_muting(self, heads: Iterable[LayerHead]) -> float:
        """The effect of these (layer, head) muted together. Raises InputError where there is no such head."""
        muted = sorted(set(heads))
        for layer, head in muted:
            check_head(self.heads, layer, head)
        return next(self._muted([muted])) if muted else 0.0

    def _muted(self, variants: list[list[LayerHead]], whole: int = 1) -> Iterator[float]:
        """The effect of each of these sets of heads. whole: a batch holds a multiple of this number, if it can hold as many."""
        size = self._pass.at_once
        for together in batches(variants, size - size % whole if size > whole else size):
            yield from self._effects(self._pass.replacing(self._calls, together, lambda *_: 0))

    @torch.inference_mode()
    def _effects(self, answers: Tensor | None) -> list[float]:
        if answers is None:
            return []
        plain = self._pass.answer[None]
        if self.token is None:
            return (1 - torch.cosine_similarity(answers.double(), plain.double(), dim=-1)).tolist()
        changed, before = (logits[:, self.token] - logits.logsumexp(dim=-1) for logits in (answers, plain))
        return (changed - before).tolist()


def check_head(heads: Sequence[int], layer: int, head: int) -> None:
    """Raises InputError unless the layer is there and has the head; heads: how many each layer has."""
    check_index(layer, len(heads), "layer")
    check_index(head, heads[layer], "head")


def check_token(model: Model, logits: Tensor, token: int) -> None:
    """Raises InputError for a token that is not among those whose logits [vocabulary] these are."""
    if not 0 <= token < len(logits):
        raise InputError(
            f"There is no token {token:,}: the vocabulary of {model.name} has the numbers 0 to {len(logits) - 1:,}.",
            field="token",
        )


def _checked(model: Model, plain: Branches, token: int | None) -> int | None:
    if not plain.predicts:
        if token is None:
            return None
        raise InputError(
            f"{model.name} has no language-model head: it predicts no next token. Leave the token out to see the effect "
            f"on the sentence vector.",
            field="token",
        )
    if token is None:
        return int(plain.answer.argmax())
    check_token(model, plain.answer, token)
    return token
