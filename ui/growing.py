"""An array that is computed piece by piece, so that a page can draw it as it grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any

import numpy as np


class Growing:
    """An array that is computed piece by piece. It is kept as far as it is known; whoever wants more continues from there.

    pieces  (index, values[index]) in any order, each computed when it is asked for: together they fill the array
    nbytes  bytes held while pieces are computed
    cost    gives the cost of every number at an index of the first axis, in any unit
    first   how many pieces come before the work may pause: those that are worth looking at without the rest
    values  NaN where not known yet
    known   of the same shape, True where a number is known
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        pieces: Iterator[tuple[Any, Any]],
        *,
        nbytes: int,
        cost: Callable[[int], float] = lambda _: 1,
        first: int = 0,
    ) -> None:
        self.values = np.full(shape, np.nan)
        self.known = np.zeros(shape, bool)
        self.nbytes = nbytes
        self._pieces = pieces
        self._to_come = first
        costs = np.array([cost(index) for index in range(shape[0])], dtype=np.float64)
        self._costs = np.broadcast_to(costs.reshape(-1, *[1] * (len(shape) - 1)), shape)
        self._lock = Lock()

    @property
    def done(self) -> int:
        return int(self.known.sum())

    @property
    def total(self) -> int:
        return self.known.size

    @property
    def share(self) -> float:
        """The share of all the work that is done."""
        return float(self._costs[self.known].sum() / self._costs.sum())

    @property
    def may_pause(self) -> bool:
        """Whether enough is known to be looked at without the rest."""
        return self._to_come <= 0

    def go_on(self) -> bool:
        """Compute one more piece; False if there is none left. Sessions that want the same array take turns."""
        with self._lock:
            piece = next(self._pieces, None)
            if piece is None:
                return False
            self.values[piece[0]], self.known[piece[0]] = piece[1], True
            self._to_come -= 1
            if self.known.all():
                self._pieces = iter(())  # the old one goes, and with it all that it holds
            return True
