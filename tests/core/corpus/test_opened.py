"""A finished run that is opened says what a plain loop over the same texts finds, and reads no more than is asked for."""

import shutil
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from core import Model, load_model
from core.corpus.opened import Distribution, Run, open_run, spread_over_quantiles
from core.corpus.settings import distance_ranges
from core.corpus.tables import MAP
from core.corpus.tally import BINS
from core.heads.metrics import METRICS, NAMES
from core.models.passages import CLASSES, Location, Passage
from core.models.tokens import token_texts
from tests.core.corpus.made_runs import CLUSTERS, FILE, SAMPLE, SENTENCES, STRONGEST, TOKENS, add_map, made_run
from tests.core.corpus.plain import Query, passages, queries_of, reader
from tests.core.tiny_models import WEIGHTS_ONLY, randomised, tiny
from tests.depth import sampled

NEAR = 2e-5  # of a metric: an entropy is a sum over 60 keys in float32
TEXTS = [Passage(Location(FILE, row), 0, one.text) for row, one in enumerate(passages(15), 1)]
HEADS = [*product(range(2), range(4))]


@dataclass
class Plain:
    """A run over TEXTS, and all of its queries as a plain loop finds them; numbers: by metric [heads, queries]."""

    model: Model
    run: Run
    queries: list[Query]
    numbers: dict[str, np.ndarray]


@pytest.fixture(scope="module", params=sampled(["BERT", "Llama", "GPT-J"], ["BERT"]))
def plain(request, tmp_path_factory):
    """One that looks both ways, one that looks back only and shares keys, one that exposes weights alone."""
    name = request.param
    network = tiny(name) if name in ("BERT", "Llama") else randomised(WEIGHTS_ONLY[name]())
    model = load_model(network, tokenizer=reader())
    folder = made_run(tmp_path_factory.mktemp(name) / "run", model, sentences=tuple(one.text for one in TEXTS))
    queries = queries_of(model, TEXTS, causal=name != "BERT")
    measured = [metric.name for metric in METRICS if model.captures or "mask" not in metric.needs]  # two need the mask
    numbers = {name: np.stack([query.numbers[name] for query in queries], axis=1) for name in measured}
    return Plain(model, open_run(folder), queries, numbers)


def test_means_and_distributions(plain):
    """Below every edge lie as many queries as in the loop, but for those that rounding takes across it."""
    run = plain.run
    assert (run.heads, run.about.tokens, run.names) == (tuple(HEADS), len(plain.queries), tuple(plain.numbers))
    assert list(run.table.columns) == ["layer", "head", *NAMES]
    for name, numbers in plain.numbers.items():
        assert_allclose(run.means(name).ravel(), np.nanmean(numbers, axis=1), atol=NEAR, err_msg=name)
        assert_array_equal(run.table[name].to_numpy().reshape(2, 4), run.means(name))
        for head, values in zip(HEADS, numbers, strict=True):
            found, values = run.distribution(*head, name), values[np.isfinite(values)]
            assert found.count == len(values) == found.histogram.sum()
            assert_allclose([found.mean, found.spread], [values.mean(), values.std()], atol=NEAR, err_msg=name)
            below = (values < found.edges[1:-1, None]).sum(axis=1)
            at_edge = (np.abs(values - found.edges[1:-1, None]) < NEAR).sum(axis=1)
            assert (np.abs(found.histogram.cumsum()[:-1] - below) <= at_edge).all(), (name, head)
            for share in (0.05, 0.5, 0.95, 1.0):
                exact = np.quantile(values, share, method="inverted_cdf")
                assert abs(found.quantile(share) - exact) <= found.high / BINS + NEAR, (name, head, share)
    highs = [run.distribution(0, 0, name).high for name in ("entropy", "distance", "sink")]
    assert highs == [np.log(TOKENS), TOKENS - 1, 1]
    for ask in (lambda: run.means("no metric"), lambda: run.distribution(6, 0, "previous")):
        with pytest.raises(KeyError):
            ask()


def test_attention_between_classes(plain):
    """From each class to each other, what even attention would have given, and how many queries there were."""
    attention, chance = np.zeros((2, len(HEADS), len(CLASSES), len(CLASSES)))
    queries = np.zeros((len(CLASSES), 1))
    for query in plain.queries:
        of = CLASSES.index(query.of)
        queries[of] += 1
        for key, name in enumerate(query.keys):
            attention[:, of, CLASSES.index(name)] += query.weights[:, key]
            chance[:, of, CLASSES.index(name)] += query.even[key]
    assert (queries[:, 0] > 9).tolist() == [name != "blank" for name in CLASSES]  # of which there are none
    tables = [plain.run.classes(*head) for head in HEADS]
    found = {name: np.reshape([table[name] for table in tables], attention.shape) for name in tables[0].columns}
    assert_array_equal(found["queries"], np.broadcast_to(queries, attention.shape))
    shares = np.where(queries > 0, attention / queries.clip(1), np.nan)
    assert_allclose(found["attention"], shares, atol=1e-6)
    assert np.nanmax(np.abs(shares - shares.swapaxes(1, 2))) > 0.1  # queries and keys cannot be mistaken for each other
    expected = np.where(queries > 0, chance / queries.clip(1), np.nan) if plain.model.captures else shares * np.nan
    assert_allclose(found["chance"], expected, atol=1e-6)


