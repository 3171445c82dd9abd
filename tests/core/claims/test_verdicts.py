"""Verdicts on sums that are made so that each number has a closed form."""

from itertools import accumulate
from math import comb

import numpy as np
import pytest

from core.claims.claim import Claim
from core.claims.shares import GROUPS, LOOKING, TESTING, ClaimSums
from core.claims.verdicts import of_every_head, sentence, verdicts

HEADS = np.array([(0, 0), (0, 1), (1, 0)])
CLAIM = "0.1: looks at word starts, at least 0.4"


def made(
    line=CLAIM, *, share=0.6, queries=5, groups=16, passages=None, half=TESTING, others=(0.1, 0.2), into=None, **totals
):
    """Sums of one claim in a half: so many queries in each of some groups, and the share of head 0.1 in each, or in all.

    others  the shares of 0.0 and 1.0
    totals  by their names in `ClaimSums`, over a number of queries: the mean of each head, or of all
    """
    sums = into or ClaimSums((Claim.read(line),), HEADS)
    count = queries * groups
    shares = np.zeros(sums.shares.whole.shape)
    for head, of_head in enumerate((others[0], share, others[1])):
        sums.queries[half, :groups, 0, head] = queries
        shares[half, :groups, 0, head] = queries * np.asarray(of_head)
    sums.shares.add(shares)
    sums.passages[half] += groups if passages is None else passages
    for name, mean in totals.items():
        number = np.zeros(sums.chance.whole.shape)
        number[half, 0] = count * np.asarray(mean)
        if name in ("chance", "usual"):
            getattr(sums, name).add(number)
        else:
            getattr(sums, name)[:] += number.astype(int)
    return sums


def row(*args, **kwargs):
    return verdicts(made(*args, **kwargs)).iloc[0]


def test_the_interval_of_groups_with_all_and_nothing():
    """The number of groups with all, of as many that are drawn, is binomial."""
    groups = GROUPS
    found = row(groups=groups, share=np.arange(groups) % 2)
    below = [*accumulate(comb(groups, k) / 2**groups for k in range(groups + 1))]
    low, high = (next(k for k, p in enumerate(below) if p >= edge) for edge in (0.025, 0.975))
    assert (found["share"], found["low"], found["high"]) == (0.5, low / groups, high / groups)
    assert verdicts(made(share=np.arange(16) / 16), seed=3).equals(verdicts(made(share=np.arange(16) / 16), seed=3))


def test_the_interval_weighs_groups_by_their_queries():
    sums = made(groups=GROUPS, queries=50, share=np.arange(GROUPS) % 2)
    sums.queries[TESTING, ::2, 0, 1] = 150
    found = verdicts(sums).iloc[0]
    assert found["share"] == 0.25
    assert 0.1 < found["low"] < 0.25 < found["high"] < 0.37


def test_every_head_has_the_numbers_of_a_claim_about_it():
    """Also where one has fewer queries than others, as with a mask of its own, and where one has none."""
    sums = made(share=np.arange(16) / 16, others=(np.arange(16) / 32, 0.3), chance=0.1, usual=(0.2, 0.1, 0.05))
    sums.queries[TESTING, 3:9, 0, 0] = 0
    sums.queries[TESTING, :, 0, 2] = 0
    every = of_every_head(sums)
    assert every["head"].tolist() == ["0.0", "0.1"]
    for head, row in every.set_index("head").iterrows():
        sums.claims = (Claim.read(CLAIM.replace("0.1", head, 1)),)
        alone = verdicts(sums).iloc[0].drop(["claim", "head"])
        assert alone["low"] < alone["high"]
        assert row.drop("claim").equals(alone)


HALF = np.arange(16) % 2
CASES = {
    "more than it says": ({}, "holds"),
    "just that": ({"share": 0.40001}, "holds"),
    "less": ({"share": 0.39999}, "does not hold"),
    "perhaps more": ({"share": 0.6 * HALF + 0.1}, "cannot be said"),
    "just above the base rate of another head": ({"usual": (0.555, 0, 0)}, "holds"),  # by a tenth of .445
    "not enough above it": ({"usual": (0.556, 0, 0)}, "does not hold"),
    "not enough above chance": ({"chance": (0, 0, 0.556)}, "does not hold"),
    "perhaps enough above chance": (
        {"chance": 0.35, "share": 0.4 * HALF + 0.2, "line": CLAIM.replace("0.4", "0.1")},
        "cannot be said",
    ),
    "29 queries": ({"queries": 1, "groups": 29}, "cannot be said"),
    "30 queries": ({"queries": 1, "groups": 30}, "holds"),
    "in 7 passages": ({"passages": 7}, "cannot be said"),
    "in 8 passages": ({"passages": 8}, "holds"),
    "in one group": ({"groups": 1, "queries": 99, "passages": 20}, "cannot be said"),
    "by position": ({"usual": 0.9, "line": "0.1: looks at itself, at least 0.4"}, "holds"),
    "while looking": ({"half": LOOKING}, "cannot be said"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_rule(name):
    changes, verdict = CASES[name]
    assert row(**changes)["verdict"] == verdict


def test_what_stands_beside_a_share():
    numbers = {
        "chance": (0.1, 0.05, 0.3),
        "usual": (0.2, 0.07, 0.1),
        "recalled": (0, 0.75, 0),
        "strong": 0.5,
        "hits": (0, 0.4, 0),
    }
    found = row(others=(0.7, 0.6), **numbers)
    names = ["chance", "base_rate", "recall", "precision", "null", "rank"]
    np.testing.assert_allclose(found[names].tolist(), [0.05, 0.07, 0.75, 0.8, 0.3, 2])
    assert np.isnan(row(line="0.1: looks at itself, at least 0.4", **numbers)["base_rate"])
    assert np.isnan(row(line="0.1: looks at special tokens or the first token, at least 0.4", **numbers)["precision"])
    assert np.isnan(row(line="0.1: looks at special tokens or itself, at least 0.4", **numbers)["precision"])
    assert np.isnan(row(**numbers | {"strong": 0, "hits": 0})["precision"])


def test_any_head_is_found_in_the_half_for_looking_and_judged_in_the_other():
    line = "any head: looks at word starts, at least 0.4"
    sums = made(line, half=LOOKING, share=0.5, others=(0.8, 0.1))
    found = verdicts(made(line, share=0.9, others=(0.3, 0.95), into=sums)).iloc[0]
    assert (found["head"], found["rank"], found["verdict"]) == ("0.0", 3, "does not hold")
    np.testing.assert_allclose(found[["share", "looking"]].tolist(), [0.3, 0.8])


@pytest.mark.parametrize("head", ["0.1", "any head"])
def test_a_claim_that_speaks_of_nothing_is_no_success(head, recwarn):
    found = verdicts(ClaimSums((Claim.read(CLAIM.replace("0.1", head)),), HEADS)).iloc[0]
    assert (found["queries"], found["verdict"]) == (0, "cannot be said")
    assert found[["share", "low", "high", "recall", "null", "rank"]].isna().all()
    assert found["head"] == head
    assert sentence(found) == "Cannot be said: 0 queries in 0 passages speak of it."
    assert not recwarn.list
