"""Many heads: split, attend, concatenate, project.

Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2:

    MultiHead(Q, K, V) = Concat(head_1 ... head_h) W_O,   head_i = Attention(Q W_Q_i, K W_K_i, V W_V_i)

W_Q [d_model, d_model] contains the matrices of all heads side by side: its columns are cut into h pieces, as are those of W_K
and W_V; W_O is cut by rows. So more heads need no more parameters: each head is narrower.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from ..attention.sources import embed
from ..attention.trace import Array, AttentionTrace, attend
from ..errors import InputError


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """The four matrices [d_model, d_model] of an attention layer, all heads side by side, without biases."""

    W_Q: Array
    W_K: Array
    W_V: Array
    W_O: Array

    @property
    def d_model(self) -> int:
        return self.W_Q.shape[0]


@dataclass(frozen=True, eq=False)
class ManyHeads:
    """A layer of h heads at work, step by step; d_head = d_model / h."""

    weights: LayerWeights  # the layer's matrices
    traces: tuple[AttentionTrace, ...]  # one a head: query [queries, d_head], key and value [keys, d_head]

    @property
    def heads(self) -> int:
        return len(self.traces)

    @property
    def d_head(self) -> int:
        return self.traces[0].value.shape[1]

    @property
    def parameters(self) -> int:
        """Entries of all matrices of all heads: h · (3 · d_model · d_head + d_head · d_model) = 4 · d_model²."""
        matrices = (self.weights.W_Q, self.weights.W_K, self.weights.W_V, self.weights.W_O)
        return sum(matrix.size for matrix in matrices)

    @cached_property
    def joined(self) -> Array:
        """The heads' outputs side by side: [queries, d_model]."""
        return np.hstack([trace.output for trace in self.traces])

    @cached_property
    def output(self) -> Array:
        """joined @ W_O: [queries, d_model]."""
        return self.joined @ self.weights.W_O

    @cached_property
    def contributions(self) -> Array:
        """Each head's output times its own rows of W_O: [heads, queries, d_model], which add up to the output."""
        pieces = split(self.weights.W_O.T, self.heads).swapaxes(1, 2)  # [heads, d_head, d_model]
        return np.stack([trace.output @ piece for trace, piece in zip(self.traces, pieces, strict=True)])

    @cached_property
    def total(self) -> Array:
        """The sum of the contributions: [queries, d_model]."""
        return self.contributions.sum(axis=0)

    @property
    def difference(self) -> float:
        """The largest |output - total|: both are the same numbers, up to rounding."""
        return float(np.abs(self.output - self.total).max())


def split(x: Array, heads: int) -> Array:
    """Cut the columns of x [n, d_model] into equal pieces: [heads, n, d_model / heads].

    Raises InputError if d_model is not a multiple of heads.
    """
    n, d_model = x.shape
    if heads < 1 or d_model % heads:
        raise InputError(
            f"{d_model} columns cannot be split into {heads} heads of equal width. Choose a number that divides {d_model}.",
            field="heads",
        )
    return x.reshape(n, heads, d_model // heads).transpose(1, 0, 2)


def strongest_word(length: Array) -> int:
    """The query with the largest contribution of a single head, from the contributions' lengths [heads, queries]."""
    return int(length.max(axis=0).argmax())


def random_layer(d_model: int, *, seed: int = 0) -> LayerWeights:
    """An untrained layer: normal entries with variance 1/d_model, so that queries, keys and values have variance 1."""
    rng = np.random.default_rng(seed)
    return LayerWeights(*(rng.standard_normal((4, d_model, d_model)) / np.sqrt(d_model)))


def many_heads(x: Array, weights: LayerWeights, heads: int, *, mask: ArrayLike | None = None) -> ManyHeads:
    """Self-attention of x [n, d_model] with h heads of width d_model / h; `mask` as in `attend`, for every head."""
    query, key, value = (split(x @ matrix, heads) for matrix in (weights.W_Q, weights.W_K, weights.W_V))
    return ManyHeads(weights, tuple(attend(*head, mask=mask) for head in zip(query, key, value, strict=True)))


def heads_of_a_sentence(
    text: str, heads: int, *, d_model: int = 24, seed: int = 0
) -> tuple[tuple[str, ...], ManyHeads]:
    """(the words of a sentence, h untrained heads that read their random vectors).

    The layer consists of the same 4 · d_model² random numbers for every h.
    """
    words, x = embed(text, d_model=d_model, seed=seed)
    return words, many_heads(x, random_layer(d_model, seed=seed), heads)


# --- why several: a row of weights adds up to 1

PAIR = ("dog bites man", "man bites dog")
PAIR_WORDS = ("dog", "bites", "man")


@dataclass(frozen=True, eq=False)
class PairOutputs:
    """What attention gives the verb of each sentence of PAIR from its two neighbours."""

    one_head: Array  # [2 sentences, 3]: how much of each of PAIR_WORDS is in the output of a single head
    two_heads: Array  # [2 sentences, 6]: the same for a head that looks left, then for a head that looks right

    def apart(self, outputs: Array) -> float:
        """The largest difference between the outputs of the two sentences: 0 if the verb cannot tell them apart."""
        return float(np.abs(outputs[0] - outputs[1]).max())


def fetch(share: float = 0.5) -> PairOutputs:
    """Compare one head with two. One head gives `share` (0 to 1) of its weight to the word on the left and the rest to the word
    on the right; two heads look at one side each.

    "With a single attention head, averaging inhibits this" (Vaswani et al. 2017, section 3.2.2).

    Raises InputError if the share is outside 0 to 1.
    """
    if not 0 <= share <= 1:
        raise InputError(f"The share is {share}; it has to be between 0 and 1.", field="share")
    identities = np.eye(len(PAIR_WORDS))
    values = [identities[[PAIR_WORDS.index(word) for word in text.split()]] for text in PAIR]
    left, right, blend = (
        np.concatenate([_looking([first, 0.0, 1 - first], value) for value in values]) for first in (1.0, 0.0, share)
    )
    return PairOutputs(one_head=blend, two_heads=np.hstack([left, right]))


def _looking(row: list[float], value: Array) -> Array:
    """The output [1, d_v] of a query with these weights: its scores are their logarithms."""
    with np.errstate(divide="ignore"):
        scores = np.log([row])
    return attend(np.zeros((1, 1)), np.zeros((len(value), 1)), value, bias=scores).output
