"""The map of heads: near means alike, the same map every time, whatever is missing."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from core.corpus.profiles import map_of
from core.corpus.tables import ALIKE, MAP_METADATA, HeadMap
from core.heads.metrics import METRICS
from core.models.passages import CLASSES
from tests.depth import thorough

RANGES = [(-64, -5), (-4, -2), (-1, -1), (0, 0), (1, 1), (2, 64)]
ROOT = Path(__file__).parents[3]
KINDS = {
    "previous": {"previous": 0.8, "locality": 0.9, "largest": 0.8, "entropy_share": 0.2, "distance": 3},
    "sink": {"sink": 0.85, "largest": 0.85, "entropy_share": 0.2, "distance": 30},
    "even": {"entropy_share": 0.95, "entropy": 3.8, "distance": 21, "punctuation": 0.2},
}


def tables(kinds, seed=0, per_layer=4):
    """The tables of a run of so many heads, each of one of KINDS with a little noise: metrics, classes, distances."""
    chance, metrics, classes, distances = np.random.default_rng(seed), [], [], []
    for number, kind in enumerate(kinds):
        layer, head = divmod(number, per_layer)
        for metric in METRICS:
            high = {"nats": 4.2, "tokens": 63.0, "": 1.0}[metric.unit]
            mean = KINDS[kind].get(metric.name, 0.05) * (1 + 0.05 * chance.random())
            metrics.append((layer, head, metric.name, 100, mean, mean / 10, high))
        for of in CLASSES:
            queries = 0 if of == "blank" else 20
            shares = chance.dirichlet([20.0] * len(CLASSES))
            for to, share in zip(CLASSES, shares, strict=True):
                row = (queries, share, 1 / len(CLASSES)) if queries else (0, np.nan, np.nan)
                classes.append((layer, head, of, to, *row))
        center = {"previous": 2, "sink": 0, "even": 3}[kind]
        along = np.array([5.0 if place == center else 1.0 for place in range(len(RANGES))])
        along = chance.dirichlet(20 * along) if kind != "even" else chance.dirichlet([50.0] * len(RANGES))
        distances += [(layer, head, *span, share, 1 / 6) for span, share in zip(RANGES, along, strict=True)]
    return (
        pd.DataFrame(metrics, columns=["layer", "head", "metric", "count", "mean", "spread", "high"]),
        pd.DataFrame(classes, columns=["layer", "head", "query_class", "key_class", "queries", "attention", "chance"]),
        pd.DataFrame(distances, columns=["layer", "head", "first", "last", "attention", "chance"]),
    )


MIXED = ["previous", "sink", "even", "even", "sink", "sink"] * 4


@pytest.fixture(scope="module")
def mixed():
    return map_of(*tables(MIXED))


def test_heads_of_a_kind_lie_together(mixed):
    heads = mixed.heads
    assert heads[["layer", "head"]].to_numpy().tolist() == [[*divmod(place, 4)] for place in range(24)]
    for kind in KINDS:
        of_kind = np.array(MIXED) == kind
        assert heads["cluster"][of_kind].nunique() == 1
        places = heads[["x", "y"]].to_numpy()
        center = places[of_kind].mean(axis=0)
        farthest = np.linalg.norm(places[of_kind] - center, axis=1).max()
        assert np.linalg.norm(places[~of_kind] - center, axis=1).min() > 1.5 * farthest
    for place, alike in enumerate(heads["alike"]):
        same = [other for other in range(24) if other != place and MIXED[other] == MIXED[place]][:ALIKE]
        assert set(alike[: len(same)]) <= {other for other in range(24) if MIXED[other] == MIXED[place]} - {place}
        assert len(alike) == ALIKE
    assert mixed.trustworthiness > 0.8
    assert mixed.silhouette > 0.4


def test_words_of_clusters(mixed):
    """Largest first; by what they stand out, with the means of these heads and of all others."""
    assert [int((mixed.heads["cluster"] == place).sum()) for place in range(3)] == [12, 8, 4]
    means = tables(MIXED)[0].pivot(index=["layer", "head"], columns="metric", values="mean")
    said = {"sink": "First token", "entropy_share": "Entropy, share", "previous": "Previous token"}
    for name, label in said.items():
        kind = {"entropy_share": "even"}.get(name, name)
        own, others = (means[name][inside].mean() for inside in (np.array(MIXED) == kind, np.array(MIXED) != kind))
        assert any(words.startswith(f"{label} {own:.0%} (others {others:.0%})") for words in mixed.clusters)


def test_no_two_clusters_have_the_same_words():
    """Where no metric tells them apart, a head does."""
    metrics, classes, distances = tables(["sink"] * 24, seed=1)
    place = metrics["layer"] * 4 + metrics["head"]
    metrics.loc[metrics["metric"] == "induction", "mean"] = 0.3 * (place % 3 == 0) + 0.02
    metrics.loc[metrics["metric"] == "duplicate", "mean"] = 0.3 * (place % 3 == 1) + 0.02
    found = map_of(metrics, classes, distances)
    assert len(set(found.clusters)) == len(found.clusters) == 3
    assert sum(words.startswith("Induction 32% (others 2%)") for words in found.clusters) == 1
    assert sum(words.startswith("Duplicate token 32% (others 2%)") for words in found.clusters) == 1
    metrics, classes, distances = tables(["even"] * 24)
    metrics["mean"] = metrics["spread"] = 0.05
    distances["attention"] = np.eye(3, len(RANGES))[np.arange(24) % 3].ravel()  # all of it in one range
    found = map_of(metrics, classes, distances)
    assert len(set(found.clusters)) == len(found.clusters) == 3
    assert all(words.startswith("around head ") for words in found.clusters)


def fingerprint(found: HeadMap) -> str:
    table = found.table()
    return hashlib.sha256(repr(table.to_pydict()).encode() + table.schema.metadata[MAP_METADATA]).hexdigest()


@thorough
def test_the_same_tables_give_the_same_map(mixed):
    """In another process, in another order of rows, with more threads.
    Only this test finds a map that depends on the process which draws it."""
    rows = tables(MIXED)
    shuffled = [table.sample(frac=1, random_state=4) for table in rows]
    assert fingerprint(map_of(*shuffled)) == fingerprint(mixed)
    code = "from tests.core.corpus.test_profiles import *; print(fingerprint(map_of(*tables(MIXED))))"
    environment = os.environ | {"OMP_NUM_THREADS": "2", "PYTHONHASHSEED": "7"}
    there = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, env=environment, text=True)
    assert there.strip() == fingerprint(mixed)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 11, 12])
def test_few_heads(count):
    found = map_of(*tables(MIXED[:count]))
    assert np.isfinite(found.heads[["x", "y"]].to_numpy()).all()
    assert [sorted(alike) for alike in found.heads["alike"]] == [
        [other for other in range(count) if other != place] for place in range(count)
    ] or count > ALIKE + 1
    assert (found.trustworthiness is None) == (count < 3)
    if count < 12:
        assert (found.clusters, found.silhouette) == (("All heads",), None)
        assert (found.heads["cluster"] == 0).all()
    table = found.table()
    assert json.loads(table.schema.metadata[MAP_METADATA])["clusters"] == [*found.clusters]
    assert table["alike"].to_pylist() == found.heads["alike"].tolist()


def test_heads_that_are_all_the_same():
    metrics, classes, distances = tables(["sink"] * 20)
    first = [table[(table["layer"] == 0) & (table["head"] == 0)] for table in (metrics, classes, distances)]
    found = map_of(*(pd.concat([table.assign(head=head) for head in range(20)]) for table in first))
    assert not found.heads[["x", "y"]].to_numpy().any()
    assert (found.clusters, found.trustworthiness) == (("All heads",), None)
    assert found.heads["alike"][5] == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]


def test_what_no_head_has_is_left_out(mixed):
    """A metric without anything to measure, classes without queries: the map is the one without them."""
    metrics, classes, distances = tables(MIXED)
    missing = metrics["metric"].isin(["special", "induction"])
    without = map_of(metrics[~missing], classes, distances)
    metrics.loc[missing, ["mean", "spread"]] = np.nan
    assert fingerprint(map_of(metrics, classes, distances)) == fingerprint(without) != fingerprint(mixed)
    metrics.loc[missing, ["mean", "spread"]] = 0.25, 0.1  # what all have alike tells none apart
    same = map_of(metrics, classes, distances).heads
    np.testing.assert_array_equal(same[["x", "y"]], without.heads[["x", "y"]])


def test_no_part_drowns_the_others():
    """Heads that differ in one part alone lie apart, in whatever units it is measured and however many columns others have."""
    for part in range(3):
        rows = [*tables(["even"] * 24, seed=3)]
        others = tables(MIXED, seed=3)
        columns = (["mean", "spread"], ["attention"], ["attention"])[part]
        if part == 1:
            kinds = rows[1]["layer"].to_numpy() * 4 + rows[1]["head"].to_numpy()
            to = np.array([CLASSES.index(name) for name in rows[1]["key_class"]])
            rows[1]["attention"] = np.where(kinds % 3 == to % 3, 0.4, 0.1 / 1.5)
            expected = np.arange(24) % 3
        else:
            rows[part][columns] = others[part][columns]
            expected = np.array([[*KINDS].index(kind) for kind in MIXED])
        alike = map_of(*rows).heads["alike"]
        assert np.mean([expected[near[:3]] == expected[place] for place, near in enumerate(alike)]) > 0.8, part


def test_of_no_heads_and_of_other_heads_there_is_no_map():
    metrics, classes, distances = tables(MIXED)
    with pytest.raises(ValueError, match="no heads"):
        map_of(metrics[:0], classes[:0], distances[:0])
    with pytest.raises(ValueError, match="same heads"):
        map_of(metrics, classes, distances[distances["layer"] > 0])
