"""Patterns against Python's own matcher, and those that would be tried in a great many ways."""

import re
import time
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.corpus.walking import Glob

# Each of these takes a matcher that tries again minutes, with names as long as a file may have.
MANY_WAYS = {
    "stars between letters": ("*a" * 60 + "*.txt", "a" * 250),
    "stars and any letter": ("*?" * 120 + "b", "a" * 250),
    "stars side by side": ("*" * 900 + "b", "a" * 250),
    "a word that nearly fits": ("*aab" * 80, "aaab" * 60 + "aa"),
    "letters that a regular expression reads otherwise": ("*(a+)+*" * 40 + "$", "a" * 250),
    "folders": ("**/a/" * 190 + "b", "a/" * 500 + "a"),
    "folders side by side": ("**/" * 333 + "b", "a/" * 500 + "a"),
}


@pytest.mark.parametrize("case", MANY_WAYS)
def test_a_pattern_is_matched_in_one_way(case):
    pattern, name = MANY_WAYS[case]
    begin = time.process_time()
    assert not Glob(pattern).fits(name)
    assert time.process_time() - begin < 2  # tens of milliseconds, or many minutes


def stands_for(pattern: str, name: str) -> bool:
    """What a pattern for one name means to Python's own matcher, to which a bracket begins a set of letters."""
    return fnmatchcase(name, pattern.replace("[", "[[]"))


SIGNS = "a.[]()+\\^$|{}-#\n é"


@given(st.text(SIGNS + "*?", max_size=8), st.text(SIGNS, max_size=9))
def test_a_name_fits_as_python_says(pattern, name):
    pattern = re.sub(r"\*+", "*", pattern)
    assert Glob(pattern).fits(name) == stands_for(pattern, name)
    assert Glob(name).fits(name)
