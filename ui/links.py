"""What a page's address says, and that the page shows it: every field that an address can name is read and written here.

A field says under which name it stands in the address, which words it takes, and what it opens with (`field`; the widgets
themselves are in `ui/controls/fields.py`). What stands as it opens is left out of the address.

An address is read when somebody arrives with it: by a link, in the browser's history, by a reload, or in a talk. Then the page
shows what it says and nothing that the session held before. A link within the app that has no version says only part (which
head, say), and all else stays as it was chosen; so does everything where somebody goes to a page by the menu. From then on the
address follows the page: once the page is there, `write` brings it in line. What an address asks for in vain is named.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from contextvars import ContextVar
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from typing import Any, Protocol, TypeVar
from urllib.parse import urlencode

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.state.query_params import sanitize_query_string

from ui import state
from ui.address import follow
from ui.markdown import plain

Address = dict[str, list[str]]
Word = TypeVar("Word", bound=Hashable)
SHOWN = 40  # letters of what an address asks for in vain
NAMED = 6  # of what it asks for in vain
DIGITS = 20  # of a number: no field takes one that is longer
VERSION = 2  # of the addresses that are written here; before they had one, they were of version 1


# --- which words a field takes


class Form(Protocol):
    """How the value of a field and the words in the address become each other."""

    def read(self, words: Sequence[str]) -> Any:
        """The value that at least one word says. Raises ValueError for words that the field does not take, with what it takes
        where that is worth telling."""
        ...

    def say(self, value: Any) -> list[str]:
        """The words that say this value."""
        ...

    def holds(self, value: Any) -> bool:
        """Whether the field can show this value."""
        ...


class SomeAreMissing(ValueError):
    """Of several words some say what is not there; `value` is what the others say."""

    def __init__(self, words: Sequence[str], value: Any) -> None:
        super().__init__()
        self.words, self.value = words, value


@dataclass(frozen=True)
class Text:
    """Text of at most so many letters; None: of any number. such_as: what it could be."""

    most: int | None = None
    such_as: tuple[str, ...] = ()

    def read(self, words: Sequence[str]) -> str:
        if not self.holds(words[-1]):
            raise ValueError(f"of {len(words[-1]):,} letters, where at most {self.most:,} fit")
        return words[-1]

    def say(self, value: str) -> list[str]:
        return [value]

    def holds(self, value: Any) -> bool:
        return isinstance(value, str) and (self.most is None or len(value) <= self.most)


@dataclass(frozen=True)
class Number:
    """A number from `low` to `high`, None: without end; `whole`: without a fraction."""

    low: float | None
    high: float | None
    whole: bool

    def read(self, words: Sequence[str]) -> float:
        try:
            value = float(words[-1]) if len(words[-1]) <= DIGITS else float("inf")
        except ValueError:
            raise ValueError("which is no number") from None
        value = int(value) if self.whole and value.is_integer() else value
        if not self.holds(value):
            raise ValueError(f"which is not {self.range}")
        return value

    def say(self, value: float) -> list[str]:
        return [str(int(value)) if float(value).is_integer() else repr(float(value))]

    def holds(self, value: Any) -> bool:
        if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
            return False
        above = self.low is None or value >= self.low
        return above and (self.high is None or value <= self.high) and (isinstance(value, int) or not self.whole)

    @property
    def range(self) -> str:
        """What it takes, in words."""
        ends = [f"from {self.low:,g}"] if self.low is not None else []
        ends += [f"to {self.high:,g}"] if self.high is not None else []
        return " ".join(["a whole number" if self.whole else "a number", *ends])


@dataclass(frozen=True)
class Numbers:
    """Several numbers of one form, in ascending order."""

    of: Number
    count: int

    def read(self, words: Sequence[str]) -> tuple[float, ...]:
        value = tuple(self.of.read([word]) for word in words)
        if not self.holds(value):
            raise ValueError(f"where {self.count} ascending numbers are meant")
        return value

    def say(self, value: tuple[float, ...]) -> list[str]:
        return [word for one in value for word in self.of.say(one)]

    def holds(self, value: Any) -> bool:
        return len(value) == self.count and all(map(self.of.holds, value)) and list(value) == sorted(value)


@dataclass(frozen=True)
class Switch:
    """On or off."""

    def read(self, words: Sequence[str]) -> bool:
        if (word := words[-1].lower()) not in ("true", "false"):
            raise ValueError("where true or false is meant")
        return word == "true"

    def say(self, value: bool) -> list[str]:
        return [str(value).lower()]

    def holds(self, value: Any) -> bool:
        return isinstance(value, bool)


@dataclass(frozen=True)
class Choice:
    """One of `choices`: word in the address -> words on the page, which older addresses say.

    formerly  what older addresses say that is no longer on the page -> what it means
    """

    choices: Mapping[Any, str]
    formerly: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def read(self, words: Sequence[str]) -> Hashable:
        return self.meaning(words[-1])

    def meaning(self, said: str) -> Hashable:
        """Raises ValueError for what is none of them."""
        by_words = {words: one for one, words in self.choices.items()}
        meaning = {**self.formerly, **by_words, **{str(one): one for one in self.choices}}
        if said not in meaning:
            raise ValueError
        return meaning[said]

    def say(self, value: Hashable) -> list[str]:
        return [str(value)]

    def holds(self, value: Any) -> bool:
        return value in self.choices


@dataclass(frozen=True)
class Several:
    """Any of `choices`, or none; of an address those that are there."""

    choices: Mapping[Any, str]

    def read(self, words: Sequence[str]) -> list[Hashable]:
        one, found, missing = Choice(self.choices), [], []
        for word in filter(None, words):
            try:
                found.append(one.meaning(word))
            except ValueError:
                missing.append(word)
        if missing:
            raise SomeAreMissing(missing, found)
        return found

    def say(self, value: Iterable[Hashable]) -> list[str]:
        return [str(one) for one in value]

    def holds(self, value: Any) -> bool:
        return all(one in self.choices for one in value)


@dataclass(frozen=True)
class Place:
    """A place from 0 to count - 1; None: none is chosen."""

    count: int

    def read(self, words: Sequence[str]) -> int | None:
        if not words[-1].isdecimal() or len(words[-1]) > DIGITS or int(words[-1]) >= self.count:
            raise ValueError(f"where there are 0 to {self.count - 1}")
        return int(words[-1])

    def say(self, value: int | None) -> list[str]:
        return [] if value is None else [str(value)]

    def holds(self, value: Any) -> bool:
        return value is None or value in range(self.count)


@dataclass(frozen=True)
class Lines:
    """Lines of text, so many at most; of an address the last ones."""

    most: int

    def read(self, words: Sequence[str]) -> list[str]:
        found = [word for word in words if word.strip()]
        if len(found) > self.most:
            raise SomeAreMissing(found[: -self.most], found[-self.most :])
        return found

    def say(self, value: Sequence[str]) -> list[str]:
        return list(value)

    def holds(self, value: Any) -> bool:
        return isinstance(value, list) and len(value) <= self.most


# --- the fields of a page in one run


@dataclass(frozen=True)
class Field:
    """A field that is on the page. what: what the page calls it."""

    what: str
    form: Form
    opening: Any


_FIELDS: ContextVar[dict[str, Field] | None] = ContextVar(
    "fields", default=None
)  # a run has a thread, and so a context, of its own


def fields() -> dict[str, Field]:
    """Those that this run has drawn so far, by their names in the address."""
    found = _FIELDS.get()
    if found is None:  # a page that runs by itself
        found = {}
        _FIELDS.set(found)
    return found


def field(key: str, form: Form, opening: Any, what: str) -> Any:
    """Have the field of this key show what the address asks for, else what was chosen in this session, else `opening`; gives
    it.

    To be called before the widget, which takes its value from the session's state.
    """
    fields()[key] = Field(what, form, opening)
    chosen = st.session_state.setdefault(state.CHOSEN, {})
    wanted = _asked(key)
    if wanted is not None:
        value = _read(key, form, wanted, opening, what)
    else:
        value = st.session_state.get(key, chosen.get(key, opening))
        value = value if value == opening or form.holds(value) else opening
    if wanted is not None or key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value
    chosen[key] = value
    return value


def _asked(key: str) -> list[str] | None:
    """What the address asks for under this name, told once; None where it asks for nothing."""
    if state.ASKED not in st.session_state:  # a page that runs by itself
        st.session_state[state.ASKED] = _completed(_given())
    return st.session_state[state.ASKED].pop(key, None)


def _read(key: str, form: Form, words: Sequence[str], opening: Any, what: str) -> Any:
    if not any(words) and not isinstance(form, Text):
        return opening
    try:
        return form.read(words)
    except SomeAreMissing as error:
        words, value, reason = error.words, error.value, ""
    except ValueError as error:
        value, reason = opening, f", {error}" if str(error) else ""
    _in_vain(key, f"{what} “{', '.join(words)[:SHOWN]}”{reason}")
    return value


def said() -> Address:
    """What the fields of this run come to in the address."""
    found = {key: (one, st.session_state.get(key, one.opening)) for key, one in fields().items()}
    return {key: one.form.say(value) for key, (one, value) in found.items() if value != one.opening}


def _undrawn() -> Address:
    """What this page's address said by fields that are not there in this run, and that nothing has made it forget."""
    chosen = st.session_state[state.CHOSEN]
    return {key: words for key, words in here().items() if key in chosen and key not in fields()}


