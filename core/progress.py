"""How far work has come, and where it may end.

Work that takes several steps tells `on_progress` how many of them are done. Between its steps, too, all work passes a
`stop_point` for every few million numbers that it computes: before each block of rows, each layer of a pass, each variant.
Whoever runs the work decides there, by `stopped_by`, whether it goes on: its time may be up, or nobody waits for it any more.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from threading import Lock

# Called after each step, a layer of a pass or a whole pass, with how many are done. What it raises ends the work there.
OnProgress = Callable[[int], None]

LOOK = 0.1  # seconds between two stop points of a thread that waits for another

# Called at each stop point, with the share of the step that is done, where it is known.
Check = Callable[[float | None], None]

_check: ContextVar[Check | None] = ContextVar("check", default=None)
_is_held: ContextVar[bool] = ContextVar("is_held", default=False)  # whether others may wait for a lock of this thread


@contextmanager
def stopped_by(check: Check) -> Iterator[None]:
    """Call `check` at every stop point of the work in this context and thread. What it raises ends the work there.

    It should raise a BaseException that is not an Exception: some work takes an Exception for a fault of what it reads.
    """
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


def stop_point(part: float | None = None) -> None:
    """A place where work may end. part: how much of the current step is done, from 0 to 1"""
    if (check := _check.get()) is not None:
        check(part)


@contextmanager
def held(lock: Lock) -> Iterator[None]:
    """Hold a lock. While another thread holds it, this one passes stop points."""
    while not lock.acquire(timeout=LOOK):
        stop_point()
    token = _is_held.set(True)
    try:
        yield
    finally:
        _is_held.reset(token)
        lock.release()


def may_wait() -> bool:
    """Whether this thread may wait for another one: it has no lock by `held`, for which that one could be waiting."""
    return not _is_held.get()


def step_counter(on_progress: OnProgress | None) -> Callable[[], None]:
    """A function to call after each step: it tells `on_progress` how many are done."""
    steps = count(1)

    def step() -> None:
        if on_progress is not None:
            on_progress(next(steps))

    return step
