"""What a page's address says of choices by name: short words that stay the same when the words on the page change.

Streamlit binds most fields to the address by itself, but a choice by the label that a visitor reads. So choices are written
here: each menu says what it shows (`remember`), and once the page is there the address is brought in line (`write`). An address
counts when somebody arrives with it, and when somebody goes back; in between it only follows the page, because it arrives
later than a fast visitor's next click.

An address with a version (`lasting`) says all: what it leaves out stands as it opens, whatever the session held before. What an
address asks for that is not there is named on the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from math import isinf
from types import MappingProxyType
from typing import Any, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.scriptrunner import get_script_run_ctx

from ui import state
from ui.markdown import plain

Word = TypeVar("Word", bound=str)
SHOWN = 40  # letters of what an address asks for in vain
NAMED = 6  # of what it asks for in vain
VERSION = 2  # of the addresses that are written here; before they had one, they were of version 1
NOTHING: Mapping[str, Any] = MappingProxyType({})


def here() -> dict[str, list[str]]:
    """All that the address says."""
    return {key: st.query_params.get_all(key) for key in st.query_params}


def lasting(address: Mapping[str, Any]) -> dict[str, Any]:
    """The address as links carry it that are to be kept: with its version."""
    return {**address, state.VERSION: str(VERSION)}


def are_of_old_start() -> bool:
    """Whether the start page is asked for something: it has no fields, and was "Step by step" once."""
    return _ask_for_something()


def _ask_for_something() -> bool:
    """Whether the address says what to show, and not only how."""
    return any(not is_foreign(name) and name not in state.HOW for name in st.query_params)


def is_foreign(name: str) -> bool:
    """Whether a name in an address is nobody's business here: those who pass links on add names of their own."""
    return name.startswith(("utm_", "_")) or name in {"ref", "gclid", "fbclid"}


def are_of_old_heads() -> bool:
    """Whether somebody has come by a link to what was the page "Heads" when that showed the stages of one head: a link of
    today's says which metric the heads are coloured by, or where the numbers come from."""
    is_first = st.session_state.get(state.PAGE) is None
    todays = (state.METRIC, state.SOURCE, state.VERSION, state.PRESENT)  # see ui/views/head_links.py
    names_todays = any(key in st.query_params for key in todays)
    return is_first and _ask_for_something() and not names_todays


