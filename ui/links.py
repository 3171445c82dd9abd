"""The address of a page: every field that an address can name is read and written here.

A field has a name in the address, the words that it takes, and an opening value (`field`; the widgets themselves are in
`ui/controls/fields.py`). The address leaves out fields that hold their opening value.

An address is read when somebody arrives with it: by a link, in the browser's history, by a reload, or in a talk. Then the page
shows what it says and nothing that the session held before. A link within the app that has no version says only part (which
head, for example), and everything else stays as it was chosen. From then on the address follows the page: `write` updates it
at the end of each run. What an address asks for in vain is named in a warning.

Some fields speak of a text, as a token's position or an answer does (`state.SPEAKS_OF`). Where the page reads another text than
when they were chosen, they open anew, however that text has come there.
"""

import dataclasses
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from difflib import get_close_matches
from math import inf, isfinite
from typing import Any, TypeVar
from urllib.parse import urlencode

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.errors import StreamlitPageNotFoundError
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.state.query_params import sanitize_query_string

from ui import lessons, state
from ui.in_browser import follow
from ui.markdown import plain
from ui.serving import undisturbed

Address = dict[str, list[str]]
Word = TypeVar("Word", bound=Hashable)
SHOWN = 40  # characters that a warning quotes of a word
NAMED = 6  # words that a warning names
DIGITS = 20  # of a number: no field takes a longer one
VERSION = 2  # of the addresses that are written here; addresses without a version are of version 1


# --- which words a field takes


class Form:
    """The way a field's value is written as words in the address and read back."""

    def read(self, words: Sequence[str]) -> Any:
        """Return the value of these words, of which there is at least one.

        Raises ValueError for words that the field does not take; its message, if any, says what the field takes.
        """
        raise NotImplementedError

    def say(self, value: Any) -> list[str]:
        """Return the words for this value; of several, one for each."""
        return [str(word) for word in (value if isinstance(value, list | tuple) else [value])]

    def holds(self, value: Any) -> bool:
        """Return whether the field can show this value."""
        raise NotImplementedError

    def for_another_text(self, value: Any, opening: Any) -> Any:  # noqa: ARG002 - some forms keep part of it
        """Return what is left of a value that speaks of a text, once there is another one."""
        return opening


class SomeAreMissing(ValueError):
    """Some of several words name what is not there; `value` is what the others mean."""

    def __init__(self, words: Sequence[str], value: Any) -> None:
        super().__init__()
        self.words, self.value = words, value


@dataclass(frozen=True)
class TextForm(Form):
    """Text of at most `most` characters (None: any number). such_as: examples of it."""

    most: int | None = None
    such_as: tuple[str, ...] = ()

    def read(self, words: Sequence[str]) -> str:
        if not self.holds(words[-1]):
            raise ValueError(f"which has {len(words[-1]):,} characters; the maximum is {self.most:,}")
        return words[-1]

    def holds(self, value: Any) -> bool:
        return isinstance(value, str) and (self.most is None or len(value) <= self.most)


@dataclass(frozen=True)
class NumberForm(Form):
    """A number from `low` to `high` (None: no limit); whole: without a fraction."""

    low: float | None
    high: float | None
    whole: bool

    def read(self, words: Sequence[str]) -> float:
        try:
            value = float(words[-1]) if len(words[-1]) <= DIGITS else inf
        except ValueError:
            raise ValueError("which must be a number") from None
        value = int(value) if self.whole and value.is_integer() else value
        if not self.holds(value):
            low = "" if self.low is None else f" from {self.low:,g}"
            high = "" if self.high is None else f" to {self.high:,g}"
            raise ValueError(f"which must be {'a whole number' if self.whole else 'a number'}{low}{high}")
        return value

    def say(self, value: float) -> list[str]:
        return [str(int(value)) if float(value).is_integer() else repr(float(value))]

    def holds(self, value: Any) -> bool:
        is_number = isinstance(value, int if self.whole else int | float) and not isinstance(value, bool)
        low, high = -inf if self.low is None else self.low, inf if self.high is None else self.high
        return is_number and isfinite(value) and low <= value <= high


@dataclass(frozen=True)
class NumbersForm(Form):
    """`count` numbers of one form, in ascending order."""

    of: NumberForm
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
class SwitchForm(Form):
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
class ChoiceForm(Form):
    """One of `choices`: word in the address -> label on the page, which older addresses say.

    formerly  labels in older addresses that are no longer on the page -> word
    """

    choices: Mapping[Any, str]
    formerly: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def read(self, words: Sequence[str]) -> Hashable:
        meanings = {**self.formerly, **_meanings(self.choices)}
        if words[-1] not in meanings:
            raise ValueError
        return meanings[words[-1]]

    def holds(self, value: Any) -> bool:
        return value in self.choices


