"""One browser and one server for all tests, visitors, and servers that nobody has visited yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from check import find_browser
from tests.browser.driver import BROWSER_ARGUMENTS, App, Server
from tests.browser.visits import Visits


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=BROWSER_ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    server = Server()
    yield server.wait()
    server.stop()


@pytest.fixture
def fresh_server() -> Iterator[Callable[[], Server]]:
    """Servers just started. Start one early: it gets ready while the test does something else; then `wait` for it."""
    servers: list[Server] = []

    def start() -> Server:
        servers.append(Server())
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def visits(browser: Browser) -> Visits:
    return Visits(browser)


@pytest.fixture
def visit(visits: Visits, server: Server) -> Iterator[Callable[..., App]]:
    """Opens pages, each as a visitor of its own; in the end nothing may have gone wrong on any of them."""
    with visits.to(server) as visit:
        yield visit


@pytest.fixture
def app(visit: Callable[..., App]) -> App:
    """Step by step, as somebody finds it who has never been here."""
    return visit()
