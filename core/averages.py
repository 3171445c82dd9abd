"""The mean of repeated measurements, with its standard error."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


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
