"""Whatever reads what others have written does so in a time that goes with the length of it."""

from __future__ import annotations

import pytest

from tests.hostile import TooSlow, processor_time
from tests.parsers import PARSERS

SECONDS = 0.5  # of processor time for one text of 10,000 characters; those that pass take at most a fifth of it


@pytest.mark.parametrize("name", PARSERS)
def test_ten_thousand_hostile_characters_are_read_or_refused_at_once(name: str) -> None:
    for text in PARSERS[name].texts():
        try:
            with processor_time(SECONDS):
                PARSERS[name].refuse_or_read(text)
        except TooSlow as slow:
            pytest.fail(f"{slow} for {text[:30]!r} ... {text[-10:]!r}")
