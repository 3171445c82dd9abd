"""The record of what a page shows in this run. Views fill it as they draw; links, files and Python code are made from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field

from core.exporting.kept_heads import KeptHead
from core.exporting.tables import Table
from core.figures.chart import Chart
from ui import calls
from ui.calls import Recorded
from ui.requests import HeadRequest


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
    """

    name: str
    title: str
    chart: Chart
    alt: str
    numbers: ShownNumbers | None = None


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
    recorded  the calls of core that compute what it shows
    """

    title: str = ""
    page: str = ""
    pictures: dict[str, Picture] = field(default_factory=dict)
    lists: dict[str, ShownNumbers] = field(default_factory=dict)
    of: HeadRequest | None = None
    beside: dict[str, HeadRequest] = field(default_factory=dict)
    about: Mapping[str, str] | None = None
    head: Callable[[], KeptHead] | None = None
    recorded: Recorded = field(default_factory=Recorded)


_CURRENT: ContextVar[PageContents] = ContextVar("page_contents")


def begin(title: str, page: str) -> PageContents:
    """Begin a run of a page. Every run has its own thread, and so its own context."""
    shown = PageContents(title, page, recorded=calls.begin())
    _CURRENT.set(shown)
    return shown


def now() -> PageContents:
    """Return the record of this run; a page that runs without the shell gets one that is dropped."""
    return _CURRENT.get(None) or PageContents()
