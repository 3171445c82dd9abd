"""The law of every refusal: an InputError that names its field and says what to do; and how a command ends."""

from collections.abc import Iterator
from contextlib import contextmanager

import click
import pytest

from core.errors import InputError


@contextmanager
def refused(field: str, words: str = "") -> Iterator[pytest.ExceptionInfo[InputError]]:
    """What is done within raises an InputError with this field, whose message matches `words`, a regular expression."""
    with pytest.raises(InputError, match=words or None) as caught:
        yield caught
    assert caught.value.field == field, str(caught.value)


def exit_status(command: click.Command, *words: str) -> int:
    """The exit status of a command line with these words."""
    with pytest.raises(SystemExit) as ended:
        command.main([*words])
    return int(ended.value.code or 0)