def test_attention_by_distance(plain):
    ranges = distance_ranges(TOKENS)
    assert ranges[:, 0].tolist() == sorted(-last for last in ranges[:, 1])
    assert ranges[1:, 0].tolist() == (ranges[:-1, 1] + 1).tolist()  # none is missing, none twice
    assert (ranges[0, 0], ranges[-1, 1]) == (-64, 64)
    expected, chance = np.zeros((2, len(HEADS), len(ranges)))
    for query in plain.queries:
        for key in range(len(query.keys)):
            (into,) = np.flatnonzero((ranges[:, 0] <= key - query.place) & (key - query.place <= ranges[:, 1]))
            expected[:, into] += query.weights[:, key] / len(plain.queries)
            chance[:, into] += query.even[key] / len(plain.queries)
    for at, head in enumerate(HEADS):
        found = plain.run.distances(*head)
        assert_array_equal(found[["first", "last"]], ranges)
        assert_allclose(found["attention"], expected[at], atol=1e-6)
        assert_allclose(found["chance"], chance[at] if plain.model.captures else chance[at] * np.nan, atol=1e-6)


def test_the_strongest_queries(plain):
    """Those that sorting all queries of all texts puts first; each with its weights."""
    run, at = plain.run, {(query.passage.place.row, query.place): query for query in plain.queries}
    for name, (number, head) in product(run.about.examples_of, enumerate(HEADS)):
        found = run.strongest(*head, name)
        if name not in plain.numbers:
            assert found == []
            continue
        values = plain.numbers[name][number]
        largest = np.sort(values[values > 1e-9])[::-1][:STRONGEST]
        assert run.count_strongest(*head, name) == len({(one.row, one.query) for one in found}) == len(largest)
        assert_allclose([one.score for one in found], largest, atol=NEAR, err_msg=name)
        for one in found:
            query = at[one.row, one.query]
            assert one.score == pytest.approx(query.numbers[name][number], abs=NEAR)
            assert_allclose(one.weights, query.weights[number], atol=2e-6)
            assert (one.file, one.text, one.start) == (FILE, query.passage.text, 0)
            tokenizer = plain.model.tokenizer
            assert one.tokens == token_texts(tokenizer, tokenizer(one.text)["input_ids"])
        part = run.strongest(*head, name, 3, 5)
        assert [(one.row, one.query) for one in part] == [(one.row, one.query) for one in found[3:5]]
    assert run.strongest(0, 0, "locality") == []  # of which none are kept
    assert run.strongest(0, 0, "next", 50, 60) == []


def test_the_sample(plain):
    """Exactly those queries with the smallest draws, of all texts, with every metric and weight of every head."""
    drawn = sorted(plain.queries, key=lambda query: query.draw)[:SAMPLE]
    assert len({query.passage.id for query in drawn}) > 5
    for number, head in enumerate(HEADS):
        sample = plain.run.sample(*head)
        rows = sample.rows
        assert rows["passage"].tolist() == [query.passage.id for query in drawn]
        assert rows["query"].tolist() == [query.place for query in drawn]
        for name in plain.numbers:
            assert_allclose(rows[name], [query.numbers[name][number] for query in drawn], atol=NEAR, err_msg=name)
        for weights, query in zip(rows["weights"], drawn, strict=True):
            assert_allclose(weights, query.weights[number], atol=2e-6)
        found = sample.examples(sample.ordered("previous"), "previous")
        scores = [one.score for one in found]
        assert scores == sorted(rows["previous"].dropna(), reverse=True)  # the first token of a text has none before it
        assert all(one.values["previous"] == one.score for one in found)
        upper = [one.score for one in sample.examples(sample.ordered("previous", 0.75, 1), "previous")]
        assert upper == scores[: len(upper)]
        assert len(upper) == pytest.approx(len(scores) / 4, abs=1)
        assert len(sample.ordered("previous", 0.4999, 0.5001)) <= 1


@pytest.fixture(scope="module")
def run(minilm, tmp_path_factory):
    folder = made_run(tmp_path_factory.mktemp("corpora") / "sentences", minilm)
    add_map(folder)
    return open_run(folder)


def test_quantiles_lie_within_a_part():
    found = Distribution(4, 0, 0, 2.0, np.array([2, 0, 0, 2]))
    assert [found.quantile(share) for share in (0, 0.25, 0.5, 0.75, 1)] == [0, 0.25, 0.5, 1.75, 2]
    assert np.isnan(Distribution(0, 0, 0, 1.0, np.zeros(4, int)).quantile(0.5))


@pytest.mark.thorough
def test_every_head_has_all_of_its_rows(run):
    """Wherever groups of rows begin and end; relations that a head follows most beyond their baseline come first."""
    for layer, head in run.heads:
        assert len(run.sample(layer, head).rows) == SAMPLE, (layer, head)
        assert len(run.classes(layer, head).dropna(subset="queries")) == len(CLASSES) ** 2, (layer, head)
        relations = run.relations(layer, head)
        assert set(relations["relation"]) == {"nsubj", "obj"}
        assert (np.diff(relations["attention"] - relations["baseline"]) <= 0).all()


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
