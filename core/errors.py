"""The errors that a person can put right, and what their messages have in common."""

from functools import partial
from numbers import Integral


class InputError(ValueError):
    """Something that was typed, pasted, uploaded or chosen cannot be used.

    The message is complete: what was wrong, what is allowed, what to do. `field` names the input that it belongs to ("text",
    "query", "key", "value", "mask", "bias", "model" ...), so that a page can show the message beside that input.
    """

    def __init__(self, message: str, *, field: str) -> None:
        super().__init__(message)
        self.field = field


# The errors of the fields that most of them belong to.
model_error = partial(InputError, field="model")
text_error = partial(InputError, field="text")
image_error = partial(InputError, field="image")
edits_error = partial(InputError, field="edits")


class WeightsOnlyError(InputError):
    """The architecture does not expose queries, keys and values, so no stage before the weights can be shown."""


def check_index(index: int, count: int, name: str, *, field: str | None = None) -> None:
    """Raise InputError unless `index` is a whole number from 0 to `count` - 1; the message says so.

    name   what is counted: "layer", "head", "token"
    field  the field of the error; None: `name`
    """
    if not isinstance(index, Integral) or not 0 <= index < count:
        raise InputError(f"There is no {name} {index}: they run from 0 to {count - 1}.", field=field or name)


def shortened(text: str, longest: int = 80) -> str:
    """Shorten a text that somebody typed to what a message can hold."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def shown(text: str, longest: int = 300) -> str:
    """Shorten a text that somebody else has written. Characters that cannot be seen are escaped as Python does it."""
    cut = shortened(text, longest)
    return shortened("".join(char if char.isprintable() else repr(char)[1:-1] for char in cut), longest)


def first_line(error: BaseException) -> str:
    """The first line of an error message that is not empty, as `shown`, without a full stop; else the error's name."""
    return shown(next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)).rstrip(". ")
