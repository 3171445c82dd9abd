"""An array that is computed piece by piece, so that a page can draw it as it grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock

import numpy as np

from core.heads.effects import Piece
from core.progress import held


class Growing:
    """An array that is computed piece by piece. It is kept as far as it is known; whoever wants more continues from there.

    pieces  begins to give them, in any order: together they fill the array. It is called again where it was ended
    nbytes  bytes held while pieces are computed
    cost    gives the cost of every number at an index of the first axis, in any unit
    first   how many pieces come before the work may pause: those that are worth looking at without the rest
    values  NaN where not known yet
    known   of the same shape, True where a number is known
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        pieces: Callable[[], Iterator[Piece]],
        *,
        nbytes: int,
        cost: Callable[[int], float] = lambda _: 1,
        first: int = 0,
    ) -> None:
        self.values = np.full(shape, np.nan)
        self.known = np.zeros(shape, bool)
        self.nbytes = nbytes
        self._begin = pieces
        self._pieces: Iterator[Piece] | None = None
        self._next: Piece | None = None
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
        """Compute one more piece; False if there is none left. Sessions that want the same array take turns.

        A piece that is ended half-way is the next one again.
        """
        with held(self._lock):
            if self._next is None:
                self._next = self._piece()
            if self._next is None:
                return False
            places, compute = self._next
            self.values[places], self.known[places] = compute(), True
            self._next = None
            self._to_come -= 1
            if self.known.all():
                self._begin, self._pieces = lambda: iter(()), None  # the old ones go, and with them all that they hold
            return True

    def _piece(self) -> Piece | None:
        """The next piece that is not known; None if there is none left."""
        try:
            self._pieces = self._pieces or self._begin()
            return next((piece for piece in self._pieces if not self.known[piece[0]].all()), None)
        except BaseException:
            self._pieces = None  # an iterator that was ended gives nothing more
            raise
