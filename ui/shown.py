"""What a page shows in this run: told by its views as they draw, read by whatever takes it away as a link, a file or Python."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field

import plotly.graph_objects as go

from ui import stores


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure on the page.

    name  of its chart, see `ui.state.picture`
    alt   what a person who cannot see it is told
    """

    name: str
    figure: go.Figure
    alt: str


@dataclass(eq=False)
class Shown:
    """A page in one run, as far as it has come.

    title     the page's name
    pictures  in the order in which they were drawn, by the name of their chart
    of        the head that the page is about; None where it is about none of a model
    """

    title: str = ""
    pictures: dict[str, Picture] = field(default_factory=dict)
    of: stores.HeadRequest | None = None


_CURRENT: ContextVar[Shown] = ContextVar("shown")


def begin(title: str) -> Shown:
    """A run of a page begins; every run has a thread of its own, and so a context of its own."""
    shown = Shown(title)
    _CURRENT.set(shown)
    return shown


def now() -> Shown:
    """What is shown so far; in a page that runs by itself, where nobody asks for it, it is forgotten."""
    return _CURRENT.get(None) or Shown()
