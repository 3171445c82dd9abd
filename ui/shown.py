"""The record of what a page shows in this run. Views fill it as they draw; links, files and Python code are made from it.

A run can also be quiet: it draws nothing, and only fills its record. So it tells what the page would show if a field held
another value; see `ui.views.frames`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import streamlit as st

from core.exporting.documents import CardLine
from core.exporting.exhibit import KeptHead
from core.exporting.tables import Table
from core.figures.chart import Chart
from ui import calls
from ui.calls import Recorded
from ui.requests import HeadRequest

Told = Literal["words", "number"]  # to an audience: words, or words about one number, which is bold in them


@dataclass(frozen=True)
class ShownNumbers:
    """The exact numbers behind a picture or a list. They are made only for an export.

    cells  how many numbers there will be
    make   makes the tables
    about  notes on them, besides those on the page
    """

    cells: int
    make: Callable[[], tuple[Table, ...]]
    about: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Picture:
    """A chart on the page.

    name     see `ui.state.picture`
    title    what a person calls it
    alt      what kind of picture it is, for a person who cannot see it; the chart's description says what it shows
    numbers  the exact ones that it was drawn from; None: just what is drawn
    aside    whether it matters at a desk only
    beside   the name of the picture that it is compared with; "": none
    """

    name: str
    title: str
    chart: Chart
    alt: str
    numbers: ShownNumbers | None = None
    aside: bool = False
    beside: str = ""


@dataclass(frozen=True, eq=False)
class Knob:
    """What can be held and moved: a slider, or a handle in a picture.

    holds    what fields hold where it stands at a place, by the place
    label    what a person calls it
    names    what a person calls its places; {}: they are numbers
    picture  the name of the picture that has its handle; "": it is a slider only
    points   where the handle is in that picture at each place, in the numbers of its axes
    at       where the handle is now
    rest     seconds for which it rests at each place while it is played; 0: it is not
    """

    holds: Mapping[float, Mapping[str, Any]]
    label: str
    names: Mapping[float, str] = field(default_factory=dict)
    picture: str = ""
    points: Mapping[float, tuple[float, float]] = field(default_factory=dict)
    at: tuple[float, float] = (0.0, 0.0)
    rest: float = 0.0

    def now(self, fields: Mapping[str, Any]) -> float | None:
        """Return the place at which it stands if its fields hold these values; None between two places."""
        return next((place for place, held in self.holds.items() if held.items() <= fields.items()), None)


class Said(NamedTuple):
    """A sentence or a table on the page, in Markdown. told: as what an audience reads it; "" if it does not"""

    words: str
    told: Told | Literal[""] = ""


@dataclass(eq=False)
class PageContents:
    """The page in this run, as far as it has come.

    title     name of the page
    page      its name in addresses
    pictures  its pictures by name, in the order of drawing
    lists     numbers without a picture, by their title
    of        the head of a model that the page is about, or None
    beside    further heads of models that it shows, by their title
    about     notes from the file that it shows, or None
    head      makes the head that the page is about, where a pass over `of` alone does not have it
    card      the lines about that head, if the page is its card
    recorded  the calls of core that compute what it shows
    said      its sentences and tables, in the order of drawing
    telling   how an audience reads what is being said; "": it does not
    fields    what its fields hold, by their keys
    knobs     by their names: that of a slider is its field's key
    frames    of its knobs, by their names and places: see `ui.views.frames`
    frames_of  the pieces of the texts that frames change
    make_frames  makes both on a light ground, for a file; None where there are no knobs
    aside     whether what is drawn matters at a desk only
    later     what is done once all of the page is drawn
    given     of a quiet run: what its fields hold; None of any other
    """

    title: str = ""
    page: str = ""
    pictures: dict[str, Picture] = field(default_factory=dict)
    lists: dict[str, ShownNumbers] = field(default_factory=dict)
    of: HeadRequest | None = None
    beside: dict[str, HeadRequest] = field(default_factory=dict)
    about: Mapping[str, str] | None = None
    head: Callable[[], KeptHead] | None = None
    card: Sequence[CardLine] = ()
    recorded: Recorded = field(default_factory=Recorded)
    said: list[Said] = field(default_factory=list)
    telling: Told | Literal[""] = ""
    fields: dict[str, Any] = field(default_factory=dict)
    knobs: dict[str, Knob] = field(default_factory=dict)
    frames: dict[str, dict[float, dict[str, Any]]] = field(default_factory=dict)
    frames_of: list[list[str]] = field(default_factory=list)
    make_frames: Callable[[], None] | None = None
    aside: bool = False
    later: list[Callable[[], None]] = field(default_factory=list)
    given: Mapping[str, Any] | None = None


_CURRENT: ContextVar[PageContents] = ContextVar("page_contents")


def begin(title: str, page: str) -> PageContents:
    """Begin a run of a page. Every run has its own thread, and so its own context."""
    shown = PageContents(title, page, recorded=calls.begin())
    _CURRENT.set(shown)
    return shown


def now() -> PageContents:
    """Return the record of this run; a page that runs without the shell gets one that is dropped."""
    return _CURRENT.get(None) or PageContents()


def is_quiet() -> bool:
    """Whether this run draws nothing."""
    return now().given is not None


def quietly(show: Callable[[], Iterable[object]], given: Mapping[str, Any]) -> PageContents:
    """Return what a part of a page would show if its fields held these values. Raises what it raises."""

    def run() -> PageContents:
        page = PageContents(now().title, now().page, recorded=calls.begin(), given=given)
        _CURRENT.set(page)
        for _ in show():
            pass
        return page

    return copy_context().run(run)


# --- what a quiet run records and does not draw


@contextmanager
def recording(**marks: Any) -> Iterator[None]:
    """Record what is shown here with these marks, attributes of `PageContents`: for whom it is."""
    page = now()
    before = {name: getattr(page, name) for name in marks}
    vars(page).update(marks)
    try:
        yield
    finally:
        vars(page).update(before)


def say(words: str, *, small: bool = False, **look: Any) -> None:
    """Show Markdown; `look` is that of `st.markdown`, or of `st.caption` for small letters."""
    page = now()
    page.said.append(Said(words, "" if page.aside else page.telling))
    if not is_quiet():
        (st.caption if small else st.markdown)(words, **look)


def columns(spec: int | Sequence[float], **look: Any) -> Sequence[AbstractContextManager]:
    """Return columns as `st.columns` does."""
    if is_quiet():
        return [nullcontext()] * (spec if isinstance(spec, int) else len(spec))
    return st.columns(spec, **look)
