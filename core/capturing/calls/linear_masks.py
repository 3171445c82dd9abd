"""Masks and biases in forms that grow linearly with the text, which are written out a few rows at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class InRows(Protocol):
    """In the place of a tensor [1, 1 or heads, queries, keys] of an attention call."""

    @property
    def dtype(self) -> torch.dtype: ...

    def rows(self, heads: slice, rows: range) -> Tensor:
        """The rows of some heads: [1 or heads, rows, keys]."""
        ...


@dataclass(frozen=True, eq=False)
class Runs:
    """A mask as the runs of keys that each query may attend to.

    runs  [1 or heads, queries, runs, 2] whole numbers: the first key of a run and the one after its last, which are equal where
          a query has fewer runs; below 2¹⁵ runs
    """

    runs: NDArray[np.integer]
    keys: int
    dtype: torch.dtype = torch.bool

    def rows(self, heads: slice, rows: range) -> Tensor:
        return torch.from_numpy(self.allowed(heads, np.arange(rows.start, rows.stop)))

    def allowed(self, heads: slice, queries: NDArray[np.integer]) -> NDArray[np.bool_]:
        """[1 or heads, queries, keys]."""
        chosen = (self.runs[heads] if len(self.runs) > 1 else self.runs)[:, queries].astype(np.int64)
        of_heads, of_queries, of_runs, _ = chosen.shape
        # +1 where a run begins and -1 where it has ended: its sum over the keys so far is the number of runs that a key is in.
        steps = np.zeros((of_heads * of_queries, self.keys + 1), dtype=np.int16)
        row = np.repeat(np.arange(len(steps)), of_runs)
        for side, step in ((0, 1), (1, -1)):
            np.add.at(steps, (row, chosen[..., side].ravel()), step)
        return (np.cumsum(steps, axis=1, out=steps)[:, :-1] > 0).reshape(of_heads, of_queries, self.keys)


@dataclass(frozen=True, eq=False)
class ByDistance:
    """A bias that depends only on how far a key is from its query.

    numbers  [1 or heads, queries + keys - 1], by the distance key - query, rising from that of the last query and the first key
    """

    numbers: Tensor
    queries: int

    @property
    def dtype(self) -> torch.dtype:
        return self.numbers.dtype

    def rows(self, heads: slice, rows: range) -> Tensor:
        chosen = self.numbers[heads] if len(self.numbers) > 1 else self.numbers
        # [heads, queries, keys], the last query first.
        windows = chosen.unfold(1, chosen.shape[1] - self.queries + 1, 1)
        return windows[:, self.queries - rows.stop : self.queries - rows.start].flip(1)
