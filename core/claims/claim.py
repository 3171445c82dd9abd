"""A claim: one sentence about a head, as a line, as TOML and in Python.

17.3: when the token occurred before, looks at the tokens after its occurrences, at least 0.4
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .facts import Facts
from .terms import CONDITIONS, KEYS, QUOTED, WRITES, Joined, read_joined

ANY = "any head"
MOST_CHARACTERS = 500  # of a claim
MOST_CLAIMS = 100  # that are tested together
MOST_BYTES = 200_000  # of a file of claims
MOST_IN_A_LINE, MOST_DOTS = 2_000, 20  # characters of such a file, and dots: tomllib takes a key of n parts n² steps
_PLACE = re.compile(r"(\d{1,4})\.(\d{1,4})")
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff]")
_IN_QUOTES = re.compile(r""""(?:[^"\\]|\\.)*"|'[^']*'""")
_VERB = re.compile(f"looks at |(?={WRITES})")
_LINE = re.compile(r"(?P<head>[^:]*): (?P<rest>.*), at least (?P<least>[0-9.eE+-]{1,20})")


@dataclass(frozen=True)
class Claim:
    """What a head is said to do.

    head   "17.3", its layer and its number, both from 0; or "any head", for the one that does it most
    when   the queries that it speaks of: a condition of `core.claims.terms`
    keys   the keys that the head looks at from there: a set of keys of `core.claims.terms`; or what the head writes
    least  the share of its attention, above 0 and at most 1, that these keys get of such a query on average

    The share of a query is the sum of its weights on its keys; queries without such a key do not count. Where a claim says what
    the head writes, the share is 1 where it does, and 0 where it does not. Raises InputError (field "claim") for what cannot be
    read.
    """

    head: str
    when: str
    keys: str
    least: float
    name: str = field(default="", compare=False)
    source: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        for name in ("head", "when", "keys", "name", "source"):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise InputError(f"{name} is not a text. Write it in quotation marks.", field="claim")
            object.__setattr__(self, name, " ".join(value.split()))
            if _CONTROL.search(getattr(self, name)):
                raise InputError(f"{name} has a control character. Leave it out.", field="claim")
        is_number = isinstance(self.least, int | float) and not isinstance(self.least, bool)
        if not is_number or not 0 < self.least <= 1:  # nor NaN
            why = "The least share has to be a number above 0 and at most 1, such as 0.4."
            raise InputError(why, field="claim")
        object.__setattr__(self, "least", float(self.least))
        if len(str(self)) > MOST_CHARACTERS:
            raise _too_long()
        if self.head != ANY and _PLACE.fullmatch(self.head) is None:
            why = f"“{self.head[:40]}” is not a head. Write its layer and its number, such as 17.3, or “{ANY}”."
            raise InputError(why, field="claim")
        _ = self.condition
        if self.is_about_writing and len(self.key_set.steps) > 1:
            why = f"“{WRITES}” stands alone: what a head writes is not a key. Make two claims of it."
            raise InputError(why, field="claim")

    @classmethod
    def read(cls, line: str) -> Claim:
        """Read the line that `str` gives. Raises InputError (field "claim")."""
        line = " ".join(line.split())
        if len(line) > MOST_CHARACTERS:
            raise _too_long()
        # Words in quotation marks may look like any part of a claim.
        blank = re.sub(QUOTED, lambda match: f'"{"_" * (len(match[0]) - 2)}"', line)
        found = _LINE.fullmatch(blank)
        verb = found and _VERB.search(blank, found.start("rest"), found.end("rest"))
        if found is None or verb is None:
            raise InputError(f"“{line[:60]}” is not a claim. Write it like this: {EXAMPLE}", field="claim")
        when = line[found.start("rest") : verb.start()].strip()
        if when and not when.endswith(","):
            raise InputError(f"“{line[:60]}” needs a comma before “{verb[0].strip() or 'writes'}”.", field="claim")
        keys = line[verb.end() : found.end("rest")]
        try:
            least = float(found["least"])
        except ValueError:
            raise InputError(f"“{found['least']}” is not a number. Write a share such as 0.4.", field="claim") from None
        return cls(line[: found.end("head")].strip(), when.removesuffix(",").removeprefix("when "), keys, least)

    def __str__(self) -> str:
        when = "" if not self.when else "always, " if self.when == "always" else f"when {self.when}, "
        verb = "" if self.is_about_writing else "looks at "
        return f"{self.head}: {when}{verb}{self.keys}, at least {str(self.least).removesuffix('.0')}"

    @property
    def place(self) -> tuple[int, int] | None:
        """(layer, head); None for any head."""
        found = _PLACE.fullmatch(self.head)
        return None if found is None else (int(found[1]), int(found[2]))

    @cached_property
    def condition(self) -> Joined:
        return read_joined(self.when or "always", CONDITIONS)

    @cached_property
    def key_set(self) -> Joined:
        return read_joined(self.keys, KEYS)

    @cached_property
    def by_position(self) -> bool:
        """Whether the keys follow from where they stand alone."""
        return self.key_set.by == {"position"}

    @cached_property
    def is_about_writing(self) -> bool:
        """Whether it says what the head writes."""
        return "head" in self.key_set.by

    @cached_property
    def is_about_resting(self) -> bool:
        """Whether the keys are among those where attention rests, the first and special ones: elsewhere these do not count."""
        return any(term.name in ("the first token", "special tokens") for term in self.key_set.terms)

    @cached_property
    def needs_annotation(self) -> bool:
        return "annotation" in self.key_set.by | self.condition.by

    def is_spoken_of(self, facts: Facts) -> bool:
        """Whether a passage can say anything of it: one without annotation can't of relations, nor of all that is not one."""
        return facts.is_annotated or not self.needs_annotation

    def speaks(self, facts: Facts) -> NDArray[np.bool_]:
        """[L] the queries of a passage that it speaks of."""
        return self.condition(facts) & self.is_spoken_of(facts)

    def wanted(self, facts: Facts) -> NDArray[np.bool_]:
        """[L, L] the keys that it names, of each query that it speaks of."""
        speaks = self.speaks(facts)
        return self.key_set(facts) & speaks[:, None] if speaks.any() else np.zeros(facts.back.shape, np.bool_)


