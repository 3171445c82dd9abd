"""Somebody else on the same server: how long the health check and a light page take to answer while others do what they do.

It runs in a process of its own, so that nothing but the server can keep it waiting.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from types import TracebackType
from urllib.request import urlopen

from bench.sessions import Visitor
from ui import state

ALONE = 20  # changes before the others begin
PAUSE = 0.2  # seconds between two changes, and between two health checks
PATIENCE = 600.0
PAGE, KEY, VALUES = "softmax", state.TEMPERATURE, (1.5, 2.5)  # a lesson without a model, and a knob of it


@dataclass
class Waits:
    """Seconds from asking to the answer, in order."""

    health: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    session: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"meanwhile the health check answered after at most {max(self.health):.2f} s (of {len(self.health)}), another "
            f"session after at most {max(self.session):.2f} s (of {len(self.session)} changes, median "
            f"{sorted(self.session)[len(self.session) // 2]:.2f} s; alone at most {max(self.alone):.2f} s)"
        )


class Bystander:
    """`with Bystander(address) as bystander`: it is there, and has been alone for a while, when the block begins.

    waits  once the block has ended
    """

    def __init__(self, address: str) -> None:
        context = get_context("spawn")
        self.waits = Waits()
        self._stop, self._ready = context.Event(), context.Event()
        self._told, tell = context.Pipe(duplex=False)
        self._process = context.Process(target=_watch, args=(address, self._ready, self._stop, tell), daemon=True)

    def __enter__(self) -> Bystander:
        self._process.start()
        if not self._ready.wait(PATIENCE):
            raise TimeoutError("The server does not answer a light page.")
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        if self._told.poll(PATIENCE):
            self.waits = Waits(*self._told.recv())
        self._process.join(10)
        self._process.kill()


def _watch(address: str, ready: Event, stop: Event, tell: Connection) -> None:
    waits = Waits()
    asyncio.run(_both(address, waits, ready, stop))
    tell.send((waits.health, waits.alone, waits.session))


async def _both(address: str, waits: Waits, ready: Event, stop: Event) -> None:
    await asyncio.gather(_change(address, waits, ready, stop), _check(address, waits, stop))


async def _change(address: str, waits: Waits, ready: Event, stop: Event) -> None:
    async with Visitor(address) as visitor:
        await visitor.open(PAGE)
        await visitor.finished(PATIENCE)
        turn = 0
        while not stop.is_set() or not waits.session:
            turn += 1
            begun = time.perf_counter()
            await visitor.change(KEY, [VALUES[turn % 2]])
            await visitor.finished(PATIENCE)
            (waits.alone if turn <= ALONE else waits.session).append(time.perf_counter() - begun)
            if turn == ALONE:
                ready.set()
            await asyncio.sleep(PAUSE)


async def _check(address: str, waits: Waits, stop: Event) -> None:
    while not stop.is_set() or not waits.health:
        begun = time.perf_counter()
        await asyncio.to_thread(_ask, f"{address}/_stcore/health")
        waits.health.append(time.perf_counter() - begun)
        await asyncio.sleep(PAUSE)


def _ask(url: str) -> None:
    urlopen(url, timeout=PATIENCE).close()
