"""One browser and one server for all tests, visitors, and servers that nobody has visited yet."""

import os
import re
from collections.abc import Callable, Generator, Iterator
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import pytest
from playwright.sync_api import Frame, Locator, Page

from tests.browser.driver import STILL, App, Chromium, Server, Visits, deadlines, told_of
from tests.ended import Ended
from tests.source_files import ROOT

SCREENSHOTS = ROOT / "screenshots"


def pytest_itemcollected(item: pytest.Function) -> None:
    if {"browser", "server"} & set(item.fixturenames):
        item.add_marker(pytest.mark.browser)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Beside what failed stands what its pages show and have said last, and what the servers have written: the page of a
    server that fails says only that it does. A browser that had to be interrupted may never answer again, so it goes."""
    report = yield
    if report.failed:
        SCREENSHOTS.mkdir(exist_ok=True)
        name = re.sub(r"\W+", "-", item.name)
        pages = [page for browser in Chromium.running for page in browser.pages]
        for number, page in enumerate(pages):
            report.sections.append((f"Page {number}", told_of(page, SCREENSHOTS / f"{name}-{number}.png")))
        tails = [(f"Log of {server.address}", "\n".join(server.log().splitlines()[-40:])) for server in Server.running]
        report.sections += tails
    if call.excinfo is not None and isinstance(call.excinfo.value, Ended):
        for browser in Chromium.running:
            browser.end()
    return report


# What Playwright tells of a page at one moment.
LOOKS = {"all", "all_inner_texts", "all_text_contents", "aria_snapshot", "bounding_box", "content", "count", "evaluate"}
LOOKS |= {"element_handle", "element_handles", "eval_on_selector", "eval_on_selector_all", "evaluate_all", "title"}
LOOKS |= {"evaluate_handle", "get_attribute", "inner_html", "inner_text", "input_value", "query_selector"}
LOOKS |= {"is_checked", "is_disabled", "is_editable", "is_enabled", "is_hidden", "is_visible", "text_content"}
LOOKS |= {"query_selector_all"}


class Unseen:
    """What a page shows before anybody has waited for it. Something may be done there, whatever comes of it; nobody may use
    what is seen."""

    def _refuse(self, *_: object) -> NoReturn:
        raise AssertionError("A page is looked at once, which may not be drawn yet; `eventually` waits for it.")

    __bool__ = __eq__ = __getattr__ = __str__ = _refuse
    __hash__ = None


def waited_for(look: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(look)
    def looks(*given: Any, **options: Any) -> Any:
        seen = look(*given, **options)
        return seen if deadlines else Unseen()

    return looks


@pytest.fixture(scope="package", autouse=True)
def nobody_looks_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for kind in (Page, Frame, Locator):
            for name in LOOKS & vars(kind).keys():
                patch.setattr(kind, name, waited_for(vars(kind)[name]))
        patch.setattr(Page, "url", property(waited_for(Page.url.fget)))
        yield


@pytest.fixture(scope="package")
def browser() -> Iterator[Chromium]:
    browser = Chromium()
    yield browser
    browser.stop()


@pytest.fixture(scope="package")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server looks for runs over a corpus: there are none, as where Headlight has just been installed."""
    return tmp_path_factory.mktemp("corpora")


@pytest.fixture(scope="package")
def server(corpora: Path) -> Iterator[Server]:
    with mock.patch.dict(os.environ, {"HEADLIGHT_CORPORA": str(corpora)}):
        server = Server()
    try:
        yield server.wait()
    finally:
        server.stop()


@pytest.fixture(scope="package")
def visits(browser: Chromium) -> Visits:
    return Visits(browser)


@pytest.fixture
def visit(visits: Visits, server: Server) -> Iterator[Callable[..., App]]:
    """Opens pages, each as a visitor of its own; in the end nothing may have gone wrong on any of them."""
    with visits.to(server) as visit:
        yield visit


@pytest.fixture(scope="package")
def regular(visits: Visits, server: Server) -> Iterator[App]:
    """A visitor who stays for all tests that follow."""
    visits.forget_pages()
    with visits.to(server) as visit:
        yield visit("/softmax")


@pytest.fixture
def go(browser: Chromium, regular: App) -> Iterator[Callable[..., App]]:
    """Opens addresses one after the other in one session, for half of what a visitor of one's own takes. In the end nothing
    may have gone wrong."""

    def go(path: str) -> App:
        if not browser.has(regular.page):
            regular.settle_in(browser.new_context(**STILL)).open("/softmax")
        regular.page.mouse.move(0, 0)
        regular.page.set_viewport_size({"width": 1280, "height": 900})
        return regular.go(path)

    yield go
    problems = [*regular.problems]
    regular.problems.clear()
    regular.sent.clear()
    assert not problems, "\n".join(problems)


@pytest.fixture
def app(go: Callable[[str], App]) -> App:
    """Step by step, as it opens."""
    return go("/step_by_step")
