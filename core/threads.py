"""Threads that compute with torch, each by itself.

Small operations gain nothing from threads of torch's own, which wait for one another after each operation. One layer beside
another does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import TypeVar

import torch

from .progress import OnProgress, step_counter

Item = TypeVar("Item")
Result = TypeVar("Result")

_SETTING = Lock()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute with one thread in this thread alone. With more, the last bits of a result differ."""
    before = torch.get_num_threads()
    _compute_with(1)
    try:
        yield
    finally:
        _compute_with(before)


def side_by_side(
    work: Callable[[Item], Result], items: Iterable[Item], on_progress: OnProgress | None = None
) -> list[Result]:
    """`[work(item) for item in items]`, with as many items at once as torch has threads; each is computed with one.

    The next item is taken when a thread is free. An error of `work`, `items` or `on_progress` reaches the caller as soon
    as the items that have begun are done; no other item begins.
    """
    threads, step = torch.get_num_threads(), step_counter(on_progress)
    results: list[Result] = []
    running: deque[Future[Result]] = deque()

    def collect() -> None:
        results.append(running.popleft().result())
        step()

    with ThreadPoolExecutor(threads, initializer=_compute_with, initargs=(1,)) as pool:
        for item in items:
            running.append(pool.submit(work, item))
            if len(running) == threads:
                collect()
        while running:
            collect()
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
