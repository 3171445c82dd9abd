"""Check a model on this machine: python -m core.models check NAME."""

from __future__ import annotations

import argparse
import sys

from ..capturing.checking.checkup import check_model
from ..errors import InputError
from .checkups import keep
from .devices import DTYPES
from .loading import load_model


def main(arguments: list[str] | None = None) -> int:
    """Print what was checked. Returns 0 if no check failed, 1 if one did or the model cannot be opened."""
    parser = argparse.ArgumentParser(prog="python -m core.models", description="Models.")
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser(
        "check", help="whether this machine computes a model as its files and configuration say"
    )
    check.add_argument("name", help="a model of the catalogue, a Hugging Face id, a folder or a GGUF file")
    check.add_argument("--dtype", default="float32", choices=DTYPES)
    check.add_argument("--device", default="cpu", help='"cpu", "cuda", "cuda:1" or "mps"')
    check.add_argument("--seconds", type=float, default=2.0, help="no check is begun after this time (default: 2)")
    given = parser.parse_args(arguments)
    try:
        model = load_model(given.name, dtype=given.dtype, device=given.device)
        checkup = check_model(model, seconds=given.seconds)
    except InputError as error:
        print(error)
        return 1
    keep(model, checkup)
    print(checkup)
    return 0 if checkup.holds else 1


if __name__ == "__main__":
    sys.exit(main())
