"""Presenting: a page without navigation and controls, in large letters, worked with keys.

Controls stay in the script, and so keep their state and their place in the address. A style hides everything but pictures and
what a view puts into `told`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from core.figures.chart import Chart
from core.figures.heatmaps.frames import Spot, with_spotlight
from core.figures.theme import smallest_letters
from ui import links, shown, state
from ui.shown import Told

WINDOW = (1280, 720)  # pixels, until the browser sends its size
LETTERS = 18  # pixels: the smallest letters, in a small window
SPOTS: dict[Spot, str] = {"none": "None", "row": "Row", "column": "Column", "cell": "Cell"}
STYLE = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Walk:
    """A grid through which the arrow keys walk from `place`; each step calls on_step(row, column) with the new place."""

    place: tuple[int, int]
    shape: tuple[int, int]
    on_step: Callable[[int, int], None]


@dataclass(eq=False)
class Presentation:
    """A page in one run, while it is presented, in a window of this width and height in pixels.

    told    the number of containers that `told` has opened
    walk    the grid that the arrow keys walk through, once a view has set it
    lights  whether a view has something that the spotlight can light
    """

    window: tuple[int, int]
    told: int = 0
    walk: Walk | None = None
    lights: bool = False


_CURRENT: ContextVar[Presentation | None] = ContextVar("presentation", default=None)


def begin() -> Presentation | None:
    """Begin a run of a page, in a context of its own, and return its presentation; None while nobody presents."""
    presents = links.field(state.PRESENT, links.SwitchForm(), False, "Presenting")
    presentation = Presentation(st.session_state.get(state.WINDOW, WINDOW)) if presents else None
    _CURRENT.set(presentation)
    smallest_letters.set(0)
    if presentation is not None:
        across, down = presentation.window
        letters = max(LETTERS, round(min(across * 9 / 16, down) / 49))
        smallest_letters.set(letters)
        st.html(f"<style>:root {{ --letters: {letters}px; }} {STYLE}</style>")
    return presentation


def leave() -> None:
    """Stop presenting in the next run; remember which view of the talk was shown."""
    rehearses = st.session_state.get(state.REHEARSING, False)
    st.session_state[state.TALK_LEFT] = 0 if rehearses else st.session_state.get(state.TALK_AT) or 0
    for key, opening in ((state.PRESENT, False), (state.TALK_AT, 0), (state.SPOT, "none")):
        links.put(key, opening)
    st.session_state[state.REHEARSING] = False


def is_on() -> bool:
    return _CURRENT.get() is not None


@contextmanager
def told(kind: Told = "words") -> Iterator[None]:
    """Show words that the audience reads; all other words are hidden while presenting.

    kind  "number": words about one number, which is bold in them and becomes large
    """
    draws = is_on() and not shown.is_quiet()
    with shown.recording(telling=kind), st.container(key=told_key(kind), gap=None) if draws else nullcontext():
        yield


def tell(words: str, kind: Told = "words") -> None:
    """Show words that the audience reads, too: see `told`."""
    with told(kind):
        shown.say(words)


def finding(words: str, level: int = 3) -> None:
    """Say what the page has found, with its number in bold: at a desk it is a heading of this level."""
    with told("number"):
        shown.say(words if is_on() else f"{'#' * level} {words}", anchors=False)


def told_key(kind: Told = "words") -> str:
    """Return the key of the next container for `told`."""
    current = _CURRENT.get()
    assert current is not None, "nobody presents"
    current.told += 1
    return f"{state.TOLD}_{kind}_{current.told}"


def show_heading(title: str, sentence: str) -> None:
    """Both are words of our own, never what others wrote: they are read as Markdown.

    Left out while presenting, when each view says what is seen.
    """
    if is_on():
        return
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key=state.HEADING):
        st.markdown(f"### {title}", width="content", anchors=False)
        st.caption(sentence, width="content")


def title(words: str) -> None:
    """Show one line of Markdown that says what is on the screen; at a desk the controls say it."""
    if is_on():
        with told():
            shown.say(f"### {words}", anchors=False)


@contextmanager
def aside() -> Iterator[None]:
    """Show pictures that only matter at a desk, beside the main one."""
    with st.container(key=state.ASIDE) if is_on() else nullcontext(), shown.recording(aside=True):
        yield


def height(usual: int, share: float) -> int:
    """Return the height of a picture in pixels: `usual`, or while presenting this share of the window's height."""
    current = _CURRENT.get()
    return usual if current is None else round(current.window[1] * share)


def width(usual: int, share: float) -> int:
    """Return the width of a picture in pixels: `usual`, or while presenting this share of the window's width."""
    current = _CURRENT.get()
    return usual if current is None else round(current.window[0] * share)


def walk_through(place: tuple[int, int], shape: tuple[int, ...], on_step: Callable[[int, int], None]) -> bool:
    """Let the arrow keys walk through this grid, wherever the focus is. Returns False while nobody presents."""
    current = _CURRENT.get()
    if current is not None:
        current.walk = Walk(place, (shape[0], shape[1]), on_step)
    return current is not None


def spot() -> Spot:
    """Return which part of the large picture is lit."""
    return links.field(state.SPOT, links.ChoiceForm(SPOTS), "none", "Spotlight")


def lit(chart: Chart) -> None:
    """Draw the chosen spotlight on the pinned row and column."""
    if (current := _CURRENT.get()) is not None:
        current.lights = True
    with_spotlight(chart, spot())
