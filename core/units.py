"""Numbers of things, bytes and seconds in words, and small numbers with powers of ten."""

from collections.abc import Sequence


def counted(number: int, noun: str) -> str:
    """The number and its noun: "1 head", "2 heads"."""
    nouns = noun if number == 1 else "queries" if noun == "query" else f"{noun}s"
    return f"{number:,} {nouns}"


def listed(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are: "a, b, c and 4 more"."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def bytes_in_words(count: float) -> str:
    """A number of bytes in words: "91 MB", "1.3 GB". 1 GB is 10⁹ bytes; less than 1 MB counts as 1 MB."""
    if count < 999_500_000:
        return f"{max(1, round(count / 1e6))} MB" if count > 0 else "0 MB"
    return f"{count / 1e9:,.1f} GB"


def seconds_in_words(seconds: float) -> str:
    """A time in words, about as exact as an estimate: "0.4 s", "8 s", "35 s", "12 minutes", "2.5 hours"."""
    if seconds < 0.95:
        return f"{max(seconds, 0.1):.1f} s"
    if seconds < 9.5:
        return f"{seconds:.0f} s"
    if seconds < 57.5:
        return f"{5 * round(seconds / 5)} s"
    minutes = max(1, round(seconds / 60))
    if minutes < 120:
        return counted(minutes, "minute")
    return f"{seconds / 3600:.1f} hours"


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def small_number(value: float) -> str:
    """A number that may be tiny or huge, with two digits: "0", "0.25", "9.5×10⁻⁷", and whole up to ten millions: "−10,000". No
    line break can split it."""
    if 100 <= abs(value) < 1e7:
        return f"{value:,.0f}".replace("-", "−")
    if value == 0 or 0.001 <= abs(value) < 100:
        return f"{value:z.2g}".replace("-", "−")
    digits, _, power = f"{value:.1e}".partition("e")
    return f"{digits}×10{str(int(power)).translate(_RAISED)}".replace("-", "−") if power else digits  # none of NaN


def in_rounding_errors(count: float) -> str:
    """How far two numbers are apart, in units of one rounding error: "0.0043 of one rounding error", "3.1 rounding errors"."""
    return f"{small_number(count)} of one rounding error" if count < 1 else f"{small_number(count)} rounding errors"


def distance_in_words(number: float) -> str:
    """A distance between vectors or distributions: three decimals, or two digits where it is smaller."""
    return f"{number:.3f}" if number == 0 or number >= 0.001 else small_number(number)
