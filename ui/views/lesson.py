"""What the pages under Learn share: the title, the parts to choose from, the place for knobs, and real heads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import Capture, InputError
from core.models.modules import Kind
from ui import state, stores
from ui.markdown import show_error
from ui.views.scene import Scene, choose_head, choose_text

IN_A_MODEL = "In a real model"


@dataclass(frozen=True)
class Part:
    """One experiment of a lesson: what its tab is called, its few sentences of Markdown, and what draws it."""

    name: str
    words: str
    show: Callable[[Part], None]


def show_lesson(title: str, parts: tuple[Part, ...]) -> None:
    """The lesson's title, the choice between its experiments, and the chosen one."""
    st.subheader(title, anchor=False)
    named = {part.name: part for part in parts}
    chosen = st.segmented_control(
        "Experiment",
        list(named),
        default=parts[0].name,
        required=True,
        key=state.PART,
        bind="query-params",
        label_visibility="collapsed",
    )
    part = named[chosen]
    try:
        part.show(part)
    except InputError as error:
        show_error(error)


def picture_and_knobs(part: Part) -> tuple[DeltaGenerator, DeltaGenerator]:
    """Two places: the picture to the left (on a phone: above), knobs and words to the right."""
    picture, panel = st.columns([7, 4], gap="medium")
    knobs = panel.container()
    panel.markdown(part.words)
    return picture, knobs


def show_chart(figure: go.Figure, name: str, alt: str) -> None:
    st.plotly_chart(figure, key=state.picture(name), theme=None, config={"displayModeBar": False}, alt=alt)


@dataclass(frozen=True, eq=False)
class RealHead:
    """A head of a pretrained model, for the part of a lesson that measures in one."""

    request: stores.TextRequest
    capture: Capture
    layer: int
    head: int
    kind: Kind
    scene: Scene


def real_head() -> RealHead | None:
    """Text, model, layer and head, shared with the other pages; None after showing what is wrong."""
    passed = choose_text()
    if passed is None:
        return None
    request, capture, places = passed
    layer, head, kind, scene = choose_head(request, capture, places)
    return RealHead(request, capture, layer, head, kind, scene)