def is_going_back() -> bool:
    """Whether somebody goes back or forth in the browser's history, as a talk does from view to view."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


def read(page: str) -> None:
    """Begin a run of a page: note what its address asks for, if it counts."""
    is_first = st.session_state.get(state.PAGE) is None
    arrives, goes_back = st.session_state.get(state.PAGE) != page, is_going_back()
    if arrives or goes_back:
        _leave_out_infinity()
        version = st.query_params.get(state.VERSION)
        if version is not None:
            _forget_choices()
        left_out = st.session_state.get(state.KNOWN, ()) if goes_back else ()  # back then they were as they open
        st.session_state[state.ASKED] = {key: [] for key in left_out} | here() | _asked_cell() | _asked_target()
        st.session_state[state.IN_VAIN] = {}
        st.session_state[state.UNCHECKED] = is_first or version is not None
        _check_version(version)
        _check_names()
    st.session_state[state.SAID] = {state.CELL: []}  # it is said by two fields from here on


def _leave_out_infinity() -> None:
    """Streamlit passes over what a field for whole numbers cannot use, except what is too large to be a number at all: that
    would end the page. It has read the address already, so it has to begin anew with what is left."""
    too_large = [key for key in state.WHOLE_NUMBERS if _is_infinite(st.query_params.get(key, ""))]
    for key in too_large:
        del st.query_params[key]
    if too_large:
        st.rerun()


def _is_number_below(end: int, word: str) -> bool:
    """Whether a word is a whole number from 0 to below `end`; Python reads none of more than 4,300 digits."""
    return word.isdecimal() and len(word) <= SHOWN and int(word) < end


def _is_infinite(word: str) -> bool:
    try:
        return isinf(float(word))
    except ValueError:
        return False


def _forget_choices() -> None:
    """All that was chosen in this session in fields that an address can name."""
    for key in state.IN_ADDRESS.difference(state.HOW) & {str(key) for key in st.session_state}:
        del st.session_state[key]


def _check_version(version: str | None) -> None:
    if version is not None and not _is_number_below(VERSION + 1, version):
        in_vain(state.VERSION, f"version “{version[:SHOWN]}” of links, of which version {VERSION} is the newest here")


def _check_names() -> None:
    for name in st.query_params:
        if name not in state.IN_ADDRESS and not is_foreign(name):
            near = get_close_matches(name, state.IN_ADDRESS, 1, 0.78)
            in_vain(name, f"“{name[:SHOWN]}”, which no page knows" + (f" (but “{near[0]}”)" if near else ""))


def _check_fields() -> None:
    """Name what fields that Streamlit binds by itself did not take: it says nothing, and shows what they open with."""
    for name, words in st.session_state[state.ASKED].items():
        if name in state.IN_ADDRESS and name in st.session_state and not _is_taken(words, st.session_state[name]):
            in_vain(name, f"{name} “{', '.join(words)[:SHOWN]}”")


def _is_taken(words: Sequence[str], value: Any) -> bool:
    """Whether a field with this value shows what an address says."""
    if isinstance(value, list | tuple):
        return len(words) == len(value) and all(map(_is_taken, ([word] for word in words), value))
    said = words[-1] if words else ""
    if isinstance(value, bool):
        return said.lower() == str(value).lower()
    if isinstance(value, int | float):
        with suppress(ValueError):
            return float(said) == value
        return False
    return said == ("" if value is None else value)


def _asked_cell() -> dict[str, list[str]]:
    """The query and the key that a link from another page names together."""
    query, hyphen, key = st.query_params.get(state.CELL, "").partition("-")
    return {state.QUERY: [query], state.KEY: [key]} if hyphen else {}


def _asked_target() -> dict[str, list[str]]:
    """How the target is given where an address, as all did once, says nothing but its text."""
    is_old = state.TARGET in st.query_params and state.TARGET_AS not in st.query_params
    return {state.TARGET_AS: ["text"]} if is_old else {}


def asked(key: str) -> list[str] | None:
    """What the address asks for under this name, told once; None where it asks for nothing."""
    if state.ASKED not in st.session_state:  # a page that runs by itself
        st.session_state[state.ASKED] = here() | _asked_target()
    return st.session_state[state.ASKED].pop(key, None)


def chosen(
    key: str,
    choices: Mapping[Word, str],
    *,
    opening: Word,
    what: str,
    formerly: Mapping[str, Word] = NOTHING,
) -> Word:
    """The one of `choices` (word in the address -> words on the page) that is chosen: what the address asks for, else what
    the session holds under this key, else `opening`.

    formerly  what older addresses say that is no longer on the page -> what it means
    """
    wanted = _known(key, choices, what, formerly)
    if wanted is not None:
        st.session_state[key] = wanted[-1] if wanted else opening
    if st.session_state.get(key) not in choices:
        st.session_state[key] = opening
    value = st.session_state[key]
    remember(key, () if value == opening else (value,))
    return value


def chosen_several(key: str, choices: Mapping[Word, str], *, what: str) -> list[Word]:
    """The same where several may be chosen, or none."""
    wanted = _known(key, choices, what, NOTHING)
    held = st.session_state.get(key) if wanted is None else wanted
    value = [word for word in held or () if word in choices]
    st.session_state[key] = value
    remember(key, value)
    return value


def _known(key: str, choices: Mapping[Word, str], what: str, formerly: Mapping[str, Word]) -> list[Word] | None:
    """What the address asks for and is there; None where it asks for nothing.

    Older addresses say what was on the page, which is understood as well.
    """
    if (wanted := asked(key)) is None:
        return None
    meaning = {**formerly, **{words: word for word, words in choices.items()}, **{str(word): word for word in choices}}
    known = []
    for word in wanted:
        if word in meaning:
            known.append(meaning[word])
        else:
            in_vain(key, f"{what} “{word[:SHOWN]}”")
    return known


def expect_place(key: str, count: int, what: str) -> None:
    """Take the place that the address asks for, in a field that is bound to it, or note that there are only `count`.

    Streamlit takes what it finds under the field's own name by itself; a pair that a link names as one has none.
    """
    for word in asked(key) or ():
        if _is_number_below(count, word):
            st.session_state[key] = int(word)
        else:
            in_vain(key, f"{what} “{word[:SHOWN]}”, where there are 0 to {count - 1}")


def remember(key: str, words: Sequence[str]) -> None:
    """The address says these words under that name, or nothing where there are none."""
    st.session_state.setdefault(state.SAID, {})[key] = list(words)


def in_vain(key: str, words: str) -> None:
    """The address asks for something that is not there."""
    st.session_state.setdefault(state.IN_VAIN, {})[key] = words


def write(notes: DeltaGenerator) -> None:
    """End a run of a page: bring the address in line with what its menus show, and say what it asked for in vain."""
    said = st.session_state[state.SAID]
    known = st.session_state.setdefault(state.KNOWN, set())
    known.update(said)
    for key in known:
        words = said.get(key, [])
        if st.query_params.get_all(key) != words:
            if words:
                st.query_params[key] = words
            else:
                del st.query_params[key]
    if st.session_state.pop(state.UNCHECKED, False):
        _check_fields()
    if found := list(st.session_state[state.IN_VAIN].values()):
        further = [f"{len(found) - NAMED} more"] if len(found) > NAMED else []
        wanted = "; ".join([*found[:NAMED], *further])
        notes.warning(
            plain(f"The link asks for what is not here: {wanted}. The rest is shown."), icon=":material/link_off:"
        )
