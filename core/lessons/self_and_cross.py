"""Self- and cross-attention: the same stages, with queries from one text and keys and values from another.

Vaswani et al. 2017, sections 3.1 and 3.2.3: an encoder reads a text, and a decoder writes another one. Each layer of the
decoder looks first at the text written so far, then at the text that the encoder has read.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ..attention.masks import causal, everything, grid
from ..attention.sources import embed
from ..attention.trace import Array, AttentionTrace, attend
from ..errors import InputError
from .many_heads import LayerWeights, random_layer

Place = Literal["encoder", "decoder", "cross"]
Text = Literal["read", "written"]


@dataclass(frozen=True)
class AttentionBlock:
    """One attention block: the text of its queries, and the text of its keys and values."""

    name: str
    query_text: Text
    key_text: Text
    causal: bool
    seed: int  # of its untrained weights, which differ in each of the three blocks


BLOCKS: dict[Place, AttentionBlock] = {
    "encoder": AttentionBlock("Encoder", "read", "read", causal=False, seed=0),
    "decoder": AttentionBlock("Decoder: first", "written", "written", causal=True, seed=1),
    "cross": AttentionBlock("Decoder: second", "written", "read", causal=False, seed=2),
}


@dataclass(frozen=True, eq=False)
class Crossing:
    """One block at work: the trace of its head, and the tokens of its queries and keys."""

    block: AttentionBlock
    trace: AttentionTrace
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]


def cross(
    queries_from: Array, keys_from: Array, weights: LayerWeights, *, mask: ArrayLike | None = None
) -> AttentionTrace:
    """One head as wide as the model: queries from one sequence [queries, d_model], keys and values from another
    [keys, d_model]. With the same sequence twice this is self-attention."""
    return attend(queries_from @ weights.W_Q, keys_from @ weights.W_K, keys_from @ weights.W_V, mask=mask)


def crossing(place: Place, read: str, written: str, *, d_model: int = 8) -> Crossing:
    """Run an untrained block over the words of two texts: `read` by the encoder, `written` so far by the decoder.

    There is only this block: its inputs are random vectors of the words (`core.attention.sources.embed`), not the outputs of
    earlier blocks. Raises InputError (field "read" or "written") for a text without words.
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
    """The decoder's second block before and after a change of the text that the encoder reads."""

    before: Crossing
    after: Crossing
    query_change: float  # the largest change of a number in the queries: exactly 0
    output_change: float  # the largest change of a number in the output, which keeps its shape [queries, d_v]


def other_keys(read: str, instead: str, written: str) -> OtherKeys:
    """Compare cross-attention to two texts of the encoder. Raises InputError as `crossing`, or with field "instead"."""
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


# --- a trained model that reads a date in words or numbers and writes it as YYYY-MM-DD, both by characters

DATES_MODEL = "written-dates"
ALIGNING_HEAD = (0, 0)  # (layer, head) of the cross-attention that follows the alignment best, by the model card
DATE = "the 3rd of march 1987"
MONTHS = ("january", "february", "march", "april", "may", "june")
MONTHS += ("july", "august", "september", "october", "november", "december")

Span = tuple[int, int]  # start, stop


@dataclass(frozen=True)
class Look:
    """Where a query of cross-attention looks when it decides the next character."""

    writes: str  # this character
    key: int  # the position of the key with the largest weight
    weight: float  # this weight
    origin: Span | None  # the keys from which the character is read, if the text tells; None otherwise
    share: float | None  # the query's weight on these keys; None if they are unknown


def looks(weights: Array, queries: Sequence[str], keys: Sequence[str]) -> tuple[Look, ...]:
    """A look for each character that the decoder has written.

    weights  [queries, keys] of one head of cross-attention
    queries  the tokens of the decoder: the start token, then the written characters
    keys     the tokens of the encoder

    A character is decided by the query before it, the first one by the start token. So the last query, whose character has not
    been written, has no look. Raises InputError (field "target") if nothing was written.
    """
    written = queries[1:]
    if not written:
        raise InputError("The model has written nothing here. Give it a date.", field="target")
    by_character = []
    for row, writes, origin in zip(weights[:-1], written, origins(keys, "".join(written)), strict=True):
        key = int(row.argmax())
        share = None if origin is None else float(row[slice(*origin)].sum())
        by_character.append(Look(writes, key, float(row[key]), origin, share))
    return tuple(by_character)


def mean_share(looks: Sequence[Look]) -> float | None:
    """The mean of the known shares; None if there are none."""
    shares = [look.share for look in looks if look.share is not None]
    return float(np.mean(shares)) if shares else None


def origins(tokens: Sequence[str], answer: str) -> tuple[Span | None, ...]:
    """The tokens of a written date from which each character of the answer YYYY-MM-DD is read.

    A digit is read from the digit of a number, from the name of a month, or, in the century of a two-digit year, from both of
    its digits. An origin is given only if exactly one number or name in the text can be this part of the date, and it can be
    nothing else. So it is None for the hyphens, for days in words, for the 5s of 5.5.1987, and for an answer that is not a
    date.

    tokens  one for each character; longer tokens are special and have no meaning
    """
    spans: list[Span | None] = [None] * len(answer)
    if not re.fullmatch(r"[0-9]{4}-(0[1-9]|1[0-2])-[0-9]{2}", answer):
        return tuple(spans)
    text = "".join(token if len(token) == 1 else "\n" for token in tokens)
    pieces = {piece.start(): piece.group().lower() for piece in re.finditer("[0-9]+|[A-Za-z]+", text)}
    year, month, day = answer.split("-")
    name = MONTHS[int(month) - 1]

    def starts_of(*spellings: str) -> list[int]:
        return [start for start, piece in pieces.items() if piece in spellings]

    candidates = {
        (0, 4): starts_of(year) or starts_of(year[2:]),
        (5, 7): starts_of(name, name[:3]) or starts_of(month, month.lstrip("0")),
        (8, 10): starts_of(day, day.lstrip("0")),
    }
    all_starts = [start for starts in candidates.values() for start in starts]
    for (first, end), starts in candidates.items():
        if len(starts) == 1 and all_starts.count(starts[0]) == 1:
            start, piece = starts[0], pieces[starts[0]]
            for position in range(first, end):
                digit = len(piece) - (end - position)  # counted from the right: numbers lack digits on the left
                is_digit = piece.isdecimal() and digit >= 0
                spans[position] = (start + digit, start + digit + 1) if is_digit else (start, start + len(piece))
    return tuple(spans)
