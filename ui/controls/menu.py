"""A choice by name, as a box, as buttons or along a line. What is shown are words, what the address says is a short one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import streamlit as st

from ui import links
from ui.links import Word

Visibility = Literal["visible", "hidden", "collapsed"]


def menu(
    label: str,
    key: str,
    choices: Mapping[Word, str],
    *,
    opening: Word | None = None,
    look: Literal["box", "buttons", "line"] = "box",
    label_visibility: Visibility = "visible",
    width: int | Literal["stretch", "content"] | None = None,
    on_change: Callable[[], None] | None = None,
    help: str | None = None,
) -> Word:
    """The chosen one of `choices`: word in the address -> words on the page.

    opening  what is chosen while nobody has chosen, and then the address says nothing; None: the first
    """
    opening = next(iter(choices)) if opening is None else opening
    value = links.chosen(key, choices, opening=opening, what=label)
    options = {"key": key, "format_func": choices.__getitem__, "persist_state": "session", "on_change": on_change}
    options |= {"label_visibility": label_visibility, "help": help} | ({} if width is None else {"width": width})
    if look == "box":
        st.selectbox(label, list(choices), **options)
    elif look == "buttons":
        st.segmented_control(label, list(choices), required=True, **options)
    else:
        st.session_state[key] = value  # with other choices along it a line is a new widget, and would begin anew
        st.select_slider(label, list(choices), **options)
    return value


def menu_of_several(label: str, key: str, choices: Mapping[Word, str], *, disabled: bool = False) -> list[Word]:
    """The chosen ones of `choices`, as pills; at first none."""
    value = links.chosen_several(key, choices, what=label)
    st.pills(
        label,
        list(choices),
        selection_mode="multi",
        key=key,
        format_func=choices.__getitem__,
        persist_state="session",
        disabled=disabled,
    )
    return value
