"""A further change for a what-if: what, where, and a button that puts it on the list."""

from __future__ import annotations

import streamlit as st

from core import InputError
from core.capturing.calls.head_places import EVERYWHERE, Place
from core.capturing.edits import forms
from core.capturing.edits.applying import components_read
from core.capturing.edits.kinds import EDIT_KINDS
from ui import state
from ui.controls import edit_list
from ui.controls.fields import menu, number, suggested, switch, text_line, whole_number
from ui.markdown import plain, quoted
from ui.views.sources.heads import RealHead
from ui.views.sources.text_fields import SENTENCE

TYPED = 330  # pixels of a field for a text
# By the word that the address says: the last word of the verb.
OFFERED = {kind.verb.split()[-1]: kind for kind in EDIT_KINDS if kind.label}


def choose_new_edit(real: RealHead, cell: tuple[int, int]) -> None:
    """The fields of a new change, and the button that adds it. cell: the chosen (query, key)."""
    labels = {word: kind.label for word, kind in OFFERED.items()}
    places = {
        "head": (f"head {real}", Place(*real.place, real.named_kind)),
        "layer": (f"layer {real.layer}", Place(real.layer, None, real.named_kind)),
        "all": ("all heads", EVERYWHERE),
    }
    names = {word: name for word, (name, _) in places.items()}
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        kind = OFFERED[menu("Change", state.NEW_EDIT, labels, width=205, label_visibility="collapsed")]
        words = [_show(field, real, cell) for field in kind.fields]
        if kind.of_one_head:
            st.markdown(f"of {places['head'][0]}", width="content")
            place = places["head"][1]
        else:
            _, place = places[menu("In", state.NEW_PLACE, names, width=125, label_visibility="collapsed")]
        is_whole = all(words)
        line = kind.line_of_form(words, place) if is_whole else ""
        adding = {"key": state.button("add", 0), "on_click": edit_list.add, "args": (line,), "disabled": not is_whole}
        st.button("Add", icon=":material/add:", **adding)
        switch(
            "Paint",
            state.PAINTING,
            help="A click on a cell of the pictures gives the query's attention to that key; several keys of a row share it. A "
            "second click takes a key away.",
        )


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
        case forms.Number(opens=opens, step=step, width=width):
            return f"{number(*at, opens, step=step, width=width, label_visibility=hidden):.10g}"
        case forms.WholeNumber(opens=opens, low=low, high=high, width=width):
            return str(whole_number(*at, opens, low, high, width=width, label_visibility=hidden))
        case forms.Choice(choices=choices, width=width, then=then):
            word = menu(*at, choices, width=width, label_visibility=hidden)
            further = _show(then[word], real, cell) if word in then else ""
            return f"{word} {further}" if further else "" if word in then else word
        case forms.Component():
            return _show_components(at, real)
        case forms.Text(label=label):
            return text_line(*at, SENTENCE, width=TYPED, label_visibility=hidden, placeholder=label).strip()
        case forms.Cells(example=example):
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
