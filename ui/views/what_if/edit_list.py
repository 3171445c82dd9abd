"""The changes of a what-if as a list of short lines, each of which can be switched off; they live in the address.

And what puts another one on the list: fields for what and where, and for a region of the image to hide.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import streamlit as st

from core import Capture, InputError
from core.capturing.calls.head_places import EVERYWHERE, Place
from core.capturing.capture import check_edits
from core.capturing.edits import forms
from core.capturing.edits.applying import components_read
from core.capturing.edits.edits import Edits, every
from core.capturing.edits.kinds import EDIT_KINDS, BlockKeys, OutputOverText, ReplaceToken
from core.capturing.edits.lines import divided, edits_of, lines_of, painted, painting, speaks_of_text
from core.capturing.image_regions import edits_without_region
from core.errors import shortened
from core.models.modules import Kind
from ui import links, presenting, state
from ui.components import pin
from ui.controls.fields import KEPT, menu, number, suggested, switch, text_line, whole_number
from ui.links import LinesForm
from ui.markdown import plain, quoted, show_error
from ui.views.patches import drawn_region, show_patches
from ui.views.sources.heads import RealHead
from ui.views.sources.text_fields import SENTENCE

OFF = "off "  # before a line that is switched off
MAX_LINES = 100  # an address has its bounds
SHOWN = 300  # characters of a line, which may hold a long text
# The words of every view for a hidden token.
HIDDEN = "No query may attend to it, in any layer or head, not even its own."
TYPED = 330  # pixels of a field for a text
# By the word that the address says: the last word of the verb.
OFFERED = {kind.verb.split()[-1]: kind for kind in EDIT_KINDS if kind.label}
REGION_HIDDEN = (
    "No query of any head may attend to what shows a part of it, neither in the text nor in the vision tower."
)
PAINTS = "A click on a cell of the pictures gives the query's attention to that key; several keys of a row share it. "
PAINTS += "A second click takes a key away."
REGION = (state.REGION_ROWS, state.REGION_COLUMNS)


@dataclass(frozen=True)
class Line:
    words: str
    is_on: bool = True

    def __str__(self) -> str:
        """The line as the address has it."""
        return self.words if self.is_on else OFF + self.words

    @classmethod
    def read(cls, text: str) -> "Line":
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


def shown_edits(capture: Capture) -> Edits:
    """Show the list, and return what is switched on and possible in this pass. The page says why a line is not possible."""
    links.field(state.EDITS, LinesForm(MAX_LINES, lambda text: speaks_of_text(Line.read(text).words)), [], "Changes")
    applied, listed = [], lines()
    for place, line in enumerate(listed):
        edits, problem = _read(line, capture)
        if problem is None and line.is_on:
            problem = _clash(applied, edits)
        _show_line(place, line)
        if problem is not None:
            st.caption(f":material/block: Not applied. {plain(problem)}")
            if (whole := divided(line.words)) not in (None, line.words):  # painted rows that do not sum to 1
                division = {"on_click": _put, "args": (place, replace(line, words=whole))}
                key = state.button("divide", hash((place, line.words)))
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


# --- another one


def choose_new_edit(real: RealHead, cell: tuple[int, int]) -> None:
    """The fields of a new change, and the button that adds it. cell: the chosen (query, key)."""
    labels = {word: kind.label for word, kind in OFFERED.items()}
    names = {"head": f"head {real}", "layer": f"layer {real.layer}", "all": "all heads"}
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        kind = OFFERED[menu("Change", state.NEW_EDIT, labels, width=205, label_visibility="collapsed")]
        words = [_show(field, real, cell) for field in kind.fields]
        where = "head"
        if kind.of_one_head:
            st.markdown(f"of {names[where]}", width="content")
        else:
            where = menu("In", state.NEW_PLACE, names, width=125, label_visibility="collapsed")
        head = real.head if where == "head" else None
        place = EVERYWHERE if where == "all" else Place(real.layer, head, real.named_kind)
        is_whole = all(words)
        line = kind.line_of_form(words, place) if is_whole else ""
        adding = {"key": state.button("add", 0), "on_click": add, "args": (line,), "disabled": not is_whole}
        st.button("Add", icon=":material/add:", **adding)
        switch("Paint", state.PAINTING, help=PAINTS)


def _show(field: forms.Field, real: RealHead, cell: tuple[int, int]) -> str:
    """Draw a field and return its words, "" while there are none."""
    match field:
        case forms.ChosenKey():
            st.markdown(quoted(real.tokens[1][cell[1]]), width="content")
            return str(cell[1])
        case forms.ChosenPair():
            queries, keys = real.tokens
            st.markdown(f"{quoted(queries[cell[0]])} → {quoted(keys[cell[1]])}", width="content")
            return f"{cell[0]}>{cell[1]}"
    at, hidden = (field.label, state.NEW_FIELDS[field.name]), "collapsed"
    match field:
        case forms.NumberField(opens=opens, step=step, width=width):
            return f"{number(*at, opens, step=step, width=width, label_visibility=hidden):.10g}"
        case forms.WholeNumberField(opens=opens, low=low, high=high, width=width):
            return str(whole_number(*at, opens, low, high, width=width, label_visibility=hidden))
        case forms.ChoiceField(choices=choices, width=width, then=then):
            word = menu(*at, choices, width=width, label_visibility=hidden)
            further = _show(then[word], real, cell) if word in then else ""
            return f"{word} {further}" if further else "" if word in then else word
        case forms.ComponentField():
            return _show_components(at, real)
        case forms.TextField(label=label):
            return text_line(*at, SENTENCE, width=TYPED, label_visibility=hidden, placeholder=label).strip()
        case forms.CellsField(example=example):
            example = example.format(query=cell[0], key=cell[1])
            return text_line(*at, width=TYPED, label_visibility=hidden, placeholder=example).strip()


def _show_components(at: tuple[str, str], real: RealHead) -> str:
    """Draw the field for a component that the chosen head reads and return its name; "" if the model has none."""
    try:
        both = [components_read(real.capture.model, real.kind, real.layer, side) for side in ("query", "key")]
    except InputError as error:
        st.caption(plain(str(error)))
        return ""
    names = list(dict.fromkeys(name for read in both for name in read))  # in cross-attention each side reads its own
    return suggested(*at, names, names[0], width=150, label_visibility="collapsed")


def choose_region(real: RealHead, query: int) -> None:
    """Show what a query attends to on the image, if one was read, and beside it the fields for a region of it."""
    grids = real.capture.image_grids(real.kind)
    if not grids:
        return
    picture, fields = st.columns([7, 5], gap="medium", vertical_alignment="center")
    with fields:
        st.markdown("**Without a part of the image.** Draw a region with the mouse, or choose its rows and columns.")
        shape = dict(zip(("Rows", "Columns"), zip(REGION, grids[0].tokens.shape, strict=True), strict=True))
        rows, columns = (_choose(label, key, count) for label, (key, count) in shape.items())
        try:
            lines = lines_of(edits_without_region(real.capture, rows, columns, real.kind))
        except InputError as error:
            show_error(error)
            return
        hiding = {"key": state.button("region", 0), "on_click": add, "args": lines, "help": REGION_HIDDEN}
        st.button("Hide the region", icon=":material/visibility_off:", **hiding)
    trace = real.capture.trace(*real.place, real.kind, rows=range(query, query + 1))
    row = np.where(trace.mask, trace.weights, np.nan)[0]
    with picture, presenting.aside():
        show_patches(real, row, query, region=(rows, columns))


def choose_drawn_region(real: RealHead, cell: pin.Cell) -> bool:
    """Choose the region that was drawn on the image, or the patch that was clicked. Return whether there was one."""
    grids = real.capture.image_grids(real.kind)
    region = drawn_region(cell, grids[0].tokens.shape) if grids else None
    for key, places in zip(REGION, region or (), strict=False):
        st.session_state[key] = (places[0], places[-1])
    return region is not None


def _choose(label: str, key: str, count: int) -> range:
    """Show a slider with two ends. It opens with the whole image."""
    if count == 1:
        return range(1)
    everything = (0, count - 1)
    if links.local_value(key, everything)[1] >= count:  # of another grid
        st.session_state[key] = everything
    first, last = st.slider(label, *everything, everything, key=key, width=300, **KEPT)
    return range(first, last + 1)
