"""`headlight mcp`, or `python -m core.agents`: Headlight for agents, over MCP or as lines of JSON, on stdin and stdout."""

import os
import sys
import tomllib
from importlib import import_module
from typing import Any

import click

from ..installed import how_to_install

OF_HOST = ("hub", "folders", "models", "tokens", "seconds")  # settings of a host (docs/hosting.md) that hold here too


def _read_settings(context: click.Context, _option: click.Parameter, file: str | None) -> None:
    """Take what the options open with from the settings of a host. Agents get folders by name alone, never all of them, and
    lists alone name any."""
    if file is None:
        return
    try:
        with open(file, "rb") as content:
            said = tomllib.load(content)
    except (OSError, ValueError) as error:
        raise click.BadParameter(f"{file} cannot be read: {error}.") from error
    lists = ("folders", "models")
    context.default_map = {
        name: said[name]
        for name in OF_HOST
        if name in said and said[name] != "none" and (name not in lists or isinstance(said[name], list))
    }


@click.command()
@click.option("--lines", is_flag=True, help="A line of JSON for each call instead of MCP.")
@click.option(
    "--allow",
    "folders",
    multiple=True,
    type=click.Path(exists=True, resolve_path=True),
    help="A folder from which models may be loaded, and what is inside it. Without one: the models that come along.",
)
@click.option("--hub", is_flag=True, envvar="HEADLIGHT_HUB", help="Models of the Hugging Face hub, over the network.")
@click.option("--model", "models", multiple=True, help="A further model that may be loaded, by name or folder.")
@click.option(
    "--tokens",
    type=click.IntRange(8, 10**6),
    default=2_048,
    envvar="HEADLIGHT_TOKENS",
    show_default=True,
    help="The longest text.",
)
@click.option(
    "--seconds",
    type=click.IntRange(1, 86_400),
    default=60,
    envvar="HEADLIGHT_SECONDS",
    show_default=True,
    help="The longest computation of a call.",
)
@click.option("--app", "base", default="http://localhost:8501", show_default=True, help="Where the app is, for links.")
@click.option(
    "--settings",
    type=click.Path(exists=True, dir_okay=False),
    envvar="HEADLIGHT_SETTINGS",
    is_eager=True,
    expose_value=False,
    callback=_read_settings,
    help="Settings of a host: hub, folders, models, tokens and seconds hold here too.",
)
def command(*, lines: bool, **limits: Any) -> None:
    """Answer the calls of agents on stdin and stdout: what attention does in a model, with proof and base rates.

    docs/agents.md shows sessions.
    """
    if not limits["hub"] and not limits["models"]:
        os.environ["HF_HUB_OFFLINE"] = "1"  # read when huggingface_hub is first imported
    try:
        from .host import Host, Limits
        from .serving import serve_lines, serve_mcp

        if not lines:
            import_module("mcp")
    except ModuleNotFoundError as error:
        raise click.ClickException(f"{error.name} is missing. Install it: {how_to_install('agents')}") from error
    host = Host(Limits(**limits))
    if lines:
        serve_lines(host, sys.stdin.buffer, sys.stdout.buffer)
    else:
        serve_mcp(host)


if __name__ == "__main__":
    command()
