"""Pages of a browser that one visitor uses after another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from playwright.sync_api import Browser

from tests.browser.driver import STILL, App, Server

Kind = TypeVar("Kind", bound=App)


class Visits:
    """A page that has shown Headlight before opens an address in half the time, because it keeps the scripts that it has
    compiled. To the server each visit is a session of its own, and what the browser remembers is forgotten in between."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._free: dict[Hashable, list[Any]] = defaultdict(list)

    @contextmanager
    def to(self, server: Server, kind: type[Kind] = App) -> Iterator[Callable[..., Kind]]:
        """Opens pages, each as a visitor of its own; in the end nothing may have gone wrong on any of them."""
        used: list[tuple[Kind, list[Kind]]] = []

        def visit(*path: str, at: Server = server, width: int = 1280, height: int = 900, **options: Any) -> Kind:
            free = self._free[kind, tuple(options.items())]
            app = free.pop() if free else kind(self._browser.new_context(**STILL, **options), at)
            used.append((app, free))
            app.page.set_viewport_size({"width": width, "height": height})
            return app.arrive(at).open(*path)

        yield visit
        problems = [problem for app, _ in used for problem in app.problems]
        for app, free in used:
            app.leave()
            free.append(app)
        assert not problems, "\n".join(problems)
