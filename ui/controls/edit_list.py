"""The changes of a what-if as a list of short lines, each of which can be switched off; they live in the address."""

from __future__ import annotations

from dataclasses import dataclass, replace

import streamlit as st

from core import Capture, InputError
from core.capturing.capture import check_edits
from core.capturing.edit_lines import edits_of, line, painted, painting
from core.capturing.edits import EVERYWHERE, Edits, Place, every
from ui import links, state
from ui.markdown import plain

OFF = "off "  # before a line that is switched off
MAX_LINES = 100  # an address has its bounds


@dataclass(frozen=True)
class Line:
    words: str
    is_on: bool = True

    def __str__(self) -> str:
        """As the address says it."""
        return self.words if self.is_on else OFF + self.words

    @classmethod
    def read(cls, text: str) -> Line:
        return cls(text.removeprefix(OFF), not text.startswith(OFF))


def lines() -> list[Line]:
    """The lines that the address asks for, or that this session has."""
    wanted = links.asked(state.EDITS)
    if wanted is not None:
        _keep([Line.read(text) for text in wanted])
    return [Line.read(text) for text in st.session_state.get(state.EDITS, ())]


def add(words: str) -> None:
    """Put a line at the end, switched on; what it says is not said twice."""
    _keep([one for one in lines() if one.words != words] + [Line(words)])


def replace_token(position: int, text: str) -> None:
    add(line("token", text, position))


def hide_token(position: int) -> None:
    """No query of any head may attend to it."""
    add(line("key", str(position), EVERYWHERE))


def paint(place: Place, query: int, key: int) -> None:
    """Give a query's attention to a key, shared with the keys painted in that row before; or take a painted key away."""
    found, rest = {}, []
    for one in lines():
        said = painted(one.words)
        if said is not None and said[0] == place:
            found = said[1]
        else:
            rest.append(one)
    row = {at: None for at in found.get(query, {}) if at != key}
    if key not in found.get(query, {}):
        row[key] = None
    cells = {at: shares for at, shares in (found | {query: row}).items() if shares}
    _keep([*rest, Line(painting(place, cells))] if cells else rest)


def shown_edits(capture: Capture) -> Edits:
    """The list on the page; gives what is switched on and can be done in this pass. What cannot be done is kept, and said."""
    found, there = [], lines()
    links.remember(state.EDITS, [str(one) for one in there])
    for number, one in enumerate(there):
        edits, problem = _applied(one, capture)
        with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
            key = state.button("edit", hash((number, one.words)))
            st.session_state[key] = one.is_on
            st.checkbox(plain(one.words), key=key, on_change=_switch, args=(number,))
            st.button(
                ":material/close:",
                key=state.button("remove", hash((number, one.words))),
                type="tertiary",
                on_click=_remove,
                args=(number,),
                help=f"Remove {plain(one.words)}",
            )
        if problem is not None:
            st.caption(f":material/block: Not applied. {plain(problem)}")
            _offer_to_divide(number, one)
        elif one.is_on:
            found.append(edits)
    if there:
        reset = {"key": state.button("reset", 0), "on_click": _keep, "args": ([],)}
        st.button("Reset", icon=":material/restart_alt:", type="tertiary", **reset)
    else:
        st.caption("Nothing is changed yet: choose a change and add it to this list.")
    return every(found)


def _applied(one: Line, capture: Capture) -> tuple[Edits, str | None]:
    """What a line changes, and why it cannot be done here, if it cannot."""
    try:
        edits = edits_of(one.words)
        check_edits(capture, edits)
    except InputError as error:
        return Edits(), str(error)
    return edits, None


def _offer_to_divide(number: int, one: Line) -> None:
    """Of a painted row that does not sum to 1."""
    try:
        said = painted(one.words)
    except (InputError, ValueError):
        return
    if said is None:
        return
    place, rows = said
    totals = {query: sum(share or 0 for share in row.values()) for query, row in rows.items()}
    whole = {
        query: {key: share if share is None else share / totals[query] for key, share in row.items()}
        for query, row in rows.items()
        if totals[query] > 0
    }
    if whole:
        st.button(
            "Divide each row by its sum",
            key=state.button("divide", hash(one.words)),
            on_click=_replace,
            args=(number, painting(place, rows | whole)),
        )


def _switch(number: int) -> None:
    there = lines()
    if number < len(there):
        there[number] = replace(there[number], is_on=not there[number].is_on)
    _keep(there)


def _remove(number: int) -> None:
    _keep([one for place, one in enumerate(lines()) if place != number])


def _replace(number: int, words: str) -> None:
    _keep([Line(words) if place == number else one for place, one in enumerate(lines())])


def _keep(there: list[Line]) -> None:
    st.session_state[state.EDITS] = [str(one) for one in there[-MAX_LINES:]]
