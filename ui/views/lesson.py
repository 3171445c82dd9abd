"""The frame of a lesson: its heading, its experiments, a place for controls, real heads, and Next, which leads through all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import AttentionTrace, InputError
from ui import links, presenting, state
from ui.controls.fields import menu
from ui.lessons import after
from ui.markdown import show_error
from ui.views import experiments
from ui.views.common.heading import show_heading
from ui.views.sources.heads import RealHead, choose_head
from ui.views.sources.passes import choose_text

IN_A_MODEL = "In a real model"

# Controls, picture, words: in this order they stand on a phone. Elsewhere the picture stands left of the other two.
_GRID = f".stMain .st-key-{state.EXPERIMENT}"
_PLACES = {state.EXPERIMENT_PICTURE: "1 / 1 / span 2", state.KNOBS: "1 / 2", state.EXPERIMENT_WORDS: "2 / 2"}
STYLE = (
    f"@media (min-width: 641px) {{ {_GRID} {{ display: grid; column-gap: 2rem;"
    " grid-template: auto 1fr / minmax(0, 7fr) minmax(0, 4fr); }"
    + " ".join(f"{_GRID} > :has(> .st-key-{key}) {{ grid-area: {area}; }}" for key, area in _PLACES.items())
    + " }"
)


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
    """Show the heading of a lesson, the menu of its experiments with Next beside it, and the chosen one."""
    st.html(f"<style>{STYLE}</style>")
    show_heading(title, sentence)
    by_word = {experiment.word: experiment for experiment in experiments}
    names = {experiment.word: experiment.name for experiment in experiments}
    line: dict[str, Any] = {"vertical_alignment": "center", "horizontal_alignment": "distribute", "key": state.WAY_ON}
    with st.container(horizontal=True, **line):
        word = menu("Experiment", state.PART, names, look="buttons", wrap=True, label_visibility="collapsed")
        _lead_on(title, names, word)
    chosen = by_word[word]
    presenting.title(f"{title}: {chosen.name}")
    try:
        chosen.show(chosen)
    except InputError as error:
        show_error(error)


def _lead_on(title: str, names: Mapping[str, str], word: str) -> None:
    """Lead from an experiment to the next one, and from the last one to the first of the next lesson."""
    words, icon = list(names), ":material/arrow_forward:"
    following = words[words.index(word) + 1 :]
    if following:
        label, choice = f"Next: {names[following[0]]}", (state.PART, following[0])
        st.button(label, key=state.NEXT_PART, icon=icon, on_click=links.put, args=choice)
    elif state.PAGE in st.session_state:  # a page that runs by itself knows no others
        page, next_title = after(title)
        st.page_link(page, label=f"Next: {next_title}", icon=icon, query_params={state.PART: ""})


def picture_and_knobs(experiment: Experiment) -> tuple[DeltaGenerator, DeltaGenerator]:
    """Return two containers: for the picture, and for controls. The words of the experiment stand below the controls.

    Controls and words are to the right of the picture. On a phone, controls come first, then the picture, then the words.
    """
    if presenting.is_on():
        return st.container(key=presenting.told_key()), st.container(key=state.ASIDE)
    with st.container(key=state.EXPERIMENT):
        knobs = st.container(key=state.KNOBS)
        picture = st.container(key=state.EXPERIMENT_PICTURE)
        st.container(key=state.EXPERIMENT_WORDS).markdown(experiment.words)
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
