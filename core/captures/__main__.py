"""Name what is wrong with a recorded pass: `headlight captures check FILE`, or python -m core.captures."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from ..capturing.capture import Capture
from ..errors import InputError
from ..models.checkups import fault_of
from ..units import bytes_in_words
from .opening import open_capture, unchecked

NAMED = 20  # heads that are named; the others are counted


@click.group()
def command() -> None:
    """Recorded passes."""


@command.command()
@click.argument("file")
def check(file: str) -> None:
    """Whether FILE can be opened, and whether every head's numbers agree: ends with 0 if so, 1 if not."""
    try:
        capture = open_capture(file)
    except InputError as error:
        print(error)
        sys.exit(1)
    print(f"{capture!r}, {bytes_in_words(Path(file).stat().st_size)}")
    if fault := fault_of(capture.model):
        print(f"Not to be relied on. The check-up of the model where this was written: {fault}")
    wrong = list(_disagreements(capture))
    for line in wrong[:NAMED]:
        print(line)
    if len(wrong) > NAMED:
        print(f"... and {len(wrong) - NAMED:,} more")
    heads = sum(capture.layers(kind) * capture.heads(kind) for kind in capture.kinds)
    print(
        f"{len(wrong):,} of {heads:,} heads do not agree."
        if wrong
        else f"All {heads:,} heads agree with their outputs."
    )
    print(unchecked(capture))
    sys.exit(bool(wrong or fault))


def _disagreements(capture: Capture) -> Iterator[str]:
    """A line for each head whose output does not follow from its queries, keys and values."""
    for kind in capture.kinds:
        for layer in range(capture.layers(kind)):
            for head in range(capture.heads(kind)):
                certificate = capture.certificate(layer, head, kind)
                if not certificate.agrees:
                    units = f"{certificate.rounding:,.3g} units of rounding, at most {certificate.allowed:g} allowed"
                    of_kind = "" if kind == "self" else f"{kind} "
                    yield f"{of_kind}{layer}.{head} does not agree with its output: {units}"


if __name__ == "__main__":
    command()
