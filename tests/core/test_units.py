"""Things, bytes and seconds in words, and small numbers, at the places where the words change."""

import math

import pytest

from core.units import bytes_in_words, counted, in_rounding_errors, listed, seconds_in_words, small_number

WORDS = {
    bytes_in_words: {0: "0 MB", 1: "1 MB", 999_499_999: "999 MB", 999_500_000: "1.0 GB", 4 * 10**12: "4,000.0 GB"},
    seconds_in_words: {
        0: "0.1 s",
        0.94: "0.9 s",
        9.4: "9 s",
        9.6: "10 s",
        57: "55 s",
        58: "1 minute",
        119 * 60: "119 minutes",
        150 * 60: "2.5 hours",
    },
    small_number: {
        0.0: "0",
        9.5367e-07: "9.5×10⁻⁷",
        -2e-16: "−2.0×10⁻¹⁶",
        0.00999: "0.01",
        0.25: "0.25",
        12.3: "12",
        12345.6: "12,346",
        math.nan: "nan",
        math.inf: "inf",
    },
    in_rounding_errors: {0: "0 of one rounding error", 0.0043: "0.0043 of one rounding error", 3: "3 rounding errors"},
}


@pytest.mark.parametrize("in_words", WORDS, ids=lambda of: of.__name__)
def test_a_number_in_words(in_words):
    assert {value: in_words(value) for value in WORDS[in_words]} == WORDS[in_words]
    assert small_number(-0.0) == "0"


def test_things_are_counted_and_the_first_of_many_are_listed():
    assert [counted(1, "head"), counted(1_200, "head"), counted(0, "query")] == ["1 head", "1,200 heads", "0 queries"]
    assert [listed([*"abcd"][:many], 3) for many in (0, 1, 3, 4)] == ["", "a", "a, b, c", "a, b, c and 1 more"]
