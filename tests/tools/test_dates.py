"""Written dates: read again by Python's strptime, and the characters that each digit comes from."""

import re
from datetime import date, datetime
from random import Random

import pytest
from num2words import num2words

from tools.training.dates import DIGITS, HELD_OUT, KNOWN, WrittenDate, draw, split, write

ORDINALS = [num2words(number, to="ordinal") for number in range(1, 32)]
PATTERNS = {"yyyy": "%Y", "yy": "%y", "mm": "%m", "m": "%m", "mon": "%b", "month": "%B", "wkd": "%a", "weekday": "%A"}
PATTERNS |= dict.fromkeys(("d", "dd", "dth", "ordinal"), "%d")


def tidy(text: str) -> str:
    return " ".join(text.lower().replace(",", " ").split())


def read(text: str, form: str) -> date:
    """What strptime makes of it, after ordinals have become numbers and stray commas and blanks are gone."""
    pattern = re.sub(r"\{(\w+)\}", lambda field: PATTERNS[field[1]], tidy(form))
    text = re.sub(r"(?<=\d)(st|nd|rd|th)\b", "", tidy(text))
    text = re.sub(r"[a-z]+(-[a-z]+)?", lambda word: number(word[0]), text)
    return datetime.strptime(text, pattern).date()


def number(word: str) -> str:
    return str(ORDINALS.index(word) + 1) if word in ORDINALS else word


@pytest.mark.parametrize("form", [*KNOWN, *HELD_OUT])
def test_every_form_is_read_as_the_day_that_was_written(form: str) -> None:
    random, (dates, _) = Random(form), split()
    for _ in range(100):
        drawn = draw(random, dates, [form])
        day = read(drawn.text, form)
        assert day.isoformat() == drawn.answer, drawn.text
        if "w" in form:
            assert f"{day:%a}".lower() == drawn.text.strip()[:3].lower()
        assert len(drawn.text) <= 63


@pytest.mark.parametrize(
    ("form", "text", "parts"),
    [
        ("{yyyy}-{mm}-{dd}", "1987-03-21", "1 9 8 7 0 3 2 1"),
        ("{dd}.{mm}.{yy}", "21.03.87", "87 87 8 7 0 3 2 1"),
        ("the {ordinal} of {month}, {yyyy}", "the twenty-first of March, 1987", "1 9 8 7 March March twenty first"),
        ("{wkd} {d} {mon} {yyyy}", "Sat 21 Mar 1987", "1 9 8 7 Mar Mar 2 1"),
        ("{d}/{m}/{yyyy}", "21/3/1987", "1 9 8 7 3 3 2 1"),
    ],
)
def test_each_digit_comes_from_its_characters(form: str, text: str, parts: str) -> None:
    made = write(date(1987, 3, 21), form)
    assert made.text == text
    assert [made.text[slice(*made.spans[place])] for place in DIGITS] == parts.split()
    assert made.spans[4] is made.spans[7] is None


def test_a_single_digit_gives_both_and_the_second_of_two_alike_is_told_from_the_first() -> None:
    assert write(date(2011, 1, 1), "{dth} of {month}, {yyyy}").spans[8:] == ((0, 1), (0, 1))
    year = write(date(2011, 1, 1), "{dth} of {month}, {yyyy}").spans[:4]
    assert year == ((16, 17), (17, 18), (18, 19), (19, 20))


def test_spans_stay_right_among_stray_blanks_and_capitals() -> None:
    random, (dates, _) = Random(0), split()
    drawn = [draw(random, dates, ["the {dth} of {month} {yyyy}"]) for _ in range(300)]
    assert any("  " in one.text for one in drawn)
    assert any(one.text.isupper() for one in drawn)
    for one in drawn:
        assert "".join(one.text[slice(*one.spans[place])] for place in range(4)) == one.answer[:4]
        assert one.text[slice(*one.spans[5])].lower() == f"{date.fromisoformat(one.answer):%B}".lower()


def test_no_date_or_form_is_on_both_sides() -> None:
    training, held_out = split()
    assert len(training) + len(held_out) == (date(2200, 1, 1) - date(1600, 1, 1)).days
    assert not set(training) & set(held_out)
    assert len(held_out) == pytest.approx(0.1 * len(training + held_out), abs=1)
    assert not set(KNOWN) & set(HELD_OUT)


def test_the_same_seed_writes_the_same_dates() -> None:
    def drawn(seed: int) -> list[WrittenDate]:
        random = Random(seed)
        return [draw(random, split()[0], KNOWN) for _ in range(50)]

    assert drawn(3) == drawn(3) != drawn(4)
