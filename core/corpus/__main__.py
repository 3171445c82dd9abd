"""`headlight corpus`, or `python -m core.corpus`: run a model over a corpus, from the command line.

The example runs read the documentation that every Python comes with: the language reference as `pydoc` shows it and the
docstrings of the standard library, under the licence of Python itself (PSF License 2.0,
https://docs.python.org/3/license.html). Nothing is downloaded.
"""

import ast
import json
import os
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any, get_args

import click

# Ray 2.60 looks for its token only after it has decided, at import, whether to use one. Once it is imported, the mode that is
# set here would reach the servers that it starts but not Ray itself, and they would not let it in.
if "ray" not in sys.modules and Path("~/.ray/auth_token").expanduser().is_file():
    os.environ.setdefault("RAY_AUTH_MODE", "token")

from ..commands import ending
from ..errors import InputError
from ..installed import how_to_install
from ..units import seconds_in_words

try:
    from .running import Progress, run
    from .running_changes import run_changes
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is not installed. Install what runs over a corpus need: {how_to_install('corpus')}")
from ..models.passages import By
from .reading import require_address
from .settings import RunSettings
from .tables import LAST, file_of

TOKENS = {"all-MiniLM-L6-v2": 200_000, "SmolLM2-135M-Instruct": 30_000}  # of the example runs
LEAST = 200  # the minimum number of characters of a docstring in them


LARGEST = 10  # changes that are printed
CONTINUES = "Stopped. The same command continues where this one ended."


@click.group()
def command() -> None:
    """What each head does over a whole corpus."""


@command.command("example")
@click.option("--out", default="corpora", show_default=True, help="the folder for them")
def example_runs(out: str) -> None:
    """Two small runs of the bundled models, for the page Corpus."""
    with ending(stopped=CONTINUES):
        example(out, on_progress=_Line())


def _heads(text: str) -> list[tuple[int, int]]:
    try:
        return [(int(layer), int(head)) for layer, _, head in (name.partition(".") for name in text.split(","))]
    except ValueError:
        why = f"{text!r} does not name heads; write layer.head with commas between: 0.3,5.1"
        raise click.BadParameter(why) from None


def _setting(flag: str, words: str, **others: Any) -> Callable:
    """An option that is a setting of a run, with its default."""
    default = getattr(RunSettings, flag.removeprefix("--").replace("-", "_"))
    return click.option(flag, help=words, show_default=default is not None, **{"default": default, **others})


def _options(*options: Callable) -> Callable:
    """Several options, listed in this order."""
    return lambda function: reduce(lambda inner, option: option(inner), reversed(options), function)


_DATA = _options(
    click.option("--data", required=True, help="a file, a folder or a pattern; local, s3://, gs:// or hdfs://"),
    _setting("--column", "where the texts of JSONL, CSV and Parquet are"),
    _setting("--by", "what a text is in a file of plain text", type=click.Choice(get_args(By))),
    _setting("--tokens", "read at most this many, in passages drawn at random", type=int),
    _setting("--passage-tokens", "how many are read at once", type=int),
)
_WORKERS = _options(
    _setting("--dtype", "of the weights"),
    _setting("--device", "cpu or cuda"),
    click.option("--address", help='of a Ray cluster: "auto", "ray://host:10001"; without it, Ray in this machine'),
    click.option("--workers", type=int, help="how many hold the model; without it, as many as there are processors"),
    click.option("--cpus", type=float, default=1, show_default=True, help="processors of each worker"),
    click.option("--gpus", type=float, default=0, show_default=True, help="GPUs of each worker, such as 0.5"),
)


@command.command("run")
@click.option("--model", required=True, help="a name, a folder or a Hugging Face id")
@_DATA
@click.option("--out", required=True, help="the folder of the run, such as corpora/my-run")
@_setting("--heads", "only these, such as 0.3,5.1", type=_heads, metavar="HEADS")
@_setting("--strongest", "examples kept of each head and metric", type=int)
@_setting("--sample", "queries drawn at random that are kept", type=int)
@_setting(
    "--examples-of",
    "metrics whose strongest examples are kept, with commas between",
    type=lambda text: text.split(","),
    metavar="METRICS",
    default=",".join(RunSettings.examples_of),
)
@_WORKERS
def own_run(**options: Any) -> None:
    """A run over texts of your own; the same command continues a stopped run."""
    with ending(stopped=CONTINUES):
        about = run(**options, on_progress=_Line())
    unread = f"{about.unread:,} texts or parts of them could not be read: see problems.parquet."
    print(
        f"\n{about.tokens:,} tokens in {about.passages:,} passages, {about.seconds:,.0f} s. "
        f"{unread if about.unread else 'All texts were read.'}"
    )


