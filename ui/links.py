"""The address of a page: every field that an address can name is read and written here.

A field has a name in the address, the words that it takes, and an opening value (`field`; the widgets themselves are in
`ui/controls/fields.py`). The address leaves out fields that hold their opening value.

An address is read when somebody arrives with it: by a link, in the browser's history, by a reload, or in a talk. Then the page
shows what it says and nothing that the session held before. A link within the app that has no version says only part (which
head, for example), and everything else stays as it was chosen. When somebody comes by the menu, everything stays. From then on
the address follows the page: `write` updates it at the end of each run. What an address asks for in vain is named in a warning.
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
SHOWN = 40  # characters that a warning quotes of a word
NAMED = 6  # words that a warning names
DIGITS = 20  # of a number: no field takes a longer one
VERSION = 2  # of the addresses that are written here; addresses without a version are of version 1


# --- which words a field takes


class Form(Protocol):
    """The way a field's value is written as words in the address and read back."""

    def read(self, words: Sequence[str]) -> Any:
        """Return the value of these words, of which there is at least one.

        Raises ValueError for words that the field does not take; its message, if any, says what the field takes.
        """
        ...

    def say(self, value: Any) -> list[str]:
        """Return the words for this value."""
        ...

    def holds(self, value: Any) -> bool:
        """Return whether the field can show this value."""
        ...


class SomeAreMissing(ValueError):
    """Some of several words name what is not there; `value` is what the others mean."""

    def __init__(self, words: Sequence[str], value: Any) -> None:
        super().__init__()
        self.words, self.value = words, value


@dataclass(frozen=True)
class Text:
    """Text of at most `most` characters (None: any number). such_as: examples of it."""

    most: int | None = None
    such_as: tuple[str, ...] = ()

    def read(self, words: Sequence[str]) -> str:
        if not self.holds(words[-1]):
            raise ValueError(f"which has {len(words[-1]):,} characters; the maximum is {self.most:,}")
        return words[-1]

    def say(self, value: str) -> list[str]:
        return [value]

    def holds(self, value: Any) -> bool:
        return isinstance(value, str) and (self.most is None or len(value) <= self.most)


@dataclass(frozen=True)
class Number:
    """A number from `low` to `high` (None: no limit); whole: without a fraction."""

    low: float | None
    high: float | None
    whole: bool

    def read(self, words: Sequence[str]) -> float:
        try:
            value = float(words[-1]) if len(words[-1]) <= DIGITS else float("inf")
        except ValueError:
            raise ValueError("which must be a number") from None
        value = int(value) if self.whole and value.is_integer() else value
        if not self.holds(value):
            raise ValueError(f"which must be {self.range}")
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
        """The numbers that it takes, in words."""
        ends = [f"from {self.low:,g}"] if self.low is not None else []
        ends += [f"to {self.high:,g}"] if self.high is not None else []
        return " ".join(["a whole number" if self.whole else "a number", *ends])


@dataclass(frozen=True)
class Numbers:
    """`count` numbers of one form, in ascending order."""

    of: Number
    count: int

    def read(self, words: Sequence[str]) -> tuple[float, ...]:
        value = tuple(self.of.read([word]) for word in words)
        if not self.holds(value):
            raise ValueError(f"which must be {self.count} numbers in ascending order")
        return value

    def say(self, value: tuple[float, ...]) -> list[str]:
        return [word for number in value for word in self.of.say(number)]

    def holds(self, value: Any) -> bool:
        return len(value) == self.count and all(map(self.of.holds, value)) and list(value) == sorted(value)


@dataclass(frozen=True)
class Switch:
    """On or off."""

    def read(self, words: Sequence[str]) -> bool:
        if (word := words[-1].lower()) not in ("true", "false"):
            raise ValueError("which must be true or false")
        return word == "true"

    def say(self, value: bool) -> list[str]:
        return [str(value).lower()]

    def holds(self, value: Any) -> bool:
        return isinstance(value, bool)


@dataclass(frozen=True)
class Choice:
    """One of `choices`: word in the address -> label on the page, which older addresses say.

    formerly  labels in older addresses that are no longer on the page -> word
    """

    choices: Mapping[Any, str]
    formerly: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def read(self, words: Sequence[str]) -> Hashable:
        return self.meaning(words[-1])

    def meaning(self, text: str) -> Hashable:
        """Return the choice that this word or label names. Raises ValueError if it names none."""
        by_label = {label: word for word, label in self.choices.items()}
        meaning = {**self.formerly, **by_label, **{str(word): word for word in self.choices}}
        if text not in meaning:
            raise ValueError
        return meaning[text]

    def say(self, value: Hashable) -> list[str]:
        return [str(value)]

    def holds(self, value: Any) -> bool:
        return value in self.choices


