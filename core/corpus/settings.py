"""What decides the result of a run: its settings, and the job, which adds the model, the texts and the versions."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from math import ceil, log2
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from ..claims.claim import Claim, require_few
from ..claims.shares import MOST_TOKENS
from ..errors import InputError
from ..heads.metrics import METRICS, NAMES
from ..installed import versions
from ..models.devices import DTYPES
from ..models.passages import By
from ..record_pass import name_alone

# The metrics whose strongest queries are kept unless others are named: those that speak of something in the text.
EXAMPLES_OF = ("elsewhere", "previous", "next", "duplicate", "induction", "punctuation", "distance", "entropy")
LEAST = {"passage_tokens": 8, "strongest": 1, "sample": 1}


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """How a model reads a corpus, what is measured of its heads, and how much of that is kept.

    column     the column of JSONL, CSV and Parquet that holds the texts
    by         what one text is in a file of plain text
    heads      (layer, head) of those that are measured, sorted; None: all
    tokens     read passages drawn at random that have at most this many tokens together; None: all passages
    passage_tokens  the maximum number of tokens of a passage, special ones included
    strongest  how many queries are kept of each head and metric of `examples_of`: those where it is largest
    sample     how many queries drawn at random are kept, the same for every head
    claims     lines of claims that are tested (`core.claims.claim`)
    metrics    names of those that are measured, in the order of all arrays; whatever `core.heads.metrics` has
    """

    column: str = "text"
    by: By = "document"
    heads: tuple[tuple[int, int], ...] | None = None
    tokens: int | None = None
    passage_tokens: int = 128
    strongest: int = 50
    sample: int = 200
    examples_of: tuple[str, ...] = EXAMPLES_OF
    claims: tuple[str, ...] = ()
    dtype: str = "float32"
    device: str = "cpu"
    metrics: tuple[str, ...] = NAMES

    @classmethod
    def read(cls, written: dict[str, Any]) -> RunSettings:
        """Settings from the JSON form of `dataclasses.asdict`."""
        heads = None if written["heads"] is None else tuple((layer, head) for layer, head in written["heads"])
        tuples: dict[str, Any] = {name: tuple(written[name]) for name in ("examples_of", "claims", "metrics")}
        return cls(**{**written, **tuples, "heads": heads})

    def validate(self) -> None:
        """Raise InputError, with the setting as its field, for a value that no run can have."""
        for name, least in LEAST.items():
            if getattr(self, name) < least:
                raise InputError(f"{name} is {getattr(self, name)}; it has to be at least {least}.", field=name)
        if self.tokens is not None and self.tokens < self.passage_tokens:
            why = f"{self.tokens} tokens are less than one passage has ({self.passage_tokens}). Ask for more."
            raise InputError(why, field="tokens")
        self.require_metrics()
        if self.by not in get_args(By):
            raise InputError(f"by is {self.by!r}. Choose one of {', '.join(get_args(By))}.", field="by")
        if self.heads == ():
            why = "There are no heads to measure. Name some, or leave this out to measure all."
            raise InputError(why, field="heads")
        require_few(self.claims)
        if self.claims and self.passage_tokens > MOST_TOKENS:
            why = f"With claims a passage can have {MOST_TOKENS} tokens, not {self.passage_tokens:,}."
            raise InputError(why, field="passage_tokens")
        for line in self.claims:
            Claim.read(line)
        if self.dtype not in DTYPES:
            raise InputError(f"{self.dtype!r} is not a dtype. Choose one of {', '.join(DTYPES)}.", field="dtype")

    def require_metrics(self) -> None:
        """Raise InputError (field "metrics" or "examples_of") for a metric that this version does not measure."""
        for name, known in (("metrics", NAMES), ("examples_of", self.metrics)):
            if unknown := [metric for metric in getattr(self, name) if metric not in known]:
                raise InputError(f"There is no metric {unknown[0]!r}. There are: {', '.join(known)}.", field=name)

    @cached_property
    def highs(self) -> NDArray[np.float64]:
        """[metrics] the upper end of the range of each metric, whose lower end is 0."""
        highs = metric_highs(self.passage_tokens)
        return np.array([highs[name] for name in self.metrics])


@dataclass(frozen=True)
class Job:
    """A run as it was begun. A stopped run continues only if all of this is the same.

    model     a name, or an absolute path
    folder    of the texts
    versions  as `versions_that_count` gives them
    """

    model: str
    revision: str
    folder: str
    versions: dict[str, str]
    settings: RunSettings

    def json(self, corpus: str) -> str:
        """The text of job.json, which names folders without those that they are in. corpus: a hash of all passages"""
        folder = self.folder if "://" in self.folder else name_alone(self.folder)
        facts: dict[str, Any] = {**asdict(self), "model": name_alone(self.model), "folder": folder}
        return json.dumps(facts.pop("settings") | facts | {"corpus": corpus}, sort_keys=True, indent=1)


def versions_that_count() -> dict[str, str]:
    """The versions of what computes, on this machine. That of Python changes no number."""
    return {name: version for name, version in versions("torch", "transformers", "numpy").items() if name != "Python"}


def distance_ranges(passage_tokens: int) -> NDArray[np.int64]:
    """The ranges of key - query that are counted apart, [ranges, 2], both ends included: ..., (-4, -3), (-2, -2), (-1, -1),
    (0, 0), (1, 1), (2, 2), (3, 4), (5, 8), ..."""
    steps = ceil(log2(max(passage_tokens, 2)))
    after = [(1, 1), *((2**step // 2 + 1, 2**step) for step in range(1, steps + 1))]
    return np.array([*((-high, -low) for low, high in reversed(after)), (0, 0), *after])


def metric_highs(passage_tokens: int) -> dict[str, float]:
    """The upper end of the range of each metric over passages of at most this many tokens, by its name."""
    return {metric.name: max(metric.highest(passage_tokens), 1e-9) for metric in METRICS}
