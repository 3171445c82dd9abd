"""A further change for a what-if: what, where, and a button that puts it on the list."""

from __future__ import annotations

import streamlit as st

from core.attention import masks as m
from core.capturing.edit_lines import line
from core.capturing.edits import EVERYWHERE, Place
from ui import state
from ui.controls import edit_list
from ui.controls.fields import menu, number, switch, text_line, whole_number
from ui.markdown import quoted
from ui.views.sources.heads import RealHead
from ui.views.sources.passes import SENTENCE

WHAT = {
    "mute": "Mute",
    "scale": "Scale the scores",
    "mask": "Another mask",
    "key": "Block the chosen key",
    "pair": "Block the chosen pair",
    "pattern": "A fixed pattern",
    "softmax": "Another softmax",
    "mean": "Its mean over a text",
    "patch": "What it gives in another text",
    "paint": "Paint shares",
}
SOFTMAX_NAMES = {
    "unscaled": "without scaling",
    "hardmax": "hardmax: all on the highest",
    "sigmoid": "sigmoid: each key for itself",
}
PATTERN_NAMES = {"uniform": "even", "previous": "previous token", "first": "first token", "self": "the token itself"}


def choose_new_edit(real: RealHead, cell: tuple[int, int]) -> None:
    """The fields of a new change, and the button that adds it. cell: the chosen (query, key)."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        what = menu("Change", state.NEW_EDIT, WHAT, width=205, label_visibility="collapsed")
        said = _details(what, real, cell)
        where = menu("In", state.NEW_PLACE, _where(real), width=125, label_visibility="collapsed")
        words = "" if said is None else line(what, said, _place(real, where))
        adding = {"key": state.button("add", 0), "on_click": edit_list.add, "args": (words,), "disabled": said is None}
        st.button("Add", icon=":material/add:", **adding)
        switch(
            "Paint",
            state.PAINTING,
            help="A click on a cell of the pictures gives the query's attention to that key; several keys of a row share it. A "
            "second click takes a key away.",
        )


def _where(real: RealHead) -> dict[str, str]:
    return {"head": f"head {real.layer}.{real.head}", "layer": f"layer {real.layer}", "all": "all heads"}


def _details(what: str, real: RealHead, cell: tuple[int, int]) -> str | None:
    """What the change says besides its place; None while something is missing."""
    match what:
        case "scale":
            factor = number("times", state.NEW_FACTOR, 2.0, step=0.5, width=130, label_visibility="collapsed")
            return f"{factor:.10g}"
        case "softmax":
            return menu("Softmax", state.NEW_SOFTMAX, SOFTMAX_NAMES, width=230, label_visibility="collapsed")
        case "mask":
            masks = {word: named.name for word, named in m.MASKS.items() if word != "padding"}
            word = menu("Mask", state.NEW_MASK, masks, width=160, label_visibility="collapsed")
            label = m.MASKS[word].number
            if label is None:
                return word
            size = whole_number(label, state.NEW_SPAN, 4, 1, 4096, width=110, label_visibility="collapsed")
            return f"{word} {size}"
        case "key":
            st.markdown(quoted(real.capture.tokens(real.kind)[1][cell[1]]), width="content")
            return str(cell[1])
        case "pair":
            queries, keys = real.capture.tokens(real.kind)
            st.markdown(f"{quoted(queries[cell[0]])} → {quoted(keys[cell[1]])}", width="content")
            return f"{cell[0]}>{cell[1]}"
        case "pattern":
            return menu("Attend to", state.NEW_PATTERN, PATTERN_NAMES, width=180, label_visibility="collapsed")
        case "mean" | "patch":
            label = "Reference text" if what == "mean" else "Other text, with as many tokens"
            text = text_line(
                label, state.NEW_TEXT, SENTENCE, width=330, label_visibility="collapsed", placeholder=label
            )
            return text.strip() or None
        case "paint":
            cells = text_line(
                "query>key=share, with blanks between",
                state.NEW_CELLS,
                placeholder=f"{cell[0]}>{cell[1]}=0.5 {cell[0]}>0=0.5",
                width=330,
                label_visibility="collapsed",
            )
            return cells.strip() or None
    return ""


def _place(real: RealHead, where: str) -> Place:
    if where == "all":
        return EVERYWHERE
    kind = real.kind if len(real.capture.kinds) > 1 else None
    return Place(real.layer, real.head if where == "head" else None, kind)
