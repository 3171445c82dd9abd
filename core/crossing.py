"""Self- and cross-attention: the same stages, with queries from one text and keys and values from another.

Vaswani et al. 2017, sections 3.1 and 3.2.3: an encoder reads a text; a decoder writes one, first looking at what it has
written so far, then at what the encoder has read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.attention import Array, AttentionTrace, attend
from core.errors import InputError
from core.heads import LayerWeights, random_layer
from core.masks import causal, everything, grid
from core.sources import embed

if TYPE_CHECKING:
    from core.capturing import Capture

Place = Literal["encoder", "decoder", "cross"]
Text = Literal["read", "written"]


@dataclass(frozen=True)
class Block:
    """One attention block: which text its queries come from, and which one its keys and values.

    seed    of its own untrained weights: the three blocks share none
    """

    name: str
    query_text: Text
    key_text: Text
    causal: bool
    seed: int


BLOCKS: dict[Place, Block] = {
    "encoder": Block("Encoder", "read", "read", causal=False, seed=0),
    "decoder": Block("Decoder: first", "written", "written", causal=True, seed=1),
    "cross": Block("Decoder: second", "written", "read", causal=False, seed=2),
}


@dataclass(frozen=True, eq=False)
class Crossing:
    """One block at work; `trace` holds its queries, keys, values and every stage."""

    block: Block
    trace: AttentionTrace
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]


def cross(
    queries_from: Array, keys_from: Array, weights: LayerWeights, *, mask: ArrayLike | None = None
) -> AttentionTrace:
    """One head as wide as the model: queries from one sequence [queries, d_model], keys and values from another
    [keys, d_model]. With the same sequence twice it is self-attention."""
    return attend(queries_from @ weights.W_Q, keys_from @ weights.W_K, keys_from @ weights.W_V, mask=mask)


def crossing(place: Place, read: str, written: str, *, d_model: int = 8) -> Crossing:
    """An untrained block over the words of two texts: `read` by the encoder, `written` so far by the decoder.

    Only this block: its input is the words' own random vectors (`core.sources.embed`), not what earlier blocks would make of
    them. Raises InputError (field "read" or "written") for a text without words.
    """
    block = BLOCKS[place]
    texts: dict[Text, str] = {"read": read, "written": written}
    query_tokens, queries_from = _embedded(texts, block.query_text, d_model)
    key_tokens, keys_from = _embedded(texts, block.key_text, d_model)
    predicate = causal if block.causal else everything
    mask = grid(predicate, len(query_tokens), len(key_tokens))
    trace = cross(queries_from, keys_from, random_layer(d_model, seed=block.seed), mask=mask)
    return Crossing(block, trace, query_tokens, key_tokens)


@dataclass(frozen=True, eq=False)
class OtherKeys:
    """The decoder's second block before and after the read text is exchanged.

    query_change    the largest change of a number in the queries: exactly 0
    output_change   the largest change of a number in the output, which keeps its shape [queries, d_v]
    """

    before: Crossing
    after: Crossing
    query_change: float
    output_change: float


def other_keys(read: str, instead: str, written: str) -> OtherKeys:
    """What changes in cross-attention when the encoder reads another text. Errors as in `crossing`, or with field "instead"."""
    before = crossing("cross", read, written)
    try:
        after = crossing("cross", instead, written)
    except InputError as error:
        raise InputError(str(error), field="instead") from None
    return OtherKeys(
        before,
        after,
        query_change=float(np.abs(after.trace.query - before.trace.query).max()),
        output_change=float(np.abs(after.trace.output - before.trace.output).max()),
    )


def _embedded(texts: dict[Text, str], which: Text, d_model: int) -> tuple[tuple[str, ...], Array]:
    try:
        return embed(texts[which], d_model=d_model)
    except InputError as error:
        raise InputError(str(error), field=which) from None


# --- a pair of texts inside one self-attention


@dataclass(frozen=True)
class Shares:
    """Of the weight that the words of one text give: how much stays in that text, crosses to the other, and goes to the
    special tokens around them. The three add up to 1."""

    own: float
    other: float
    special: float


def pair_shares(weights: Array, sides: NDArray[np.int_]) -> tuple[Shares, Shares]:
    """Where the weight of each text of a pair goes, averaged over its words.

    weights   [n, n], one head's weights over both texts
    sides     [n] of 0 (first text), 1 (second text) and -1 (special token)
    """
    first, second = (
        Shares(
            own=float(weights[np.ix_(sides == side, sides == side)].sum(axis=1).mean()),
            other=float(weights[np.ix_(sides == side, sides == 1 - side)].sum(axis=1).mean()),
            special=float(weights[np.ix_(sides == side, sides == -1)].sum(axis=1).mean()),
        )
        for side in (0, 1)
    )
    return first, second


def pair_sides(capture: Capture, first: str, second: str) -> NDArray[np.int_]:
    """Which text each token of a captured pair belongs to: [tokens] of 0 (first text), 1 (second text), -1 (special token).

    Raises InputError (field "pair") if the second text is blank, or if the model puts anything but one special token before,
    between and after the texts, as BERT does: [CLS] first [SEP] second [SEP].
    """
    tokenizer = capture.model.tokenizer
    if tokenizer is None or not second.strip():
        raise InputError("The second text is blank. Type at least one word.", field="pair")
    lengths = [len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in (first, second)]
    sides = np.repeat([-1, 0, -1, 1, -1], [1, lengths[0], 1, lengths[1], 1])
    if len(sides) != len(capture.input_ids):
        raise InputError(
            f"{capture.model.name} does not put its special tokens around a pair as BERT does.", field="pair"
        )
    return sides


def crossing_shares(capture: Capture, sides: NDArray[np.int_]) -> Array:
    """The part of every head's weight that crosses from text to text, the mean of both directions: [layers, heads]."""
    pairs = [
        [pair_shares(capture.trace(layer, head).weights, sides) for head in range(capture.heads())]
        for layer in range(capture.layers())
    ]
    return np.array([[(first.other + second.other) / 2 for first, second in layer] for layer in pairs])
