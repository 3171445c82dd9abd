"""The contents of a page in one run: noted by its views as they draw, and read when the page is shared."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field

import plotly.graph_objects as go

from core.exporting.kept_heads import KeptHead
from core.exporting.tables import Table
from ui.requests import HeadRequest


@dataclass(frozen=True)
class Numbers:
    """The exact numbers behind a picture or a list, made only when somebody saves them.

    cells  how many numbers `make` will make
    make   returns the tables
    about  facts about them besides those about the page
    """

    cells: int
    make: Callable[[], tuple[Table, ...]]
    about: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure on the page.

    name     the name of its chart, see `ui.state.picture`
    title    its title in menus and files
    alt      its description for people who cannot see it
    numbers  the numbers that it was drawn from; None: those that are drawn
    """

    name: str
    title: str
    figure: go.Figure
    alt: str
    numbers: Numbers | None = None


@dataclass(eq=False)
class PageContents:
    """The contents of a page in one run, as far as it is drawn.

    title     the page's title
    page      its name in addresses
    pictures  by the name of their chart, in the order in which they were drawn
    lists     numbers without a picture, by their titles
    of        the head that the page is about; None if it is about no head of a model
    beside    further heads of models that it shows, by their titles
    about     facts about a page that comes from a file
    head      makes the head that the page is about if no pass over `of` alone holds it; called when somebody saves it
    asked     the choices and requests that its views show, each frozen
    """

    title: str = ""
    page: str = ""
    pictures: dict[str, Picture] = field(default_factory=dict)
    lists: dict[str, Numbers] = field(default_factory=dict)
    of: HeadRequest | None = None
    beside: dict[str, HeadRequest] = field(default_factory=dict)
    about: Mapping[str, str] | None = None
    head: Callable[[], KeptHead] | None = None
    asked: list[Hashable] = field(default_factory=list)


_CURRENT: ContextVar[PageContents] = ContextVar("page_contents")


def begin(title: str, page: str) -> PageContents:
    """Begin a run of a page; every run has a thread of its own, and so a context of its own."""
    contents = PageContents(title, page)
    _CURRENT.set(contents)
    return contents


def now() -> PageContents:
    """Return the contents of this run so far; for a page that runs by itself, new ones that nobody reads."""
    return _CURRENT.get(None) or PageContents()
