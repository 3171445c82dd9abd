"""`headlight claims`, or `python -m core.claims`: test claims about the heads of a model, from the command line.

    check FILE --model M --data D    the claims of a file, on texts
    known --model M                  those of the literature, on the texts that come along

Ends with 0 where every claim holds, 1 where one does not, 2 where none fails and one cannot be said, and 3 for bad input, also
on the command line. `known` ends with 0: no model has every kind of head.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pandas as pd

from ..commands import ending
from ..corpus.reading import find_files, read_texts, require_address
from ..corpus.settings import RunSettings
from ..errors import InputError
from ..models.loading import load_model
from ..models.passages import Passage, Problem
from ..whole_files import read_whole
from .checking import MAX_TOKENS, ClaimCheck
from .claim import Claim, read_claims
from .known import known_check, named, published
from .verdicts import RULE, sentence

BAD_INPUT = 3
MOST_FILE = 10_000_000  # bytes of a file of claims that is looked at: what is wrong with a larger one is its size


class _Claims(click.Group):
    """Commands that end with 3 for a line that cannot be read, too: click's own 2 would say that a claim cannot be said."""

    def make_context(self, *given: Any, **named: Any) -> click.Context:
        with _as_bad_input():
            return super().make_context(*given, **named)

    def invoke(self, ctx: click.Context) -> Any:
        with _as_bad_input():
            return super().invoke(ctx)


@contextmanager
def _as_bad_input() -> Iterator[None]:
    try:
        yield
    except click.ClickException as error:
        error.show()
        sys.exit(BAD_INPUT)


@click.group(cls=_Claims)
def command() -> None:
    """Test what is said of heads.

    Ends with 0 where every claim holds, 1 where one does not, 2 where none fails and one cannot be said, 3 for bad input.
    """


def _model_and_json(function: Callable) -> Callable:
    function = click.option("--json", "json_file", help="a file for the numbers")(function)
    return click.option("--model", required=True, help="a name, a folder or a Hugging Face id")(function)


@command.command()
@click.argument("file")
@click.option("--data", required=True, help="a file, a folder or a pattern, as for core.corpus")
@click.option("--other-model", help="whose verdicts stand beside")
@click.option("--out", help="a folder: test on Ray, as a run over a corpus that can be continued")
@click.option("--column", default=RunSettings.column, help="where the texts of JSONL, CSV and Parquet are")
@click.option("--by", default=RunSettings.by, help="what a text is in a file of plain text")
@click.option("--passage-tokens", type=int, default=MAX_TOKENS, help="how many are read at once")
@_model_and_json
def check(file: str, json_file: str | None, **given: Any) -> None:
    """Test the claims of FILE on texts: TOML, or a claim in each line.

    Ends with 0 where every claim holds, 1 where one does not, 2 where none fails and one cannot be said, 3 for bad input.
    """
    with ending(bad_input=BAD_INPUT):
        tables = _tested(read_claims(_text_of(file)), **given)
        _tell(tables, json_file)
    verdicts = {verdict for table in tables.values() for verdict in table["verdict"]}
    sys.exit(1 if "does not hold" in verdicts else 2 if "cannot be said" in verdicts else 0)


def _tested(
    claims: Sequence[Claim], model: str, data: str, other_model: str | None, out: str | None, **reading: Any
) -> dict[str, pd.DataFrame]:
    """The verdicts by model, tested here or, with `out`, on Ray."""
    tables = {}
    folders = {model: out} if other_model is None else {model: f"{out}/model", other_model: f"{out}/other_model"}
    for name, folder in folders.items():
        try:
            if out is None or folder is None:
                tables[name] = _in_process(name, claims, data, reading)
            else:
                tables[name] = _on_ray(name, claims, data, folder, reading)
        except InputError as error:
            raise InputError(str(error) if other_model is None else f"{name}: {error}", field=error.field) from error
    return tables


@command.command()
@_model_and_json
def known(model: str, json_file: str | None) -> None:
    """Test the claims of the literature for the head of a model that does each most, on the texts that come along."""
    with ending(bad_input=BAD_INPUT):
        test = known_check(load_model(model))
        _run(test)
        _tell({model: named(test.table())}, json_file)
        heads_of = published(model).items()
        print("".join(f"\nPublished, {name}: {heads}" if name else f"\n{heads}" for name, heads in heads_of))


def _in_process(model: str, claims: Sequence[Claim], data: str, reading: dict[str, Any]) -> pd.DataFrame:
    loaded = load_model(model)
    files, settings = find_files(data), RunSettings(column=reading["column"], by=reading["by"])
    settings.validate()
    texts: list[Passage] = []
    for name in files.names:
        for text in read_texts(files.folder, name, settings):
            if isinstance(text, Problem):
                raise InputError(f"{text.place.file}, row {text.place.row}: {text.why}", field="data")
            texts.append(text)
    if not texts:
        raise InputError(f"There is no text in {data!r}.", field="data")
    test = ClaimCheck(loaded, claims, texts, reading["passage_tokens"])
    _run(test)
    return test.table()


def _on_ray(model: str, claims: Sequence[Claim], data: str, out: str, reading: dict[str, Any]) -> pd.DataFrame:
    """The same as a run over a corpus, which can be stopped and continued (`core.corpus.running`)."""
    from ..corpus.opened import open_run
    from ..corpus.running import run

    run(model, data, out, claims=claims, on_progress=lambda progress: _say(progress.doing), **reading)
    table = open_run(out).claims
    assert table is not None
    return table


def _run(test: ClaimCheck) -> None:
    while test.go_on():
        _say(f"{test.done} of {test.total} passages")
    _say("")


def _say(words: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{words}", end="", file=sys.stderr, flush=True)


def _tell(tables: dict[str, pd.DataFrame], json_file: str | None) -> None:
    """Print the verdicts, side by side for several models, and write them."""
    first = next(iter(tables.values()))
    for place, line in enumerate(first["claim"]):
        print(f"\n{first['name'][place]}: {line}" if "name" in first else f"\n{line}")
        for model, table in tables.items():
            said = sentence(table.iloc[place])
            print(f"  {model}: {said}" if len(tables) > 1 else f"  {said}")
    print(f"\n{RULE}")
    if json_file is None:
        return
    rows = {
        model: table.astype(object).where(table.notna(), None).to_dict("records") for model, table in tables.items()
    }
    require_address(json_file, "json")
    try:
        Path(json_file).write_text(json.dumps({"rule": RULE, "models": rows}, indent=1), "utf-8")
    except OSError as error:
        raise InputError(
            f"{json_file!r} cannot be written: {error.strerror}. Choose another file.", field="json"
        ) from error


def _text_of(file: str) -> str:
    require_address(file, "file")
    try:
        return read_whole(file, MOST_FILE).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{file!r} is not UTF-8 text. Give a file of claims.", field="file") from error


if __name__ == "__main__":
    command()
