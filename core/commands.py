"""How the commands end: with a message and an exit status."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from .errors import InputError

BAD_INPUT, INTERRUPTED = 2, 130


@contextmanager
def ending(*, bad_input: int = BAD_INPUT, stopped: str = "Stopped.") -> Iterator[None]:
    """End the program with this status if an input cannot be used, and with 130 on Ctrl+C, saying why."""
    try:
        yield
    except InputError as error:
        click.echo(f"\n{error.field}: {error}", err=True)
        sys.exit(bad_input)
    except KeyboardInterrupt:
        click.echo(f"\n{stopped}", err=True)
        sys.exit(INTERRUPTED)
