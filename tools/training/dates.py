"""Written dates and what they mean, with the characters that each digit of the answer comes from.

A form is a template such as "the {dth} of {month} {yyyy}". Days come before months where both are numbers. Two digits of a year
mean what they mean in POSIX (strptime's %y): 69 to 99 are 1969 to 1999, 00 to 68 are 2000 to 2068.

Which dates are held out is settled by `SPLIT_SEED` alone, whatever a training is seeded with. They are seen in no form.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from random import Random

FIRST, LAST = date(1600, 1, 1), date(2199, 12, 31)
TWO_DIGIT_YEARS = range(1969, 2069)
SPLIT_SEED, HELD_OUT_SHARE = 0, 0.1

KNOWN = (
    "{yyyy}-{mm}-{dd}",
    "{yyyy}/{mm}/{dd}",
    "{yyyy}{mm}{dd}",
    "{dd}.{mm}.{yyyy}",
    "{dd}.{mm}.{yy}",
    "{d}.{m}.{yyyy}",
    "{dd}/{mm}/{yyyy}",
    "{d}/{m}/{yyyy}",
    "{d}/{m}/{yy}",
    "{dd}-{mm}-{yyyy}",
    "{dd}-{mon}-{yyyy}",
    "{d} {month} {yyyy}",
    "{d} {mon} {yyyy}",
    "{d} {mon} {yy}",
    "{d} {mon} '{yy}",
    "{dth} {month} {yyyy}",
    "the {dth} of {month} {yyyy}",
    "{dth} of {month}, {yyyy}",
    "{month} {d}, {yyyy}",
    "{month} {dth}, {yyyy}",
    "{mon} {d} {yyyy}",
    "{yyyy} {month} {d}",
    "{wkd} {d} {mon} {yyyy}",
    "{weekday}, {d} {month} {yyyy}",
    "{weekday}, {month} {d}, {yyyy}",
    "{ordinal} of {month} {yyyy}",
    "the {ordinal} of {month}, {yyyy}",
    "{month} the {ordinal}, {yyyy}",
)
HELD_OUT = (
    "{d}-{m}-{yyyy}",
    "{wkd} {dd}.{mm}.{yyyy}",
    "{mon} {dth} '{yy}",
    "{yyyy}, {d} {month}",
    "the {ordinal} day of {month} {yyyy}",
)

MONTHS = ("January", "February", "March", "April", "May", "June")
MONTHS += ("July", "August", "September", "October", "November", "December")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh")
ORDINALS += ("twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth")

# Places in the answer YYYY-MM-DD.
YEAR, MONTH, DAY = (0, 1, 2, 3), (5, 6), (8, 9)
DIGITS = YEAR + MONTH + DAY

# A piece of a written date, and the places of the answer that come from it.
Piece = tuple[str, tuple[int, ...]]


@dataclass(frozen=True)
class WrittenDate:
    """A date as somebody wrote it.

    spans  for each of the ten characters of the answer, where in `text` it comes from: (start, stop). Of a number that is its
           digit, of a word the word, and of the century of a two-digit year both its digits. None for the two hyphens.
    """

    text: str
    answer: str
    form: str
    spans: tuple[tuple[int, int] | None, ...]


@cache
def split() -> tuple[tuple[date, ...], tuple[date, ...]]:
    """All dates from FIRST to LAST: those to train with, and those held out."""
    dates = [FIRST + timedelta(days) for days in range((LAST - FIRST).days + 1)]
    Random(SPLIT_SEED).shuffle(dates)
    held_out = round(HELD_OUT_SHARE * len(dates))
    return tuple(dates[held_out:]), tuple(dates[:held_out])


def draw(random: Random, dates: Sequence[date], forms: Sequence[str]) -> WrittenDate:
    """One of the dates in one of the forms, with stray blanks and commas and in capitals now and then."""
    form = random.choice(forms)
    when = random.choice(dates)
    while "{yy}" in form and when.year not in TWO_DIGIT_YEARS:
        when = random.choice(dates)
    return write(when, form, random)


def write(when: date, form: str, random: Random | None = None) -> WrittenDate:
    """The date in this form; as it stands there, or with what `random` does to it."""
    pieces = _pieces(when, form)
    if random is not None:
        pieces = _stray(pieces, random)
        case = random.choices((str, str.lower, str.upper, str.title), (6, 2, 1, 1))[0]
        pieces = [(case(text), places) for text, places in pieces]
    spans: dict[int, tuple[int, int]] = {}
    written = ""
    for text, places in pieces:
        start, written = len(written), written + text
        for place in places:
            first, _ = spans.get(place, (start, start))
            spans[place] = first, len(written)
    return WrittenDate(written, when.isoformat(), form, tuple(map(spans.get, range(10))))


def _pieces(when: date, form: str) -> list[Piece]:
    pieces: list[Piece] = []
    for literal, field in re.findall(r"([^{]*)(?:\{(\w+)\})?", form):
        pieces.append((literal, ()))
        if field:
            pieces += FIELDS[field](when)
    return [piece for piece in pieces if piece[0]]


def _stray(pieces: list[Piece], random: Random) -> list[Piece]:
    """Blanks doubled, commas before blanks or gone, blanks at both ends: each of them seldom."""
    out: list[Piece] = [(" ", ())] if random.random() < 0.03 else []
    for text, places in pieces:
        if not places and " " in text:
            luck = random.random()
            if luck < 0.03:
                text = text.replace(" ", "  ")
            elif luck < 0.06 and "," not in text:
                text = text.replace(" ", ", ", 1)
            elif luck < 0.10:
                text = text.replace(",", "")
        out.append((text, places))
    return [*out, (" ", ())] if random.random() < 0.03 else out


# --- what a form is made of


def _number(number: int, places: tuple[int, ...], digits: int = 1) -> list[Piece]:
    """A day or month in digits: each digit to its place; a single one is where both come from."""
    text = f"{number:0{digits}d}"
    if len(text) == 1:
        return [(text, places)]
    return [(letter, (place,)) for letter, place in zip(text, places, strict=True)]


def _ordinal(day: int) -> list[Piece]:
    """The day in words: "third"; "twenty" and "first" give a digit each."""
    if day < 20:
        return [(ORDINALS[day - 1], DAY)]
    if day % 10 == 0:
        return [({20: "twentieth", 30: "thirtieth"}[day], DAY)]
    tens = {2: "twenty", 3: "thirty"}[day // 10]
    return [(tens, DAY[:1]), ("-", ()), (ORDINALS[day % 10 - 1], DAY[1:])]


def _suffix(day: int) -> str:
    return "th" if day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


def _two_digits(year: int) -> list[Piece]:
    tens, units = f"{year % 100:02d}"
    return [(tens, (0, 1, 2)), (units, (0, 1, 3))]


FIELDS: dict[str, Callable[[date], list[Piece]]] = {
    "yyyy": lambda when: _number(when.year, YEAR),
    "yy": lambda when: _two_digits(when.year),
    "m": lambda when: _number(when.month, MONTH),
    "mm": lambda when: _number(when.month, MONTH, digits=2),
    "mon": lambda when: [(MONTHS[when.month - 1][:3], MONTH)],
    "month": lambda when: [(MONTHS[when.month - 1], MONTH)],
    "d": lambda when: _number(when.day, DAY),
    "dd": lambda when: _number(when.day, DAY, digits=2),
    "dth": lambda when: [*_number(when.day, DAY), (_suffix(when.day), ())],
    "ordinal": lambda when: _ordinal(when.day),
    "wkd": lambda when: [(WEEKDAYS[when.weekday()][:3], ())],
    "weekday": lambda when: [(WEEKDAYS[when.weekday()], ())],
}
