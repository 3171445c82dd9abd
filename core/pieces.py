"""Pieces of a vocabulary as a person reads them: "ĠcafÃ©", in GPT-2's alphabet of bytes, is " café", and "▁is" is " is"."""

import codecs
import re
from collections.abc import Sequence

# Bytes that are printable characters stand for themselves; the others follow from 256 on (Radford et al. 2019, section 2.2).
_PRINTABLE = (*range(33, 127), *range(161, 173), *range(174, 256))
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
BYTE_OF = {chr(byte): byte for byte in _PRINTABLE} | {chr(256 + place): byte for place, byte in enumerate(_OTHERS)}


def bytes_as_text(piece: str) -> str:
    """A piece in GPT-2's alphabet. A token that was added as plain text stays as it is: it has other letters, or as bytes it is
    no part of a text ("Straße"), or has control characters ("kuća")."""
    if not BYTE_OF.keys() >= {*piece}:
        return piece
    data = bytes(BYTE_OF[letter] for letter in piece)
    try:
        # A character may have begun before the piece, and another one may go on after it.
        whole = codecs.getincrementaldecoder("utf-8")().decode(data.lstrip(bytes(range(0x80, 0xC0))))
    except UnicodeDecodeError:
        return piece
    return piece if re.search(r"[\0-\x08\x0e-\x1f\x7f-\x9f]", whole) else as_text(data)


def as_text(data: bytes) -> str:
    """Bytes of UTF-8 as a text, with the bytes of what is a part of a character: "‹C3›"."""
    return data.decode(errors=_SHOWN)


def _bytes_shown(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    end = error.end
    while 0x80 <= (error.object[end : end + 1] or b" ")[0] < 0xC0:  # what would go on with a character
        end += 1
    return f"‹{error.object[error.start : end].hex(' ').upper()}›", end


_SHOWN = "headlight.bytes"  # the name of this way to decode
codecs.register_error(_SHOWN, _bytes_shown)


def as_texts(tokens: Sequence[str]) -> tuple[str, ...]:
    """Tokens as a tokenizer's `convert_ids_to_tokens` gives them, as texts. Tokens that are texts already stay as they are: a
    blank is in one of them, or no piece begins like one of a vocabulary."""
    if any(" " in token for token in tokens):
        return tuple(tokens)
    # Ġ also begins words of Maltese, and Ċ too, which is a line break where it stands alone.
    first = [token for token in tokens if token[:1] == "Ġ" or {*token} == {"Ċ"}]
    if first and all(bytes_as_text(token) != token for token in first):
        return tuple(map(bytes_as_text, tokens))
    return tuple(token.replace("▁", " ") for token in tokens)