@dataclass(frozen=True)
class Several:
    """Any of `choices`, or none of them; words of an address that name none of them are missing."""

    choices: Mapping[Any, str]

    def read(self, words: Sequence[str]) -> list[Hashable]:
        choice, chosen, missing = Choice(self.choices), [], []
        for word in filter(None, words):
            try:
                chosen.append(choice.meaning(word))
            except ValueError:
                missing.append(word)
        if missing:
            raise SomeAreMissing(missing, chosen)
        return chosen

    def say(self, value: Iterable[Hashable]) -> list[str]:
        return [str(word) for word in value]

    def holds(self, value: Any) -> bool:
        return all(word in self.choices for word in value)


@dataclass(frozen=True)
class Index:
    """A whole number from 0 to count - 1; None while none is chosen."""

    count: int

    def read(self, words: Sequence[str]) -> int | None:
        if not words[-1].isdecimal() or len(words[-1]) > DIGITS or int(words[-1]) >= self.count:
            raise ValueError(f"which must be from 0 to {self.count - 1}")
        return int(words[-1])

    def say(self, value: int | None) -> list[str]:
        return [] if value is None else [str(value)]

    def holds(self, value: Any) -> bool:
        return value is None or value in range(self.count)


@dataclass(frozen=True)
class Lines:
    """At most `most` lines of text; of a longer list in an address, the last ones are kept."""

    most: int

    def read(self, words: Sequence[str]) -> list[str]:
        lines = [word for word in words if word.strip()]
        if len(lines) > self.most:
            raise SomeAreMissing(lines[: -self.most], lines[-self.most :])
        return lines

    def say(self, value: Sequence[str]) -> list[str]:
        return list(value)

    def holds(self, value: Any) -> bool:
        return isinstance(value, list) and len(value) <= self.most


# --- the fields of a page in one run


@dataclass(frozen=True)
class Field:
    """A field on the page: its label there, the words that it takes, and its opening value."""

    label: str
    form: Form
    opening: Any


_FIELDS: ContextVar[dict[str, Field] | None] = ContextVar(
    "fields", default=None
)  # a run has a thread, and so a context, of its own


def fields() -> dict[str, Field]:
    """Return the fields that this run has drawn so far, by their names in the address."""
    drawn = _FIELDS.get()
    if drawn is None:  # a page that runs by itself
        drawn = {}
        _FIELDS.set(drawn)
    return drawn


def field(key: str, form: Form, opening: Any, label: str) -> Any:
    """Return the value of a field: what the address asks for, else what was chosen in this session, else `opening`.

    Call it before the widget, which takes its value from the session's state; this sets it there.
    """
    fields()[key] = Field(label, form, opening)
    chosen = st.session_state.setdefault(state.CHOSEN, {})
    wanted = _asked(key)
    if wanted is not None:
        value = _read(key, form, wanted, opening, label)
    else:
        value = st.session_state.get(key, chosen.get(key, opening))
        value = value if value == opening or form.holds(value) else opening
    if wanted is not None or key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value
    chosen[key] = value
    return value


def _asked(key: str) -> list[str] | None:
    """Return the words that the address has for this name, only once; None if it has none."""
    if state.ASKED not in st.session_state:  # a page that runs by itself
        st.session_state[state.ASKED] = _completed(_given())
    return st.session_state[state.ASKED].pop(key, None)


def _read(key: str, form: Form, words: Sequence[str], opening: Any, label: str) -> Any:
    if not any(words) and not isinstance(form, Text):
        return opening
    try:
        return form.read(words)
    except SomeAreMissing as error:
        words, value, reason = error.words, error.value, ""
    except ValueError as error:
        value, reason = opening, f", {error}" if str(error) else ""
    _in_vain(key, f"{label} “{', '.join(words)[:SHOWN]}”{reason}")
    return value


def _of_fields() -> Address:
    """Return the address that the fields of this run make."""
    values = {key: (field, st.session_state.get(key, field.opening)) for key, field in fields().items()}
    return {key: field.form.say(value) for key, (field, value) in values.items() if value != field.opening}


def _undrawn() -> Address:
    """Return the part of this page's address whose fields are not drawn in this run, but whose choices still hold."""
    chosen = st.session_state[state.CHOSEN]
    return {key: words for key, words in here().items() if key in chosen and key not in fields()}


def here() -> Address:
    """Return the address of the view as it was last drawn."""
    return st.session_state.get(state.ADDRESS, {})


def lasting(address: Mapping[str, Any]) -> dict[str, Any]:
    """Return the address with its version, for links that people keep."""
    return {**address, state.VERSION: str(VERSION)}


# --- going elsewhere


