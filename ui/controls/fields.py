"""The fields of a page: Streamlit's widgets, each with a name in the address.

Each function shows a widget and returns its value. `key` is the name in the address. `opening` is the value while nobody has
chosen one; the address leaves it out. A page shows labels; the address holds short words that never change. Further keyword
arguments are those of the widget.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import numpy as np
import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from core.figures.labels import all_placed
from ui import links, shown, state
from ui.links import ChoiceForm, IndexForm, NumberForm, NumbersForm, SeveralForm, SwitchForm, TextForm, Word
from ui.markdown import plain

# With this, Streamlit sends a field's value to a browser that has not drawn the field yet, as in a closed popover.
KEPT: dict[str, Any] = {"persist_state": "session"}
Size = TypeVar("Size", int, float)
Value = TypeVar("Value")
Look = ParamSpec("Look")
LONG = 1_000  # tokens: a box with more would be built anew for every head, were the suggested one named in it


def recorded(widget: Callable[Concatenate[str, str, Look], Value]) -> Callable[Concatenate[str, str, Look], Value]:
    """Record what a field holds. In a quiet run it is not drawn, and holds what it is given."""

    @wraps(widget)
    def field(label: str, key: str, *options: Look.args, **named: Look.kwargs) -> Value:
        page = shown.now()
        if page.given is not None:
            return page.given[key]
        page.fields[key] = value = widget(label, key, *options, **named)
        return value

    return field


@recorded
def text_line(label: str, key: str, opening: str = "", *, max_chars: int | None = None, **widget: Any) -> str:
    """A line of text."""
    links.field(key, TextForm(max_chars), opening, label)
    return st.text_input(label, opening, key=key, max_chars=max_chars, **KEPT, **widget)


@recorded
def text_area(label: str, key: str, opening: str = "", **widget: Any) -> str:
    """Lines of text."""
    links.field(key, TextForm(), opening, label)
    return st.text_area(label, opening, key=key, **KEPT, **widget)


def upload(label: str, key: str, types: str | Sequence[str], **widget: Any) -> UploadedFile | None:
    """A file. It is in the server's memory, not in the address: a browser still names it after the server has started anew."""
    file = st.file_uploader(label, types, key=key, **widget)
    if file is None and st.session_state[key] is not None:
        st.caption("This file is no longer on the server. Please upload it again.")
    return file


def name_uploads(names: Iterable[str]) -> None:
    """Put the names of the uploaded files that the page shows into the address. The files are gone after the visit: where there
    are none, say which ones the address names. When one is taken out, call `forget_uploads`."""
    before, now = links.field(state.UPLOADED, TextForm(), "", "Uploaded files"), ", ".join(names)
    if now:
        st.session_state[state.UPLOADED] = now
    elif before:
        st.info(plain(f"{before} was uploaded in an earlier visit. Upload it again."), icon=":material/upload_file:")


def forget_uploads() -> None:
    links.put(state.UPLOADED, "")


def uploaded_file(key: str) -> UploadedFile | None:
    """The file in an upload field, before the field is drawn; None if there is none, or it is no longer on the server."""
    file = st.session_state.get(key)
    return file if isinstance(file, UploadedFile) else None


@recorded
def whole_number(label: str, key: str, opening: int | None, low: int | None, high: int | None, **widget: Any) -> int:
    """A whole number from `low` to `high` (None: no limit). It is None if `opening` is None and nobody has chosen."""
    links.field(key, NumberForm(low, high, whole=True), opening, label)
    return st.number_input(label, low, high, opening, key=key, **KEPT, **widget)  # pyright: ignore[reportReturnType]


@recorded
def number(
    label: str, key: str, opening: float | None, low: float | None = None, high: float | None = None, **widget: Any
) -> float:
    """A number that may have a fraction; otherwise like `whole_number`."""
    links.field(key, NumberForm(low, high, whole=False), opening, label)
    return st.number_input(label, low, high, opening, key=key, **KEPT, **widget)  # pyright: ignore[reportReturnType]


@recorded
def slider(label: str, key: str, opening: Size, low: Size, high: Size, step: Size) -> Size:
    """A slider of numbers: of whole ones if `opening` is one."""
    count = round((high - low) / step) + 1
    values = (round(low + place * step, 9) for place in range(count))
    shown.now().knobs[key] = shown.Knob({value: {key: value} for value in values}, label)
    links.field(key, NumberForm(low, high, whole=isinstance(opening, int)), opening, label)
    return st.slider(label, low, high, opening, step, key=key, **KEPT)


@recorded
def part_of(label: str, key: str, low: int, high: int, **widget: Any) -> tuple[int, int]:
    """A slider with two ends, which open at `low` and `high`."""
    links.field(key, NumbersForm(NumberForm(low, high, whole=True), 2), (low, high), label)
    return st.slider(label, low, high, (low, high), key=key, **KEPT, **widget)


@recorded
def switch(label: str, key: str, opening: bool = False, **widget: Any) -> bool:
    """A switch, on or off."""
    links.field(key, SwitchForm(), opening, label)
    return st.toggle(label, opening, key=key, **KEPT, **widget)


@recorded
def tick(label: str, key: str) -> bool:
    """A box to tick."""
    links.field(key, SwitchForm(), False, label)
    return st.checkbox(label, key=key, **KEPT)


def page_of(key: str, count: int, label: str) -> int:
    """The number of a page, from 1 to `count`."""
    links.field(key, NumberForm(1, count, whole=True), 1, label)
    return st.pagination(count, key=key, **KEPT)


