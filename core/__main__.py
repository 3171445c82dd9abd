"""The command `headlight`, in a copy of the repository `python -m core`: opens the app or a file, or prints numbers.

Each command is loaded when it is called, so that help and mistakes in writing do not wait for torch.
"""

import errno
import os
import runpy
import socket
import sys
from contextlib import nullcontext
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from io import TextIOWrapper
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import cast
from urllib.parse import urlencode

import click

from . import __version__
from .installed import APP, how_to_install

PORTS = range(8501, 8601)  # the first one is Streamlit's
# The module of each command below this package, its name there, and what it does.
COMMANDS = {
    "open": ("__main__", "open_app", "the app in a browser, or FILE on its page; the same without the word open"),
    "heads": ("heads.commands", "heads", "the heads of a model on a text, by a number"),
    "why": ("heads.commands", "why", "what each head and layer contributed to the next token"),
    "corpus": ("corpus.__main__", "command", "heads over many texts, on Ray"),
    "captures": ("captures.__main__", "command", "whether a recorded pass is right"),
    "claims": ("claims.__main__", "command", "test what is said of heads"),
    "models": ("models.__main__", "command", "the models on this disk; install two small ones; check one"),
    "mcp": ("agents.__main__", "command", "Headlight for agents, over the Model Context Protocol"),
}
NEEDS = {"open": ("streamlit", "app"), "mcp": ("mcp", "agents")}  # and the extra that brings it
# By the ending of a file's name: what opens in the place of a model, and the pages that open others.
LIKE_A_MODEL = (".gguf", ".npz", ".safetensors")
ADDRESSES = {".headlight": "exhibit", ".json": "talk"}
KINDS = (
    "a GGUF file (.gguf), the folder of a model (with a config.json) or of a LoRA adapter, a recorded pass (.safetensors), "
    "attention arrays (.npz), an exhibit (.headlight) or a talk (.json)"
)


class _Commands(click.Group):
    """Commands that are loaded when they are called. What is not the name of one is what `open` is given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_own = bool(args) and args[0] in (*COMMANDS, "--help", "--version")
        return super().parse_args(ctx, args if is_own else ["open", *args])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:  # noqa: ARG002 - as in click
        module, name, _ = COMMANDS[cmd_name]
        needed, extra = NEEDS.get(cmd_name, ("", ""))
        if needed and find_spec(needed) is None:
            raise click.ClickException(f"{needed} is not installed. Install what this needs: {how_to_install(extra)}")
        return getattr(import_module(f".{module}", __package__), name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as in click
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, _, words) in COMMANDS.items()])


@click.group(cls=_Commands, options_metavar="", subcommand_metavar="[FILE | COMMAND] ...")
@click.version_option(__version__, prog_name="Headlight")
def command() -> None:
    """See what attention does, one stage at a time.

    Without a command, Headlight opens in a browser. `headlight FILE` opens a file there.
    """
    # Tokens have letters of all scripts, and the encoding of a pipe may lack them.
    cast(TextIOWrapper, sys.stdout).reconfigure(errors="backslashreplace")


@click.command(name="open")
@click.argument("file", required=False)
@click.option("--host", default="localhost", show_default=True, help="The address to answer at; 0.0.0.0: any.")
@click.option(
    "--port", type=click.IntRange(1, 65535), default=PORTS[0], show_default=True, help="Or the next free one."
)
@click.option(
    "--settings", help="What this host allows, a TOML file; else headlight.toml in this folder, if it is there."
)
@click.option("--no-browser", is_flag=True, help="Only say where the app is.")
def open_app(file: str | None, host: str, port: int, settings: str | None, no_browser: bool) -> None:
    """Open the app in a browser, and FILE on its page.

    FILE is a GGUF file, the folder of a model or an adapter, a recorded pass, attention arrays, an exhibit or a talk.
    """
    address = "" if file is None else address_of(file)
    os.environ |= {
        "HEADLIGHT_FOLDER": os.getcwd(),
        "HEADLIGHT_ADDRESS": address,
        "HEADLIGHT_BROWSER": "" if no_browser else "1",
    }
    for name, path in {"HEADLIGHT_FILE": file, "HEADLIGHT_SETTINGS": settings}.items():
        if path is not None:
            os.environ[name] = os.path.abspath(path)
    if __package__ != "core":
        _call_it_core()
    _serve(host, port)


def address_of(file: str) -> str:
    """The address of the page that opens a file. Raises click.UsageError for what no page opens."""
    path = Path(os.path.abspath(file))
    try:
        mode = path.stat().st_mode
        with open(path, "rb") if S_ISREG(mode) else nullcontext():
            pass  # so that what may not be read is said here
    except (FileNotFoundError, NotADirectoryError):
        commands = ", ".join(COMMANDS)
        raise click.UsageError(f"There is neither a command nor a file {file!r}. Commands: {commands}.") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise click.UsageError(f"{file!r} cannot be opened: {why}.") from None
    ending = path.suffix.lower()
    if S_ISDIR(mode):
        ending, opens = "", any(any(path.glob(name)) for name in ("config.json", "adapter_config.json", "*.gguf"))
    else:
        opens = S_ISREG(mode) and ending in (*LIKE_A_MODEL, *ADDRESSES)
    if not opens:
        raise click.UsageError(f"Headlight cannot open {file!r}. It opens {KINDS}.")
    if ending in ADDRESSES:
        return ADDRESSES[ending]
    if not (name := str(path)).isprintable() or name != name.strip():
        why = "Its name ends with a blank, or has characters that an address cannot hold"
        raise click.UsageError(f"Headlight cannot open {file!r}. {why}: rename it, or a folder above it.")
    return f"heads?{urlencode({'model': name})}"


def _call_it_core() -> None:
    """Let the app, which is about to start in this process, import the library by the name that it has in the repository."""
    spec = spec_from_file_location("core", Path(__file__).with_name("__init__.py"))
    assert spec is not None
    assert spec.loader is not None
    sys.modules["core"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["core"])


def _serve(host: str, port: int) -> None:
    """Run Streamlit in this process, on this port or the next free one. app.py opens the browser."""
    options = {"server.address": host, "server.headless": "true", "logger.hideWelcomeMessage": "true"}
    while True:
        free = next((each for each in range(port, min(port + len(PORTS), 65536)) if _is_free(host, each)), 0)
        if not free:
            raise click.ClickException(f"The ports from {port} on are all in use. Choose another one with --port.")
        if free != port:
            click.echo(f"Port {port} is in use; the next free one is {free}.", err=True)
        port = free
        flags = (f"--{name}={value}" for name, value in {**options, "server.port": port}.items())
        sys.argv = ["streamlit", "run", str(APP / "app.py"), *flags]
        try:
            runpy.run_module("streamlit", run_name="__main__")
        except SystemExit as ended:
            if not ended.code or _is_free(host, port):
                raise
            # Another program has taken the port in the meantime, such as a second start.


def _is_free(host: str, port: int) -> bool:
    try:
        with socket.create_server((host, port)):
            return True
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            return False
        raise click.UsageError(
            f"--host {host!r} is not an address of this machine: {str(error.strerror).partition(' (')[0]}."
        ) from None


if __name__ == "__main__":
    command()
