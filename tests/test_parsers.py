"""Reading what others have written takes a time that grows in proportion to its length."""

import pytest

from tests.depth import thorough
from tests.hostile import TooSlow, processor_time
from tests.parsers import PARSERS

SECONDS = 0.5  # of processor time for one text of 10,000 characters; those that pass take at most a fifth of it
TRIES = 3  # one may meet an import, or the garbage collection of a process that holds several models


@thorough
@pytest.mark.parametrize("name", PARSERS)
def test_ten_thousand_hostile_characters_are_read_or_refused_at_once(name):
    for text in PARSERS[name].texts():
        if all(takes_long(PARSERS[name], text) for _ in range(TRIES)):
            pytest.fail(f"more than {SECONDS} s of processor time for {text[:30]!r} ... {text[-10:]!r}")


def takes_long(parser, text):
    try:
        with processor_time(SECONDS):
            parser.refuse_or_read(text)
    except TooSlow:
        return True
    return False
