"""What a page shows in this run: told by its views as they draw, read by whatever takes it away as a link, a file or Python."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field

from core.exporting.kept_heads import KeptHead
from core.exporting.tables import Table
from core.figures.chart import Chart
from ui import stores


@dataclass(frozen=True)
class Numbers:
    """The exact numbers behind a picture or a list, made only when somebody takes them away.

    cells  how many there will be
    make   the tables
    about  what is to be known of them besides what is known of the page
    """

    cells: int
    make: Callable[[], tuple[Table, ...]]
    about: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Picture:
    """A chart on the page.

    name     its name, see `ui.state.picture`
    title    what a person calls it
    alt      what kind of picture it is, for a person who cannot see it; the chart's description says what it shows
    numbers  the exact ones that it was drawn from; None: just what is drawn
    """

    name: str
    title: str
    chart: Chart
    alt: str
    numbers: Numbers | None = None


@dataclass(eq=False)
class Shown:
    """A page in one run, as far as it has come.

    title     the page's name
    page      its name in addresses
    pictures  in the order in which they were drawn, by the name of their chart
    lists     numbers that are no picture, by what a person calls them
    of        the head that the page is about; None where it is about none of a model
    beside    further heads of models that it shows, by what they are called
    about     what is known of all this already, where it comes from a file
    head      the head that it is about where no pass over `of` alone has it; it is made when somebody takes it away
    asked     what its views were asked to show, as the frozen choices and requests that say it
    """

    title: str = ""
    page: str = ""
    pictures: dict[str, Picture] = field(default_factory=dict)
    lists: dict[str, Numbers] = field(default_factory=dict)
    of: stores.HeadRequest | None = None
    beside: dict[str, stores.HeadRequest] = field(default_factory=dict)
    about: Mapping[str, str] | None = None
    head: Callable[[], KeptHead] | None = None
    asked: list[Hashable] = field(default_factory=list)


_CURRENT: ContextVar[Shown] = ContextVar("shown")


def begin(title: str, page: str) -> Shown:
    """A run of a page begins; every run has a thread of its own, and so a context of its own."""
    shown = Shown(title, page)
    _CURRENT.set(shown)
    return shown


def now() -> Shown:
    """What is shown so far; in a page that runs by itself, where nobody asks for it, it is forgotten."""
    return _CURRENT.get(None) or Shown()
