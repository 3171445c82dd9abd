"""A further change for a what-if: what, where, and a button that puts it on the list."""

from __future__ import annotations

import streamlit as st

from core.attention import masks as m
from core.capturing.edit_lines import line
from core.capturing.edits import EVERYWHERE, Place
from ui import state
from ui.controls import edit_list
from ui.controls.menu import menu
from ui.markdown import quoted
from ui.views.scene import SENTENCE, RealHead

WHAT = {
    "mute": "Mute",
    "scale": "Scale the scores",
    "mask": "Another mask",
    "key": "Block a key",
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
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        what = menu("Change", state.NEW_EDIT, WHAT, width=210)
        where = menu("in", state.NEW_PLACE, _where(real), width=150)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        said = _details(what, real, cell)
        words = "" if said is None else line(what, said, _place(real, where))
        st.button(
            "Add",
            key=state.button("add", 0),
            icon=":material/add:",
            type="primary",
            on_click=edit_list.add,
            args=(words,),
            disabled=said is None,
        )


def _where(real: RealHead) -> dict[str, str]:
    return {"head": f"head {real.layer}.{real.head}", "layer": f"layer {real.layer}", "all": "all heads"}


def _details(what: str, real: RealHead, cell: tuple[int, int]) -> str | None:
    """What the change says besides its place; None while something is missing."""
    match what:
        case "scale":
            factor = st.number_input("times", value=2.0, step=0.5, key=state.NEW_FACTOR, bind="query-params", width=130)
            return f"{factor:g}"
        case "softmax":
            return menu("Softmax", state.NEW_SOFTMAX, SOFTMAX_NAMES, width=230)
        case "mask":
            masks = {word: named.name for word, named in m.MASKS.items() if word != "padding"}
            word = menu("Mask", state.NEW_MASK, masks, width=160)
            label = m.MASKS[word].number
            if label is None:
                return word
            return f"{word} {st.number_input(label, 1, 4096, 4, key=state.NEW_SPAN, bind='query-params', width=110)}"
        case "key":
            tokens = real.capture.tokens(real.kind)[1]
            chosen = st.selectbox(
                "Key",
                range(len(tokens)),
                index=None,
                placeholder=f"{cell[1]}, the chosen one",
                key=state.NEW_KEY,
                bind="query-params",
                width=170,
            )
            key = cell[1] if chosen is None else chosen
            st.markdown(quoted(tokens[key]))
            return str(key)
        case "pair":
            queries, keys = real.capture.tokens(real.kind)
            st.markdown(f"{quoted(queries[cell[0]])} → {quoted(keys[cell[1]])}")
            return f"{cell[0]}>{cell[1]}"
        case "pattern":
            return menu("Attend to", state.NEW_PATTERN, PATTERN_NAMES, width=180)
        case "mean" | "patch":
            label = "Reference text" if what == "mean" else "Other text, with as many tokens"
            text = st.text_input(label, SENTENCE, key=state.NEW_TEXT, bind="query-params", width=330)
            return text.strip() or None
        case "paint":
            cells = st.text_input(
                "query>key=share, with blanks between",
                key=state.NEW_CELLS,
                bind="query-params",
                placeholder=f"{cell[0]}>{cell[1]}=0.5 {cell[0]}>0=0.5",
                width=330,
            )
            return cells.strip() or None
    return ""


def _place(real: RealHead, where: str) -> Place:
    if where == "all":
        return EVERYWHERE
    kind = real.kind if len(real.capture.kinds) > 1 else None
    return Place(real.layer, real.head if where == "head" else None, kind)