@dataclass(frozen=True)
class SeveralForm(Form):
    """Any of `choices`, or none of them; words of an address that name none of them are missing."""

    choices: Mapping[Any, str]

    def read(self, words: Sequence[str]) -> list[Hashable]:
        meanings = _meanings(self.choices)
        chosen = [meanings[word] for word in words if word in meanings]
        if missing := [word for word in words if word and word not in meanings]:
            raise SomeAreMissing(missing, chosen)
        return chosen

    def holds(self, value: Any) -> bool:
        return all(word in self.choices for word in value)


def _meanings(choices: Mapping[Any, str]) -> dict[str, Any]:
    """Return what each word, and each label of older addresses, chooses."""
    return {label: word for word, label in choices.items()} | {str(word): word for word in choices}


@dataclass(frozen=True)
class IndexForm(Form):
    """A whole number from 0 to count - 1; None while none is chosen."""

    count: int

    def read(self, words: Sequence[str]) -> int | None:
        if not words[-1].isdecimal() or len(words[-1]) > DIGITS or int(words[-1]) >= self.count:
            raise ValueError(f"which must be from 0 to {self.count - 1}")
        return int(words[-1])

    def holds(self, value: Any) -> bool:
        return value is None or value in range(self.count)


@dataclass(frozen=True)
class LinesForm(Form):
    """At most `most` lines of text; of a longer list in an address, the last ones are kept.

    speaks_of_text  of a line: whether it is dropped where there is another text
    """

    most: int
    speaks_of_text: Callable[[str], bool]

    def read(self, words: Sequence[str]) -> list[str]:
        lines = [word for word in words if word.strip()]
        if len(lines) > self.most:
            raise SomeAreMissing(lines[: -self.most], lines[-self.most :])
        return lines

    def holds(self, value: Any) -> bool:
        return isinstance(value, list) and len(value) <= self.most

    def for_another_text(self, value: list[str], opening: list[str]) -> list[str]:  # noqa: ARG002 - as in `Form`
        return [line for line in value if not self.speaks_of_text(line)]


# --- the fields of a page in one run


# By name in the address: the form and the opening value. A run has a thread, and so a context, of its own.
_DRAWN: ContextVar[dict[str, tuple[Form, Any]] | None] = ContextVar("drawn", default=None)


def _drawn() -> dict[str, tuple[Form, Any]]:
    """Return the fields that this run has drawn so far."""
    if (drawn := _DRAWN.get()) is None:  # a page that runs by itself
        _DRAWN.set(drawn := {})
    return drawn


def field(key: str, form: Form, opening: Any, label: str) -> Any:
    """Return the value of a field: what the address asks for, else what was chosen in this session, else `opening`.

    Call it before the widget, which takes its value from the session's state; this sets it there.
    """
    _drawn()[key] = (form, opening)
    chosen = st.session_state.setdefault(state.CHOSEN, {})
    if state.ASKED not in st.session_state:  # a page that runs by itself
        st.session_state[state.ASKED] = _completed(_of_browser())
    words = st.session_state[state.ASKED].pop(key, None)  # only once
    if words is not None and not _is_of_another(key, st.session_state.get(state.ASKED_OF, {}), so_far=True):
        value = _read(key, form, words, opening, label)
    else:
        value = st.session_state.get(key, chosen.get(key, opening))
        value = value if value == opening or form.holds(value) else opening
        if _is_of_another(key, _spoke_of()):
            value = form.for_another_text(value, opening)
    if words is not None or key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value
    chosen[key] = value
    _spoke_of()[key] = _text_of(key)
    return value


def put(key: str, value: Any) -> None:
    """Set a field before the page runs, also one that the next run does not draw."""
    st.session_state[key] = value
    st.session_state.setdefault(state.CHOSEN, {})[key] = value
    _spoke_of().pop(key, None)  # it speaks of the text that comes with it


def put_all(values: Mapping[str, Any]) -> None:
    """Set several fields before the page runs."""
    for key, value in values.items():
        put(key, value)


def forget(*keys: str) -> None:
    """Let fields open anew in the next run."""
    for key in keys:
        st.session_state.pop(key, None)
        st.session_state[state.CHOSEN].pop(key, None)


# --- fields that speak of a text

# By the names in `state.SPEAKS_OF` that this run has drawn: their values as hashes, None where they say nothing.
TextRead = dict[str, int | None]


def _text_of(key: str) -> TextRead:
    """Return which text a field speaks of in this run, as far as it is drawn."""
    drawn, read = _drawn(), {}
    for name in state.SPEAKS_OF.get(key, ()):
        if name in drawn or name not in state.IN_ADDRESS:
            value = st.session_state.get(name)
            says_nothing = value is None or value is False or value in ("", "real")  # as where there is no such field
            read[name] = None if says_nothing else hash(value)
    return read


