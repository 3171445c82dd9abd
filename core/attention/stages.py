"""The stages of a trace in their order: what each is called, what it does, and its array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .trace import AttentionTrace


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One picture of the computation.

    key         the attribute of a trace that holds its array
    name        how a person calls it
    noun        what one number of it is called
    sentence    what happens here, in one sentence
    rows        what a row is: "query" or "key"
    columns     what a column is: "key" or "dimension"
    scale       "signed" numbers around 0, a "share" from 0 to 1, or a "permission" of 1 and 0
    after_mask  whether a forbidden pair is told apart: Q, K, V and the scores before the mask exist for every pair
    beside      the key of a stage whose number one wants to see beside this one, or None
    """

    key: str
    name: str
    noun: str
    sentence: str
    rows: Literal["query", "key"]
    columns: Literal["key", "dimension"]
    scale: Literal["signed", "share", "permission"]
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
    Stage(
        key="query",
        name="Query",
        noun="query",
        sentence="What each position looks for.",
        rows="query",
        columns="dimension",
        scale="signed",
    ),
    Stage(
        key="key",
        name="Key",
        noun="key",
        sentence="What each position offers to be found by.",
        rows="key",
        columns="dimension",
        scale="signed",
    ),
    Stage(
        key="value",
        name="Value",
        noun="value",
        sentence="What each position passes on when it is attended to.",
        rows="key",
        columns="dimension",
        scale="signed",
    ),
)

STEPS = (
    Stage(
        key="raw",
        name="Raw scores",
        noun="raw score",
        sentence="Every query meets every key: multiply dimension by dimension and add up.",
        rows="query",
        columns="key",
        scale="signed",
        beside="weights",
    ),
    Stage(
        key="scaled",
        name="Scaled",
        noun="scaled score",
        sentence="The same scores, made smaller so that the softmax does not saturate.",
        rows="query",
        columns="key",
        scale="signed",
        beside="weights",
    ),
    Stage(
        key="mask",
        name="Mask",
        noun="mask",
        sentence="Which keys each query may look at.",
        rows="query",
        columns="key",
        scale="permission",
        after_mask=True,
    ),
    Stage(
        key="masked",
        name="Masked",
        noun="masked score",
        sentence="Forbidden pairs are set to −∞, so that e to that power is exactly 0.",
        rows="query",
        columns="key",
        scale="signed",
        after_mask=True,
        beside="weights",
    ),
    Stage(
        key="weights",
        name="Softmax",
        noun="weight",
        sentence="Each row becomes weights that add up to 1.",
        rows="query",
        columns="key",
        scale="share",
        after_mask=True,
        beside="masked",
    ),
    Stage(
        key="output",
        name="Output",
        noun="output",
        sentence="Each query receives the values, averaged with its weights.",
        rows="query",
        columns="dimension",
        scale="signed",
    ),
)

STAGES = INPUTS + STEPS
BY_KEY = {stage.key: stage for stage in STAGES}
