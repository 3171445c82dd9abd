"""What the pages under Learn share: the heading, the parts to choose from, the place for knobs, real heads, the way on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import AttentionTrace, InputError
from ui import presenting, state
from ui.controls.fields import menu
from ui.lessons import after
from ui.markdown import show_error
from ui.views import experiments
from ui.views.common.heading import show_heading
from ui.views.sources.heads import RealHead, choose_head
from ui.views.sources.passes import choose_text

IN_A_MODEL = "In a real model"


@dataclass(frozen=True)
class Part:
    """One experiment of a lesson.

    word   its name in the address
    name   what its tab is called
    words  a few sentences of Markdown
    show   draws it
    """

    word: str
    name: str
    words: str
    show: Callable[[Part], None]


def show_lesson(title: str, sentence: str, parts: tuple[Part, ...]) -> None:
    """What the lesson is about, the choice between its experiments, the chosen one, and the way to the next lesson."""
    show_heading(title, sentence)
    named = {part.word: part for part in parts}
    words = {part.word: part.name for part in parts}
    part = named[menu("Experiment", state.PART, words, look="buttons", label_visibility="collapsed")]
    presenting.title(f"{title}: {part.name}")
    try:
        part.show(part)
    except InputError as error:
        show_error(error)
    _lead_on(title)


def _lead_on(title: str) -> None:
    if state.PAGE in st.session_state:  # a page that runs by itself knows no other
        page, next_title = after(title)
        st.page_link(page, label=f"Next: {next_title}", icon=":material/arrow_forward:")


def picture_and_knobs(part: Part) -> tuple[DeltaGenerator, DeltaGenerator]:
    """Two places: the picture to the left (on a phone: above), knobs and words to the right."""
    if presenting.is_on():
        return st.container(key=presenting.told_key()), st.container(key=state.ASIDE)
    picture, panel = st.columns([7, 4], gap="medium")
    knobs = panel.container()
    panel.markdown(part.words)
    return picture, knobs


@dataclass(frozen=True, eq=False)
class Traced:
    """The whole trace of a head, and the tokens of its rows and columns."""

    trace: AttentionTrace
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]


def real_head() -> tuple[RealHead, Traced] | None:
    """A head of a pretrained model, for the part of a lesson that measures in one: text, model, layer and head are shared with
    the other pages. None after showing what is wrong."""
    passed = choose_text()
    if passed is None:
        return None
    chosen = choose_head(*passed)
    return chosen, Traced(experiments.trace(chosen.of), *chosen.capture.tokens(chosen.kind))
