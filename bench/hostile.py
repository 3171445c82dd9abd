"""Everything in tests/hostile.py and bench/hostile_files.py through every way in, and whether anything breaks.

    python -m bench.hostile             all of it, about 35 minutes on 2 idle cores
    python -m bench.hostile texts       every text into every field for text, on every page
    python -m bench.hostile addresses   every bad value under every name of docs/links.md, alone and all at once
    python -m bench.hostile files       every file into every field that takes one, and models whose files lie
    python -m bench.hostile long        10,000 hostile characters in every field, name of an address, change, file and header
    python -m bench.hostile runs        every damage of tests/core/corpus/damages.py to a corpus run, on its page
    python -m bench.hostile browser     texts with markup and scripts on every page, in a real Chromium
    python -m bench.hostile parsers     10,000 hostile characters to everything that reads others' texts, without a server

All but the last two speak the server's own protocol (bench/sessions.py). Something is broken where a page shows an exception or
does not end, or where the server's log has a traceback; in the browser, where a script of the text has run, a dialog has
opened, the console has an error, or anything was asked of another host; where 10,000 characters are sent, where they take more
processor time than there is for them. Beside each server somebody else changes a light page and asks for its health all the
time (bench/bystander.py): how long that took at most is said at the end of each way.
"""

import asyncio
import os
import re
import shutil
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import psutil
from websockets.exceptions import WebSocketException

from bench.bystander import Bystander
from bench.hostile_files import files, write_lying_models
from bench.measuring import chromium
from bench.sessions import Left, Visitor, key_of
from core import load_model
from core.models.catalogue import CATALOGUE
from core.models.inputs import all_inputs, chat_ids
from core.models.words import token_classes, word_starts
from tests.browser.driver import App, Server
from tests.core.corpus.damages import damages
from tests.core.corpus.made_runs import SENTENCES, add_map, made_run
from tests.core.corpus.plain import reader
from tests.core.tiny_models import number_words, randomised, tiny
from tests.hostile import MARKUP, RAN, TEXTS, VALUES, TooSlow, long_texts, processor_time
from tests.parsers import EDITS, PARSERS, Parser
from tests.source_files import text
from ui import state
from ui.views.what_if.edit_list import MAX_LINES

PATIENCE = 90.0
# Of processor time. A parser has it for itself; the server's is that of a whole page, and of the bystander's meanwhile.
PARSER_SECONDS, SERVER_SECONDS = 0.5, 5.0
TOKENS = "HEADLIGHT_TOKENS", "256"  # long texts are to be read, and not to be computed for long
EACH = 6  # long texts for each field; which ones they are goes round
HEADERS = ("Cookie", "Range", "Accept-Encoding", "If-None-Match", "If-Modified-Since", "Origin", "X-Forwarded-For")
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


class Outcomes:
    """What was tried and what broke.

    seconds  of processor time for one try, or None
    """

    def __init__(self, process: int, seconds: float | None = None) -> None:
        self.tried: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.broken: list[str] = []
        self._process, self._seconds = psutil.Process(process), seconds
        self._most: dict[str, tuple[float, str]] = {}

    async def run(self, what: str, name: str, visitor: Visitor, act: Awaitable[Any]) -> None:
        """Do one thing on a page and wait until the page has ended."""
        self.tried[what] += 1
        before = self.processor_time()
        try:
            await act
            answer = await visitor.finished(PATIENCE)
        except (TimeoutError, Left, KeyError, WebSocketException, ValueError) as error:
            self.broken.append(f"{name}: {type(error).__name__} {str(error)[:200]}")
            return
        self.spent(what, name, self.processor_time() - before)
        self.refused[what] += bool(visitor.complaints())
        self.broken += [f"{name}: {exception[:200]}" for exception in answer.exceptions]
        self.broken += [f"{name}: markup in an HTML element" for one in visitor.on_page("html") if RAN in one.body]

    def spent(self, what: str, name: str, seconds: float) -> None:
        """Note the processor time of one try."""
        self._most[what] = max(self._most.get(what, (0.0, "")), (seconds, name))
        if self._seconds is not None and seconds > self._seconds:
            self.broken.append(f"{name}: {seconds:.1f} s of processor time")

    def processor_time(self) -> float:
        times = self._process.cpu_times()
        return times.user + times.system + times.children_user + times.children_system

    def report(self, log: str) -> None:
        for what, count in self.tried.items():
            seconds, name = self._most.get(what, (0.0, ""))
            most = f", {seconds:.2f} s of processor time at most ({name})" if name else ""
            print(f"{what}: {count} tried, {self.refused[what]} refused with a message{most}")
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


async def try_texts(server: Server, outcomes: Outcomes) -> None:
    for page in (await pages(server)).values():
        for query in MORE.get(page, ({},)):
            async with visiting(server, page, query) as visitor:
                keys = text_fields(visitor)
            await type_texts(server, outcomes, page, query, keys)
            print(f"    /{page} {query}: {', '.join(keys)}", flush=True)


