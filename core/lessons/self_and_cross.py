"""Self- and cross-attention: the same stages, with queries from one text and keys and values from another.

Vaswani et al. 2017, sections 3.1 and 3.2.3: an encoder reads a text; a decoder writes one, first looking at what it has
written so far, then at what the encoder has read.
"""

from __future__ import annotations

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

    Only this block: its input is the words' own random vectors (`core.attention.sources.embed`), not what earlier blocks
    would make of them. Raises InputError (field "read" or "written") for a text without words.
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


# --- a trained model that reads a date as somebody wrote it, and writes it as YYYY-MM-DD, both by characters

DATES_MODEL = "written-dates"
ALIGNING_HEAD = (0, 0)  # (layer, head) of its cross-attention that follows the true alignment best, by its card
DATE = "the 3rd of march 1987"
MONTHS = ("january", "february", "march", "april", "may", "june")
MONTHS += ("july", "august", "september", "october", "november", "december")

Span = tuple[int, int]  # start, stop


@dataclass(frozen=True)
class Look:
    """Where one query of cross-attention looks while it decides which character comes next.

    writes  that character
    key     the place of the key with the largest weight
    weight  that weight
    origin  which keys the character was read from, where the text itself tells
    share   of the query's weight on these keys; None where they are not known
    """

    writes: str
    key: int
    weight: float
    origin: Span | None
    share: float | None


def looks(weights: Array, queries: Sequence[str], keys: Sequence[str]) -> tuple[Look, ...]:
    """A look for each character that the decoder has written.

    weights        [queries, keys] of one head of cross-attention
    queries, keys  their tokens: the start token and what was written after it, and what was read

    The query that decides a character is the one before it: the start token decides the first. So the last query, which
    decides what has not been written, has no look. Raises InputError (field "target") where nothing was written.
    """
    written = queries[1:]
    if not written:
        raise InputError("The model has written nothing here. Give it a date.", field="target")
    found = []
    for row, writes, origin in zip(weights[:-1], written, origins(keys, "".join(written)), strict=True):
        key = int(row.argmax())
        share = None if origin is None else float(row[slice(*origin)].sum())
        found.append(Look(writes, key, float(row[key]), origin, share))
    return tuple(found)


def mean_share(looks: Sequence[Look]) -> float | None:
    """The mean of the shares that are known; None where none is."""
    shares = [look.share for look in looks if look.share is not None]
    return float(np.mean(shares)) if shares else None


def origins(tokens: Sequence[str], answer: str) -> tuple[Span | None, ...]:
    """Which tokens of a written date each character of the answer YYYY-MM-DD comes from: of a number the digit, of the name of
    a month the name, of the century of a two-digit year both its digits.

    tokens  one for each character; longer ones stand for themselves and mean nothing

    Told only where one piece of the text, a number or a name, can mean this part of the date, and nothing else: None for the
    hyphens, for days in words, for the 5s of 5.5.1987, and all through for an answer that is no date.
    """
    found: list[Span | None] = [None] * len(answer)
    if not re.fullmatch(r"[0-9]{4}-(0[1-9]|1[0-2])-[0-9]{2}", answer):
        return tuple(found)
    text = "".join(token if len(token) == 1 else "\n" for token in tokens)
    pieces = {piece.start(): piece.group().lower() for piece in re.finditer("[0-9]+|[A-Za-z]+", text)}
    year, month, day = answer.split("-")
    name = MONTHS[int(month) - 1]

    def standing(*spellings: str) -> list[int]:
        return [start for start, piece in pieces.items() if piece in spellings]

    meant = {
        (0, 4): standing(year) or standing(year[2:]),
        (5, 7): standing(name, name[:3]) or standing(month, month.lstrip("0")),
        (8, 10): standing(day, day.lstrip("0")),
    }
    starts = [start for part in meant.values() for start in part]
    for (first, end), part in meant.items():
        if len(part) == 1 and starts.count(part[0]) == 1:
            start, piece = part[0], pieces[part[0]]
            for place in range(first, end):
                digit = len(piece) - (end - place)  # counted from the right: numbers lack digits at the left
                is_digit = piece.isdecimal() and digit >= 0
                found[place] = (start + digit, start + digit + 1) if is_digit else (start, start + len(piece))
    return tuple(found)
