"""The stages of a trace in their order: what each is called, what it does, and its array."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .trace import AttentionTrace


@dataclass(frozen=True)
class Stage:
    """One picture of the computation.

    key         the attribute of a trace that holds its array
    name        its name on the pages
    noun        what one number of it is called
    sentence    what happens here
    scale       "signed" numbers around 0, a "share" from 0 to 1, or a "permission" of 1 and 0
    after_mask  whether forbidden pairs are marked: Q, K, V and the scores before the mask exist for every pair
    beside      the key of a stage whose number is shown beside this one, or None
    """

    key: str
    name: str
    noun: str
    sentence: str
    rows: Literal["query", "key"] = "query"
    columns: Literal["key", "dimension"] = "key"
    scale: Literal["signed", "share", "permission"] = "signed"
    after_mask: bool = False
    beside: str | None = None

    def values(self, trace: AttentionTrace) -> NDArray:
        """The array of a trace, [rows, columns]."""
        return getattr(trace, self.key)


def number(value: float) -> str:
    """Four significant digits, −∞ where forbidden."""
    if np.isneginf(value):
        return "−∞"
    return f"{value:.4g}".replace("e-0", "e-").replace("e+0", "e+").replace("-", "−")


INPUTS = (
    Stage("query", "Query", "query", "What each position looks for.", columns="dimension"),
    Stage("key", "Key", "key", "What each position offers to be found by.", "key", "dimension"),
    Stage("value", "Value", "value", "What each position passes on when it is attended to.", "key", "dimension"),
)

STAGES = (
    *INPUTS,
    Stage(
        "raw",
        "Raw scores",
        "raw score",
        "Every query meets every key: multiply dimension by dimension and add up.",
        beside="weights",
    ),
    Stage(
        "scaled",
        "Scaled",
        "scaled score",
        "The same scores, made smaller so that the softmax does not saturate.",
        beside="weights",
    ),
    Stage("mask", "Mask", "mask", "Which keys each query may look at.", scale="permission", after_mask=True),
    Stage(
        "masked",
        "Masked",
        "masked score",
        "Forbidden pairs are set to −∞, so that e to that power is exactly 0.",
        after_mask=True,
        beside="weights",
    ),
    Stage(
        "weights",
        "Softmax",
        "weight",
        "Each row becomes weights that add up to 1.",
        scale="share",
        after_mask=True,
        beside="masked",
    ),
    Stage(
        "output", "Output", "output", "Each query receives the values, averaged with its weights.", columns="dimension"
    ),
)
BY_KEY = {stage.key: stage for stage in STAGES}
