"""The speed of this machine with its models, learned from the runs that it has done.

A busy machine is slower, and its latest runs predict the next one best. Runs are timed elsewhere: there is no clock here.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from threading import Lock
from typing import Literal

import numpy as np

Work = Literal["reading", "measuring"]

_ASSUMED = 2e-11  # seconds an operation, as long as nothing has run
_RUNS = 8  # number of latest runs of a model that count
_FADING = 0.7  # the weight of a run, relative to the run after it
_ENOUGH = 0.1  # the total weight from which an estimate counts as known: one run of a tenth of the size


@dataclass(frozen=True)
class Run:
    """The cost of a run: operations as `core.capturing.estimates` counts them, and seconds.

    model  the model's label: in another dtype or on another device its speed is that of another model
    """

    model: str
    work: Work
    operations: int
    seconds: float


class Speeds:
    """The speed of this machine with its models, learned from runs. Threads may share it."""

    def __init__(self) -> None:
        self._runs: deque[Run] = deque(maxlen=16 * _RUNS)
        self._lock = Lock()

    def learn(self, run: Run) -> None:
        """Add a run."""
        with self._lock:
            self._runs.append(run)

    def latest(self, model: str, work: Work) -> list[Run]:
        """The latest runs of a model and kind of work, the last one last."""
        with self._lock:
            return [run for run in self._runs if (run.model, run.work) == (model, work)][-_RUNS:]

    def seconds(self, model: str, work: Work, operations: int) -> tuple[float, bool]:
        """Estimate the seconds of so many operations: (seconds, whether runs of about this size support the estimate).

        The estimate is the weighted median of seconds an operation over the latest runs of this model and kind of work. A run
        counts less the more it differs in size and the more runs came after it. With too few runs of measuring, those of
        reading count too, since the first measurements are mostly preparation. Without any run a speed is assumed.
        """
        runs = self.latest(model, work)
        by_reading = []
        if work == "measuring" and self.latest(model, "reading"):
            by_reading = [self.seconds(model, "reading", operations)[0]]
        if not runs:
            return (by_reading or [operations * _ASSUMED])[0], False
        sizes = np.array([run.operations for run in runs], dtype=float)
        rates = np.array([run.seconds for run in runs]) / sizes
        counts = np.minimum(sizes / operations, operations / sizes) * _FADING ** np.arange(len(runs))[::-1]
        order = np.argsort(rates)
        middle = np.searchsorted(counts[order].cumsum(), counts.sum() / 2)
        seconds, known = operations * float(rates[order][middle]), bool(counts.sum() >= _ENOUGH)
        return seconds if known else min([seconds, *by_reading]), known
