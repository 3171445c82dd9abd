"""Texts as a tokenizer can take them."""

from __future__ import annotations

from ..errors import InputError

MAX_CHARACTERS = 1_000_000  # which a tokenizer takes a few seconds for


def check_text(text: str, field: str) -> None:
    """Raises InputError for a text that is too long to be cut into tokens, or that is none: with half of a character."""
    if len(text) > MAX_CHARACTERS:
        raise InputError(
            f"The text has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read. Shorten it.", field=field
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"Character {error.start + 1:,} of the text is half of a character. Remove it.", field=field
        ) from None
