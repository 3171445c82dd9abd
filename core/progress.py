"""Progress of work that takes several steps: how many of them are done."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

# Called after each step, a layer of a pass or a whole pass, with how many are done. What it raises ends the work there.
OnProgress = Callable[[int], None]


def step_counter(on_progress: OnProgress | None) -> Callable[[], None]:
    """A function to call after each step: it tells `on_progress` how many are done."""
    steps = count(1)

    def step() -> None:
        if on_progress is not None:
            on_progress(next(steps))

    return step
