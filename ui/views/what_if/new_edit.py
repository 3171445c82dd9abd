"""A further change for a what-if: what, where, and a button that puts it on the list; or a region of the image to hide."""

from __future__ import annotations

import numpy as np
import streamlit as st

from core import InputError
from core.capturing.calls.head_places import EVERYWHERE, Place
from core.capturing.edits import forms
from core.capturing.edits.applying import components_read
from core.capturing.edits.kinds import EDIT_KINDS
from core.capturing.edits.lines import lines_of
from core.capturing.image_regions import edits_without_region
from ui import links, presenting, state
from ui.components import pin
from ui.controls import edit_list
from ui.controls.fields import KEPT, menu, number, suggested, switch, text_line, whole_number
from ui.markdown import plain, quoted, show_error
from ui.views.patches import drawn_region, show_patches
from ui.views.sources.heads import RealHead
from ui.views.sources.text_fields import SENTENCE

TYPED = 330  # pixels of a field for a text
# By the word that the address says: the last word of the verb.
OFFERED = {kind.verb.split()[-1]: kind for kind in EDIT_KINDS if kind.label}
HIDDEN = "No query of any head may attend to what shows a part of it, neither in the text nor in the vision tower."
PAINTS = "A click on a cell of the pictures gives the query's attention to that key; several keys of a row share it. "
PAINTS += "A second click takes a key away."
KEYS = (state.REGION_ROWS, state.REGION_COLUMNS)


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
        adding = {"key": state.button("add", 0), "on_click": edit_list.add, "args": (line,), "disabled": not is_whole}
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
        shape = dict(zip(("Rows", "Columns"), zip(KEYS, grids[0].tokens.shape, strict=True), strict=True))
        rows, columns = (_choose(label, key, count) for label, (key, count) in shape.items())
        try:
            lines = lines_of(edits_without_region(real.capture, rows, columns, real.kind))
        except InputError as error:
            show_error(error)
            return
        hiding = {"key": state.button("region", 0), "on_click": edit_list.add, "args": lines, "help": HIDDEN}
        st.button("Hide the region", icon=":material/visibility_off:", **hiding)
    trace = real.capture.trace(*real.place, real.kind, rows=range(query, query + 1))
    row = np.where(trace.mask, trace.weights, np.nan)[0]
    with picture, presenting.aside():
        show_patches(real, row, query, region=(rows, columns))


def choose_drawn_region(real: RealHead, cell: pin.Cell) -> bool:
    """Choose the region that was drawn on the image, or the patch that was clicked. Return whether there was one."""
    grids = real.capture.image_grids(real.kind)
    region = drawn_region(cell, grids[0].tokens.shape) if grids else None
    for key, places in zip(KEYS, region or (), strict=False):
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
