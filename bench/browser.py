"""Seconds that a person waits, in a real Chromium: from a choice to the redrawn picture, and from the start to the first one.

    python -m bench.browser            everything
    python -m bench.browser short      another head and stage at 32 tokens and the opened pages, in about a minute
    python -m bench.browser lengths    only another head, stage and page, on short and long texts
    python -m bench.browser opening    only opening pages, beside the smallest page with a heatmap
    python -m bench.browser changing   only changing something on What if, beside a plain pass over the same text
    python -m bench.browser lessons    only the knobs of the lessons
    python -m bench.browser talk       only a talk of ten views by keys alone, without a network
    python -m bench.browser corpus     only the page Corpus, on the finished runs that are there
    python -m bench.browser first      only choosing SmolLM2 for the first time

After *lengths* and *changing* stand the numbers of tokens to measure, if not all: `changing 512`. Every figure is the median
of several rounds. Times hang on the machine, so the machine is named beside them.
"""

from __future__ import annotations

import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from urllib.parse import urlencode

import psutil
import torch
from playwright.sync_api import Browser, Page

from bench.measuring import chromium, load_average, quartiles
from core import capture, load_model
from core.corpus.opened import runs_in
from tests.browser.driver import App, Server
from tests.source_files import ROOT
from tests.test_gallery import disagreement, shown
from ui import state
from ui.gallery.views import CARDS

ROUNDS = 5
SCREEN = {"width": 1280, "height": 720}
SENTENCE = "the cat saw the other cat and sat down "  # nine tokens
MARK = "document.querySelectorAll('.js-plotly-plot').forEach((chart) => { chart.dataset.old = 1; })"
# A changed chart is a new element; its drawn area is there once it is painted.
REDRAWN = "(scope) => document.querySelector(`${scope} .js-plotly-plot:not([data-old]) .nsewdrag`) !== null"
# The script has ended and every figure is drawn.
RESTS = """
() => document.querySelector("[data-testid=stApp]").dataset.testScriptState === "notRunning"
    && document.querySelector("[class*=st-key-picture_]:not(:has(.js-plotly-plot))") === null
"""
# What a component shows that draws itself, and whether that is another text than it was.
TOKENS = """
(scope) => [...document.querySelectorAll(`${scope} *`)].map((node) => node.shadowRoot?.querySelector(".tokens")?.innerHTML)
    .find(Boolean) ?? ""
"""
OTHER = f"([scope, was]) => {{ const now = ({TOKENS})(scope); return now !== '' && now !== was; }}"
# All that an audience sees, frame by frame: window.changed is when it last changed.
SEEN = f"""
() => {{
    const seen = () => [
        ({TOKENS})("body"), ...[...document.querySelectorAll(".js-plotly-plot .main-svg, [class*=st-key-told]")].map(
            (node) => node.outerHTML),
    ].join();
    let was = "";
    const look = () => {{
        const now = seen();
        if (now !== was) [was, window.changed] = [now, performance.now()];
        requestAnimationFrame(look);
    }};
    look();
}}
"""
# Cards of the gallery, in its order, whose number stands on the stage: of three models and of lessons
TALK = (
    "pronoun", "induction", "paris", "generation", "date", "patching", "two_sentences", "rotary", "entropy", "gradients"
)  # fmt: skip
ELSEWHERE = re.compile(r"^\w+://(?!localhost[:/])")
LESSONS = sorted(page.stem for page in (ROOT / "pages/learn").glob("*.py"))


def until_redrawn(page: Page, scope: str, act) -> float:
    """Seconds from a key press to the first redrawn chart within `scope`."""
    page.evaluate(MARK)
    started = time.perf_counter()
    act()
    page.wait_for_function(REDRAWN, arg=scope, polling="raf", timeout=60_000)
    return time.perf_counter() - started


def until_other(page: Page, scope: str, act) -> float:
    """Seconds from an act until other tokens stand within `scope`, or any at all."""
    was = page.evaluate(TOKENS, scope)
    started = time.perf_counter()
    act()
    page.wait_for_function(OTHER, arg=[scope, was], polling="raf", timeout=60_000)
    return time.perf_counter() - started


@dataclass
class Traffic:
    """Bytes that the server has sent over all WebSockets of a page."""

    received: int = 0

    def listen(self, page: Page) -> Traffic:
        page.on("websocket", lambda socket: socket.on("framereceived", self._count))
        return self

    def _count(self, frame: bytes | str) -> None:
        self.received += len(frame)