def here() -> Address:
    """The address of the view as it was last drawn."""
    return st.session_state.get(state.ADDRESS, {})


def lasting(address: Mapping[str, Any]) -> dict[str, Any]:
    """The address as links carry it that are to be kept: with its version."""
    return {**address, state.VERSION: str(VERSION)}


# --- going elsewhere


def go_to(link: str, *, instead: bool = False) -> None:
    """With the next run the browser goes to a link below the app's own address, as it goes back: what opens opens as the link
    says. instead: of the address where it is, to which then nothing leads back."""
    st.session_state[state.GOING] = [time.time_ns() // 1_000_000, link, instead]


def going() -> list | None:
    """Where the browser goes with this run, as `go_to` has said."""
    return st.session_state.get(state.GOING)


def lead_on(page: str) -> None:
    """What the browser's address asks for is on another page now."""
    go_to(f"{page}?{urlencode(_given(), doseq=True)}", instead=True)


# --- the beginning of a run


def _given() -> Address:
    """All that the browser's address says."""
    return {key: st.query_params.get_all(key) for key in st.query_params}


def _completed(address: Address) -> Address:
    """Of an older address also what it did not have to say: a target was a text."""
    is_old = state.TARGET in address and state.TARGET_AS not in address
    return address | ({state.TARGET_AS: ["text"]} if is_old else {})


def asks_for_something() -> bool:
    """Whether the browser's address says what to show, and not only how."""
    return any(not is_foreign(name) and name not in state.HOW for name in st.query_params)


def is_foreign(name: str) -> bool:
    """Whether a name in an address is nobody's business here: those who pass links on add names of their own."""
    return name.startswith(("utm_", "_")) or name in {"ref", "gclid", "fbclid"}


def is_going_back() -> bool:
    """Whether somebody goes back or forth in the browser's history, as a talk does from view to view."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


def read(page: str) -> bool:
    """Begin a run of a page: take in its address, if somebody arrives with it. Gives whether somebody comes by the menu, where
    all stays as it was chosen."""
    _FIELDS.set({})
    before = st.session_state.get(state.PAGE)
    st.session_state[state.PAGE] = page
    is_told = before is None or is_going_back()
    if not is_told and before == page:
        return False
    given = _given()
    chosen = st.session_state.get(state.CHOSEN, {})
    kept = set() if is_told else set(state.HOW) if state.VERSION in given else state.IN_ADDRESS
    st.session_state[state.CHOSEN] = {key: value for key, value in chosen.items() if key in kept}
    for key in state.IN_ADDRESS & {str(key) for key in st.session_state}:
        del st.session_state[key]  # what Streamlit keeps of a field that is gone can be older than what was chosen
    _take_in(given)
    return not is_told and not given


def _take_in(given: Address) -> None:
    foreign = {name: words for name, words in given.items() if is_foreign(name)}
    st.session_state[state.CAME_BY] = given
    st.session_state[state.FOREIGN] = foreign
    st.session_state[state.ASKED] = _completed(
        {name: words for name, words in given.items() if name in state.IN_ADDRESS}
    )
    st.session_state[state.IN_VAIN] = {}
    st.session_state[state.ARRIVING] = True
    _check_length()
    _check_version(given.get(state.VERSION))
    _check_names(given.keys() - foreign.keys())


def _check_length() -> None:
    """Of an address that is too long Streamlit reads nothing, and says so to nobody."""
    context = get_script_run_ctx()
    query = "" if context is None else context.query_string
    if query and not sanitize_query_string(query):
        _in_vain("", f"an address of {len(query):,} letters and {query.count('&') + 1:,} names, which is too long")


def _check_version(words: Sequence[str] | None) -> None:
    try:
        if words is not None:
            Number(0, VERSION, whole=True).read(words)
    except ValueError:
        said = words[-1][:SHOWN] if words else ""
        _in_vain(state.VERSION, f"version “{said}” of links, of which version {VERSION} is the newest here")


def _check_names(names: Set[str]) -> None:
    for name in sorted(names - state.IN_ADDRESS):
        near = get_close_matches(name[:SHOWN], state.IN_ADDRESS, 1, 0.78)
        _in_vain(name, f"“{name[:SHOWN]}”, which no page knows" + (f" (but “{near[0]}”)" if near else ""))


def _in_vain(key: str, words: str) -> None:
    """The address asks for something that is not there."""
    st.session_state.setdefault(state.IN_VAIN, {})[key] = words


# --- the end of a run


def write(page: str, notes: DeltaGenerator, *, is_whole: bool) -> None:
    """End a run of a page: bring the address in line with its fields, and say what it asked for in vain.

    is_whole  whether the page shows what it is there for. What the address asks for and no field has taken then never will;
              until then it stays in the address, as does what a field said that only a whole page draws.
    """
    unread: Address = st.session_state[state.ASKED]
    unread.pop(state.VERSION, None)
    lasts = {} if is_whole or st.session_state[state.ARRIVING] else _undrawn()
    if is_whole:
        for name in sorted(unread.keys() - set(state.HOW)):
            if any(words := unread.pop(name)):
                _in_vain(name, f"{name} “{', '.join(words)[:SHOWN]}”, of which this page shows nothing")
    st.session_state[state.ADDRESS] = lasts | said()
    st.session_state[state.CHOSEN] |= {key: st.session_state[key] for key in fields() if key in st.session_state}
    follow(
        page,
        here() | unread | st.session_state[state.FOREIGN],
        read=st.session_state[state.CAME_BY],
        is_new=not st.session_state[state.ARRIVING],
    )
    st.session_state[state.ARRIVING] = False
    if found := list(st.session_state[state.IN_VAIN].values()):
        further = [f"{len(found) - NAMED} more"] if len(found) > NAMED else []
        wanted = "; ".join([*found[:NAMED], *further])
        notes.warning(
            plain(f"The link asks for what is not here: {wanted}. The rest is shown."), icon=":material/link_off:"
        )
