"""Presenting: a page without navigation and controls, in letters for the back row, worked with keys.

Controls stay in the script, and so keep their state and their place in the address. What is seen is told by a style: pictures,
and what a view puts into `told`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import plotly.graph_objects as go
import streamlit as st

from core.figures.heatmaps.spotlight import Spot, with_spotlight
from core.figures.theme import Lettering, lettering
from ui import links, state
from ui.links import Choice, Switch

WINDOW = (1280, 720)  # pixels, until the browser has said how large it is
LETTERS = 18  # pixels of the smallest letters, in the smallest window
SPOTS: dict[Spot, str] = {"none": "None", "row": "Row", "column": "Column", "cell": "Cell"}
STYLE = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Walk:
    """A grid through which the arrow keys walk from `place`; on_step(row, column) is called with where they come."""

    place: tuple[int, int]
    shape: tuple[int, int]
    on_step: Callable[[int, int], None]


@dataclass(eq=False)
class Stage:
    """A page in one run, while it is presented.

    window  its width and height in pixels
    told    how many containers `told` has opened
    walk    what the arrow keys walk through, once a view has said so
    """

    window: tuple[int, int]
    told: int = 0
    walk: Walk | None = None


_STAGE: ContextVar[Stage | None] = ContextVar("stage", default=None)


def begin() -> Stage | None:
    """Begin a run of a page; None while nobody presents. Every run has a thread of its own, and so a context of its own."""
    wanted = links.field(state.PRESENT, Switch(), False, "Presenting")
    stage = Stage(st.session_state.get(state.WINDOW, WINDOW)) if wanted else None
    _STAGE.set(stage)
    lettering.set(Lettering(letters_in(stage.window)) if stage is not None else Lettering())
    if stage is not None:
        st.html(f"<style>:root {{ --letters: {letters_in(stage.window)}px; }} {STYLE}</style>")
    return stage


def enter() -> None:
    st.session_state[state.PRESENT] = True


def leave() -> None:
    st.session_state[state.PRESENT], st.session_state[state.TALK_AT], st.session_state[state.SPOT] = False, 0, "none"
    st.session_state[state.REHEARSING] = False


def letters_in(window: tuple[int, int]) -> int:
    """The pixels of the smallest letters in a window of this width and height."""
    width, height = window
    return max(LETTERS, round(min(width * 9 / 16, height) / 49))


def stage() -> Stage | None:
    return _STAGE.get()


def is_on() -> bool:
    return _STAGE.get() is not None


def told(kind: Literal["words", "number"] = "words") -> AbstractContextManager:
    """A place for words that the audience reads as well; all others are hidden while presenting.

    kind  "number": words about the one number that matters, which is bold in them and becomes large
    """
    return st.container(key=told_key(kind), gap=None) if is_on() else nullcontext()


def told_key(kind: Literal["words", "number"] = "words") -> str:
    """The key of the next such place."""
    now = _STAGE.get()
    assert now is not None, "nobody presents"
    now.told += 1
    return f"{state.TOLD}_{kind}_{now.told}"


def title(words: str) -> None:
    """What is seen, in one line of Markdown; at a desk the controls say it."""
    if is_on():
        with told():
            st.markdown(f"### {words}", anchors=False)


def aside() -> AbstractContextManager:
    """A place for pictures that only matter at a desk, beside the one that is looked at."""
    return nullcontext() if _STAGE.get() is None else st.container(key=state.ASIDE)


def height(usual: int, share: float) -> int:
    """How many pixels high a picture is drawn: while presenting this share of the window, which it then fills by itself."""
    now = _STAGE.get()
    return usual if now is None else round(now.window[1] * share)


def width(usual: int, share: float) -> int:
    """The same of its width."""
    now = _STAGE.get()
    return usual if now is None else round(now.window[0] * share)


def walk_through(place: tuple[int, int], shape: tuple[int, ...], on_step: Callable[[int, int], None]) -> bool:
    """Let the arrow keys walk through this grid, wherever the focus is; False while nobody presents."""
    now = _STAGE.get()
    if now is not None:
        now.walk = Walk(place, (shape[0], shape[1]), on_step)
    return now is not None


def spot() -> Spot:
    """What of the large picture is lit."""
    return links.field(state.SPOT, Choice(SPOTS), "none", "Spotlight")


def lit(figure: go.Figure, row: int | None, column: int | None) -> go.Figure:
    """The figure with the spotlight where it is wanted."""
    return with_spotlight(figure, spot(), row, column)
