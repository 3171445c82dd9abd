"""Seconds that a person waits, in a real Chromium: from a choice to the redrawn picture, and from the start to the first one.

    python -m bench.browser            everything
    python -m bench.browser atlas      only walking through the heads of the atlas
    python -m bench.browser first      only choosing SmolLM2 for the first time

Every figure is the median of several rounds. Times hang on the machine, so the machine is named beside them.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass

from playwright.sync_api import Browser, Page, sync_playwright

from check import find_browser
from tests.browser.driver import BROWSER_ARGUMENTS, App, Server
from tests.source_files import ROOT
from ui import state

ROUNDS = 5
SCREEN = {"width": 1280, "height": 720}
SENTENCE = "the cat saw the other cat and sat down "  # nine tokens
MARK = "document.querySelectorAll('.js-plotly-plot').forEach((chart) => { chart.dataset.old = 1; })"
# A changed chart is a new element; its drawn area is there once it is painted.
REDRAWN = "(scope) => document.querySelector(`${scope} .js-plotly-plot:not([data-old]) .nsewdrag`) !== null"
LESSONS = sorted(page.stem for page in (ROOT / "pages/learn").glob("*.py"))


def until_redrawn(page: Page, scope: str, act) -> float:
    """Seconds from a key press to the first redrawn chart within `scope`."""
    page.evaluate(MARK)
    started = time.perf_counter()
    act()
    page.wait_for_function(REDRAWN, arg=scope, polling="raf", timeout=60_000)
    return time.perf_counter() - started


def head_change(app: App, tokens: int) -> float:
    """Median time to the large picture after another head is chosen, for a text of about so many tokens."""
    app.write(state.TEXT, SENTENCE * ((tokens - 2) // 9)).idle()  # two are special tokens
    box = app.widget(state.HEAD).get_by_role("combobox")
    times = []
    for head in range(ROUNDS):
        box.click()
        box.fill(str(head))
        times.append(until_redrawn(app.page, f".st-key-{state.picture('As it is')}", lambda: box.press("Enter")))
        app.idle()
    return statistics.median(times)


@dataclass
class Traffic:
    """Bytes that the server has sent over all WebSockets of a page."""

    received: int = 0

    def listen(self, page: Page) -> Traffic:
        page.on("websocket", lambda socket: socket.on("framereceived", self._count))
        return self

    def _count(self, frame: bytes | str) -> None:
        self.received += len(frame)


def walk(app: App, traffic: Traffic, tokens: int) -> tuple[float, float]:
    """Medians of the time from an arrow key on the atlas to the painted heatmap, and of the megabytes sent for it.

    SmolLM2 reads a text of about so many tokens.
    """
    app.write(state.TEXT, SENTENCE * (tokens // 9))
    app.page.wait_for_timeout(3000)
    asks = app.page.get_by_role("button", name="Run", exact=True)
    if asks.count():
        asks.first.click()  # once: while the work runs the button is still there, and would start it again
        app.page.wait_for_timeout(1000)
    app.until(lambda: _is_there(app), "the text was not read", patience=600)
    app.idle()
    keys = app.widget(state.ARROWS).locator(".keys")
    keys.focus()
    picture = f".st-key-{state.picture('head')}"
    times, sent = [], []
    for turn in range(2 * ROUNDS):
        before = traffic.received
        key = ("ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown")[turn % 4]
        times.append(until_redrawn(app.page, picture, lambda key=key: keys.press(key)))
        app.idle()
        sent.append((traffic.received - before) / 1e6)
    return statistics.median(times), statistics.median(sent)


def _is_there(app: App) -> bool:
    """Whether the head of the new text is drawn."""
    return bool(app.widget(state.picture("head")).count()) and not app.page.locator("[data-stale=true]").count()


def knob(app: App) -> tuple[str, float]:
    """The first slider, number, choice or button of a lesson, and the median time until a picture has changed."""
    app.page.locator(".js-plotly-plot .nsewdrag").first.wait_for()
    main = app.page.locator("[data-testid=stMain]")
    slider, number = main.get_by_role("slider"), main.get_by_role("spinbutton")
    radios = main.locator(f"[role=radiogroup]:not(.st-key-{state.PART} *)").get_by_role("radio")
    box = main.get_by_role("combobox")
    times = []
    for turn in range(ROUNDS):
        if slider.count():
            name, act = "slider", lambda turn=turn: slider.first.press("ArrowLeft" if turn % 2 else "ArrowRight")
        elif number.count():
            name = "number"
            number.first.fill(str(int(float(number.first.input_value())) + 1))
            act = lambda: number.first.press("Enter")  # noqa: E731
        elif box.count():
            name = "choice"
            box.first.click()
            app.page.keyboard.press("ArrowDown")
            act = lambda: app.page.keyboard.press("Enter")  # noqa: E731
        else:
            name, act = "button", lambda turn=turn: radios.nth(turn % 2).click()
        times.append(until_redrawn(app.page, "body", act))
        app.idle()
    return name, statistics.median(times)


def first_figure(browser) -> float:
    """Seconds from `streamlit run` to the first drawn figure, with nothing loaded yet."""
    started = time.perf_counter()
    server = Server()
    context = browser.new_context()
    try:
        server.wait()
        page = context.new_page()
        page.goto(server.address, wait_until="commit")
        page.wait_for_function(REDRAWN, arg="body", polling="raf", timeout=120_000)
        return time.perf_counter() - started
    finally:
        context.close()
        server.stop()


def measure_start(browser: Browser) -> None:
    print(f"first figure after `streamlit run`: {statistics.median(first_figure(browser) for _ in range(3)):.1f} s")


def first_choice(browser: Browser) -> float:
    """Seconds from choosing SmolLM2 to its first painted picture, on a server whose cache folder is empty."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["HEADLIGHT_CACHE"] = cache
        server = Server()
        context = browser.new_context(viewport=SCREEN)
        try:
            app = App(context, server.wait()).open()
            app.widget(state.MODEL).get_by_role("combobox").click()
            option = app.page.get_by_role("option", name="SmolLM2-135M-Instruct", exact=True)
            option.wait_for()
            return until_redrawn(app.page, f".st-key-{state.picture('As it is')}", option.click)
        finally:
            context.close()
            server.stop()
            del os.environ["HEADLIGHT_CACHE"]