def _spoke_of() -> dict[str, TextRead]:
    """Return which text each choice speaks of; one that somebody has just set speaks of the text that comes with it."""
    return st.session_state.setdefault(state.SPOKE_OF, {})


def _is_of_another(key: str, told: Mapping[str, TextRead], *, so_far: bool = False) -> bool:
    """Return whether a field's choice speaks of another text than the one that this run has read.

    told    by field: the text that its choice speaks of
    so_far  compare only what both runs have drawn, because one of them has not drawn all of it; nor a file that came in between
    """
    now = _text_of(key)
    then = told.get(key, now)
    names = then.keys() | now.keys()
    if so_far:
        names = {name for name in then.keys() & now.keys() if name in state.IN_ADDRESS or then[name] is not None}
    return any(then.get(name) != now.get(name) for name in names)


def local_value(key: str, opening: Any) -> Any:
    """Return the value of a widget that no address names, before the widget: `opening` where it speaks of another text."""
    if key not in st.session_state or _is_of_another(key, _spoke_of()):
        st.session_state[key] = opening
    _spoke_of()[key] = _text_of(key)
    return st.session_state[key]


def _read(key: str, form: Form, words: Sequence[str], opening: Any, label: str) -> Any:
    if not any(words) and not isinstance(form, TextForm):
        return opening
    try:
        return form.read(words)
    except SomeAreMissing as error:
        words, value, reason = error.words, error.value, ""
    except ValueError as error:
        value, reason = opening, f", {error}" if str(error) else ""
    _in_vain(key, f"{label} “{', '.join(words)[:SHOWN]}”{reason}")
    return value


def here() -> Address:
    """Return the address of the view as it was last drawn."""
    return st.session_state.get(state.ADDRESS, {})


def asks(key: str, word: str) -> bool:
    """Return whether the address asks for this word of a field, or it was chosen, also where the field does not offer it."""
    asked = st.session_state.get(state.ASKED, {}).get(key)
    return word in asked if asked else st.session_state.get(state.CHOSEN, {}).get(key) == word


def shows(address: Mapping[str, str]) -> bool:
    """Return whether the page, as this run has drawn it, shows what an address says, and nothing else that was chosen."""
    drawn = _drawn()
    if not here().keys() <= {*address, *state.HOW}:
        return False
    return all(
        name in drawn and drawn[name][0].say(st.session_state.get(name, drawn[name][1])) == [word]
        for name, word in address.items()
    )


def lasting(address: Mapping[str, Any]) -> dict[str, Any]:
    """Return the address with its version, for links that people keep."""
    return {**address, state.VERSION: str(VERSION)}


# --- going elsewhere


