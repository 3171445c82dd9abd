"""The texts of tokens, as a person reads them.

Byte-level vocabularies write " café" as "ĠcafÃ©"; here it is " café" again. A character of several bytes can be split over
tokens; each of these shows its bytes: "‹C3›". A model may have more embeddings than its tokenizer has tokens, to make their
number a multiple of 64; such a token shows its number: "‹token 49153›".
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from types import MappingProxyType
from typing import Any

from transformers import PreTrainedTokenizerBase

from ..errors import model_error
from ..pieces import bytes_as_text
from ..record_pass import spelling

NOT_THERE = (
    "the pass was opened from a file, which holds what its heads did and not the model. Load the model itself, and let it "
    "read the text."
)


@dataclass(frozen=True, eq=False)
class RecordedTokens:
    """What a file holds of a tokenizer: the pieces of the tokens that were read and of the most probable next ones.

    It stands in the place of the tokenizer for whoever asks for the texts of tokens, or for words.

    pieces           the tokens as they stand in the vocabulary, by their numbers
    all_special_ids  the numbers of those that are special
    in_bytes         whether they are spelled in GPT-2's alphabet of bytes
    marks            how pieces tell where words begin: see core.models.words
    around           what the tokenizer puts before and after every text
    """

    pieces: Mapping[int, str | None]
    all_special_ids: Collection[int]
    in_bytes: bool
    marks: str
    around: tuple[Sequence[int], Sequence[int]] = ((), ())
    is_fast: bool = True

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str | None]:
        return [self.pieces.get(token) for token in ids]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(token_texts(self, ids))

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise model_error(f"A text cannot be read: {NOT_THERE}")


def token_texts(tokenizer: PreTrainedTokenizerBase | RecordedTokens | None, ids: Sequence[int]) -> tuple[str, ...]:
    """The text of each token, with leading spaces and newlines; without a tokenizer, its number."""
    if tokenizer is None:
        return tuple(str(token) for token in ids)
    special = set(tokenizer.all_special_ids)
    byte_level, _ = spelled(tokenizer)

    def text(token: int) -> str:
        piece = _piece(tokenizer, token)
        if piece is None:
            return f"‹token {token}›"
        if token in special:
            return piece
        return bytes_as_text(piece) if byte_level else piece.replace("▁", " ")

    tokens = [int(token) for token in ids]
    texts = {token: text(token) for token in set(tokens)}
    return tuple(texts[token] for token in tokens)


def whole_text(tokenizer: PreTrainedTokenizerBase | None, ids: Sequence[int]) -> str:
    """The text of all these tokens together; without a tokenizer, their numbers."""
    if tokenizer is None:
        return " ".join(map(str, ids))
    # A tokenizer leaves out unknown tokens, or fails.
    parts = groupby(map(int, ids), lambda token: _piece(tokenizer, token) is not None)
    return "".join(
        str(tokenizer.decode([*part])) if known else "".join(token_texts(tokenizer, [*part])) for known, part in parts
    )


def _piece(tokenizer: PreTrainedTokenizerBase | RecordedTokens, token: int) -> str | None:
    """The token as it stands in the vocabulary; None for a number beyond the vocabulary."""
    try:
        (piece,) = tokenizer.convert_ids_to_tokens([token])
        return piece
    except Exception:  # some tokenizers give None, others fail, each with another error
        return None


@lru_cache(maxsize=4)
def spelled(tokenizer: PreTrainedTokenizerBase | RecordedTokens) -> tuple[bool, str]:
    """Whether pieces are spelled in GPT-2's alphabet of bytes, and how they mark words: see `core.record_pass.spelling`."""
    if isinstance(tokenizer, RecordedTokens):
        return tokenizer.in_bytes, tokenizer.marks
    return spelling(tokenizer, vocabulary(tokenizer))


@lru_cache(maxsize=4)
def vocabulary(tokenizer: PreTrainedTokenizerBase) -> Mapping[str, int]:
    """Every piece of the vocabulary with its number; cached, because the tokenizer needs milliseconds to list them."""
    return MappingProxyType(tokenizer.get_vocab())
