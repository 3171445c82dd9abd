"""An array that is computed piece by piece, so that a page can draw it as it grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any

import numpy as np


class Growing:
    """An array that is computed piece by piece. It is kept as far as it is known; whoever wants more continues from there.

    pieces  (index, values[index]) for every index of the first axis, in any order, each computed when it is asked for
    nbytes  bytes held while pieces are computed
    cost    gives the cost of the piece with an index, in any unit
    values  NaN where not known yet
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        pieces: Iterator[tuple[int, Any]],
        *,
        nbytes: int,
        cost: Callable[[int], float] = lambda _: 1,
    ) -> None:
        self.values = np.full(shape, np.nan)
        self.nbytes = nbytes
        self._pieces = pieces
        self._costs = np.array([cost(index) for index in range(shape[0])], dtype=np.float64)
        self._known = np.zeros(shape[0], bool)
        self._lock = Lock()

    @property
    def done(self) -> int:
        return int(self._known.sum())

    @property
    def total(self) -> int:
        return len(self._known)

    @property
    def share(self) -> float:
        """The share of all the work that is done."""
        return float(self._costs[self._known].sum() / self._costs.sum())

    def go_on(self) -> bool:
        """Compute one more piece; False if there is none left. Sessions that want the same array take turns."""
        with self._lock:
            piece = next(self._pieces, None)
            if piece is None:
                return False
            self.values[piece[0]], self._known[piece[0]] = piece[1], True
            if self._known.all():
                self._pieces = iter(())  # the old one goes, and with it all that it holds
            return True
