"""Name what is wrong with a recorded pass: python -m core.captures check FILE."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from ..capturing.capture import Capture
from ..errors import InputError
from ..units import bytes_in_words
from .opening import open_capture, unchecked

NAMED = 20  # heads that are named; the others are counted


def main(arguments: list[str] | None = None) -> int:
    """Print what the file holds and what is wrong with it. Returns 0 for a file that is right, 1 for any other."""
    parser = argparse.ArgumentParser(prog="python -m core.captures", description="Recorded passes.")
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="whether a file can be opened, and whether every head's numbers agree")
    check.add_argument("file")
    file = parser.parse_args(arguments).file
    try:
        capture = open_capture(file)
    except InputError as error:
        print(error)
        return 1
    print(f"{capture!r}, {bytes_in_words(Path(file).stat().st_size)}")
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
    return 1 if wrong else 0


def _disagreements(capture: Capture) -> Iterator[str]:
    """A line for each head whose output does not follow from its queries, keys and values."""
    for kind in capture.kinds:
        for layer in range(capture.layers(kind)):
            for head in range(capture.heads(kind)):
                certificate = capture.certificate(layer, head, kind)
                if not certificate.holds:
                    units = f"{certificate.rounding:,.3g} units of rounding, at most {certificate.allowed:g} allowed"
                    of_kind = "" if kind == "self" else f"{kind} "
                    yield f"{of_kind}{layer}.{head} does not agree with its output: {units}"


if __name__ == "__main__":
    sys.exit(main())
