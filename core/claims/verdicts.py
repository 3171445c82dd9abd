"""The verdict on each claim, from its sums over the passages for testing.

A claim holds where the lower end of its interval is at least its least share, and stands above what the best of all heads gets
by chance, or by the distances of its keys alone, by a tenth of the room that is left: (low - null) / (1 - null) ≥ 0.1.
It does not hold where the upper end is below either. Otherwise, and with too few queries or passages, it cannot be said.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import InputError
from .claim import Claim
from .shares import LOOKING, TESTING, ClaimSums

Verdict = Literal["holds", "does not hold", "cannot be said"]
LEAST_QUERIES, LEAST_PASSAGES = 30, 8  # for any verdict
ABOVE = 0.1  # of the room above the null: less than a tenth is not a habit
RESAMPLES, INTERVAL = 2000, 0.95
RULE = (
    f"A claim holds if the lower end of its {INTERVAL:.0%} interval is at least the share it names, and lies above the largest "
    "share that any head of the model gets by chance or by the distances of the keys alone, by "
    f"{ABOVE:.0%} of what is left to 1. It does not hold if the upper end lies below either. Otherwise, and with fewer than "
    f"{LEAST_QUERIES} queries or {LEAST_PASSAGES} passages, it cannot be said. All numbers are from the half of the passages "
    "that is for testing."
)


def verdicts(sums: ClaimSums, *, seed: int = 0) -> pd.DataFrame:
    """A row a claim, from the half of the passages for testing unless it says otherwise. seed: of the resamples

    claim       as a line
    head        "layer.head"; for a claim about any head, the one with the largest share in the half for looking, or "any head"
                where it speaks of no query
    queries, passages  how many it speaks of
    share       the mean over these queries; low, high: its interval, by resampling groups of passages
    recall      the share of queries of which the keys get at least the least share
    precision   of the queries that give at least half to one key, which is neither the first nor special: how often the claim
                names this key; NaN where there are none, and for claims about the first or special tokens
    chance      what as many keys get that are drawn evenly from those that each query may attend to
    base_rate   what these keys would get if only their distance counted (`ClaimSums.usual`); NaN for keys that follow from
                position
    rank, heads  the place of the head among all heads by share, from 1, and how many heads there are
    null        the largest chance or base rate of any head
    looking     the share in the half for looking
    verdict     "holds", "does not hold" or "cannot be said" (`RULE`)
    """
    return pd.DataFrame([_row(sums, place, claim, seed) for place, claim in enumerate(sums.claims)])


def _row(sums: ClaimSums, place: int, claim: Claim, seed: int) -> dict[str, Any]:
    queries, shares = sums.queries[:, :, place], sums.shares.values[:, :, place]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = shares.sum(axis=1) / queries.sum(axis=1)
        tested = queries[TESTING].sum(axis=0)
        chance, base = (total.values[TESTING, place] / tested for total in (sums.chance, sums.usual))
        recall = sums.recalled[TESTING, place] / tested
        precision = sums.hits[TESTING, place] / sums.strong[TESTING, place]
    if claim.place is None:
        head = int(np.nanargmax(mean[LOOKING])) if np.isfinite(mean[LOOKING]).any() else 0
    else:
        head = sums.heads.tolist().index([*claim.place])
    if claim.by_position:
        base = np.full_like(base, np.nan)
    if claim.is_about_resting:
        precision = np.full_like(precision, np.nan)
    null = np.nanmax([chance, base]) if tested.any() else np.nan
    low, high = _interval(queries[TESTING, :, head], shares[TESTING, :, head], seed)
    row = {
        "claim": str(claim),
        "head": ".".join(map(str, sums.heads[head].tolist())) if tested[head] else claim.head,
        "queries": int(tested[head]),
        "passages": int(sums.passages[TESTING, place]),
        "share": mean[TESTING, head],
        "low": low,
        "high": high,
        "recall": recall[head],
        "precision": precision[head],
        "chance": chance[head],
        "base_rate": base[head],
        "rank": 1 + int((mean[TESTING] > mean[TESTING, head]).sum()) if tested[head] else np.nan,
        "heads": len(sums.heads),
        "null": null,
        "looking": mean[LOOKING, head],
    }
    return row | {"verdict": _verdict(row, claim.least)}


def _verdict(row: dict[str, Any], least: float) -> Verdict:
    if row["queries"] < LEAST_QUERIES or row["passages"] < LEAST_PASSAGES:
        return "cannot be said"
    wanted = max(least, row["null"] + ABOVE * (1 - row["null"]))
    if row["low"] >= wanted:
        return "holds"
    return "does not hold" if row["high"] < wanted else "cannot be said"


def _interval(queries: NDArray[np.int64], shares: NDArray[np.float64], seed: int) -> tuple[float, float]:
    """The interval of a mean share, from the sums over groups [GROUPS]; NaN for fewer than two groups (percentile bootstrap,
    Efron 1979)."""
    there = queries > 0
    count = int(there.sum())
    if count < 2:
        return np.nan, np.nan
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), RESAMPLES)
    means = (drawn @ shares[there]) / (drawn @ queries[there])
    low, high = np.quantile(means, [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2])
    return float(low), float(high)


def require_annotation(claims: tuple[Claim, ...], is_annotated: bool) -> None:
    """Raise InputError (field "claims") for a claim that asks for an annotation that no text has."""
    if not is_annotated and (claim := next((claim for claim in claims if claim.needs_annotation), None)) is not None:
        why = f"“{claim}” speaks of relations or parts of speech, and these texts have none."
        raise InputError(f"{why} Test it on a .conllu file.", field="claims")


def sentence(row: Any, keys: str = "these keys") -> str:
    """A verdict in words, from a row of the table. keys: what its claim calls them"""
    if row["queries"] < LEAST_QUERIES or row["passages"] < LEAST_PASSAGES:
        return f"Cannot be said: {row['queries']} queries in {row['passages']} passages speak of it."
    said = str(row["verdict"]).capitalize()
    interval = f"{row['share']:.1%} ({row['low']:.1%} to {row['high']:.1%})"
    by_chance = f"no head gives more than {row['null']:.1%} by chance or distance alone"
    return f"{said}: {row['head']} gives {keys} {interval} of its attention; {by_chance}."
