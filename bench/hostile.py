"""Everything in tests/hostile.py through every way in, and whether anything breaks.

    python -m bench.hostile             all of it, about half an hour on 2 idle cores
    python -m bench.hostile texts       every text into every field for text, on every page
    python -m bench.hostile addresses   every bad value under every name of docs/links.md, alone and all at once
    python -m bench.hostile files       every file into every field that takes one, and models whose files lie
    python -m bench.hostile runs        every damage of tests/core/corpus/damages.py to a corpus run, on its page
    python -m bench.hostile browser     texts with markup and scripts on every page, in a real Chromium

All but the last speak the server's own protocol (bench/sessions.py). Something is broken where a page shows an exception or
does not end, or where the server's log has a traceback; in the browser, where a script of the text has run, a dialog has
opened, the console has an error, or anything was asked of another host.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from websockets.exceptions import WebSocketException

from bench.sessions import Left, Visitor, key_of
from check import find_browser
from core import load_model
from tests.browser.driver import BROWSER_ARGUMENTS, App, Server
from tests.core.corpus.damages import damages
from tests.core.corpus.made_runs import SENTENCES, add_map, made_run
from tests.core.corpus.plain import reader
from tests.core.tiny_models import number_words, randomised, tiny
from tests.hostile import MARKUP, RAN, TEXTS, VALUES, files, write_lying_models
from tests.source_files import text
from ui import state

PATIENCE = 90.0
CORPORA = "HEADLIGHT_CORPORA"  # where the server looks for corpus runs
WHOLE = "whole"  # the name of the corpus run that there is
# Names in addresses, and the titles of the pages that know them.
NAMES = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", text(Path("docs/links.md")), re.M)
OWN = {state.SOURCE: "own"}
TEXT_FIELDS = ("text_area", "text_input")
# Opened once each, so that every field for text is there: what a page opens with, and its further sources, parts and views.
MORE = {
    "step_by_step": ({}, OWN, {state.SOURCE: "toy"}, {state.MODEL: "SmolLM2-135M-Instruct"}),
    "generation": ({state.MODEL: "written-dates"},),
    "what_if": ({}, {state.VIEW: "patch"}, {state.VIEW: "compare"}, {state.VIEW: "matter"}),
}


class Tally:
    """What was tried and what broke."""

    def __init__(self) -> None:
        self.tried: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.broken: list[str] = []

    async def run(self, what: str, name: str, visitor: Visitor, act: Awaitable[Any]) -> None:
        """Do one thing on a page and wait until the page has ended."""
        self.tried[what] += 1
        try:
            await act
            answer = await visitor.finished(PATIENCE)
        except (TimeoutError, Left, KeyError, WebSocketException, ValueError) as error:
            self.broken.append(f"{name}: {type(error).__name__} {str(error)[:200]}")
            return
        self.refused[what] += bool(visitor.complaints())
        self.broken += [f"{name}: {exception[:200]}" for exception in answer.exceptions]
        self.broken += [f"{name}: markup in an HTML element" for one in visitor.on_page("html") if RAN in one.body]

    def report(self, log: str) -> None:
        for what, count in self.tried.items():
            print(f"{what}: {count} tried, {self.refused[what]} refused with a message")
        print(f"{len(self.broken)} broken, {log.count('Traceback')} tracebacks in the server's log", flush=True)
        for broken in list(dict.fromkeys(self.broken))[:40]:
            print(f"    {broken}")
        for traceback in sorted(set(re.findall(r"^\w[\w.]*(?:Error|Exception|Warning)\b.*", log, re.M)))[:10]:
            print(f"    log: {traceback[:200]}")


@asynccontextmanager
async def visiting(server: Server, page: str, query: Any = "") -> AsyncIterator[Visitor]:
    async with Visitor(server.address) as visitor:
        await visitor.open(page, query)
        await visitor.finished(PATIENCE)
        yield visitor


async def pages(server: Server) -> dict[str, str]:
    """The title of each page and its name in the address."""
    async with visiting(server, "") as visitor:
        return {page.page_name: page.url_pathname for page in visitor.pages if page.page_name != "Atlas"}


async def try_texts(server: Server, tally: Tally) -> None:
    for page in (await pages(server)).values():
        for query in MORE.get(page, ({},)):
            async with visiting(server, page, query) as visitor:
                keys = text_fields(visitor)
            await type_texts(server, tally, page, query, keys)
            print(f"    /{page} {query}: {', '.join(keys)}", flush=True)


async def type_texts(server: Server, tally: Tally, page: str, query: dict[str, str], keys: list[str]) -> None:
    """Every text into each of these fields of a page, as far as the page still has it."""
    async with visiting(server, page, query) as visitor:
        for key in keys:
            for name, nasty in TEXTS.items():
                if key in text_fields(visitor):
                    await tally.run("texts", f"/{page}, {key}, {name}", visitor, visitor.change(key, nasty))


def text_fields(visitor: Visitor) -> list[str]:
    return [key_of(field.id) for kind in TEXT_FIELDS for field in visitor.on_page(kind)]


async def try_addresses(server: Server, tally: Tally) -> None:
    by_title = await pages(server)
    for page in by_title.values():
        await follow_addresses(server, tally, page)
        print(f"    /{page}: every value under all names", flush=True)
    for at, (key, titles) in enumerate(NAMES):
        for title in by_title.keys() & {title.strip() for title in titles.split(",")}:
            for turn in range(3):  # of sixteen values three for each name, others for the next
                name = list(VALUES)[(3 * at + turn) % len(VALUES)]
                twice = f"{key}={VALUES[name]}&{key}={VALUES[name]}"
                await _follow(server, tally, by_title[title], f"{key}={name}", f"{twice}&{state.SOURCE}=real")


async def follow_addresses(server: Server, tally: Tally, page: str) -> None:
    """Every bad value under all names at once."""
    for name, value in VALUES.items():
        await _follow(server, tally, page, f"all={name}", "&".join(f"{key}={value[:2000]}" for key, _ in NAMES))


async def _follow(server: Server, tally: Tally, page: str, name: str, query: str) -> None:
    async with Visitor(server.address) as visitor:
        await tally.run("addresses", f"/{page}?{name}", visitor, visitor.open(page, query))


async def try_files(server: Server, tally: Tally) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sees, reads = Path(folder, "sees"), Path(folder, "reads")
        tiny("ViT").save_pretrained(sees)
        randomised(tiny("BERT")).save_pretrained(reads)
        number_words().save_pretrained(reads)
        ways = [(page, {}) for page in (await pages(server)).values()]
        ways += [("step_by_step", OWN), ("step_by_step", {state.MODEL: str(sees)})]
        for page, query in ways:
            async with visiting(server, page, query) as visitor:
                fields = [(key_of(field.id), field.type[0]) for field in visitor.on_page("file_uploader")]
            for key, ending in fields:
                for name, content in files().items():
                    async with visiting(server, page, query) as visitor:
                        given = visitor.upload(key, f"{name}{ending}", content)
                        await tally.run("files", f"/{page}, {key}, {name}", visitor, given)
                print(f"    /{page}, {key}: every file as {ending}", flush=True)
        for name, lying in write_lying_models(reads, Path(folder)).items():
            async with visiting(server, "step_by_step", {state.TEXT: "5 6"}) as visitor:
                await tally.run("models", name, visitor, visitor.change(state.MODEL, str(lying)))


async def try_runs(server: Server, tally: Tally) -> None:
    """Each damaged run beside a whole one, with what the page shows first, and with what reads other files."""
    looks = f"&{state.KEPT}=spread&{state.HEADS_AS}=map&{state.LOOKS_BY}=relation"
    runs = Path(os.environ[CORPORA])
    with tempfile.TemporaryDirectory() as made:
        other = make_run(Path(made, "other"), SENTENCES[:3])
        for number, (name, damage) in enumerate(damages(runs / WHOLE, other).items()):
            damage(Path(shutil.copytree(runs / WHOLE, runs / f"run{number}")))
            chosen = f"{state.RUN}=run{number}&{state.LAYER}=1&{state.HEAD}=3&{state.METRIC}=previous"
            for query in (chosen, chosen + looks):
                async with Visitor(server.address) as visitor:
                    await tally.run("runs", f"{name}, {query}", visitor, visitor.open("corpus", query))
            shutil.rmtree(runs / f"run{number}")


def make_run(folder: Path, sentences: tuple[str, ...] = SENTENCES) -> Path:
    """A small finished run."""
    made_run(folder, load_model(randomised(tiny("BERT")), tokenizer=reader()), sentences=sentences)
    add_map(folder)
    return folder


def try_browser(server: Server, tally: Tally) -> None:
    fields = asyncio.run(_text_fields(server))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=list(BROWSER_ARGUMENTS))
        for page, keys in fields.items():
            for name in MARKUP:
                query = "&".join(f"{key}={_quoted(TEXTS[name])}" for key in keys)
                context = browser.new_context()
                app = App(context, server).open(f"/{page}?{state.SOURCE}=real&{query}")
                app.page.mouse.move(600, 400)  # what is shown when pointing at something is markup too
                app.page.wait_for_timeout(300)
                tally.tried["in a browser"] += 1
                where = f"/{page}, {name}"
                tally.broken += [f"{where}: {problem[:200]}" for problem in app.problems]
                if app.page.evaluate(f"window.{RAN}"):
                    tally.broken.append(f"{where}: a script ran")
                context.close()
            print(f"    /{page}: {', '.join(keys)}", flush=True)
        browser.close()


async def _text_fields(server: Server) -> dict[str, list[str]]:
    """The fields for text that each page opens with; their keys are their names in the address."""
    found = {}
    for page in (await pages(server)).values():
        async with visiting(server, page) as visitor:
            found[page] = text_fields(visitor)
    return found


def _quoted(value: str) -> str:
    return "".join(f"%{byte:02X}" for byte in value.encode())


def main() -> None:
    only = sys.argv[1] if len(sys.argv) > 1 else None
    ways: dict[str, Callable[[Server, Tally], Any]] = {
        "texts": try_texts,
        "addresses": try_addresses,
        "files": try_files,
        "runs": try_runs,
        "browser": try_browser,
    }
    for name, way in ways.items():
        if only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.environ[CORPORA] = folder
            make_run(Path(folder, WHOLE))
            server, tally = Server().wait(), Tally()
            try:
                if asyncio.iscoroutinefunction(way):
                    asyncio.run(way(server, tally))
                else:
                    way(server, tally)
            finally:
                tally.report(server.log())
                server.stop()


if __name__ == "__main__":
    main()
