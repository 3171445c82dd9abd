"""The changes of a what-if as a list of short lines, each of which can be switched off; they live in the address."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import streamlit as st

from core import Capture, InputError
from core.capturing.calls.head_places import EVERYWHERE, Place
from core.capturing.capture import check_edits
from core.capturing.edits.edits import Edits, every
from core.capturing.edits.kinds import EDIT_KINDS, BlockKeys, OutputOverText, ReplaceToken
from core.capturing.edits.lines import divided, edits_of, painted, painting, speaks_of_text
from core.errors import shortened
from core.models.modules import Kind
from ui import links, state
from ui.links import LinesForm
from ui.markdown import plain

OFF = "off "  # before a line that is switched off
MAX_LINES = 100  # an address has its bounds
SHOWN = 300  # characters of a line, which may hold a long text
# The words of every view for a hidden token.
HIDDEN = "No query may attend to it, in any layer or head, not even its own."


@dataclass(frozen=True)
class Line:
    words: str
    is_on: bool = True

    def __str__(self) -> str:
        """The line as the address has it."""
        return self.words if self.is_on else OFF + self.words

    @classmethod
    def read(cls, text: str) -> Line:
        return cls(text.removeprefix(OFF), not text.startswith(OFF))


def lines() -> list[Line]:
    """The lines of this session."""
    return [line for line in map(Line.read, st.session_state.get(state.EDITS, ())) if line.words.strip()]


def add(*words: str) -> None:
    """Put lines at the end, switched on. Lines with the same words leave the list."""
    _keep([line for line in lines() if line.words not in words] + list(map(Line, words)))


def replace_token(position: int, text: str) -> None:
    add(ReplaceToken.line_of(text, position))


def hide_token(position: int, kinds: Sequence[Kind]) -> None:
    """Let no query of any head attend to a token, not even its own.

    kinds  of attention that the model has; an image, and the text that a decoder has written, have positions of their own
    """
    reading: list[Kind] = [kind for kind in kinds if kind != "vision"]
    for kind in reading:
        if kind != "decoder":
            add(BlockKeys.line_of(str(position), EVERYWHERE if len(reading) == 1 else Place(kind=kind)))


def paint(place: Place, query: int, key: int) -> None:
    """Give a query's attention to a key, shared with the keys painted in that row before; or take a painted key away.

    One line then holds everything that is painted at this place and not switched off.
    """
    rows, others = {}, []
    for line in lines():
        cells = None
        with suppress(InputError):
            cells = painted(line.words) if line.is_on else None
        if cells is not None and cells[0] == place:
            rows |= cells[1]
        else:
            others.append(line)
    row = {at: None for at in rows.get(query, {}) if at != key}
    if key not in rows.get(query, {}):
        row[key] = None
    rows = {at: shares for at, shares in (rows | {query: row}).items() if shares}
    _keep([*others, Line(painting(place, rows))] if rows else others)


def switched_on() -> list[str]:
    """The lines that are switched on, whether they fit this pass or not."""
    return [line.words for line in lines() if line.is_on]


def shown_edits(capture: Capture) -> Edits:
    """Show the list, and return what is switched on and possible in this pass. The page says why a line is not possible."""
    links.field(state.EDITS, LinesForm(MAX_LINES, lambda text: speaks_of_text(Line.read(text).words)), [], "Changes")
    applied, listed = [], lines()
    for number, line in enumerate(listed):
        edits, problem = _read(line, capture)
        if problem is None and line.is_on:
            problem = _clash(applied, edits)
        _show_line(number, line)
        if problem is not None:
            st.caption(f":material/block: Not applied. {plain(problem)}")
            if (whole := divided(line.words)) not in (None, line.words):  # painted rows that do not sum to 1
                division = {"on_click": _put, "args": (number, replace(line, words=whole))}
                key = state.button("divide", hash((number, line.words)))
                st.button("Divide each row by its sum", key=key, **division)
        elif line.is_on:
            applied.append(edits)
    if listed:
        reset = {"key": state.button("reset", 0), "on_click": _keep, "args": ([],)}
        st.button("Reset", icon=":material/restart_alt:", type="tertiary", **reset)
    return every(applied)


def _show_line(number: int, line: Line) -> None:
    """A box to switch the line on and off, and a button to remove it."""
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        key, words = state.button("edit", hash((number, line.words))), plain(shortened(line.words, SHOWN))
        st.session_state[key] = line.is_on
        st.checkbox(words, key=key, on_change=_switch, args=(number,))
        removal = {"on_click": _put, "args": (number,), "help": f"Remove {words}"}
        st.button(
            ":material/close:", key=state.button("remove", hash((number, line.words))), type="tertiary", **removal
        )


def _read(line: Line, capture: Capture) -> tuple[Edits, str | None]:
    """The edits of a line, and why they are not possible in this pass, if they are not."""
    try:
        edits = edits_of(line.words)
        check_edits(capture, edits)
    except InputError as error:
        return Edits(), str(error)
    return edits, None


def _clash(above: list[Edits], edits: Edits) -> str | None:
    """Why a line is not possible together with those above it: a pass reads one other text for each kind of edit."""
    for kind in EDIT_KINDS:
        if not issubclass(kind, OutputOverText):
            continue
        text, others = edits.texts.get(kind.other_text), {other.texts.get(kind.other_text) for other in above}
        if text is not None and others - {None, text}:
            return f"{kind.clash} one text at a time, and a line above names another."
    return None


def _switch(number: int) -> None:
    for line in lines()[number : number + 1]:
        _put(number, replace(line, is_on=not line.is_on))


def _put(number: int, *instead: Line) -> None:
    """Put these lines in the place of one; nothing happens where it has gone meanwhile."""
    listed = lines()
    if number < len(listed):
        listed[number : number + 1] = instead
    _keep(listed)


def _keep(listed: list[Line]) -> None:
    st.session_state[state.EDITS] = [str(line) for line in listed[-MAX_LINES:]]
