"""The frame of a lesson: its heading, its experiments, a place for controls, real heads, and a link to the next lesson."""

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
class Experiment:
    """One experiment of a lesson.

    word   its name in the address
    name   its name in the menu
    words  a few sentences of Markdown
    show   draws it
    """

    word: str
    name: str
    words: str
    show: Callable[[Experiment], None]


def show_lesson(title: str, sentence: str, experiments: tuple[Experiment, ...]) -> None:
    """Show the heading of a lesson, the menu of its experiments, the chosen one, and a link to the next lesson."""
    show_heading(title, sentence)
    by_word = {experiment.word: experiment for experiment in experiments}
    names = {experiment.word: experiment.name for experiment in experiments}
    chosen = by_word[menu("Experiment", state.PART, names, look="buttons", label_visibility="collapsed")]
    presenting.title(f"{title}: {chosen.name}")
    try:
        chosen.show(chosen)
    except InputError as error:
        show_error(error)
    if state.PAGE in st.session_state:  # a page that runs by itself knows no others
        page, next_title = after(title)
        st.page_link(page, label=f"Next: {next_title}", icon=":material/arrow_forward:")


def picture_and_knobs(experiment: Experiment) -> tuple[DeltaGenerator, DeltaGenerator]:
    """Return two containers: the picture to the left (on a phone: above), controls and words to the right."""
    if presenting.is_on():
        return st.container(key=presenting.told_key()), st.container(key=state.ASIDE)
    picture, panel = st.columns([7, 4], gap="medium")
    knobs = panel.container()
    panel.markdown(experiment.words)
    return picture, knobs


@dataclass(frozen=True, eq=False)
class TracedHead:
    """The whole trace of a head, and the tokens of its rows and columns."""

    trace: AttentionTrace
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]


def real_head() -> tuple[RealHead, TracedHead] | None:
    """Let the visitor choose a head of a pretrained model; text, model, layer and head are shared with the other pages.

    Returns None after showing what is wrong.
    """
    passed = choose_text()
    if passed is None:
        return None
    chosen = choose_head(*passed)
    return chosen, TracedHead(experiments.trace(chosen.of), *chosen.capture.tokens(chosen.kind))
