"""The line of a claim, its TOML, and what is refused of them."""

import json
from dataclasses import asdict
from itertools import chain

import numpy as np
import pytest

from core.claims import terms
from core.claims.claim import MOST_BYTES, MOST_CHARACTERS, MOST_CLAIMS, Claim, read_claims
from core.claims.facts import Facts
from core.claims.terms import read_joined
from tests.core.claims.plain import ANNOTATED, told_of
from tests.core.corpus.plain import reader
from tests.hostile import processor_time
from tests.refusals import refused

FACTS = Facts.of(reader(), told_of(ANNOTATED[2], reader()).ids, ANNOTATED[2])
LINES = (
    "17.3: when the token occurred before, looks at the tokens after its occurrences, at least 0.4",
    "any head: looks at itself, at least 1",
    "0.0: always, looks at not (the first token or special tokens), at least 0.123456789",
    'any head: when the token is one of ", at least 0.5", "x: looks at y", "a\\b", looks at words among "é, looks at", '
    "at least 0.3",
    "23.4: when the token is special, writes the token that it looks at, at least 0.5",
)


@pytest.mark.parametrize("line", LINES)
def test_a_line_says_what_it_said(line):
    claim = Claim.read(line)
    assert str(claim) == line
    assert Claim.read(f"  {line.replace(' ', '  ')}\n") == claim


def test_a_file():
    """As lines and as TOML, whose quotes, backslashes and least shares come back."""
    said = {"name": 'a "name" \\ é #', "source": "https://x.y/z"}
    claims = [Claim.read(line) for line in LINES]
    claims.append(Claim("1.2", "its relation is nsubj", "its head", np.float64(0.1) + 0.2, **said))
    tables = [{name: value for name, value in asdict(claim).items() if value != ""} for claim in claims]
    lines = (["[[claim]]", *(f"{name} = {json.dumps(value)}" for name, value in table.items())] for table in tables)
    found = read_claims("\n".join(chain(*lines)))
    assert found == tuple(claims)
    assert (found[-1].name, found[-1].source, found[-1].least) == (*said.values(), 0.1 + 0.2)
    assert read_claims("\n# a comment\n" + "\n\n".join(map(str, claims))) == found


# --- and, or, not


JOINED = {
    "itself or the next token and not the first token": lambda a, b, c: a | (b & ~c),
    "not itself and the next token or the first token": lambda a, b, c: (~a & b) | c,
    "not (itself or the next token) and not not the first token": lambda a, b, c: ~(a | b) & c,
    "(not itself or (the next token)) and the first token": lambda a, b, c: (~a | b) & c,
    "not ( itself and ( the next token or the first token ) )": lambda a, b, c: ~(a & (b | c)),
    "itself and not (the next token) or not the first token": lambda a, b, c: (a & ~b) | ~c,
}


@pytest.mark.parametrize("written", JOINED)
def test_terms_are_joined_as_in_python(written):
    of_each = (read_joined(one, terms.KEYS)(FACTS) for one in ("itself", "the next token", "the first token"))
    np.testing.assert_array_equal(read_joined(written, terms.KEYS)(FACTS), JOINED[written](*of_each))


# --- what is refused

