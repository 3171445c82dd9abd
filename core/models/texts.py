"""Checks of texts before a tokenizer reads them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import InputError, shortened

MAX_CHARACTERS = 1_000_000  # a tokenizer needs a few seconds for so many


@contextmanager
def tokenizing(name: str, **texts: str) -> Iterator[None]:
    """Check texts before they are tokenized within this context, and report a tokenizer that fails there.

    name   the model's name
    texts  the texts by their fields

    Raises InputError for a text that is too long or contains half of a character (field: the text's), and if the tokenizer
    fails (field "model"): its regular expressions come with the model.
    """
    for field, text in texts.items():
        if len(text) > MAX_CHARACTERS:
            why = f"The text has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read. Shorten it."
            raise InputError(why, field=field)
        if (half := half_of_a_pair(text)) is not None:
            raise InputError(f"Character {half + 1:,} of the text is half of a character. Remove it.", field=field)
    try:
        yield
    except BaseException as error:
        if not is_panic(error):
            raise
        raise InputError(
            f"The tokenizer of {name} fails on this text: {shortened(str(error), 200)}. Change the text, or choose another "
            f"model.",
            field="model",
        ) from None


def is_panic(error: BaseException) -> bool:
    """Whether Rust code, such as a tokenizer's, has failed: that is not an Exception, and its class cannot be imported."""
    return type(error).__name__ == "PanicException"


def half_of_a_pair(text: str) -> int | None:
    """The place of the first half of a surrogate pair in a text, which UTF-8 cannot encode; None for any other text."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None
