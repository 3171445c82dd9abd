"""What a file says about where its numbers come from: in words, so that nobody has to know this program to read it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version

About = Mapping[str, str]

PACKAGES = ("torch", "transformers", "numpy", "plotly")


def versions() -> dict[str, str]:
    """The versions of Headlight and of what its numbers depend on, by name."""
    package = sys.modules[__name__.partition(".")[0]]  # whatever it is installed as
    return {"headlight": package.__version__} | {name: version(name) for name in PACKAGES}


def now() -> str:
    """The date and time, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