def go_to(link: str, *, instead: bool = False) -> None:
    """Make the browser go to a link below the app's own address in the next run, so that the page opens as the link says.

    instead  whether the link replaces the current entry of the browser's history
    """
    st.session_state[state.GOING] = [time.time_ns() // 1_000_000, link, instead]


def going() -> list | None:
    """Return where the browser goes in this run, if `go_to` was called."""
    return st.session_state.get(state.GOING)


def lead_on(page: str) -> None:
    """Go to another page with the browser's whole address, because what it asks for has moved there."""
    go_to(f"{page}?{urlencode(_given(), doseq=True)}", instead=True)


# --- the beginning of a run


def _given() -> Address:
    """Return the browser's whole address."""
    return {key: st.query_params.get_all(key) for key in st.query_params}


def _completed(address: Address) -> Address:
    """Return the address with what older addresses left out: in them, a target was always a text."""
    is_old = state.TARGET in address and state.TARGET_AS not in address
    return address | ({state.TARGET_AS: ["text"]} if is_old else {})


def asks_for_something() -> bool:
    """Return whether the browser's address says what to show, and not only how."""
    return any(not is_foreign(name) and name not in state.HOW for name in st.query_params)


def is_foreign(name: str) -> bool:
    """Return whether a name in an address was added by a site that passed the link on."""
    return name.startswith(("utm_", "_")) or name in {"ref", "gclid", "fbclid"}


def is_going_back() -> bool:
    """Return whether somebody goes back or forward in the browser's history, as a talk does from view to view."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


def read(page: str) -> bool:
    """Begin a run of a page: read its address, if somebody arrives with one.

    Returns whether somebody comes by the menu, where everything stays as it was chosen.
    """
    _FIELDS.set({})
    before = st.session_state.get(state.PAGE)
    st.session_state[state.PAGE] = page
    arrives = before is None or is_going_back()
    if not arrives and before == page:
        return False
    given = _given()
    chosen = st.session_state.get(state.CHOSEN, {})
    kept = set() if arrives else set(state.HOW) if state.VERSION in given else state.IN_ADDRESS
    st.session_state[state.CHOSEN] = {key: value for key, value in chosen.items() if key in kept}
    for key in state.IN_ADDRESS & {str(key) for key in st.session_state}:
        del st.session_state[key]  # Streamlit may keep an older value of a field that is gone than the one last chosen
    _take_in(given)
    return not arrives and not given


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
    """Warn of an address that is too long: Streamlit reads nothing of it, and says nothing."""
    context = get_script_run_ctx()
    query = "" if context is None else context.query_string
    if query and not sanitize_query_string(query):
        _in_vain("", f"an address that is too long ({len(query):,} characters, {query.count('&') + 1:,} names)")


def _check_version(words: Sequence[str] | None) -> None:
    try:
        if words is not None:
            Number(0, VERSION, whole=True).read(words)
    except ValueError:
        version = words[-1][:SHOWN] if words else ""
        _in_vain(state.VERSION, f"link version “{version}”; the newest version known here is {VERSION}")


def _check_names(names: Set[str]) -> None:
    for name in sorted(names - state.IN_ADDRESS):
        near = get_close_matches(name[:SHOWN], state.IN_ADDRESS, 1, 0.78)
        _in_vain(name, f"unknown name “{name[:SHOWN]}”" + (f" (did you mean “{near[0]}”?)" if near else ""))


def _in_vain(key: str, words: str) -> None:
    """Note that the address asks for something that is not there."""
    st.session_state.setdefault(state.IN_VAIN, {})[key] = words


# --- the end of a run


def write(page: str, notes: DeltaGenerator, *, is_whole: bool) -> None:
    """End a run of a page: update the address from its fields, and warn of what it asked for in vain.

    is_whole  whether the page has drawn everything it is there for. If it has, no field will take what is still unread of
              the address; until then that stays in the address, as do fields that only a whole page draws.
    """
    unread: Address = st.session_state[state.ASKED]
    unread.pop(state.VERSION, None)
    undrawn = {} if is_whole or st.session_state[state.ARRIVING] else _undrawn()
    if is_whole:
        for name in sorted(unread.keys() - set(state.HOW)):
            if any(words := unread.pop(name)):
                _in_vain(name, f"{name} “{', '.join(words)[:SHOWN]}”, which this page does not use")
    st.session_state[state.ADDRESS] = undrawn | _of_fields()
    st.session_state[state.CHOSEN] |= {key: st.session_state[key] for key in fields() if key in st.session_state}
    follow(
        page,
        here() | unread | st.session_state[state.FOREIGN],
        read=st.session_state[state.CAME_BY],
        is_new=not st.session_state[state.ARRIVING],
    )
    st.session_state[state.ARRIVING] = False
    if missing := list(st.session_state[state.IN_VAIN].values()):
        further = [f"{len(missing) - NAMED} more"] if len(missing) > NAMED else []
        wanted = "; ".join([*missing[:NAMED], *further])
        notes.warning(
            plain(f"The link asks for something that is not available: {wanted}. The rest is shown."),
            icon=":material/link_off:",
        )