def suggested(
    label: str, key: str, offered: Sequence[str], opening: str, further: Sequence[str] = (), **widget: Any
) -> str:
    """One of the texts that are offered, or any other text. further: offered on this computer only"""
    links.field(key, TextForm(such_as=tuple(offered)), opening, label)
    return st.selectbox(label, [*offered, *further], key=key, accept_new_options=True, **KEPT, **widget)


def suggested_or_none(label: str, key: str, offered: Sequence[str], placeholder: str, **widget: Any) -> str | None:
    """One of the texts that are offered, or any other text; None while nobody has chosen.

    placeholder  is shown then
    """
    chosen = links.field(key, TextForm(), None, label)
    # The browser sends the label of an option back, so one of another's own has to be among them.
    options = [*offered, *([] if chosen is None or chosen in offered else [chosen])]
    widget |= {"index": None, "placeholder": placeholder, "accept_new_options": True}
    return st.selectbox(label, options, key=key, **KEPT, **widget)


def numbered(numbers: Iterable[int]) -> dict[int, str]:
    """Return the choices of a menu of numbers."""
    return {number: str(number) for number in numbers}


@recorded
def menu(
    label: str,
    key: str,
    choices: Mapping[Word, str],
    *,
    opening: Word | None = None,
    formerly: Mapping[str, Word] | None = None,
    look: Literal["box", "buttons", "line"] = "box",
    **widget: Any,
) -> Word:
    """A menu of `choices`: word in the address -> label on the page.

    opening   None for the first
    formerly  labels that older addresses may say, and that are no longer on the page -> word
    """
    form = ChoiceForm(choices, formerly or {})
    value = links.field(key, form, next(iter(choices)) if opening is None else opening, label)
    widget |= {"key": key, "format_func": choices.__getitem__}
    if look == "box":
        st.selectbox(label, list(choices), **KEPT, **widget)
    elif look == "buttons":
        st.segmented_control(label, list(choices), required=True, **KEPT, **widget)
    else:
        shown.now().knobs[key] = shown.Knob(
            {place: {key: word} for place, word in enumerate(choices)}, label, dict(enumerate(choices.values()))
        )
        st.session_state[key] = value  # a line with other choices is a new widget, which would forget the chosen one
        st.select_slider(label, list(choices), **KEPT, **widget)
    return value


def choose(label: str, key: str, choices: Mapping[Word, tuple[str, Value]], **widget: Any) -> Value:
    """A menu of `choices`: word in the address -> label on the page, and what it stands for, which is returned."""
    names = {word: name for word, (name, _) in choices.items()}
    return choices[menu(label, key, names, **widget)][1]


def menu_of_several(
    label: str, key: str, choices: Mapping[Word, str], *, look: Literal["pills", "box"] = "pills", **widget: Any
) -> list[Word]:
    """A menu of `choices` in which several can be chosen; it opens with none."""
    value = links.field(key, SeveralForm(choices), [], label)
    widget |= {"key": key, "format_func": choices.__getitem__}
    if look == "pills":
        st.pills(label, list(choices), selection_mode="multi", **KEPT, **widget)
    else:
        st.multiselect(label, list(choices), **KEPT, **widget)
    return value


@recorded
def number_picker(label: str, key: str, count: int, opening: int, placeholder: str = "", **widget: Any) -> int:
    """A whole number from 0 to count - 1. An empty box, which shows `placeholder`, stands for `opening`.

    The address leaves out an empty box, so that its meaning can depend on the model.
    """
    opening = min(opening, count - 1)
    links.field(key, IndexForm(count), None, label)
    widget |= {"index": None, "placeholder": placeholder or str(opening), "key": key}
    chosen = st.selectbox(label, range(count), **KEPT, **widget)
    return opening if chosen is None else chosen


@recorded
def token_picker(label: str, key: str, tokens: Sequence[str], opening: int, note: str = "", **widget: Any) -> int:
    """A token of a text, named with its position: "it (10)". Returns the position. An empty box stands for `opening`.

    note  said of `opening` by an empty box
    """
    names = all_placed(tuple(tokens))
    said = [note] if note and len(names) > LONG else [names[min(opening, len(names) - 1)], *[note] * bool(note)]
    label_again(key)
    return number_picker(label, key, len(names), opening, ", ".join(said), format_func=names.__getitem__, **widget)


def label_again(key: str) -> None:
    """Send a field's value once more. The browser knows it by its label, which another text may have changed."""
    if (value := st.session_state.get(key)) is not None:
        st.session_state[key] = value


def head_picker(
    key: str, names: tuple[str, str], shape: tuple[int, int], opening: tuple[int, int], **widget: Any
) -> tuple[int, int]:
    """A head of a grid [layers, heads], as one box: "Head 5.11". Returns (layer, head).

    names  those of the layer and the head in the address, which leaves out what nobody has chosen, so that its meaning can
           depend on the model
    """
    place = []
    for name, label, count, usual in zip(names, ("Layer", "Head"), shape, opening, strict=True):
        chosen = links.field(name, IndexForm(count), None, label)
        place.append(min(usual, count - 1) if chosen is None else chosen)

    def choose() -> None:
        if (chosen := st.session_state[key]) in heads:  # a browser that is behind may send one of another model
            st.session_state.update(zip(names, map(int, chosen.split(".")), strict=True))

    layer, head = place
    st.session_state[key] = f"{layer}.{head}"
    heads = [f"{layer}.{head}" for layer, head in np.ndindex(shape)]
    look: dict[str, Any] = {"label_visibility": "collapsed", "format_func": "Head {}".format} | widget
    st.selectbox("Head", heads, key=key, on_change=choose, **look)
    return layer, head
