"""A further change for a what-if: what, where, and a button that puts it on the list."""

from __future__ import annotations

from collections.abc import Iterable

import streamlit as st

from core.capturing import edit_forms as forms
from core.capturing.edit_kinds import EDIT_KINDS
from core.capturing.places import EVERYWHERE, Place
from ui import state
from ui.controls import edit_list
from ui.controls.fields import menu, number, switch, text_line, whole_number
from ui.markdown import quoted
from ui.views.sources.heads import RealHead
from ui.views.sources.passes import SENTENCE

TYPED = 330  # pixels of a field for a text
# By the word that the address says: the last word of the verb.
OFFERED = {kind.verb.split()[-1]: kind for kind in EDIT_KINDS if kind.label}


def choose_new_edit(real: RealHead, cell: tuple[int, int]) -> None:
    """The fields of a new change, and the button that adds it. cell: the chosen (query, key)."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        labels = {word: kind.label for word, kind in OFFERED.items()}
        kind = OFFERED[menu("Change", state.NEW_EDIT, labels, width=205, label_visibility="collapsed")]
        words = _words(kind.fields, real, cell)
        where = menu("In", state.NEW_PLACE, _where(real), width=125, label_visibility="collapsed")
        line = "" if words is None else kind.line_of(words, _place(real, where))
        adding = {"key": state.button("add", 0), "on_click": edit_list.add, "args": (line,), "disabled": words is None}
        st.button("Add", icon=":material/add:", **adding)
        switch(
            "Paint",
            state.PAINTING,
            help="A click on a cell of the pictures gives the query's attention to that key; several keys of a row share it. A "
            "second click takes a key away.",
        )


def _where(real: RealHead) -> dict[str, str]:
    return {"head": f"head {real.layer}.{real.head}", "layer": f"layer {real.layer}", "all": "all heads"}


def _words(fields: Iterable[forms.Field], real: RealHead, cell: tuple[int, int]) -> str | None:
    """Draw the fields, and return what the line says between its verb and its place; None while something is missing."""
    words = [_show(field, real, cell) for field in fields]
    return " ".join(words) if all(words) else None


def _show(field: forms.Field, real: RealHead, cell: tuple[int, int]) -> str:
    """Draw a field and return its words, "" while there are none."""
    match field:
        case forms.ChosenKey():
            st.markdown(quoted(real.capture.tokens(real.kind)[1][cell[1]]), width="content")
            return str(cell[1])
        case forms.ChosenPair():
            queries, keys = real.capture.tokens(real.kind)
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
            return f"{word} {_show(then[word], real, cell)}" if word in then else word
        case forms.Text(label=label):
            return text_line(*at, SENTENCE, width=TYPED, label_visibility=hidden, placeholder=label).strip()
        case forms.Cells(example=example):
            example = example.format(query=cell[0], key=cell[1])
            return text_line(*at, width=TYPED, label_visibility=hidden, placeholder=example).strip()


def _place(real: RealHead, where: str) -> Place:
    if where == "all":
        return EVERYWHERE
    kind = real.kind if len(real.capture.kinds) > 1 else None
    return Place(real.layer, real.head if where == "head" else None, kind)
