"""What a check found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """What one check found.

    holds   None if the check could not be made
    detail  what was compared and what came of it, or why it was not, in sentences
    """

    holds: bool | None
    detail: str


def first_failure(failures: Iterable[str], passed: str) -> Finding:
    """The first of these sentences, each of which tells of a failure, and how many more there are; `passed` without any."""
    said = list(failures)
    if not said:
        return Finding(True, passed)
    more = f" And {len(said) - 1} more like this." if len(said) > 1 else ""
    return Finding(False, f"{said[0]}{more}")