def go_to(link: str, *, instead: bool = False) -> None:
    """Make the browser go to a link below the app's own address in the next run, or put it `instead` of the history's entry."""
    st.session_state[state.GOING] = [time.time_ns() // 1_000_000, link, instead]


def link_to(page: str, label: str, icon: str | None, address: Mapping[str, Any] | None = None) -> None:
    """Show a link to a page; none on a page that runs by itself, which knows no others."""
    with suppress(StreamlitPageNotFoundError):
        st.page_link(lessons.file(page), label=label, icon=icon, query_params=address)


def lead_on(page: str) -> None:
    """Go to another page with the browser's whole address, because what it asks for has moved there."""
    go_to(f"{page}?{urlencode(_of_browser(), doseq=True)}", instead=True)


# --- the beginning of a run


def _of_browser() -> Address:
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


@undisturbed()  # an address that is half read would be one that is read to the next run
def read(page: str, opening: Mapping[str, str] | None = None) -> bool:
    """Begin a run of a page: read its address, if somebody arrives with one.

    opening  the address that an address without a word on what to show stands for, if nothing was chosen before

    Returns whether somebody comes by the menu, where everything stays as it was chosen.
    """
    _DRAWN.set({})
    before, st.session_state[state.PAGE] = st.session_state.get(state.PAGE), page
    context = get_script_run_ctx()
    is_in_history = context is not None and context.is_history_navigation  # as a talk goes from view to view
    arrives = before is None or is_in_history
    if not arrives and before == page:
        return False
    address = _of_browser()
    is_bare = not any(name in state.IN_ADDRESS and name not in state.HOW for name in address)
    if arrives:
        st.session_state[state.HAS_CHOSEN], st.session_state[state.SPOKE_OF] = not is_bare, {}
    opens = is_bare and state.VERSION not in address and not st.session_state[state.HAS_CHOSEN]
    chosen = st.session_state.get(state.CHOSEN, {})
    kept = set() if arrives else set(state.HOW) if state.VERSION in address else state.IN_ADDRESS
    st.session_state[state.CHOSEN] = {key: value for key, value in chosen.items() if key in kept}
    for key in state.IN_ADDRESS & {str(key) for key in st.session_state}:
        del st.session_state[key]  # Streamlit may keep an older value of a field that is gone than the one last chosen
    _take_in(address, {name: [word] for name, word in (opening or {}).items()} if opens else {})
    return not arrives and not address


def _take_in(address: Address, opening: Address) -> None:
    """Note what this address asks for, also without a word (`opening`), and what in it nobody knows."""
    foreign = {name: words for name, words in address.items() if is_foreign(name)}
    own = {name: words for name, words in address.items() if name in state.IN_ADDRESS}
    st.session_state[state.CAME_BY], st.session_state[state.FOREIGN] = address, foreign
    st.session_state[state.ASKED] = _completed(opening | own)
    st.session_state[state.ASKED_OF], st.session_state[state.IN_VAIN] = {}, {}
    st.session_state[state.ARRIVING] = True
    context = get_script_run_ctx()
    query = "" if context is None else context.query_string
    if query and not sanitize_query_string(query):  # Streamlit reads nothing of a longer address, and says nothing
        _in_vain("", f"an address that is too long ({len(query):,} characters, {query.count('&') + 1:,} names)")
    version = address.get(state.VERSION, ["0"])
    try:
        NumberForm(0, VERSION, whole=True).read(version)
    except ValueError:
        _in_vain(state.VERSION, f"link version “{version[-1][:SHOWN]}”; the newest version known here is {VERSION}")
    for name in sorted(address.keys() - foreign.keys() - state.IN_ADDRESS):
        near = get_close_matches(name[:SHOWN], state.IN_ADDRESS, 1, 0.78)
        _in_vain(name, f"unknown name “{name[:SHOWN]}”" + (f" (did you mean “{near[0]}”?)" if near else ""))


def _in_vain(key: str, words: str) -> None:
    """Note that the address asks for something that is not there."""
    st.session_state.setdefault(state.IN_VAIN, {})[key] = words


# --- the end of a run


def write(page: str, notes: DeltaGenerator, opening: Mapping[str, str] | None = None, *, is_whole: bool) -> None:
    """End a run of a page: update the address from its fields, and warn of what it asked for in vain.

    opening   as in `read`: where there is one, an address that says nothing of what to show gets a version
    is_whole  whether the page has drawn everything it is there for. If it has, no field will take what is still unread of
              the address; until then that stays in the address, as do fields that only a whole page draws.
    """
    unread: Address = st.session_state[state.ASKED]
    unread.pop(state.VERSION, None)
    drawn, chosen, arriving = _drawn(), st.session_state[state.CHOSEN], st.session_state[state.ARRIVING]
    for name in list(unread):  # what was asked about a text that is gone, before its field was drawn
        st.session_state[state.ASKED_OF].setdefault(name, _text_of(name))
        if _is_of_another(name, st.session_state[state.ASKED_OF], so_far=True):
            del unread[name]
    undrawn = {}
    if not (is_whole or arriving):
        waiting = [key for key in here() if key in chosen and key not in drawn]
        undrawn = {key: here()[key] for key in waiting if not _is_of_another(key, _spoke_of(), so_far=True)}
    if is_whole:
        for name in sorted(unread.keys() - set(state.HOW)):
            if any(words := unread.pop(name)):
                _in_vain(name, f"{name} “{', '.join(words)[:SHOWN]}”, which this page does not use")
    values = {key: st.session_state.get(key, opening) for key, (_, opening) in drawn.items()}
    own = {key: form.say(values[key]) for key, (form, opening) in drawn.items() if values[key] != opening}
    said = undrawn | own
    has_chosen = not said.keys() <= set(state.HOW)
    st.session_state[state.HAS_CHOSEN] = st.session_state.get(state.HAS_CHOSEN, False) or has_chosen
    st.session_state[state.ADDRESS] = said if has_chosen or not opening else said | {state.VERSION: [str(VERSION)]}
    chosen |= {key: st.session_state[key] for key in drawn if key in st.session_state}
    address = here() | unread | st.session_state[state.FOREIGN]
    follow(page, address, read=st.session_state[state.CAME_BY], is_new=not arriving)
    st.session_state[state.ARRIVING] = False
    if missing := list(st.session_state[state.IN_VAIN].values()):
        further = [f"{len(missing) - NAMED} more"] if len(missing) > NAMED else []
        listed = "; ".join([*missing[:NAMED], *further])
        sentence = plain(f"The link asks for something that is not available: {listed}. The rest is shown.")
        notes.warning(sentence, icon=":material/link_off:")