def measure_first(browser: Browser) -> None:
    times = [first_choice(browser) for _ in range(3)]
    print(f"first picture after SmolLM2 is chosen for the first time: {statistics.median(times):.1f} s", flush=True)


def measure_steps(browser: Browser, server: Server) -> None:
    app = App(browser.new_context(viewport=SCREEN), server).open()
    for tokens in (32, 128, 512):
        print(f"another head, {tokens:>4} tokens: {head_change(app, tokens):.2f} s")
    for lesson in LESSONS:
        name, seconds = knob(app.open(f"/{lesson}"))
        print(f"{lesson:<15} {name:<7} {seconds:.2f} s")


def measure_atlas(browser: Browser, server: Server) -> None:
    app = App(browser.new_context(viewport=SCREEN), server)
    traffic = Traffic().listen(app.page)
    app.open("/heads?metric=sink&model=SmolLM2-135M-Instruct")
    for tokens in (32, 512, 2048, 4096):
        seconds, megabytes = walk(app, traffic, tokens)
        print(
            f"atlas, arrow key to another head, {tokens:>5,} tokens: {seconds:.2f} s, {megabytes:.2f} MB sent",
            flush=True,
        )


def main() -> None:
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}")
    only = sys.argv[1] if len(sys.argv) > 1 else None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=list(BROWSER_ARGUMENTS))
        if only is None:
            measure_start(browser)
        if only in (None, "first"):
            measure_first(browser)
        if only in (None, "atlas"):
            server = Server().wait()
            measure_atlas(browser, server)
            if only is None:
                measure_steps(browser, server)
            server.stop()
        browser.close()
    print(f"load average at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
