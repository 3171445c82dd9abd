"""Threads that compute with torch, each by itself.

Small operations gain nothing from threads of torch's own, which wait for one another after each operation. One layer beside
another does.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from threading import Event, Lock, local
from typing import TypeVar

import torch

from .progress import LOOK, OnProgress, step_counter, stop_point, stopped_by

Item = TypeVar("Item")
Result = TypeVar("Result")

_SETTING = Lock()
_mine = local()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute with one thread in this thread alone. With more, the last bits of a result differ."""
    before = torch.get_num_threads()
    _compute_with(1)
    try:
        yield
    finally:
        _compute_with(before)


def processor_time() -> float:
    """Seconds of the processor that this thread has used, and threads that computed `side_by_side` for it."""
    return time.thread_time() + getattr(_mine, "of_others", 0.0)


class _Ended(BaseException):
    """The work of all threads has ended."""


def side_by_side(
    work: Callable[[Item], Result], items: Iterable[Item], on_progress: OnProgress | None = None
) -> list[Result]:
    """`[work(item) for item in items]`, with as many items at once as torch has threads; each is computed with one.

    The next item is taken when a thread is free. An error of `work`, `items` or `on_progress`, and what ends the work at a
    stop point, reaches the caller as soon as the items that have begun come to a stop point of theirs; no other item begins.
    All of them wait there while the caller waits at one of its own.
    """
    threads, step = torch.get_num_threads(), step_counter(on_progress)
    results: list[Result] = []
    running: deque[tuple[int, Future[Result]]] = deque()
    parts: dict[int, float] = {}  # how much of each running item is done
    seconds: dict[int, float] = {}  # of the processor, by item
    is_going_on, is_over = Event(), False
    is_going_on.set()
    before = getattr(_mine, "of_others", 0.0)

    def compute(number: int, item: Item) -> Result:
        begun = time.thread_time()

        def check(part: float | None) -> None:
            seconds[number] = time.thread_time() - begun
            if part is not None:
                parts[number] = part
            is_going_on.wait()
            if is_over:
                raise _Ended

        with stopped_by(check):
            result = work(item)
            check(1.0)
            return result

    def look(at: Callable[[], None]) -> None:
        """Let the caller look whether all goes on."""
        _mine.of_others = before + sum(list(seconds.values()))
        is_going_on.clear()
        try:
            at()
        finally:
            is_going_on.set()

    def collect() -> None:
        number, future = running[0]
        while not wait([future], LOOK).done:
            look(lambda: stop_point(None if on_progress is None else sum(list(parts.values()))))
        results.append(future.result())
        running.popleft()
        parts.pop(number, None)
        look(step)

    with ThreadPoolExecutor(threads, initializer=_compute_with, initargs=(1,)) as pool:
        try:
            for number, item in enumerate(items):
                running.append((number, pool.submit(compute, number, item)))
                if len(running) == threads:
                    collect()
            while running:
                collect()
        finally:
            is_over = True
    return results


def _compute_with(threads: int) -> None:
    """Let torch compute with so many threads in this thread alone.

    torch keeps two numbers: that of each thread that has computed already, and that with which further threads begin.
    """
    with _SETTING, ThreadPoolExecutor(1) as another:
        torch.get_num_threads()  # A thread that has not computed yet would take the second number when it begins to.
        further = another.submit(torch.get_num_threads).result()
        torch.set_num_threads(threads)  # sets both numbers
        another.submit(torch.set_num_threads, further).result()
