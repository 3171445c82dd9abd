"""Many visitors at once: how long each waits for the picture that was asked for, and whether it shows the right numbers.

    python -m bench.load --sessions 25 --minutes 3    one visitor alone for a minute, then 25 of them
    python -m bench.load --long 4 --minutes 3         ten visitors alone for a minute, then beside four texts of 4,096 tokens
    python -m bench.load --tour 10                    ten visitors at once, 700 tokens each, through eight pages: memory only
    python -m bench.load --copies 2                   two copies of the app behind Caddy, with deploy/Caddyfile

Each visitor thinks for one to three seconds, and then types another text or chooses another layer or head; half of them on
Step by step and half on Heads, half with one model and half with the other, by plans that are the same in every run. The time
runs from the change to the arrival of the new large picture, apart for light changes (another layer or head) and heavy ones
(another text). Every picture that arrived is compared with core afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import statistics
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from threading import Event, Thread

import numpy as np
import psutil
import torch
from numpy.typing import NDArray

from bench.measuring import load_average, resident
from bench.sessions import Answer, Left, Visitor
from core import AttentionTrace, capture, load_model
from core.models.catalogue import CATALOGUE
from core.models.loading import load_outline
from tests.browser.driver import Picture, Server, running
from ui import settings, state

COMMON = (
    "the a cat dog animal street river bank tree house teacher student engine city winter letter music garden window "
    "saw crossed followed wrote opened carried forgot found called left because while before after and but when near under "
    "tired old small green bright empty quiet heavy new late it she he they nobody everyone again slowly twice home"
)
WORDS = COMMON.split()
DECODER = "SmolLM2-135M-Instruct"
LIGHT, LONG_TOKENS, TOUR_TOKENS = 10, 4096, 700  # visitors beside long texts, and how long those are
EXACT = 16 * float(np.finfo(np.float32).eps)  # 1.9e-6: two passes that add in another order may differ by as much
PATIENCE = 600.0  # seconds
PAGES = {"step_by_step": "As it is", "heads": "head"}  # the large picture of each page
MUTE = {"edit": "mute 23.4"}
TOUR: dict[str, dict[str, str]] = {
    "step_by_step": {},
    "heads": {},
    "head": {},
    "why": {},
    "what_if": MUTE,
    "generation": {},
    "corpus": {},
    "claims": {},
}
PROGRAM = 1.5  # GB of Python, torch, both models and freed memory that is kept, as docs/hosting.md says
MOST_LOGGED = 4_000  # characters of a traceback, with what is logged after it
LOOK, HELD = 0.25, 60  # seconds between two looks at the memory, and until it is looked at when all have left


@dataclass
class Change:
    """What a visitor asked for, and what came of it.

    is_light  whether it is only another layer or head of a text that is read already
    waited    seconds until the page's large picture came; None: it did not
    figures   that picture as JSON, as often as it was drawn
    """

    page: str
    model: str
    text: str
    layer: int
    head: int
    is_light: bool = False
    waited: float | None = None
    figures: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)


def plan(number: int, page: str, model: str) -> Iterator[Change]:
    """What visitor `number` does, without end: the first one is the page as it opens."""
    chance = random.Random(number)
    entry = next(entry for entry in CATALOGUE if entry.name == model)
    text, layer, head = "", 0, 0
    while True:
        what = chance.choice(("text", "layer", "head")) if text else "text"
        if what == "text":
            text = " ".join(chance.choice(WORDS) for _ in range(chance.randint(6, 40)))
        elif what == "layer":
            layer = chance.choice([other for other in range(entry.layers) if other != layer])
        else:
            head = chance.choice([other for other in range(entry.heads) if other != head])
        yield Change(page, model, text, layer, head, is_light=what != "text")


async def pictured(visitor: Visitor, change: Change) -> None:
    """Wait for the picture of a change, saying yes to whatever the page asks before it begins."""
    asked, name = visitor.answer.asked, PAGES[change.page]

    def is_there() -> bool:
        return bool(visitor.answer.figure(name)) or visitor.answer.ended

    await visitor.until(is_there, PATIENCE)
    while not visitor.answer.figure(name) and time.perf_counter() < asked + PATIENCE:
        begin = next((button for button in visitor.on_page("button") if button.label in ("Run", "Continue")), None)
        if begin is None:
            change.trouble += visitor.complaints() or ["no picture"]
            return
        await visitor.press(begin)
        await visitor.until(is_there, PATIENCE)
    change.waited = visitor.answer.asked - asked + visitor.answer.figure(name)[0][0]
    note(visitor, change)


def note(visitor: Visitor, change: Change) -> None:
    """Keep what has come so far."""
    change.figures = [figure for _, figure in visitor.answer.figure(PAGES[change.page])]


async def make(visitor: Visitor, change: Change, before: Change | None) -> Answer:
    if before is None:
        query = {state.SOURCE: "real", state.MODEL: change.model, state.TEXT: change.text}
        return await visitor.open(change.page, query | {state.LAYER: str(change.layer), state.HEAD: str(change.head)})
    for key, now, then in (
        (state.TEXT, change.text, before.text),
        (state.HEAD_BOX, f"Head {change.layer}.{change.head}", f"Head {before.layer}.{before.head}"),
    ):
        if now != then:
            await visitor.change(key, now)
    return visitor.answer


async def visit(address: str, changes: Iterator[Change], until: float, number: int) -> list[Change]:
    """One visitor after another change, until the time is over; gives the changes that were made."""
    chance, made, before = random.Random(f"pause {number}"), [], None
    async with Visitor(address) as visitor:
        for change in changes:
            made.append(change)
            try:
                await make(visitor, change, before)
                await pictured(visitor, change)
                await asyncio.sleep(chance.uniform(1, 3))  # meanwhile the rest of the page comes
                note(visitor, change)
                change.trouble += visitor.answer.exceptions
            except (TimeoutError, KeyError, Left) as error:
                change.trouble.append(f"{type(error).__name__}: {error}")
                break
            before = change
            if time.monotonic() > until:
                break
    return made


async def visitors(address: str, count: int, minutes: float) -> list[list[Change]]:
    """So many visitors for so long, who come within a few seconds of each other."""
    until = time.monotonic() + 60 * minutes

    async def one(number: int) -> list[Change]:
        await asyncio.sleep(number * 0.2)
        page = list(PAGES)[number % 2]
        model = CATALOGUE[number // 2 % 2].name
        return await visit(address, plan(number, page, model), until, number)

    return await asyncio.gather(*(one(number) for number in range(count)))


async def warm(copies: list[Server]) -> None:
    """Have both models loaded by each copy, and every page opened once."""
    await asyncio.gather(*(visitors(copy.address, 4, 0) for copy in copies))


def a_text(seed: str, tokens: int) -> str:
    """A text of exactly so many tokens. The weights stay unread: the server would share them with this process."""
    tokenizer, chance = load_outline(DECODER).tokenizer, random.Random(seed)
    assert tokenizer is not None
    words = [chance.choice(WORDS) for _ in range(tokens)]
    while len(tokenizer(" ".join(words)).input_ids) > tokens:
        words.pop()
    return " ".join(words)


async def beside_long(address: str, texts: list[str], minutes: float) -> tuple[list[list[Change]], list[list[Change]]]:
    """Ten visitors, and meanwhile others who all ask for a long text at once."""

    async def long(number: int) -> list[Change]:
        opening = Change("step_by_step", DECODER, WORDS[0], 0, 0)
        asked = Change("step_by_step", DECODER, texts[number], 0, 0)
        return await visit(address, iter((opening, asked)), float("inf"), number)

    light, heavy = await asyncio.gather(
        visitors(address, LIGHT, minutes), asyncio.gather(*(long(number) for number in range(len(texts))))
    )
    return light, heavy


# --- what came of it


def check(changes: list[Change]) -> list[float]:
    """Compare every picture with core, and note which are wrong. Return the largest difference of each, infinity where shape or
    empty cells differ."""
    torch.set_num_threads(1)
    differences: list[float] = []
    loaded = cache(load_model)

    def of(change: Change) -> tuple[str, str]:
        return change.model, change.text

    for (model, text), same in groupby(sorted(changes, key=of), of):
        passed = capture(loaded(model), text)
        for change in same:
            expected = drawn_weights(passed.trace(change.layer, change.head))
            for figure in change.figures:
                found = json.loads(figure)
                differences.append(difference(Picture(found["data"], found["layout"]).values, expected))
                if differences[-1] > EXACT:
                    change.trouble.append("wrong figure")
    return differences


def difference(values: NDArray[np.floating], expected: NDArray[np.floating]) -> float:
    if values.shape != expected.shape or not np.array_equal(np.isnan(values), np.isnan(expected)):
        return float("inf")
    return float(np.nanmax(np.abs(values - expected), initial=0))


def drawn_weights(trace: AttentionTrace) -> NDArray[np.floating]:
    """The weights as a picture has them: of a long text the largest of each block, NaN where all of it is masked."""
    weights = np.where(trace.mask, trace.weights, np.nan)
    block = -(-len(weights) // 256)
    short = -len(weights) % block
    padded = np.pad(weights, (0, short), constant_values=np.nan)
    cells = len(padded) // block
    return np.fmax.reduce(padded.reshape(cells, block, cells, block), axis=(1, 3))


# --- memory while visitors go through all pages


async def tour(address: str, number: int, text: str) -> list[str]:
    """One visitor with a text, who opens one page after the other and says yes to what each asks. Return what went wrong."""
    chance, pages = random.Random(f"tour {number}"), [*TOUR]
    chance.shuffle(pages)
    query = {state.SOURCE: "real", state.MODEL: DECODER, state.TEXT: text, state.LAYER: "23", state.HEAD: "4"}
    trouble: list[str] = []
    async with Visitor(address) as visitor:
        for page in pages:
            try:
                await visitor.open(page, query | TOUR[page])
                await visitor.finished(PATIENCE)
                offered = [
                    button for button in visitor.on_page("button") if button.label in ("Start again", "Continue")
                ]
                if offered:
                    await visitor.press(offered[0])
                    await visitor.finished(PATIENCE)
                trouble += [f"{page}: {what}" for what in (*visitor.complaints(), *visitor.answer.exceptions)]
            except (TimeoutError, Left) as error:
                return [*trouble, f"{page}: {type(error).__name__} {error}"]
            await asyncio.sleep(chance.uniform(1, 3))
    return trouble


class Peak:
    """The memory of servers with the processes that they have started, looked at four times a second in a thread of its own."""

    def __init__(self, processes: Iterable[int]) -> None:
        self._processes, self._is_over, self.most = list(processes), Event(), 0.0
        self._thread = Thread(target=self._look, daemon=True)

    def now(self) -> float:
        """GB now."""
        return sum(map(pss, self._processes))

    def _look(self) -> None:
        while not self._is_over.wait(LOOK):
            self.most = max(self.most, self.now())

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()


def show_tour(count: int) -> None:
    """Print the memory that so many visitors need, against what docs/hosting.md promises."""
    texts = [a_text(f"tour {number}", TOUR_TOKENS) for number in range(count + 1)]
    promised = PROGRAM + settings.current().memory / 1e9
    with load_average(), running(1) as (site, copies), Peak(copy.process_id for copy in copies) as memory:

        async def together(numbers: Iterable[int]) -> list[list[str]]:
            return await asyncio.gather(*(tour(site.address, number, texts[number]) for number in numbers))

        asyncio.run(together([count]))
        time.sleep(HELD)
        print(f"one visitor: {memory.most:.2f} GB at the peak, {memory.now():.2f} GB {HELD} s after", flush=True)
        begun = time.perf_counter()
        trouble = [one for of_one in asyncio.run(together(range(count))) for one in of_one]
        took = time.perf_counter() - begun
        print(f"{count} visitors at once, {TOUR_TOKENS} tokens, {len(TOUR)} pages each, in {took:.0f} s:")
        print(f"    {memory.most:.2f} GB at the peak; promised are {promised:.2f} GB", flush=True)
        for wait in (HELD // 2, HELD - HELD // 2):
            time.sleep(wait)
            print(f"    {memory.now():.2f} GB a while after they left", flush=True)
        logs = [re.sub(r"\x1b\[[\d;]*m", "", copy.log()) for copy in copies]  # without its colours
        tracebacks = [one for log in logs for one in log.split("Traceback")[1:]]
        print(f"    {len(trouble)} complaints, {len(tracebacks)} tracebacks in the log")
        for one in sorted(set(trouble))[:8]:
            print(f"    {trouble.count(one)} × {one[:200]}")
        for one in tracebacks[:1]:
            print(f"Traceback … {one[-MOST_LOGGED:]}")


def report(title: str, sessions: list[list[Change]]) -> None:
    """What came of all changes, of light and of heavy ones; opening the page is not counted as one."""
    changes = [change for made in sessions for change in made[1:]]
    everything = [change for made in sessions for change in made]
    differences = check(everything)
    wrong = sum(trouble == "wrong figure" for change in everything for trouble in change.trouble)
    troubles = [trouble for change in everything for trouble in change.trouble if trouble != "wrong figure"]
    figures = f"{wrong} of {len(differences)} figures wrong (largest difference {max(differences, default=0):.2g})"
    print(f"{title}: {len(changes)} changes, {len(troubles)} errors, {figures}", flush=True)
    for name, is_light in (("another head or layer", True), ("another text", False)):
        times = sorted(one.waited for one in changes if one.is_light == is_light and one.waited is not None)
        if len(times) > 1:
            late = statistics.quantiles(times, n=20)[-1]
            spread = f"median {statistics.median(times):.2f} s, 95th percentile {late:.2f} s, worst {times[-1]:.2f} s"
            print(f"    {name}: {len(times)} changes, {spread}")
    for trouble in sorted(set(troubles))[:5]:
        print(f"    {troubles.count(trouble)} × {trouble[:200]}")


def pss(process: int) -> float:
    """GB that a process and those that it has started hold now; what several processes share is divided among them."""
    total, server = 0, psutil.Process(process)
    for one in (server, *server.children(recursive=True)):
        with suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            total += one.memory_full_info().pss
    return total / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=25)
    parser.add_argument("--long", type=int, default=0, help="how many long texts at once")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--copies", type=int, default=1, help="of the app; several are behind Caddy")
    parser.add_argument("--tour", type=int, default=0, help="how many visitors go through all pages at once")
    given = parser.parse_args()
    if given.tour:
        show_tour(given.tour)
        return
    alone, texts = min(1.0, given.minutes / 3), [a_text(f"long {number}", LONG_TOKENS) for number in range(given.long)]
    found: dict[str, list[list[Change]]] = {}
    with load_average(), running(given.copies) as (site, copies):
        asyncio.run(warm(copies))
        before = [resident("VmHWM", copy.process_id) for copy in copies]
        first = LIGHT if texts else 1
        found[f"{first} alone"] = asyncio.run(visitors(site.address, first, alone))
        if texts:
            light, heavy = asyncio.run(beside_long(site.address, texts, given.minutes))
            found[f"{LIGHT} beside {len(texts)} long texts"] = light
            found["the long texts"] = heavy
        else:
            found[f"{given.sessions} together"] = asyncio.run(visitors(site.address, given.sessions, given.minutes))
        memory = [
            f"{was / 1e9:.2f} GB before, {resident('VmHWM', copy.process_id) / 1e9:.2f} GB in the end, "
            f"{pss(copy.process_id):.2f} GB now ({copy.sessions} sessions)"
            for copy, was in zip(copies, before, strict=True)
        ]
        tracebacks = sum(copy.log().count("Traceback") for copy in copies)
    for title, sessions in found.items():
        report(title, sessions)
    print(f"memory at the peak: {'; '.join(memory)}; {tracebacks} tracebacks in the log")


if __name__ == "__main__":
    main()
