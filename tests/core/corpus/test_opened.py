"""A finished run that is opened says what the model does, reads no more than is asked for, and says what is wrong with it."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from core import capture
from core.corpus.opened import Distribution, open_run, spread_over_quantiles
from core.corpus.passages import CLASSES
from core.corpus.tables import MAP
from core.heads.metrics import NAMES, head_metrics
from tests.core.corpus.made_runs import CLUSTERS, FILE, SAMPLE, SENTENCES, STRONGEST, add_map, made_run

LAYER, HEAD = 2, 9


@pytest.fixture(scope="module")
def run(minilm, tmp_path_factory):
    folder = made_run(tmp_path_factory.mktemp("corpora") / "sentences", minilm)
    add_map(folder)
    return open_run(folder)


@pytest.fixture(scope="module")
def passes(minilm):
    return [capture(minilm, text) for text in SENTENCES]


def previous(passes) -> np.ndarray:
    """What the metric of this name is at every query of all sentences, taken from the head's weights themselves."""
    return np.concatenate([np.diagonal(one.trace(LAYER, HEAD).weights, -1) for one in passes])


def test_means_are_those_of_the_sentences(run, passes):
    assert run.about.tokens == sum(len(one.input_ids) for one in passes)
    assert run.heads == tuple((layer, head) for layer in range(6) for head in range(12))
    lengths = [len(one.input_ids) for one in passes]
    tables = [head_metrics(one) for one in passes]
    for name in ("entropy", "sink", "locality"):  # which every query has
        means = np.average([table[name] for table in tables], axis=0, weights=lengths)
        assert_allclose(run.means(name).ravel(), means, rtol=1e-5)
    assert list(run.table.columns) == ["layer", "head", *NAMES]
    assert_array_equal(run.table["sink"].to_numpy().reshape(6, 12), run.means("sink"))
    with pytest.raises(KeyError):
        run.means("no metric")


def test_a_distribution_is_that_of_all_queries(run, passes):
    values = previous(passes)
    found = run.distribution(LAYER, HEAD, "previous")
    assert found.count == len(values) == found.histogram.sum()
    assert_allclose([found.mean, found.spread], [values.mean(), values.std()], rtol=1e-5)
    for share in (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0):
        exact = np.quantile(values, share, method="inverted_cdf")
        assert abs(found.quantile(share) - exact) <= found.high / 512 + 1e-9, share
    with pytest.raises(KeyError):
        run.distribution(6, 0, "previous")


def test_quantiles_lie_within_a_part():
    found = Distribution(4, 0, 0, 2.0, np.array([2, 0, 0, 2]))
    assert [found.quantile(share) for share in (0, 0.25, 0.5, 0.75, 1)] == [0, 0.25, 0.5, 1.75, 2]
    assert np.isnan(Distribution(0, 0, 0, 1.0, np.zeros(4, int)).quantile(0.5))


def test_classes_and_distances_add_up(run):
    table = run.classes(LAYER, HEAD)
    assert list(table.index.get_level_values(0)[:: len(CLASSES)]) == list(CLASSES)
    rows = table["attention"].to_numpy().reshape(len(CLASSES), len(CLASSES)).sum(axis=1)
    assert_allclose(rows[np.isfinite(rows)], 1, rtol=1e-5)
    assert_allclose(run.distances(LAYER, HEAD)[["attention", "chance"]].sum(), 1, rtol=1e-5)
    relations = run.relations(LAYER, HEAD)
    assert set(relations["relation"]) == {"nsubj", "obj"}
    gains = (relations["attention"] - relations["baseline"]).to_numpy()
    assert (np.diff(gains) <= 0).all()


def test_the_strongest_examples_are_the_rows_of_the_model(run, passes):
    found = run.strongest(LAYER, HEAD, "previous")
    assert len(found) == STRONGEST == run.count_strongest(LAYER, HEAD, "previous")
    assert_allclose([one.score for one in found], np.sort(previous(passes))[::-1][:STRONGEST], rtol=1e-5)
    for one in found:
        taken = passes[one.row - 1]
        assert (one.file, one.text, one.start) == (FILE, SENTENCES[one.row - 1], 0)
        assert one.tokens == taken.tokens("self")[1]
        assert_allclose(one.weights, taken.trace(LAYER, HEAD).weights[one.query], atol=1e-6)
        assert one.score == pytest.approx(one.weights[one.query - 1])
    part = run.strongest(LAYER, HEAD, "previous", 3, 5)
    assert [(one.row, one.query) for one in part] == [(one.row, one.query) for one in found[3:5]]
    assert run.strongest(LAYER, HEAD, "sink") == []  # of which none are kept
    assert run.strongest(LAYER, HEAD, "previous", 50, 60) == []


def test_the_sample_is_ordered_and_cut(run, passes):
    sample = run.sample(LAYER, HEAD)
    places = sample.ordered("previous")
    found = sample.examples(places, "previous")
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True)
    assert SAMPLE - 5 <= len(found) <= SAMPLE  # the first token of a text has none before it
    for one in found[:5]:
        assert_allclose(one.weights, passes[one.row - 1].trace(LAYER, HEAD).weights[one.query], atol=1e-6)
        assert one.values["previous"] == one.score
        assert one.values["sink"] == pytest.approx(one.weights[0])
    upper = [one.score for one in sample.examples(sample.ordered("previous", 0.75, 1), "previous")]
    assert upper == scores[: len(upper)]
    assert len(upper) == pytest.approx(len(scores) / 4, abs=1)
    assert len(sample.ordered("previous", 0.4999, 0.5001)) <= 1


def test_every_head_has_all_of_its_rows(run):
    """Wherever groups of rows begin and end."""
    for layer, head in run.heads:
        assert len(run.sample(layer, head).rows) == SAMPLE, (layer, head)
        assert len(run.classes(layer, head).dropna(subset="queries")) == len(CLASSES) ** 2, (layer, head)


def test_spread_over_quantiles():
    assert_array_equal(spread_over_quantiles(np.arange(20), 4), [2, 7, 12, 17])
    assert_array_equal(spread_over_quantiles(np.arange(3), 4), [0, 1, 2])


def test_the_map_names_clusters_and_heads_that_are_alike(run, tmp_path):
    assert run.map is not None
    assert run.map.clusters == CLUSTERS
    assert run.map.heads["alike"][0] == [1, 2, 3]
    assert run.map.trustworthiness == 0.9
    assert len(run.map.heads) == len(run.heads)
    copy = shutil.copytree(run.folder, tmp_path / "copy")
    (copy / f"{MAP}.parquet").unlink()
    assert open_run(copy).map is None


def test_heads_that_were_not_looked_at_have_no_number(minilm, tmp_path):
    run = open_run(made_run(tmp_path / "two", minilm, sentences=SENTENCES[:1], heads=((1, 3), (4, 0))))
    assert run.heads == ((1, 3), (4, 0))
    assert np.argwhere(np.isfinite(run.means("sink"))).tolist() == [[1, 3], [4, 0]]
    with pytest.raises(KeyError):
        run.sample(0, 0)
