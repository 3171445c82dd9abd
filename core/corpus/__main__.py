"""`python -m core.corpus`: run a model over a corpus, from the command line."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

# Ray 2.60 looks for its token by itself only after it has decided, at import, to do without. Where it has been imported, what
# is set here would reach the servers that it starts, but not itself, and they would not let it in.
if "ray" not in sys.modules and Path("~/.ray/auth_token").expanduser().is_file():
    os.environ.setdefault("RAY_AUTH_MODE", "token")

from ..errors import InputError
from ..units import seconds_in_words

try:
    from .example import example
except ModuleNotFoundError as missing:
    sys.exit(
        f"{missing.name} is not installed. Install what runs over a corpus need: pip install -r requirements-corpus.txt"
    )
from .reading import By
from .running import Progress, run
from .tally import EXAMPLES_OF


def main(given: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(given)
    try:
        if arguments.command == "example":
            example(arguments.out, on_progress=_Line())
        else:
            options = {name: value for name, value in vars(arguments).items() if name != "command"}
            about = run(**options, on_progress=_Line())
            print(
                f"\n{about.tokens:,} tokens in {about.passages:,} passages, {about.seconds:,.0f} s. {_unread(about.unread)}"
            )
    except InputError as error:
        print(f"\n{error.field}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nStopped. The same command goes on where this one ended.", file=sys.stderr)
        return 130
    return 0


def _unread(count: int) -> str:
    return (
        f"{count:,} texts or parts of them could not be read: see problems.parquet."
        if count
        else "All texts were read."
    )


def _head(text: str) -> tuple[int, int]:
    layer, _, head = text.partition(".")
    return int(layer), int(head)


def _heads(text: str) -> list[tuple[int, int]]:
    try:
        return [_head(one) for one in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} are no heads; write layer.head with commas between: 0.3,5.1"
        ) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m core.corpus", description="What each head does over a whole corpus."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    short = commands.add_parser("example", help="two small runs of the models that come along, for the page Corpus")
    short.add_argument("--out", default="corpora", help="the folder that they are put into (default: %(default)s)")
    one = commands.add_parser(
        "run", help="run a model over texts of your own; the same command goes on with a stopped run"
    )
    one.add_argument("--model", required=True, help="a name, a folder or a Hugging Face id")
    one.add_argument("--data", required=True, help="a file, a folder or a pattern; local, s3://, gs:// or hdfs://")
    one.add_argument("--out", required=True, help="the folder of the run, such as corpora/my-run")
    one.add_argument(
        "--column", default="text", help="where the texts of JSONL, CSV and Parquet are (default: %(default)s)"
    )
    one.add_argument("--by", default="document", choices=get_args(By), help="what a text is in a file of plain text")
    one.add_argument("--heads", type=_heads, help="only these, such as 0.3,5.1")
    one.add_argument("--tokens", type=int, help="read only so many, in passages drawn at random")
    one.add_argument("--passage-tokens", type=int, default=128, help="how many are read at once (default: %(default)s)")
    one.add_argument(
        "--strongest", type=int, default=50, help="examples kept of each head and metric (default: %(default)s)"
    )
    one.add_argument(
        "--sample", type=int, default=200, help="queries drawn at random that are kept (default: %(default)s)"
    )
    one.add_argument(
        "--examples-of",
        type=lambda text: text.split(","),
        default=list(EXAMPLES_OF),
        help="of which metrics the strongest examples are kept, with commas between",
    )
    one.add_argument("--address", help='of a Ray cluster: "auto", "ray://host:10001"; without it, Ray in this machine')
    one.add_argument("--workers", type=int, help="how many hold the model; without it, as many as there are processors")
    one.add_argument("--cpus", type=float, default=1, help="processors of each worker (default: %(default)s)")
    one.add_argument("--gpus", type=float, default=0, help="GPUs of each worker, such as 0.5 (default: %(default)s)")
    one.add_argument("--dtype", default="float32", help="of the weights (default: %(default)s)")
    one.add_argument("--device", default="cpu", help="cpu or cuda (default: %(default)s)")
    return parser


class _Line:
    """Progress in one line that is written over, or, into a file, a line now and then."""

    def __init__(self) -> None:
        self._said, self._when = "", 0.0

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if not sys.stderr.isatty() and progress.doing == self._said and now - self._when < 15:
            return
        self._said, self._when = progress.doing, now
        of = f": {progress.tokens:,} of {progress.of:,} tokens" if progress.of else ""
        left = "" if progress.left is None else f", about {seconds_in_words(progress.left)} left"
        print(
            f"\r\033[K{progress.doing}{of}{left}" if sys.stderr.isatty() else f"{progress.doing}{of}{left}",
            end="" if sys.stderr.isatty() else "\n",
            file=sys.stderr,
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
