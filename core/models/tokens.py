"""The texts of tokens, as a person reads them.

What a token writes is asked of its tokenizer: "ĠcafÃ©" of a byte-level vocabulary is " café". A character of several bytes can
be split over tokens; each of these shows its bytes: "‹C3›". A piece of WordPiece, whose blanks its decoder adds, is shown as it
stands: "##able". A model may have more embeddings than its tokenizer has tokens, to make their number a multiple of 64; such a
token shows its number: "‹token 49153›".
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, groupby, pairwise
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase

from ..errors import model_error
from ..pieces import BYTE_OF, as_text
from ..record_pass import Spelling

NOT_THERE = (
    "the pass was opened from a file, which holds what its heads did and not the model. Load the model itself, and let it "
    "read the text."
)


class Piece(NamedTuple):
    """A token, from `core.record_pass.Spelling`.

    piece          as it stands in the vocabulary
    data           the bytes that it adds to a text
    before, after  whether a blank may stand there: between two tokens it does where both say so
    """

    piece: str
    data: bytes
    before: bool
    after: bool

    @property
    def text(self) -> str:
        """As a person reads it."""
        return self.piece if self.before or self.after else as_text(self.data)

    @property
    def bare(self) -> str:
        """What it adds to a text: "able" of "##able"."""
        return self.data.decode(errors="replace")


@dataclass(frozen=True, eq=False)
class RecordedTokens:
    """What a file holds of a tokenizer: the pieces of the tokens that were read and of the most probable next ones.

    It stands in the place of the tokenizer for whoever asks for the texts of tokens, or for words.

    pieces           by their numbers; None for a number without a token
    all_special_ids  the numbers of those that are special
    around           what the tokenizer puts before and after every text
    stored           all of this as it stands in the file
    """

    pieces: Mapping[int, Piece | None]
    all_special_ids: Collection[int]
    around: tuple[Sequence[int], Sequence[int]] = ((), ())
    stored: Mapping[str, Any] = field(default_factory=dict)
    is_fast: bool = True

    def decode(self, ids: Sequence[int]) -> str:
        return joined(pieces_of(self, ids))

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise model_error(f"A text cannot be read: {NOT_THERE}")


def pieces_of(tokenizer: PreTrainedTokenizerBase | RecordedTokens | None, ids: Sequence[int]) -> list[Piece]:
    """What each token writes. Without a tokenizer, and for a number that has no token, the number is a word."""
    if tokenizer is None:
        return [_word(str(token)) for token in ids]
    if isinstance(tokenizer, RecordedTokens):
        known, in_bytes = [tokenizer.pieces.get(int(token)) for token in ids], tokenizer.stored.get("bytes")
    else:
        spelling = _spelling(tokenizer)
        known, in_bytes = [(one := spelling.of(int(token))) and Piece(*one) for token in ids], spelling.in_bytes
    pieces = [piece or _word(f"‹token {token}›") for token, piece in zip(ids, known, strict=True)]
    return _with_bytes(pieces) if in_bytes else pieces


def _with_bytes(pieces: list[Piece]) -> list[Piece]:
    """An added letter can have the number of the byte for which it stands in GPT-2's alphabet: "é" that of E9. It is this byte
    where it makes a character with those around it: "鬱" is E9 AC B1."""
    byte = {letter: bytes([byte]) for letter, byte in BYTE_OF.items() if byte >= 0x80}
    either = {at: byte[one.piece] for at, one in enumerate(pieces) if byte.get(one.piece, one.data) != one.data}
    if not either:
        return pieces
    every = [either.get(at, piece.data) for at, piece in enumerate(pieces)]
    # A byte that is no part of a character becomes a surrogate.
    letters = b"".join(every).decode(errors="surrogateescape")
    is_part: list[bool] = []
    for letter in letters:
        is_part += [not "\udc80" <= letter <= "\udcff"] * len(letter.encode(errors="replace"))
    starts = accumulate(map(len, every), initial=0)
    return [
        piece._replace(data=either[at]) if at in either and is_part[start] else piece
        for at, (piece, start) in enumerate(zip(pieces, starts, strict=False))
    ]


def _word(text: str) -> Piece:
    return Piece(text, text.encode(), before=True, after=True)


def _spelling(tokenizer: PreTrainedTokenizerBase) -> Spelling:
    return _asked(tokenizer, len(tokenizer), *tokenizer.all_special_ids)  # of all that can be added to it


@lru_cache(maxsize=4)
def _asked(tokenizer: PreTrainedTokenizerBase, *_: int) -> Spelling:
    return Spelling(tokenizer)


def token_texts(tokenizer: PreTrainedTokenizerBase | RecordedTokens | None, ids: Sequence[int]) -> tuple[str, ...]:
    """The text of each token, with leading spaces and newlines; without a tokenizer, its number."""
    return tuple(piece.text for piece in pieces_of(tokenizer, ids))


def joined(pieces: Sequence[Piece]) -> str:
    """The text that these tokens write together, without what stands before the first and after the last."""
    blanks = [b" " * (one.after and other.before) for one, other in pairwise(pieces)]
    data = [part for piece, blank in zip(pieces, [*blanks, b""], strict=True) for part in (piece.data, blank)]
    return as_text(b"".join(data))


def whole_text(tokenizer: PreTrainedTokenizerBase | RecordedTokens | None, ids: Sequence[int]) -> str:
    """The text of all these tokens together; without a tokenizer, their numbers."""
    if tokenizer is None:
        return " ".join(map(str, ids))
    if isinstance(tokenizer, RecordedTokens):
        return tokenizer.decode(ids)
    tokens, spelling = [*map(int, ids)], _spelling(tokenizer)
    decode: Any = tokenizer.decode
    if any(map(spelling.is_literal, tokens)):
        text = joined(pieces_of(tokenizer, tokens))
        # SentencePiece writes no blank before the first word.
        return text if decode(tokens[:1]).startswith(" ") else text.removeprefix(" ")
    # A tokenizer leaves out unknown tokens, or fails.
    parts = groupby(tokens, lambda token: spelling.of(token) is not None)
    return "".join(decode([*part]) if known else joined(pieces_of(tokenizer, [*part])) for known, part in parts)