@command.command("changes")
@click.option("--base", required=True, help="the model that it is a copy of: a name, a folder or a Hugging Face id")
@click.option("--copy", required=True, help="the copy, of the same architecture")
@_DATA
@click.option("--out", required=True, help="the file for the numbers, such as changes.json")
@click.option("--copy-dtype", default=RunSettings.dtype, show_default=True, help="of the copy's weights")
@click.option(
    "--swap",
    type=_heads,
    metavar="HEADS",
    help="heads of the base that are put into the copy, each alone, to measure the loss, such as 18.6,20.3",
)
@_WORKERS
def changes_of_copy(swap: list[tuple[int, int]] | None, **options: Any) -> None:
    """What changed in every head of a copy of a model; the same command continues a stopped run."""
    with ending(stopped=CONTINUES):
        changes = run_changes(**options, swap=swap or (), on_progress=_Line())
    left_out = changes.unlike + changes.unread
    print(f"\n{changes.tokens:,} tokens in {changes.passages:,} passages; {left_out:,} passages left out.")
    if changes.aligned:
        where = f"{changes.aligned:,} passages have other tokens in the copy and are compared where they agree"
        print(f"{where}: {changes.apart:,} tokens do not.")
    if changes.loss is not None:
        print("Loss: {:.4f} nats a token, and {:.4f} in the copy.".format(*changes.loss))
    largest = changes.table().sort_values("divergence", ascending=False).head(LARGEST)
    for row in largest.to_dict("records"):
        place, noise = "{layer}.{head}".format(**row), f"noise {row['noise']:.2g}"
        print(f"{place}  {row['divergence']:.3g} nats ({noise}), output {row['output_change']:.1%}")
    for row in changes.swaps_table().to_dict("records") if changes.swapped else ():
        print("With {layer}.{head} of the base: loss {loss:.4f} ({change:+.4f}).".format(**row))


def example(out: str, *, on_progress: Callable[[Progress], None] = lambda _progress: None) -> None:
    """Run both models, each into a folder of its name in `out`; a finished run stays. Raises InputError as `run` does."""
    require_address(out, "out")
    corpus = Path(out, "python-documentation.jsonl")
    try:
        corpus.parent.mkdir(parents=True, exist_ok=True)
        corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in documentation()), "utf-8")
    except OSError as error:
        why = f"{out!r} cannot be written to: {error.strerror}. Choose another folder."
        raise InputError(why, field="out") from error
    for model, tokens in TOKENS.items():
        if not Path(out, model, file_of(LAST)).is_file():
            run(model, str(corpus), str(Path(out, model)), tokens=tokens, on_progress=on_progress)


def documentation() -> Iterator[str]:
    """Topics of the language reference, then docstrings of the standard library, in a fixed order."""
    from pydoc_data.topics import topics

    yield from (topics[name] for name in sorted(topics))
    for file in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        try:
            module = ast.parse(file.read_text("utf-8"))
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(module):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text is not None and len(text) >= LEAST:
                    yield text


class _Line:
    """Shows progress in one line that is overwritten; in a file, in a line now and then."""

    def __init__(self) -> None:
        self._doing, self._when = "", 0.0

    def __call__(self, progress: Progress) -> None:
        now, is_terminal = time.monotonic(), sys.stderr.isatty()
        if not is_terminal and progress.doing == self._doing and now - self._when < 15:
            return
        self._doing, self._when = progress.doing, now
        of = f": {progress.tokens:,} of {progress.of:,} tokens" if progress.of else ""
        left = "" if progress.left is None else f", about {seconds_in_words(progress.left)} left"
        start, end = ("\r\033[K", "") if is_terminal else ("", "\n")
        print(f"{start}{progress.doing}{of}{left}", end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    command()