def read(app: App, tokens: int, picture: str) -> None:
    """Let SmolLM2 read a text of about so many tokens, and wait for the picture of that name."""
    app.write(state.TEXT, SENTENCE * (tokens // 9))
    app.page.wait_for_timeout(3000)
    asks = app.page.get_by_role("button", name="Run", exact=True)
    if asks.count():
        asks.first.click()  # once: while the work runs the button is still there, and would start it again
        app.page.wait_for_timeout(1000)
    app.eventually(lambda: _is_there(app, picture), patience=600)
    app.idle()


def walk(app: App, traffic: Traffic, picture: str, keys: Sequence[str]) -> tuple[float, float]:
    """Medians of the time from an arrow key on the page's line to that picture painted, and of the megabytes sent for it."""
    line = app.widget(state.ARROWS).locator(".keys")
    line.focus()
    scope = f".st-key-{state.picture(picture)}"
    times, sent = [], []
    for turn in range(2 * ROUNDS):
        key, before = keys[turn % len(keys)], traffic.received
        times.append(until_redrawn(app.page, scope, lambda key=key: line.press(key)))
        app.idle()
        sent.append((traffic.received - before) / 1e6)
    return statistics.median(times), statistics.median(sent)


def choose_heads(app: App, traffic: Traffic) -> tuple[float, float]:
    """The same from the choice of another head on Step by step to its open stage."""
    box = app.widget(state.HEAD_BOX).get_by_role("combobox")
    times, sent = [], []
    for head in range(ROUNDS):
        before = traffic.received
        box.click()
        box.fill(f"Head 5.{head}")
        scope = f".st-key-{state.picture('As it is')}"
        times.append(until_redrawn(app.page, scope, lambda: box.press("Enter")))
        app.idle()
        sent.append((traffic.received - before) / 1e6)
    return statistics.median(times), statistics.median(sent)


def turn_page(app: App, traffic: Traffic, name: str, picture: str) -> tuple[float, float]:
    """Seconds and megabytes from a click on a page's name to its large picture."""
    before = traffic.received
    link = app.page.get_by_role("link", name=name, exact=True).first
    seconds = until_redrawn(app.page, f".st-key-{state.picture(picture)}", link.click)
    app.idle()
    return seconds, (traffic.received - before) / 1e6


def _is_there(app: App, picture: str) -> bool:
    """Whether that picture of the new text is drawn."""
    return bool(app.widget(state.picture(picture)).count()) and not app.page.locator("[data-stale=true]").count()


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
        page.goto(f"{server.address}/step_by_step", wait_until="commit")
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


def measure_lengths(browser: Browser, server: Server) -> None:
    """Another head, another stage and another page, on short and long texts."""
    for tokens in lengths(32, 512, 2048, 4096):
        measure_length(browser, server, tokens)


def measure_length(browser: Browser, server: Server, tokens: int) -> None:
    app, traffic = _step_by_step(browser, server, tokens)
    app.page.get_by_role("link", name="Heads", exact=True).click()
    read(app, tokens, "head")
    found = {
        "Heads, another head": walk(app, traffic, "head", ("ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown")),
        "from Heads to Step by step": turn_page(app, traffic, "Step by step", "As it is"),
        "from Step by step to Heads": turn_page(app, traffic, "Heads", "head"),
    }
    _tell(tokens, found)
    app.page.context.close()


def _step_by_step(browser: Browser, server: Server, tokens: int) -> tuple[App, Traffic]:
    """Measure another head and stage on Step by step; return the page."""
    app = App(browser.new_context(viewport=SCREEN), server)
    traffic = Traffic().listen(app.page)
    app.open("/step_by_step?model=SmolLM2-135M-Instruct")
    read(app, tokens, "As it is")
    found = {
        "Step by step, another head": choose_heads(app, traffic),
        "Step by step, another stage": walk(app, traffic, "As it is", ("ArrowLeft", "ArrowLeft", "ArrowRight")),
    }
    _tell(tokens, found)
    return app, traffic


def _tell(tokens: int, found: Mapping[str, tuple[float, float]]) -> None:
    for what, (seconds, megabytes) in found.items():
        print(f"{tokens:>5,} tokens, {what}: {seconds:.2f} s, {megabytes:.2f} MB sent", flush=True)


def measure_changing(browser: Browser, server: Server) -> None:
    """Another head muted with a click, on a short and a long text, in the top quarter of the layers and below: to the
    probabilities, which come first, and to the picture after. In as many threads as the server has."""
    torch.set_num_threads(1)
    model = load_model("SmolLM2-135M-Instruct")
    for tokens, lowest in product(lengths(16, 512), (23, 10, 0)):
        text = (SENTENCE * (tokens // 9 + 1)).rsplit(" ", 10 - tokens % 9)[0]
        muted = [f"mute {lowest + turn // 3}.{turn % 3}" for turn in range(2 * ROUNDS + 1)]
        changes = [("edit", f"off {line}") for line in muted]
        asked = urlencode([("text", text), ("model", model.name), ("layer", "29"), ("head", "2"), *changes])
        app = App(browser.new_context(viewport=SCREEN), server).open(f"/what_if?{asked}")
        app.widget(state.picture("compared first")).locator(".js-plotly-plot").wait_for()
        app.idle()
        waited: dict[str, list[float]] = {"outcome": [], "compared second": []}
        passes = []
        for line in muted:  # the first is dropped
            started = time.perf_counter()
            capture(model, text, max_tokens=tokens, truncate=True)
            passes.append(time.perf_counter() - started)
            box = app.page.locator("label").filter(has_text=line)
            app.page.evaluate(MARK)
            started = time.perf_counter()
            box.click()
            for name, times in waited.items():
                scope = f".st-key-{state.picture(name).replace(' ', '_')}"
                app.page.wait_for_function(REDRAWN, arg=scope, polling="raf", timeout=60_000)
                times.append(time.perf_counter() - started)
            app.idle()
            box.click()
            app.idle()
        for what, times in zip(("probabilities", "picture"), waited.values(), strict=True):
            ratios = [seconds / plain for seconds, plain in zip(times, passes, strict=True)][1:]
            beyond = statistics.median(seconds - plain for seconds, plain in zip(times[1:], passes[1:], strict=True))
            print(
                f"{tokens:>5,} tokens, a head muted from layer {lowest} on, to the {what}: {quartiles(times[1:], 2)} s, "
                f"{quartiles(ratios, 2)} passes, {beyond:.2f} s beyond a pass",
                flush=True,
            )
        app.page.context.close()


def lengths(*otherwise: int) -> Sequence[int]:
    """The numbers of tokens that the command names, or these."""
    return tuple(map(int, sys.argv[2:])) or otherwise


def opening(browser: Browser, address: str, scope: str) -> tuple[float, float]:
    """Seconds from a first visit until a figure within `scope` is painted, and until the page rests."""
    context = browser.new_context(viewport=SCREEN)
    page = context.new_page()
    started = time.perf_counter()
    page.goto(address, wait_until="commit")
    page.wait_for_function(REDRAWN, arg=scope, polling="raf", timeout=60_000)
    painted = time.perf_counter() - started
    page.wait_for_function(RESTS, polling="raf", timeout=60_000)
    rests = time.perf_counter() - started
    context.close()
    return painted, rests


def measure_short(browser: Browser, server: Server) -> None:
    """What people wait for most often, for comparing one commit with the next."""
    _step_by_step(browser, server, 32)[0].page.context.close()
    measure_opening(browser, server, rounds=2)


def measure_opening(browser: Browser, server: Server, rounds: int = 2 * ROUNDS) -> None:
    """Opening the pages of a running server, beside the smallest Streamlit page with one heatmap, in turns.

    The first round is dropped."""
    smallest = Server("bench/one_heatmap.py").wait()
    pages = {
        "one heatmap": (smallest.address, "body"),
        "Step by step": (f"{server.address}/step_by_step", f".st-key-{state.picture('As it is')}"),
        "Heads": (f"{server.address}/heads", f".st-key-{state.picture('head')}"),
    }
    times = [{name: opening(browser, *page) for name, page in pages.items()} for _ in range(rounds + 1)][1:]
    for name in pages:
        painted, rests = (statistics.median(one[name][at] for one in times) for at in (0, 1))
        ratio = statistics.median(one[name][0] / one["one heatmap"][0] for one in times)
        print(
            f"opening {name}: {painted:.2f} s to its picture, {rests:.2f} s to the last, {ratio:.2f} times one heatmap"
        )
    smallest.stop()


def measure_lessons(browser: Browser, server: Server) -> None:
    app = App(browser.new_context(viewport=SCREEN), server).open()
    for lesson in LESSONS:
        name, seconds = knob(app.open(f"/{lesson}"))
        print(f"{lesson:<15} {name:<7} {seconds:.2f} s")


def measure_talk(browser: Browser, server: Server) -> None:
    """Ten views of the gallery, prepared by the page: from a key to the last change of what each view shows."""
    context = browser.new_context(viewport=SCREEN)
    context.route(ELSEWHERE, lambda route: route.abort())
    app = App(context, server).open("/talk")
    for word in TALK:
        app.toggle(state.CARDS_CHOSEN, CARDS[word].title)
    app.idle().widget(state.ADD_CARDS).get_by_role("button").click()
    app.page.get_by_role("button", name="Prepare").click()
    app.page.get_by_text(f"{len(TALK)} of {len(TALK)} views are ready").wait_for(timeout=300_000)
    app.page.evaluate(SEEN)
    rounds = [_present(app) for _ in range(ROUNDS)]
    assert not app.problems, app.problems
    for word, *times in zip(TALK, *rounds, strict=True):
        print(f"view {word:<13} median {statistics.median(times):.2f} s, worst {max(times):.2f} s", flush=True)
    context.close()


def _present(app: App) -> list[float]:
    """Seconds until each view of the talk is drawn, with the number of its card."""
    app.go("/talk").page.get_by_role("button", name="Start").focus()
    times = []
    for word, key in zip(TALK, ("Enter", *["PageDown"] * (len(TALK) - 1)), strict=True):
        pressed = app.page.evaluate("performance.now()")
        app.page.keyboard.press(key)
        place = app.widget(state.STAGE_KEYS).locator(".place", has_text=f"{TALK.index(word) + 1} / {len(TALK)}")
        place.wait_for()
        times.append((app.idle().page.evaluate("window.changed") - pressed) / 1000)
        trouble = disagreement(word, shown(word, app.page.get_by_test_id("stMain").inner_text(), app.drawn))
        assert trouble is None, trouble
    app.page.keyboard.press("Escape")
    app.idle()
    return times


def measure_corpus(browser: Browser, server: Server) -> None:
    """Each finished run: opening it for the first time, another head, another filter, and the memory of the server."""
    process = psutil.Process(server.process_id)
    for run in runs_in(ROOT / os.environ.get("HEADLIGHT_CORPORA", "corpora")):
        before = process.memory_info().rss / 1e6
        app = App(browser.new_context(viewport=SCREEN), server)
        times, opened = walk_corpus(app, run.name, process)
        print(
            f"{run.name}: {', '.join(f'{what} {seconds:.2f} s' for what, seconds in times.items())}\n"
            f"{run.name}: the server has {before:,.0f} MB, {opened:,.0f} with the run open, "
            f"{process.memory_info().rss / 1e6:,.0f} in the end",
            flush=True,
        )
        app.page.context.close()


def walk_corpus(app: App, run: str, process: psutil.Process) -> tuple[dict[str, float], float]:
    """Seconds of each, and the megabytes of the server once the run is open."""
    asked = urlencode({"run": run, "metric": "previous", "layer": 0, "head": 0, "kept": "spread"})
    first, looks = f".st-key-{state.one_of(state.SHADED, 0)}", f".st-key-{state.picture('looks')}"
    opening = until_other(app.page, first, lambda: app.page.goto(f"{app.server.address}/corpus?{asked}"))
    app.idle()
    opened = process.memory_info().rss / 1e6
    grid = app.widget(state.ARROWS).locator(".keys")
    upper = app.widget(state.QUANTILES).get_by_role("slider").nth(1)
    pictures, examples, filtered = [], [], []
    grid.focus()
    for _ in range(ROUNDS):
        pictures.append(until_redrawn(app.page, looks, lambda: grid.press("ArrowRight")))
        app.idle()
        examples.append(until_other(app.page, first, lambda: grid.press("ArrowDown")))
        app.idle()
    upper.focus()
    for _ in range(ROUNDS):
        filtered.append(until_other(app.page, first, lambda: upper.press("PageDown")))
        app.idle()
    return {
        "opened, to the first example": opening,
        "another head, to its picture": statistics.median(pictures),
        "another head, to its first example": statistics.median(examples),
        "another filter, to the first example": statistics.median(filtered),
    }, opened


MEASURES = {
    "short": measure_short,  # a part of the others, which "everything" leaves out
    "corpus": measure_corpus,
    "lengths": measure_lengths,
    "changing": measure_changing,
    "opening": measure_opening,
    "lessons": measure_lessons,
    "talk": measure_talk,
}


def main() -> None:
    only = sys.argv[1] if len(sys.argv) > 1 else None
    with load_average(), chromium() as browser:
        if only is None:
            measure_start(browser)
        if only in (None, "first"):
            measure_first(browser)
        if only is None or only in MEASURES:
            server = Server().wait()
            for name, measure in MEASURES.items():
                if name == only or (only is None and name != "short"):
                    measure(browser, server)
            server.stop()


if __name__ == "__main__":
    main()
