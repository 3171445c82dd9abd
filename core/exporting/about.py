"""What a file says about where its numbers come from: in words, so that nobody has to know this program to read it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

About = Mapping[str, str]

PACKAGES = ("torch", "transformers", "numpy", "plotly")  # on which numbers and pictures depend


def now() -> str:
    """The date and time, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
