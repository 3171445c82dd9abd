"""One browser and one server for all tests, a page for each, and servers that nobody has visited yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from check import find_browser
from tests.browser.driver import BROWSER_ARGUMENTS, App, Server


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


@pytest.fixture
def visit(browser: Browser, server: Server) -> Iterator[Callable[..., App]]:
    """Opens pages, each as a visitor of its own; in the end nothing may have gone wrong on any of them."""
    contexts = []
    apps: list[App] = []

    def open_page(path: str = "/step_by_step", *, at: Server = server, width: int = 1280, height: int = 900) -> App:
        contexts.append(browser.new_context(viewport={"width": width, "height": height}))
        apps.append(App(contexts[-1], at))
        return apps[-1].open(path)

    yield open_page
    problems = [problem for app in apps for problem in app.problems]
    for context in contexts:
        context.close()
    assert not problems, "\n".join(problems)


@pytest.fixture
def app(visit: Callable[..., App]) -> App:
    """Step by step, as somebody finds it who has never been here."""
    return visit()