async def type_texts(server: Server, outcomes: Outcomes, page: str, query: dict[str, str], keys: list[str]) -> None:
    """Every text into each of these fields of a page, as far as the page still has it."""
    async with visiting(server, page, query) as visitor:
        for key in keys:
            for name, nasty in TEXTS.items():
                if key in text_fields(visitor):
                    await outcomes.run("texts", f"/{page}, {key}, {name}", visitor, visitor.change(key, nasty))


def text_fields(visitor: Visitor) -> list[str]:
    return [key_of(field.id) for kind in TEXT_FIELDS for field in visitor.on_page(kind)]


async def try_addresses(server: Server, outcomes: Outcomes) -> None:
    by_title = await pages(server)
    for page in by_title.values():
        await follow_addresses(server, outcomes, page)
        print(f"    /{page}: every value under all names", flush=True)
    for at, (key, titles) in enumerate(NAMES):
        for title in by_title.keys() & {title.strip() for title in titles.split(",")}:
            for turn in range(3):  # of sixteen values three for each name, others for the next
                name = list(VALUES)[(3 * at + turn) % len(VALUES)]
                twice = f"{key}={VALUES[name]}&{key}={VALUES[name]}"
                await _follow(server, outcomes, by_title[title], f"{key}={name}", f"{twice}&{state.SOURCE}=real")


async def follow_addresses(server: Server, outcomes: Outcomes, page: str) -> None:
    """Every bad value under all names at once."""
    for name, value in VALUES.items():
        await _follow(server, outcomes, page, f"all={name}", "&".join(f"{key}={value[:2000]}" for key, _ in NAMES))


async def _follow(server: Server, outcomes: Outcomes, page: str, name: str, query: str) -> None:
    async with Visitor(server.address) as visitor:
        await outcomes.run("addresses", f"/{page}?{name}", visitor, visitor.open(page, query))


async def try_files(server: Server, outcomes: Outcomes) -> None:
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
                        await outcomes.run("files", f"/{page}, {key}, {name}", visitor, given)
                print(f"    /{page}, {key}: every file as {ending}", flush=True)
        for name, lying in write_lying_models(reads, Path(folder)).items():
            async with visiting(server, "step_by_step", {state.TEXT: "5 6"}) as visitor:
                await outcomes.run("models", name, visitor, visitor.change(state.MODEL, str(lying)))


# --- ten thousand characters


async def try_long(server: Server, outcomes: Outcomes) -> None:
    texts = cycle(long_texts())
    for page in (await pages(server)).values():
        for query in MORE.get(page, ({},)):
            await long_fields(server, outcomes, page, query, texts)
        print(f"    /{page}: every field and every upload", flush=True)
    await long_addresses(server, outcomes, texts)
    print("    every name of an address", flush=True)
    await long_changes(server, outcomes)
    print("    changes of a what-if", flush=True)
    await long_headers(server, outcomes)
    print(f"    {', '.join(HEADERS)}", flush=True)


async def long_fields(
    server: Server, outcomes: Outcomes, page: str, query: dict[str, str], texts: Iterator[str]
) -> None:
    async with visiting(server, page, query) as visitor:
        uploads = [(key_of(field.id), field.type[0]) for field in visitor.on_page("file_uploader")]
        for key in text_fields(visitor):
            for long in islice(texts, EACH):
                if key in text_fields(visitor):
                    await outcomes.run(
                        "long texts", f"/{page}, {key}, {_named(long)}", visitor, visitor.change(key, long)
                    )
    for key, ending in uploads:
        for long in islice(texts, EACH):
            async with visiting(server, page, query) as visitor:
                given = visitor.upload(key, f"long{ending}", long.encode())
                await outcomes.run("long files", f"/{page}, {key}, {_named(long)}", visitor, given)


async def long_addresses(server: Server, outcomes: Outcomes, texts: Iterator[str]) -> None:
    by_title = await pages(server)
    for key, titles in NAMES:
        for title in by_title.keys() & {title.strip() for title in titles.split(",")}:
            long = next(texts)
            query = urlencode({key: long, state.SOURCE: "real"})
            async with Visitor(server.address) as visitor:
                act = visitor.open(by_title[title], query)
                await outcomes.run("long addresses", f"/{by_title[title]}?{key}={_named(long)}", visitor, act)


async def long_changes(server: Server, outcomes: Outcomes) -> None:
    """Every beginning of a change with some texts; and as many lines as a page takes."""
    for beginning in EDITS:
        for long in islice(long_texts(beginning), 0, None, 9):
            for lines in ([long], [f"{long}{number}" for number in range(MAX_LINES)]):
                async with Visitor(server.address) as visitor:
                    act = visitor.open("what_if", urlencode({"edit": lines}, doseq=True))
                    await outcomes.run("long changes", f"{len(lines)} times {_named(long)}", visitor, act)


