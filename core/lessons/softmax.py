"""The softmax: its steps, other normalisations, and its limits in floating point."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..attention.trace import Array, AttentionTrace, softmax
from ..errors import InputError

DTYPES = ("float16", "float32", "float64")

# In SmolLM2-135M-Instruct and "The animal didn't cross the street because it was too tired.": the largest q · k of any allowed
# pair in any head (2.4), and the largest scaled score. The score farthest from 0 is negative and cannot overflow.
LARGEST_RAW_SCORE, LARGEST_SCALED_SCORE = 111.8, 13.98


@dataclass(frozen=True, eq=False)
class SoftmaxSteps:
    """One row of scores on its way to weights (Goodfellow et al. 2016, Deep Learning, equation 4.1)."""

    scores: Array  # [keys] after temperature and shift
    exponentials: Array  # [keys] e^score, all above 0
    total: float  # their sum
    weights: Array  # [keys] exponentials / total, in [0, 1], adding up to 1


def softmax_steps(scores: ArrayLike, *, temperature: float = 1.0, shift: float = 0.0) -> SoftmaxSteps:
    """The softmax of scores / temperature + shift, by its formula: the maximum is not subtracted.

    Raises InputError if a score is not finite, the temperature is not above 0, or e^score goes beyond float64.
    """
    row = np.asarray(scores, dtype=np.float64)
    if row.ndim != 1 or row.size == 0 or not np.isfinite(row).all():
        raise InputError("The scores have to be one row of finite numbers, at least one.", field="scores")
    if not temperature > 0:
        raise InputError(f"The temperature is {temperature}; it has to be above 0.", field="temperature")
    row = row / temperature + shift
    if row.max() > overflow_limit("float64") - np.log(row.size):
        why = f"e to the power of {row.max():.4g} is beyond what float64 can hold. Use scores below 709."
        raise InputError(why, field="scores")
    exponentials = np.exp(row)
    total = float(exponentials.sum())
    return SoftmaxSteps(row, exponentials, total, exponentials / total)


@dataclass(frozen=True, eq=False)
class Normalisation:
    """One row of scores, normalised in one way."""

    name: str
    values: Array  # [keys] the result
    total: float  # the sum of the values
    length: float  # √(sum of their squares)


def normalised(scores: ArrayLike) -> list[Normalisation]:
    """A row of scores normalised by softmax, by its RMS and by its Euclidean length. Raises InputError as `softmax_steps`.

    RMS: scores / √(mean of squares). Signs and order stay, the sum is not 1 (Zhang and Sennrich 2019, equation 4).
    Euclidean: scores / √(sum of squares), a vector of length 1. Its squares add up to 1, not its entries.
    """
    row = np.asarray(scores, dtype=np.float64)
    results = {
        "Softmax": softmax_steps(row).weights,
        "RMS": row / (np.sqrt(np.mean(row**2)) or 1.0),
        "Euclidean": row / (np.linalg.norm(row) or 1.0),
    }
    return [
        Normalisation(name, values, float(values.sum()), float(np.linalg.norm(values)))
        for name, values in results.items()
    ]


def ranks(values: ArrayLike) -> NDArray[np.integer]:
    """The rank of each value, [keys]: 1 for the largest; equal values share the better rank."""
    row = np.asarray(values)
    return 1 + (row[None, :] > row[:, None]).sum(axis=1)


def overflow_limit(dtype: str) -> float:
    """The largest x with a finite e^x in this number format: 11.09 in float16, 88.72 in float32, 709.8 in float64."""
    return float(np.log(np.finfo(dtype).max.astype(np.float64)))


def naive_softmax(scores: ArrayLike, dtype: str) -> NDArray[np.floating]:
    """e^score / Σ e^score without subtracting the maximum: inf / inf = NaN if a score exceeds the limit."""
    row = np.asarray(scores, dtype=dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        exponentials = np.exp(row)
        return exponentials / exponentials.sum(axis=-1, keepdims=True)


@dataclass(frozen=True, eq=False)
class InFormat:
    """One row of scores in one number format."""

    dtype: str
    reach: float  # the largest x with a finite e^x
    naive: NDArray[np.floating]  # [keys] weights without subtracting the maximum; NaN beyond the limit of the format
    careful: NDArray[np.floating]  # [keys] weights with the maximum subtracted: never NaN; all 0 if every score is -inf

    @property
    def naive_holds(self) -> bool:
        """Whether the naive weights are finite."""
        return bool(np.isfinite(self.naive).all())


def in_formats(scores: ArrayLike) -> list[InFormat]:
    """Compute both softmaxes of one row of scores, which may contain -inf, in float16, float32 and float64.

    Raises InputError if a score is NaN or beyond the range of float16.
    """
    row = np.asarray(scores, dtype=np.float64)
    largest = float(np.finfo("float16").max)
    if np.isnan(row).any() or (np.abs(row[~np.isneginf(row)]) > largest).any():
        raise InputError(f"The scores have to lie between -{largest:,.0f} and {largest:,.0f}.", field="scores")
    return [
        InFormat(dtype, overflow_limit(dtype), naive_softmax(row, dtype), softmax(row.astype(dtype)))
        for dtype in DTYPES
    ]


@dataclass(frozen=True)
class Precision:
    """The errors of one head's softmax in one number format."""

    dtype: str
    largest_score: float  # the largest masked score
    row_sum_error: float  # the largest |sum of a row - 1|; with a sink the largest difference from the sum in float64
    weight_error: float  # the largest difference of a weight from the one computed in float64
    naive_failures: float  # the share of rows that are NaN if the maximum is not subtracted


def precisions(trace: AttentionTrace) -> list[Precision]:
    """The errors of a head's softmax in float16, float32 and float64. Rows with nothing to attend to are left out."""
    masked = trace.masked[~trace.empty_rows].astype(np.float64)
    exact = softmax(masked, sinks=trace.sinks)
    whole = np.float64(1) if trace.sinks is None else exact.sum(axis=-1)
    errors = []
    for dtype in DTYPES:
        weights = softmax(masked.astype(dtype), sinks=trace.sinks)
        naive = naive_softmax(masked, dtype)
        sums = weights.sum(axis=-1, dtype=np.float64)
        errors.append(
            Precision(
                dtype=dtype,
                largest_score=float(masked.max()),
                row_sum_error=float(np.abs(sums - whole).max()),
                weight_error=float(np.abs(weights - exact).max()),
                naive_failures=float(np.isnan(naive).any(axis=-1).mean()),
            )
        )
    return errors
