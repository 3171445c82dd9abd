"""The changes of a what-if as a list of short lines, each of which can be switched off; they live in the address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import streamlit as st

from core import Capture, InputError
from core.capturing.capture import check_edits
from core.capturing.edit_lines import divided, edits_of, line, painted, painting
from core.capturing.edits import EVERYWHERE, Edits, Place, every
from core.errors import shortened
from core.models.modules import Kind
from ui import links, state
from ui.links import Lines
from ui.markdown import plain

OFF = "off "  # before a line that is switched off
MAX_LINES = 100  # an address has its bounds
SHOWN = 300  # characters of a line, which may hold a long text
HIDDEN = (
    "No query may attend to it, in any layer or head, not even its own."  # what hiding a token means, on every view
)


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
    said = map(Line.read, links.field(state.EDITS, Lines(MAX_LINES), [], "Changes"))
    return [one for one in said if one.words.strip()]


def add(words: str) -> None:
    """Put a line at the end, switched on; what it says is not said twice."""
    _keep([one for one in lines() if one.words != words] + [Line(words)])


def replace_token(position: int, text: str) -> None:
    add(line("token", text, position))


def hide_token(position: int, kinds: Sequence[Kind]) -> None:
    """No query of any head may attend to it, its own included.

    kinds  of attention that the model has; what a decoder has written is another text, with positions of its own
    """
    for kind in kinds:
        if kind != "decoder":
            add(line("key", str(position), EVERYWHERE if len(kinds) == 1 else Place(kind=kind)))


def paint(place: Place, query: int, key: int) -> None:
    """Give a query's attention to a key, shared with the keys painted in that row before; or take a painted key away.

    All that is painted at this place, and not switched off, then stands in one line.
    """
    found, rest = {}, []
    for one in lines():
        said = _painted(one.words) if one.is_on else None
        if said is not None and said[0] == place:
            found |= said[1]
        else:
            rest.append(one)
    row = {at: None for at in found.get(query, {}) if at != key}
    if key not in found.get(query, {}):
        row[key] = None
    cells = {at: shares for at, shares in (found | {query: row}).items() if shares}
    _keep([*rest, Line(painting(place, cells))] if cells else rest)


def switched_on() -> list[str]:
    """The lines that are in force, where they can be applied, as they are written."""
    return [one.words for one in lines() if one.is_on]


def shown_edits(capture: Capture) -> Edits:
    """The list on the page; gives what is switched on and can be done in this pass. What cannot be done is kept, and said."""
    found, there = [], lines()
    for number, one in enumerate(there):
        edits, problem = _applied(one, capture)
        if problem is None and one.is_on:
            problem = _clash(found, edits)
        with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
            key, words = state.button("edit", hash((number, one.words))), plain(shortened(one.words, SHOWN))
            st.session_state[key] = one.is_on
            st.checkbox(words, key=key, on_change=_switch, args=(number,))
            st.button(
                ":material/close:",
                key=state.button("remove", hash((number, one.words))),
                type="tertiary",
                on_click=_remove,
                args=(number,),
                help=f"Remove {words}",
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


def _clash(found: list[Edits], edits: Edits) -> str | None:
    """Why a line cannot be done together with those before it: a pass reads one other text of each kind."""
    for name, what in (("mean_over", "Means are taken over"), ("patch_from", "Heads are patched from")):
        others = {getattr(other, name) for other in found} - {None}
        if getattr(edits, name) is not None and others - {getattr(edits, name)}:
            return f"{what} one text at a time, and a line above names another."
    return None


def _painted(words: str) -> tuple[Place, dict[int, dict[int, float | None]]] | None:
    """As `painted`, but None also for what cannot be read."""
    try:
        return painted(words)
    except InputError:
        return None


def _offer_to_divide(number: int, one: Line) -> None:
    """Of a painted row that does not sum to 1."""
    whole = divided(one.words)
    if whole is not None and whole != one.words:
        st.button(
            "Divide each row by its sum",
            key=state.button("divide", hash((number, one.words))),
            on_click=_replace,
            args=(number, whole),
        )


def _switch(number: int) -> None:
    there = lines()
    if number < len(there):
        there[number] = replace(there[number], is_on=not there[number].is_on)
    _keep(there)


def _remove(number: int) -> None:
    _keep([one for place, one in enumerate(lines()) if place != number])


def _replace(number: int, words: str) -> None:
    _keep([replace(one, words=words) if place == number else one for place, one in enumerate(lines())])


def _keep(there: list[Line]) -> None:
    st.session_state[state.EDITS] = [str(one) for one in there[-MAX_LINES:]]
