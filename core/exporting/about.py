"""The notes in a file about where its numbers come from, in words that need no knowledge of this program."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

About = Mapping[str, str]

PACKAGES = ("torch", "transformers", "numpy", "plotly")  # numbers and pictures depend on their versions


def now() -> str:
    """The date and time, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
