"""What a file says about where its numbers come from: in words, so that nobody has to know this program to read it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

About = Mapping[str, str]

PACKAGES = ("torch", "transformers", "numpy", "plotly")
_PROJECT = Path(__file__).parents[2] / "pyproject.toml"
_VERSION = re.compile(r'^version = "([^"]+)"', re.MULTILINE)


def versions() -> dict[str, str]:
    """The versions of Headlight and of what its numbers depend on, by name."""
    return {"headlight": _own_version()} | {name: version(name) for name in PACKAGES}


def _own_version() -> str:
    """From the project's own file where this is a checkout, which is newer than whatever is installed besides."""
    if _PROJECT.is_file() and (found := _VERSION.search(_PROJECT.read_text(encoding="utf-8"))):
        return found[1]
    try:
        return version("headlight")
    except PackageNotFoundError:
        return "unknown"


def now() -> str:
    """The date and time, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