TABLE = '[[claim]]\nhead = "1.1"\nkeys = "itself"\nleast = {}\n'
LINE = "1.1: looks at itself, at least {}"
FEWER = r"can have 500 characters\. Say it in fewer words"
SHARE = r"has to be a number above 0 and at most 1, such as 0\.4"
NOT_A_CLAIM = "is not a claim. Write it like this: 17"
CLAIMS = {
    "nothing": ("", NOT_A_CLAIM),
    "no head": ("looks at itself, at least 0.4", NOT_A_CLAIM),
    "another head": ("the head: looks at itself, at least 0.4", r"“the head” is not a head\. Write its layer"),
    "no comma": ("1.1: when always looks at itself, at least 0.4", "needs a comma before “looks at”"),
    "what is written": ("1.1: writes the moon, at least 0.4", NOT_A_CLAIM),
    "no comma before it": ("1.1: always writes the token that it looks at, at least 0.4", "a comma before “writes”"),
    "no share": (LINE.format(""), NOT_A_CLAIM),
    "not a share": (LINE.format("0.4.1"), r"“0\.4\.1” is not a number\. Write a share such as 0\.4"),
    "a share of nothing": (LINE.format("0"), SHARE),
    "a negative share": (LINE.format("-0.1"), SHARE),
    "a share of more than all": (LINE.format("1e999"), SHARE),
    "an unknown condition": (
        "1.1: when it rains, looks at itself, at least 0.4",
        "“it rains” has “it rains”.*There are: always;",
    ),
    "unknown keys": (
        "1.1: looks at the sky, at least 0.4",
        "“the sky” has.*a set of keys should stand.*There are: the first",
    ),
    "keys as a condition": ("1.1: when itself, looks at itself, at least 0.4", "where a condition should stand"),
    "two terms": ("1.1: looks at itself numbers, at least 0.4", "has “numbers” where and, or should stand"),
    "an end too early": ("1.1: looks at itself and, at least 0.4", "ends where keys should stand"),
    "no condition": ("1.1: when , looks at not, at least 0.4", "ends where keys should stand"),
    "a bracket": ("1.1: looks at (itself, at least 0.4", r"has a \( without a \)"),
    "another bracket": ("1.1: looks at itself), at least 0.4", r"has a \) without a \("),
    "an open quotation": ('1.1: looks at words among "a, at least 0.4', "a set of keys should stand"),
    "a control character": (
        '1.1: looks at words among "\0", at least 0.4',
        "keys has a control character. Leave it out",
    ),
    "half a character": ('1.1: looks at words among "\ud800", at least 0.4', "keys has a control character"),
    "bytes": (b"\xff\x00{".decode("latin-1"), NOT_A_CLAIM),
    "a long line": (f'1.1: looks at words among "{"a" * MOST_CHARACTERS}", at least 0.4', FEWER),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_line_that_is_refused(name):
    """And a file that has it says where."""
    line, words = CLAIMS[name]
    with refused("claim", words):
        Claim.read(line)
    if line:
        with refused("claims", rf"^Line 3: .*{words}"):
            read_claims(f"# these\n\n{line}\n")


MADE = {
    "a head that is a number": ({"head": 1.1}, r"head is not a text\. Write it in quotation marks"),
    "no text": ({"when": None}, "when is not a text"),
    "NaN": ({"least": float("nan")}, SHARE),
    "yes": ({"least": True}, SHARE),
    "a text": ({"least": "0.4"}, SHARE),
    "a number of thousands of digits": ({"least": 10**9999}, SHARE),
    "too long with what joins it": ({"keys": f'words among "{"a" * (MOST_CHARACTERS - 20)}"'}, FEWER),
}


@pytest.mark.parametrize("name", MADE)
def test_a_claim_that_cannot_be_made(name):
    changes, words = MADE[name]
    with refused("claim", words):
        Claim(**{"head": "1.1", "when": "", "keys": "itself", "least": 0.4} | changes)


FILES = {
    "nothing": ("# no claim\n", "There is no claim in it. Write one in each line: 17"),
    "10 MB": ("x" * 10_000_000, "more than 200 kB"),
    "blank lines": ("\n" * MOST_BYTES, "no claim in it"),  # each was once looked at from all those before
    "a key of many parts": (
        "[[claim]]\n" + "a." * 90_000 + "a = 1",
        r"^Line 2 has more than 2,000 characters\. Shorten it",
    ),
    "keys of many parts below one": (
        f"[[claim]]\n[claim.{'a.' * 990}b]\n" + "\n".join(f"k{number}.{'a.' * 990}b = 1" for number in range(88)),
        "^Line 2 has 991 dots outside of quotation marks; at most 20 are read",
    ),
    "a quoted key of many parts": (
        "[[claim]]\n" + '"a b".' * 30 + "c = 1",
        "^Line 2 has 30 dots",
    ),
    "5,000 lines": ("0.1: looks at itself, at least 0.4\n" * 5_000, "These are 5,000 claims; at most 100"),
    "101 claims": (f"{LINE.format(0.5)}\n" * (MOST_CLAIMS + 1), "101 claims; at most 100 can be tested together"),
    "101 tables": (TABLE.format(0.5) * (MOST_CLAIMS + 1), "101 claims; at most 100"),
    "not TOML": ("[[claim]]\nhead = \n", r"not TOML: .*line 2"),
    "deep TOML": ("[[claim]]\nhead = " + "[" * 1_900, "not TOML: maximum recursion depth"),
    "one table": ("[claim]\nhead = '1.1'\n[[other]]\n", r"Begin each with a line \[\[claim\]\]"),
    "a list of numbers": ("claim = [1]\n[[other]]\n", r"Begin each with a line \[\[claim\]\]"),
    "a bad second": (TABLE.format(0.5) + TABLE.format("nan"), f"^Claim 2: .*{SHARE}"),
    "a lacking field": ("[[claim]]\nhead = '1.1'\n", "^Claim 1: keys, least is missing"),
    "an unknown field": (TABLE.format("1\nhaed = 1"), "^Claim 1: there is no field “haed”; there are head, when, keys"),
    "a date": (TABLE.format("2026-01-01"), f"^Claim 1: .*{SHARE}"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_refused(name):
    contents, words = FILES[name]
    with refused("claims", words) as caught, processor_time(5):  # it takes a fiftieth; square steps take minutes
        read_claims(contents)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("around", ["({})", "not {}", "not (({}))"])
def test_deep_brackets_are_read_without_depth(around):
    """By whoever reads terms alone; a claim has few characters."""
    left, right = around.split("{}")
    inner = read_joined("itself", terms.KEYS)(FACTS)
    deep = read_joined(f"{left * 20_000}itself{right * 20_000}", terms.KEYS)
    np.testing.assert_array_equal(deep(FACTS), inner)
    with refused("claim", "bracket|without|ends"):
        read_joined(left.replace("not ", "(") * 20_001 + "itself" + right * 20_000, terms.KEYS)
