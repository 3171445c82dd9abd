"""Sampling: how the next token is chosen from a model's logits, with temperature, top-k and top-p."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from ..attention.trace import softmax
from ..errors import InputError

MAX_TEMPERATURE = 100.0
SEEDS = 2**32


@dataclass(frozen=True)
class Sampling:
    """How a token is chosen from the logits, in the order of transformers' `generate`: temperature, then top-k, then top-p.

    temperature  the logits are divided by it; 0: always the most probable token (greedy decoding)
    top_k        number of most probable tokens to draw from; None: all
    top_p        draw from the most probable tokens that together have at least this probability (Holtzman et al. 2020,
                 https://arxiv.org/abs/1904.09751, section 3.1); None: all
    seed         from 0 to 2³² − 1; the same seed draws the same tokens

    Raises InputError for a value out of range; its field is the name of the value.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not (isfinite(self.temperature) and 0 <= self.temperature <= MAX_TEMPERATURE):
            raise InputError(
                f"The temperature is a number from 0 to {MAX_TEMPERATURE:g}, not {self.temperature:g}. At 0 the most "
                f"probable token is always taken.",
                field="temperature",
            )
        if self.top_k is not None and (self.top_k != int(self.top_k) or self.top_k < 1):
            why = f"top-k is a whole number of tokens, at least 1, not {self.top_k}. Leave it out to draw from all."
            raise InputError(why, field="top_k")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            why = f"top-p is a probability above 0 and at most 1, not {self.top_p:g}. Leave it out to draw from all."
            raise InputError(why, field="top_p")
        if self.seed != int(self.seed) or not 0 <= self.seed < SEEDS:
            raise InputError(f"A seed is a whole number from 0 to {SEEDS - 1:,}, not {self.seed}.", field="seed")

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0

    def probabilities(self, logits: ArrayLike) -> NDArray[np.float64]:
        """The probability with which each token is chosen: [vocabulary]; 0 for tokens that top-k or top-p exclude.

        Greedy decoding chooses the first of the most probable tokens with probability 1.
        """
        scores = np.asarray(logits, dtype=np.float64)
        if self.is_greedy:
            chosen = np.zeros_like(scores)
            chosen[scores.argmax()] = 1.0
            return chosen
        warpers = LogitsProcessorList([TemperatureLogitsWarper(float(self.temperature))])
        if self.top_k is not None:
            warpers.append(TopKLogitsWarper(int(self.top_k)))
        if self.top_p is not None:
            warpers.append(TopPLogitsWarper(float(self.top_p)))
        before = torch.LongTensor(1, 0)  # none of these uses the earlier tokens
        return softmax(warpers(before, torch.from_numpy(scores.copy())[None])[0].numpy())

    def draw(self, logits: ArrayLike, step: int) -> int:
        """Choose the token of a step. The draw depends on the seed and the step only, not on earlier draws."""
        if self.is_greedy:
            return int(np.argmax(np.asarray(logits)))
        below = self.probabilities(logits).cumsum()
        at = np.random.default_rng((int(self.seed), step)).random() * below[-1]
        return int(below.searchsorted(at, side="right"))


def next_probabilities(logits: ArrayLike) -> NDArray[np.float64]:
    """The probability of each token as the next one, at temperature 1: [vocabulary], in float64."""
    return softmax(np.asarray(logits, dtype=np.float64))


def most_probable(logits: ArrayLike, k: int) -> list[int]:
    """The k most probable tokens, the most probable first; of equal ones the lower token number."""
    below = -np.asarray(logits)
    candidates = smallest(below, k)
    return candidates[np.argsort(below[candidates], kind="stable")][:k].tolist()


def smallest(numbers: NDArray[np.floating], k: int) -> NDArray[np.intp]:
    """The places of the k smallest numbers and of all that equal one of them, in order: few are left to be sorted."""
    if k >= len(numbers):
        return np.arange(len(numbers))
    return np.flatnonzero(~(numbers > np.partition(numbers, k)[k]))


def at_temperatures(logits: ArrayLike, tokens: Sequence[int], temperatures: Sequence[float]) -> NDArray[np.float64]:
    """The probabilities of some tokens at some temperatures, which are above 0: [temperatures, tokens]."""
    return np.stack([Sampling(temperature).probabilities(logits)[list(tokens)] for temperature in temperatures])
