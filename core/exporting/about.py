"""The notes in a file about where its numbers come from, in words that need no knowledge of this program."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime

About = Mapping[str, str]

PACKAGES = ("torch", "transformers", "numpy", "plotly")  # numbers and pictures depend on their versions


def now() -> str:
    """The date and time, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def without_folder(text: str) -> str:
    """The name of a file or folder that is on this machine, without the folders that it is in; any other text as it is."""
    path = os.path.expanduser(text) if len(text) < 4_096 else ""
    return os.path.basename(path.rstrip("/\\")) or text if os.path.isabs(path) and os.path.exists(path) else text
