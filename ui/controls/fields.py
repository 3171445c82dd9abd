"""The fields of a page: Streamlit's widgets, each with its name in the address. What is shown are words; what the address says
is short, and stays.

Each gives its value. `key` is the name in the address, `opening` what the field shows, and the address leaves out, while nobody
has chosen. What else the widget takes is passed on to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import streamlit as st

from ui import links
from ui.links import Choice, Index, Number, Numbers, Several, Switch, Text, Word

# Streamlit then tells a browser what a field holds until the browser has drawn it, as in a popover that is folded up.
KEPT: dict[str, Any] = {"persist_state": "session"}


def text_line(label: str, key: str, opening: str = "", *, max_chars: int | None = None, **widget: Any) -> str:
    """A line of text."""
    links.field(key, Text(max_chars), opening, label)
    return st.text_input(label, opening, key=key, max_chars=max_chars, **KEPT, **widget)


def text_area(label: str, key: str, opening: str = "", **widget: Any) -> str:
    """Lines of text."""
    links.field(key, Text(), opening, label)
    return st.text_area(label, opening, key=key, **KEPT, **widget)


def whole_number(label: str, key: str, opening: int | None, low: int | None, high: int | None, **widget: Any) -> int:
    """A whole number from `low` to `high`, None: without end; None where `opening` is None and nobody has chosen."""
    links.field(key, Number(low, high, whole=True), opening, label)
    return st.number_input(label, low, high, opening, key=key, **KEPT, **widget)  # pyright: ignore[reportReturnType]


def number(
    label: str, key: str, opening: float | None, low: float | None = None, high: float | None = None, **widget: Any
) -> float:
    """A number with a fraction; the rest is that of `whole_number`."""
    links.field(key, Number(low, high, whole=False), opening, label)
    return st.number_input(label, low, high, opening, key=key, **KEPT, **widget)  # pyright: ignore[reportReturnType]


def whole_slider(label: str, key: str, opening: int, low: int, high: int, step: int = 1) -> int:
    links.field(key, Number(low, high, whole=True), opening, label)
    return st.slider(label, low, high, opening, step, key=key, **KEPT)


def slider(label: str, key: str, opening: float, low: float, high: float, step: float) -> float:
    links.field(key, Number(low, high, whole=False), opening, label)
    return st.slider(label, low, high, opening, step, key=key, **KEPT)


def part_of(label: str, key: str, low: int, high: int, **widget: Any) -> tuple[int, int]:
    """A slider with two ends, which open as far apart as they can be."""
    links.field(key, Numbers(Number(low, high, whole=True), 2), (low, high), label)
    return st.slider(label, low, high, (low, high), key=key, **KEPT, **widget)


def switch(label: str, key: str, opening: bool = False, **widget: Any) -> bool:
    links.field(key, Switch(), opening, label)
    return st.toggle(label, opening, key=key, **KEPT, **widget)


def tick(label: str, key: str) -> bool:
    """A box to tick."""
    links.field(key, Switch(), False, label)
    return st.checkbox(label, key=key, **KEPT)


def page_of(key: str, count: int, what: str) -> int:
    """Which of so many pages of something, from 1."""
    links.field(key, Number(1, count, whole=True), 1, what)
    return st.pagination(count, key=key, **KEPT)


def pick_place(label: str, key: str, count: int, placeholder: str, **widget: Any) -> int | None:
    """A place from 0 to count - 1; None while none is chosen, and then the box shows `placeholder`."""
    links.field(key, Index(count), None, label)
    return st.selectbox(label, range(count), index=None, placeholder=placeholder, key=key, **KEPT, **widget)


def suggested(label: str, key: str, offered: Sequence[str], opening: str, **widget: Any) -> str:
    """One of those that are offered, or any other text."""
    links.field(key, Text(such_as=tuple(offered)), opening, label)
    return st.selectbox(label, offered, key=key, accept_new_options=True, **KEPT, **widget)


def numbered(numbers: Iterable[int]) -> dict[int, str]:
    """The choices of a menu of numbers."""
    return {number: str(number) for number in numbers}


def menu(
    label: str,
    key: str,
    choices: Mapping[Word, str],
    *,
    opening: Word | None = None,
    look: Literal["box", "buttons", "line"] = "box",
    on_change: Callable[[], None] | None = None,
    **widget: Any,
) -> Word:
    """The chosen one of `choices`: word in the address -> words on the page. opening: None: the first."""
    value = links.field(key, Choice(choices), next(iter(choices)) if opening is None else opening, label)
    widget |= {"key": key, "format_func": choices.__getitem__, "on_change": on_change}
    if look == "box":
        st.selectbox(label, list(choices), **KEPT, **widget)
    elif look == "buttons":
        st.segmented_control(label, list(choices), required=True, **KEPT, **widget)
    else:
        st.session_state[key] = value  # with other choices along it a line is a new widget, and would begin anew
        st.select_slider(label, list(choices), **KEPT, **widget)
    return value


def menu_of_several(
    label: str, key: str, choices: Mapping[Word, str], *, look: Literal["pills", "box"] = "pills", **widget: Any
) -> list[Word]:
    """The chosen ones of `choices`; at first none."""
    value = links.field(key, Several(choices), [], label)
    widget |= {"key": key, "format_func": choices.__getitem__}
    if look == "pills":
        st.pills(label, list(choices), selection_mode="multi", **KEPT, **widget)
    else:
        st.multiselect(label, list(choices), **KEPT, **widget)
    return value


def number_picker(label: str, key: str, count: int, opening: int) -> int:
    """A choice from 0 to count - 1. Left empty it is `opening`: the address leaves empty choices out, so what an empty
    one means may depend on the model."""
    opening = min(opening, count - 1)
    chosen = pick_place(label, key, count, str(opening))
    return opening if chosen is None else chosen
