"""What heads write: whether the token at which a head looks comes back in what it writes from there.

A head writes the sum of the values of its keys, each times its weight, through W_O. On the direct path into the logits, with
every norm held at its scale, this is a linear map (Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits",
https://transformer-circuits.pub/2021/framework). Up to a factor above 0 it is the same in every text, so the order of the
tokens that a value raises does not depend on the factor, and the map is worked out once for a model.

A head writes a key's token back if it is among the RAISED tokens that the value there raises most: the copy score of Wang et
al. 2023 (section 3.3, https://arxiv.org/abs/2211.00593), there of names after the first MLP, here of what the head looks at.
"""

from collections.abc import Iterable, Sequence
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from ..capturing.calls.rows import Rows
from ..capturing.capture import Capture, capture
from ..errors import InputError
from ..models.calls import Call, wide
from ..models.model import Model
from ..models.modules import Kind
from ..progress import stop_point
from .facts import Facts

RAISED = 5  # tokens that a value raises most
DRAWN = 4  # queries of each passage that a claim speaks of: each head's product with the vocabulary is dear
TRIES = 8
PART = 256  # tokens of the vocabulary that are tried first: most are out after these
MOST_AT_ONCE = 4096
TOKENS = 64  # of the text whose pass gives the maps
STRONG = 0.5  # of a query's attention on one key: the head has chosen it


