"""Means: of repeated measurements, and of sums that are the same to the last bit in whatever order numbers are added."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

_BITS = 62  # of the part below 1: two of them together still fit into 64


@dataclass(eq=False)
class ExactSum:
    """Sums of finite numbers, one for each entry of an array: `whole` + `part` / 2^62, with 0 ≤ part < 2^62.

    The largest is 2^63, far beyond any sum over a corpus. What is added is truncated to a multiple of 2^-62, about 2e-19.
    """

    whole: NDArray[np.int64]
    part: NDArray[np.int64]

    @classmethod
    def zeros(cls, *shape: int) -> "ExactSum":
        return cls(np.zeros(shape, np.int64), np.zeros(shape, np.int64))

    def add(self, numbers: ArrayLike) -> None:
        """Add a finite number to each sum."""
        numbers = np.asarray(numbers, np.float64)
        whole = np.trunc(numbers)  # and not the floor: 1 less something tiny would be rounded
        self._carry(whole.astype(np.int64), ((numbers - whole) * 2.0**_BITS).astype(np.int64))

    def merge(self, other: "ExactSum") -> None:
        """Add another's sums to these."""
        self._carry(other.whole, other.part)

    def _carry(self, whole: NDArray[np.int64], part: NDArray[np.int64]) -> None:
        self.whole += whole
        self.part += part
        self.whole += self.part >> _BITS
        self.part &= (1 << _BITS) - 1

    @property
    def values(self) -> NDArray[np.float64]:
        """The sums as floating point, to within one unit in the last place."""
        up = (self.whole < 0).astype(np.int64)  # a negative sum would cancel with its whole
        return (self.whole + up) + (self.part - (up << _BITS)) * 2.0**-_BITS

    def exact(self) -> NDArray[np.object_]:
        """The sums as fractions, not rounded at all."""
        return self.whole.astype(object) + self.part.astype(object) * Fraction(1, 1 << _BITS)


def mean_and_spread(
    count: NDArray[np.int64], total: ExactSum, squares: ExactSum
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of `count` numbers from their sum and the sum of their squares; NaN where there are none.

    A variance is the difference of two large numbers: it is taken before anything is rounded.
    """
    number = np.maximum(count, 1).astype(object)
    mean = total.exact() / number
    variance = np.maximum(squares.exact() / number - mean**2, 0)
    spread = np.array([float(exact) ** 0.5 for exact in variance.flat]).reshape(count.shape)
    return np.where(count, mean.astype(np.float64), np.nan), np.where(count, spread, np.nan)


def mean_and_error(repeated: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean over the first axis and its standard error: [repeats, ...] to two arrays [...].

    The error is the standard deviation (with repeats - 1 degrees of freedom) divided by √repeats; NaN for a single repeat.
    """
    values = np.asarray(repeated, dtype=np.float64)
    if len(values) < 2:
        return values[0], np.full(values.shape[1:], np.nan)
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))


def log_mean_and_error(repeated: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`mean_and_error` of the base-10 logarithms, for lengths that differ by powers of 10."""
    return mean_and_error(np.log10(repeated))
