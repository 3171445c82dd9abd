"""How fast this machine is with its models, learned from the runs that it has done.

A busy machine is slower, and what it did last tells best what it will do next. There is no clock in here: others time the runs.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from threading import Lock
from typing import Literal

import numpy as np

Work = Literal["reading", "measuring"]

_ASSUMED = 2e-11  # seconds an operation, while nothing has run
_RUNS = 8  # the latest of a model that count
_FADING = 0.7  # how much less each of them counts than the one after it
_ENOUGH = 0.1  # one run of a tenth of the size is enough to go by


@dataclass(frozen=True)
class Run:
    """What a run has cost: operations as `core.capturing.estimates` counts them, and seconds.

    model  its label: in another dtype or on another device it is as fast as another model
    """

    model: str
    work: Work
    operations: int
    seconds: float


class Speeds:
    """How fast this machine is with its models, learned from what has run. Threads may share it."""

    def __init__(self) -> None:
        self._runs: deque[Run] = deque(maxlen=16 * _RUNS)
        self._lock = Lock()

    def learn(self, run: Run) -> None:
        with self._lock:
            self._runs.append(run)

    def latest(self, model: str, work: Work) -> list[Run]:
        """The runs that count, the last one last."""
        with self._lock:
            return [run for run in self._runs if (run.model, run.work) == (model, work)][-_RUNS:]

    def seconds(self, model: str, work: Work, operations: int) -> tuple[float, bool]:
        """(how long so many operations will take, whether runs of about that size tell).

        The median over the latest runs of the same model and kind of work, in seconds an operation. A run counts less the more
        it differs in size and the more runs came after it. Where too little has been measured, reading tells as well: what
        was measured first of all was mostly preparation. Where nothing has run, an assumption is made.
        """
        runs = self.latest(model, work)
        told = []
        if work == "measuring" and self.latest(model, "reading"):
            told = [self.seconds(model, "reading", operations)[0]]
        if not runs:
            return (told or [operations * _ASSUMED])[0], False
        sizes = np.array([run.operations for run in runs], dtype=float)
        rates = np.array([run.seconds for run in runs]) / sizes
        counts = np.minimum(sizes / operations, operations / sizes) * _FADING ** np.arange(len(runs))[::-1]
        order = np.argsort(rates)
        middle = np.searchsorted(counts[order].cumsum(), counts.sum() / 2)
        seconds, known = operations * float(rates[order][middle]), bool(counts.sum() >= _ENOUGH)
        return seconds if known else min([seconds, *told]), known
