"""The verdict on each claim, from its sums over the passages for testing.

A claim holds where the lower end of its interval is at least its least share, and stands above what the best of all heads gets
by chance, or by the distances of its keys alone, by a tenth of the room that is left: (low - null) / (1 - null) ≥ 0.1.
It does not hold where the upper end is below either. Otherwise, and with too few queries or passages, it cannot be said.
"""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import InputError
from .claim import Claim
from .shares import LOOKING, TESTING, ClaimSums
from .terms import WRITES

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
    chance      what as many keys get that are drawn evenly from those that each query may attend to; of what a head writes,
                how often a token is among as many of the vocabulary
    base_rate   what these keys would get if only their distance counted (`ClaimSums.usual`); NaN for keys that follow from
                position; of what a head writes, how often it raises another token of the passage instead
    rank, heads  the place of the head among all heads by share, from 1, and how many heads there are
    null        the largest chance or base rate of any head
    looking     the share in the half for looking
    verdict     "holds", "does not hold" or "cannot be said" (`RULE`)
    """
    tables = []
    for place, claim in enumerate(sums.claims):
        shares, counted = sums.shares.values[LOOKING, :, place].sum(axis=0), sums.queries[LOOKING, :, place].sum(axis=0)
        if claim.place is not None:
            head = sums.heads.tolist().index([*claim.place])
        else:
            head = int(np.argmax(np.where(counted > 0, shares / counted.clip(1), -1)))
        tables.append(_rows(sums, place, claim, np.array([head]), seed))
    return pd.concat(tables, ignore_index=True)


def of_every_head(sums: ClaimSums, *, seed: int = 0) -> pd.DataFrame:
    """The same columns for every head, whichever a claim is about: a row for each claim and head of which it speaks."""
    every = np.arange(len(sums.heads))
    tables = [_rows(sums, place, claim, every, seed) for place, claim in enumerate(sums.claims)]
    return pd.concat(tables, ignore_index=True).query("queries > 0")


def _rows(sums: ClaimSums, place: int, claim: Claim, heads: NDArray[np.intp], seed: int) -> pd.DataFrame:
    """A row for each of these heads, by their places among all."""
    queries, shares = sums.queries[:, :, place], sums.shares.values[:, :, place]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = shares.sum(axis=1) / queries.sum(axis=1)
        tested = queries[TESTING].sum(axis=0)
        chance, base = (total.values[TESTING, place] / tested for total in (sums.chance, sums.usual))
        recall = sums.recalled[TESTING, place] / tested
        precision = sums.hits[TESTING, place] / sums.strong[TESTING, place]
    if claim.by_position:
        base = np.full_like(base, np.nan)
    if claim.is_about_resting:
        precision = np.full_like(precision, np.nan)
    low, high = _intervals(queries[TESTING][:, heads], shares[TESTING][:, heads], seed)
    names = [".".join(map(str, head)) for head in sums.heads[heads].tolist()]
    above = (mean[TESTING] > mean[TESTING, heads, None]).sum(axis=1)
    rows = pd.DataFrame(
        {
            "claim": str(claim),
            "head": np.where(tested[heads] > 0, names, claim.head),
            "queries": tested[heads],
            "passages": sums.passages[TESTING, place],
            "share": mean[TESTING, heads],
            "low": low,
            "high": high,
            "recall": recall[heads],
            "precision": precision[heads],
            "chance": chance[heads],
            "base_rate": base[heads],
            "rank": pd.Series(1 + above).where(tested[heads] > 0),
            "heads": len(sums.heads),
            "null": np.nanmax([chance, base]) if tested.any() else np.nan,
            "looking": mean[LOOKING, heads],
        }
    )
    return rows.assign(verdict=[_verdict(row, claim.least) for row in rows.to_dict("records")])


def _verdict(row: Mapping[Any, Any], least: float) -> Verdict:
    if row["queries"] < LEAST_QUERIES or row["passages"] < LEAST_PASSAGES:
        return "cannot be said"
    wanted = max(least, row["null"] + ABOVE * (1 - row["null"]))
    if row["low"] >= wanted:
        return "holds"
    return "does not hold" if row["high"] < wanted else "cannot be said"


def _intervals(
    queries: NDArray[np.int64], shares: NDArray[np.float64], seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The intervals of mean shares, from the sums over groups [GROUPS, heads]; NaN for fewer than two groups (percentile
    bootstrap, Efron 1979)."""
    ends = np.full((2, queries.shape[1]), np.nan)
    # Heads of one mask have queries in the same groups.
    patterns, pattern_of = np.unique(queries > 0, axis=1, return_inverse=True)
    for number, there in enumerate(patterns.T):
        if (count := int(there.sum())) > 1:
            drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), RESAMPLES)
            of = pattern_of == number
            means = (drawn @ shares[there][:, of]) / (drawn @ queries[there][:, of])
            ends[:, of] = np.quantile(means, [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2], axis=0)
    return ends[0], ends[1]


def require_annotation(claims: tuple[Claim, ...], is_annotated: bool) -> None:
    """Raise InputError (field "claims") for a claim that asks for an annotation that no text has."""
    if not is_annotated and (claim := next((claim for claim in claims if claim.needs_annotation), None)) is not None:
        why = f"“{claim}” speaks of relations or parts of speech, and these texts have none."
        raise InputError(f"{why} Test it on a .conllu file.", field="claims")


def share_of(row: Mapping[Any, Any]) -> str:
    """The share of a row with its interval, if there is one: with queries in one group of passages alone there is none."""
    return f"{row['share']:.1%}" + ("" if np.isnan(row["low"]) else f" ({row['low']:.1%} to {row['high']:.1%})")


def sentence(row: Any, keys: str = "these keys") -> str:
    """A verdict in words, from a row of the table. keys: what its claim calls them"""
    writes = WRITES in row["claim"]
    if row["queries"] < LEAST_QUERIES or row["passages"] < LEAST_PASSAGES:
        why = f"{row['queries']} queries in {row['passages']} passages speak of it"
        if writes and not row["queries"]:
            why = "what a head writes is known of models that predict the next token alone"
        return f"Cannot be said: {why}."
    said = str(row["verdict"]).capitalize()
    if writes:
        return (
            f"{said}: {row['head']} {WRITES} for {share_of(row)} of its queries; no head writes another token of the passage, "
            f"or one by chance, for more than {row['null']:.1%}."
        )
    by_chance = f"no head gives more than {row['null']:.1%} by chance or distance alone"
    return f"{said}: {row['head']} gives {keys} {share_of(row)} of its attention; {by_chance}."