EXAMPLE = "17.3: when the token occurred before, looks at the tokens after its occurrences, at least 0.4"
_FIELDS = tuple(one.name for one in fields(Claim))


def read_claims(text: str) -> tuple[Claim, ...]:
    """The claims of a file: TOML with a table [[claim]] each, whose fields are those of `Claim`, or a line each.

    Empty lines, and lines that begin with #, do not count. Raises InputError (field "claims"), which names the line or the
    table.
    """
    if len(text.encode(errors="replace")) > MOST_BYTES:
        raise _file_error(
            f"These are more than {MOST_BYTES // 1000} kB; at most {MOST_CLAIMS} claims can be tested together."
        )
    for number, line in enumerate(text.splitlines(), start=1):
        if len(line) > MOST_IN_A_LINE:
            raise _file_error(f"Line {number} has more than {MOST_IN_A_LINE:,} characters. Shorten it.")
    is_toml = re.search(r"^[ \t]*\[\[", text, re.MULTILINE) is not None
    claims = tuple(_from_toml(text) if is_toml else _from_lines(text))
    if not claims:
        raise _file_error(f"There is no claim in it. Write one in each line: {EXAMPLE}")
    return claims


def require_few(claims: Collection[object]) -> None:
    """Raise InputError (field "claims") for more claims than can be tested together."""
    if len(claims) > MOST_CLAIMS:
        raise _file_error(f"These are {len(claims):,} claims; at most {MOST_CLAIMS} can be tested together.")


def _from_lines(text: str) -> Iterator[Claim]:
    said = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    said = [(number, line) for number, line in said if not line.lstrip().startswith("#")]
    require_few(said)
    for number, line in said:
        yield _named(f"Line {number}", lambda line=line: Claim.read(line))


def _from_toml(text: str) -> Iterator[Claim]:
    for number, line in enumerate(text.splitlines(), start=1):
        if (dots := _IN_QUOTES.sub("", line).partition("#")[0].count(".")) > MOST_DOTS:
            why = f"Line {number} has {dots:,} dots outside of quotation marks; at most {MOST_DOTS} are read."
            raise _file_error(f"{why} Remove some.")
    try:
        tables = tomllib.loads(text).get("claim", [])
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _file_error(f"It is not TOML: {str(error)[:200]}.") from error
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise _file_error("“claim” is not a list of tables. Begin each with a line [[claim]].")
    require_few(tables)
    for number, table in enumerate(tables, start=1):
        yield _named(f"Claim {number}", lambda table=table: _of_table(table))


def _of_table(table: dict[str, Any]) -> Claim:
    if unknown := sorted(set(table).difference(_FIELDS)):
        raise InputError(f"there is no field “{unknown[0][:40]}”; there are {', '.join(_FIELDS)}.", field="claim")
    if missing := [name for name in ("head", "keys", "least") if name not in table]:
        raise InputError(f"{', '.join(missing)} is missing.", field="claim")
    return Claim(**{"when": "", **table})


def _named(where: str, read: Any) -> Claim:
    try:
        return read()
    except InputError as error:
        raise _file_error(f"{where}: {error}") from None


def _too_long() -> InputError:
    return InputError(f"A claim can have {MOST_CHARACTERS} characters. Say it in fewer words.", field="claim")


def _file_error(why: str) -> InputError:
    return InputError(why, field="claims")