async def long_headers(server: Server, outcomes: Outcomes) -> None:
    """Sent as they are, and refused or answered by the server before any page is asked."""
    for header in HEADERS:
        for long in long_texts(*{"Cookie": ("", "_streamlit_xsrf=2|"), "Range": ("", "bytes=")}.get(header, ("",))):
            value = quote(long, safe=" !\"#$&'()*+,-./:;<=>?@[]^_`{|}~")
            outcomes.tried["long headers"] += 1
            begun = outcomes.processor_time()
            if not await asyncio.to_thread(_sent, server.port, header, value):
                outcomes.broken.append(f"{header}: {_named(long)}: no answer")
            outcomes.spent("long headers", f"{header}: {_named(long)}", outcomes.processor_time() - begun)


def _sent(port: int, header: str, value: str) -> bool:
    """Whether the server answers a request for the page with this header."""
    request = f"GET / HTTP/1.1\r\nHost: localhost:{port}\r\n{header}: {value}\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("localhost", port), PATIENCE) as connection:
        connection.settimeout(PATIENCE)
        connection.sendall(request.encode("latin-1"))
        return connection.recv(12).startswith(b"HTTP/1.1 ")


def _named(long: str) -> str:
    return f"{long[:24]!r}...{long[-6:]!r}"


def try_parsers() -> None:
    """Each by itself, in this process."""
    broken = 0
    for name, parser in (PARSERS | _parsers_of_models()).items():
        count, most, slowest = 0, 0.0, ""
        for long in parser.texts():
            count, begun = count + 1, time.process_time()
            try:
                with processor_time(PARSER_SECONDS):
                    parser.refuse_or_read(long)
            except TooSlow:
                broken += 1
            seconds = time.process_time() - begun
            most, slowest = max((most, slowest), (seconds, _named(long)))
        print(f"    {name}: {count} texts, {1000 * most:.0f} ms at most ({slowest})", flush=True)
    print(f"{broken} took more than {PARSER_SECONDS} s of processor time")


def _parsers_of_models() -> dict[str, Parser]:
    """What cuts a text into tokens, tells words and writes messages, for each model that comes along."""
    found = {}
    for entry in CATALOGUE:
        model = load_model(entry.name)

        def into_words(long: str, model: Any = model) -> None:
            ids = model.tokenizer(long, verbose=False)["input_ids"][: model.max_tokens]
            word_starts(model.tokenizer, ids)
            token_classes(model.tokenizer, ids)

        found[f"tokens of {entry.name}"] = Parser(lambda long, model=model: all_inputs(model, long, max_tokens=256))
        found[f"words of {entry.name}"] = Parser(into_words)
        if model.chats:
            found[f"messages to {entry.name}"] = Parser(lambda long, model=model: chat_ids(model, long))
    return found


async def try_runs(server: Server, outcomes: Outcomes) -> None:
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
                    await outcomes.run("runs", f"{name}, {query}", visitor, visitor.open("corpus", query))
            shutil.rmtree(runs / f"run{number}")


def make_run(folder: Path, sentences: tuple[str, ...] = SENTENCES) -> Path:
    """A small finished run."""
    made_run(folder, load_model(randomised(tiny("BERT")), tokenizer=reader()), sentences=sentences)
    add_map(folder)
    return folder


def try_browser(server: Server, outcomes: Outcomes) -> None:
    fields = asyncio.run(_text_fields(server))
    with chromium() as browser:
        for page, keys in fields.items():
            for name in MARKUP:
                query = "&".join(f"{key}={_quoted(TEXTS[name])}" for key in keys)
                context = browser.new_context()
                app = App(context, server).open(f"/{page}?{state.SOURCE}=real&{query}")
                app.page.mouse.move(600, 400)  # what is shown when pointing at something is markup too
                app.page.wait_for_timeout(300)
                outcomes.tried["in a browser"] += 1
                where = f"/{page}, {name}"
                outcomes.broken += [f"{where}: {problem[:200]}" for problem in app.problems]
                if app.page.evaluate(f"window.{RAN}"):
                    outcomes.broken.append(f"{where}: a script ran")
                context.close()
            print(f"    /{page}: {', '.join(keys)}", flush=True)


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
    ways: dict[str, Callable[[Server, Outcomes], Any]] = {
        "texts": try_texts,
        "addresses": try_addresses,
        "files": try_files,
        "long": try_long,
        "runs": try_runs,
        "browser": try_browser,
    }
    for name, way in ways.items():
        if only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                os.environ[CORPORA] = folder
                make_run(Path(folder, WHOLE))
                with_a_server(name, way)
    if only in (None, "parsers"):
        print("parsers:")
        try_parsers()


def with_a_server(name: str, way: Callable[[Server, Outcomes], Any]) -> None:
    """One way to break a server of its own, and what it did to somebody else on it."""
    print(f"{name}:", flush=True)
    is_long = name == "long"
    if is_long:
        os.environ.setdefault(*TOKENS)
    server = Server().wait()
    outcomes, bystander = Outcomes(server.process_id, SERVER_SECONDS if is_long else None), Bystander(server.address)
    try:
        with bystander:
            asyncio.run(way(server, outcomes)) if asyncio.iscoroutinefunction(way) else way(server, outcomes)
    finally:
        outcomes.report(server.log())
        print(bystander.waits, flush=True)
        server.stop()


if __name__ == "__main__":
    main()