class Writer:
    """The direct path from a model's heads into its logits.

    maps  by layer, from a head's output before W_O to what the language-model head reads: [heads, d_v, d_model]
    rows  of the language-model head: [vocabulary, d_model]
    """

    def __init__(self, model: Model, kind: Kind) -> None:
        """Raises InputError for a model without a language-model head, for heads without a direct path to it (an encoder's),
        and for a model that cannot be taken apart into components."""
        with torch.inference_mode(mode=False):
            components = capture(model, "a " * TOKENS, max_tokens=TOKENS, truncate=True, components=True).components
            if components is None or components.readout is None:
                raise InputError(f"{model.name} predicts no next token.", field="model")
            heads = [one.tensor for one in components.written if one.role == "head" and (one.where or "self") == kind]
            self.rows = components.readout.weight
            self.maps = _maps(components.final[0], heads)
        if len(self.maps) < len(heads):
            raise InputError(f"The {kind} heads of {model.name} write into no logit themselves.", field="model")

    def vectors(self, layer: int, call: Call, heads: Tensor, keys: Tensor) -> Tensor:
        """What heads write from some keys, as the language-model head reads it: [heads, some, d_model]. keys: [heads, some]"""
        values = wide(call.value[0, (heads // call.group)[:, None], keys])
        return values @ self.maps[layer][heads]

    def raises(self, vectors: Tensor, tokens: Tensor) -> Tensor:
        """Whether a vector raises a token more than all others but RAISED - 1: [some, t] bool. tokens: [some, t] numbers

        Exact, although for most of them a part of the vocabulary says it.
        """
        own = (vectors[:, None] * wide(self.rows[tokens])).sum(dim=-1)
        above, left = torch.zeros_like(tokens), torch.arange(len(tokens), device=tokens.device)
        start, stop = 0, PART
        while start < len(self.rows) and len(left):
            stop_point()
            logits = vectors[left] @ wide(self.rows[start:stop]).T
            for column, token in enumerate(tokens[left].T):
                more = logits > own[left, column, None]
                here = ((token >= start) & (token < stop)).nonzero()[:, 0]
                more[here, token[here] - start] = False  # nor by rounding: no token is above itself
                above[left, column] += more.sum(dim=-1)
            left = left[(above[left] < RAISED).any(dim=-1)]
            start, stop = stop, min(4 * stop, stop + MOST_AT_ONCE)
        return above < RAISED


def _maps(read: Tensor, heads: Sequence[Tensor]) -> list[Tensor]:
    """By layer, the map from what heads gave to what is read from it: [heads, d_v, d_model], up to a factor of the layer.

    read   [tokens, d_model]
    heads  by layer, [1, tokens, heads, d_v]; layers that do not reach `read` have no map

    One backward pass gives as many columns of the maps as there are tokens, one at each. A column depends on its token by a
    factor, for the norms had other scales there; one direction that is the same at all tokens gives the factors.
    """
    tokens, width = read.shape

    def back(directions: Tensor) -> list[Tensor]:
        stop_point()
        found = torch.autograd.grad(read, heads, directions, retain_graph=True, allow_unused=True)
        return [wide(one[0]) for one in found if one is not None]  # each [tokens, heads, d_v]

    same = torch.randn(width, generator=torch.Generator().manual_seed(0)).to(read)
    factors = [(one * one[-1]).sum((-1, -2)) / one[-1].square().sum() for one in back(same.expand(tokens, width))]
    columns = [back(some) for some in torch.eye(-(-width // tokens) * tokens, width).to(read).split(tokens)]
    maps = []
    for factor, of_layer in zip(factors, zip(*columns, strict=True), strict=True):
        of_layer = torch.cat([some / factor[:, None, None] for some in of_layer])[:width]
        maps.append(of_layer.movedim(0, -1).nan_to_num().contiguous())  # 0/0 of a layer that writes nothing is 0
    return maps


_WRITERS: WeakKeyDictionary[PreTrainedModel, dict[Kind, Writer | None]] = WeakKeyDictionary()


def writer_of(model: Model, kind: Kind) -> Writer | None:
    """What is known of these heads' way into the logits, which takes as much memory as their W_O; None where there is none."""
    known = _WRITERS.setdefault(model.network, {})
    if kind not in known:
        try:
            known[kind] = Writer(model, kind)
        except InputError:
            known[kind] = None
    return known[kind]


class PassageWriting:
    """What the heads of a passage write from the keys that some queries look at most, layer by layer.

    Of the keys where attention does not rest, which are neither the first nor special, a query looks most at the one that gets
    most of its attention. Queries without such a key do not count.
    """

    def __init__(self, writer: Writer, facts: Facts, when: Sequence[NDArray[np.bool_]]) -> None:
        """when: [L] of each claim: the queries it speaks of. DRAWN of them are drawn, by the tokens of the passage alone"""
        rng = np.random.default_rng(facts.ids)
        order = rng.permutation(len(facts))
        drawn = [order[queries[order]][:DRAWN] for queries in when]
        self._writer, self._ids, self._others = writer, torch.from_numpy(facts.ids), torch.from_numpy(~facts.rests)
        self._queries = np.unique(np.concatenate(drawn))
        self._counts = torch.from_numpy(np.stack([np.isin(self._queries, one) for one in drawn]))  # [claims, queries]
        self._instead = torch.from_numpy(_instead(facts, rng))
        self._keys: list[tuple[Tensor, Tensor]] = []  # by layer: the keys, and what they get
        self._vectors: list[Tensor] = []

    def add(self, call: Call, blocks: Iterable[Rows]) -> None:
        """Add a layer, from all of its rows."""
        found = []
        for rows in blocks:
            mine = self._queries[(self._queries >= rows.start) & (self._queries < rows.stop)] - rows.start
            found.append((rows.weights[:, mine].float().cpu() * self._others[: rows.weights.shape[2]]).max(dim=-1))
        weights, keys = (torch.cat(part, dim=1) for part in zip(*found, strict=True))  # [heads, queries]
        self._vectors.append(self._writer.vectors(len(self._keys), call, torch.arange(len(keys)), keys).flatten(0, 1))
        self._keys.append((keys, weights))

    def numbers(self) -> list[dict[str, Tensor]]:
        """Counts and sums by layer, by their names in `ClaimSums`: [heads, claims]."""
        keys = torch.cat([keys.flatten() for keys, _ in self._keys])
        tokens = torch.stack([self._ids[keys], self._instead[keys]], dim=1)
        written = self._writer.raises(torch.cat(self._vectors), tokens.to(self._vectors[0].device)).cpu()
        numbers = []
        for (keys, weights), both in zip(self._keys, written.split([len(v) for v in self._vectors]), strict=True):
            own, other = both.T.reshape(2, *keys.shape)
            there, strong = weights > 0, weights >= STRONG
            kinds = {"usual": there & other, "strong": strong, "hits": strong & own}
            kinds |= dict.fromkeys(("queries", "chance"), there) | dict.fromkeys(("shares", "recalled"), there & own)
            sums = {name: found.double() @ self._counts.T.double() for name, found in kinds.items()}
            numbers.append(sums | {"chance": sums["chance"] * (RAISED / len(self._writer.rows))})
        return numbers


def _instead(facts: Facts, rng: np.random.Generator) -> NDArray[np.integer]:
    """[L] for each token another of the passage, drawn: a head that writes the same wherever it looks raises it as often.

    Where TRIES draws give the same token it stays, and counts as raised.
    """
    others = np.flatnonzero(~facts.rests)
    if not len(others):
        return facts.ids
    drawn = facts.ids[rng.choice(others, (len(facts), TRIES))]
    return drawn[np.arange(len(facts)), (drawn != facts.ids[:, None]).argmax(axis=1)]


def looked_at(
    taken: Capture, facts: Facts, place: tuple[int, int], kind: Kind
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(the key that each query of a head looks at most: [L, L], whether the head writes its token from there: [L]), of all
    queries; no keys where the model's heads write into no logit."""
    layer, head = place
    keys, ids = np.zeros(facts.back.shape, np.bool_), torch.from_numpy(facts.ids)
    if (writer := writer_of(taken.model, kind)) is None:
        return keys, np.zeros(len(facts), np.bool_)
    weights = np.where(facts.rests, 0, taken.trace(layer, head, kind).weights)
    most = weights.argmax(axis=1)
    keys[np.arange(len(facts)), most] = weights.max(axis=1) > 0
    every = torch.arange(len(facts))
    vectors = writer.vectors(layer, taken.layer_call(layer, kind), torch.tensor([head]), every[None])[0]
    written = writer.raises(vectors, ids[:, None].to(vectors.device))[:, 0]
    return keys, written.numpy(force=True)[most]
