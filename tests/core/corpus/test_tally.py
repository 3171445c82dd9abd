"""What is tallied over a corpus, against a plain loop over the same texts; and the same to the last bit in any order."""

import random

import numpy as np
import pytest
from pyarrow import fs

from core import load_model
from core.capturing.calls.rows import row_blocks
from core.corpus.passages import CLASSES, Location, Problem
from core.corpus.settings import RunSettings, distance_ranges
from core.corpus.sums import mean_and_spread
from core.corpus.tables import tables, write
from core.corpus.tally import BINS, LISTED, SUMS, first_of
from core.heads.metrics import METRICS, NAMES
from tests.core.corpus.plain import about, empty_tally, passages, queries_of, reader, settings_of, take, tallied
from tests.core.corpus.test_relations import SENTENCES
from tests.core.tiny_models import WEIGHTS_ONLY, randomised, tiny

NEAR = 2e-5  # of a metric: an entropy is a sum over 60 keys in float32
TEXTS = passages(15)


class Plain:
    """A tally and all queries that it has counted."""

    def __init__(self, model, *, causal):
        self.model, self.causal = model, causal
        self.queries = queries_of(model, TEXTS, causal=causal)
        self.tally = tallied(model, TEXTS, settings_of(model))
        by_name = np.stack([[query.numbers[name] for query in self.queries] for name in NAMES])
        self.numbers = by_name.swapaxes(1, 2)  # [metrics, heads, queries]


@pytest.fixture(scope="module", params=["BERT", "Llama", "GPT-J"])
def plain(request):
    """One that looks both ways, one that looks back only and shares keys, one that exposes weights alone."""
    name = request.param
    network = tiny(name) if name in ("BERT", "Llama") else randomised(WEIGHTS_ONLY[name]())
    return Plain(load_model(network, tokenizer=reader()), causal=name != "BERT")


def usable(plain):
    """[metrics] those that can be measured: two need the mask."""
    return [at for at, metric in enumerate(METRICS) if plain.model.captures or "mask" not in metric.needs]


def test_means_and_spreads(plain):
    tally = plain.tally
    mean, spread = mean_and_spread(tally.counts, tally.totals, tally.squares)
    for metric in usable(plain):
        numbers = plain.numbers[metric]
        np.testing.assert_array_equal(tally.counts[metric], np.isfinite(numbers).sum(axis=1), NAMES[metric])
        np.testing.assert_allclose(mean[metric], np.nanmean(numbers, axis=1), atol=NEAR, err_msg=NAMES[metric])
        np.testing.assert_allclose(spread[metric], np.nanstd(numbers, axis=1), atol=NEAR, err_msg=NAMES[metric])
    assert tally.tokens_read == len(plain.queries)
    assert tally.ids == {text.id for text in TEXTS}


def test_histograms_and_quantiles(plain):
    """Below every edge lie as many queries as in the loop, but for those that rounding takes across it."""
    highs = plain.tally.settings.highs
    assert [highs[NAMES.index(name)] for name in ("entropy", "distance", "sink")] == [np.log(64), 63, 1]
    for metric in usable(plain):
        edges = np.arange(1, BINS) / BINS * highs[metric]
        for head, numbers in enumerate(plain.numbers[metric]):
            numbers = numbers[np.isfinite(numbers)]
            histogram = plain.tally.histogram[metric, head]
            assert histogram.sum() == len(numbers)
            below = (numbers < edges[:, None]).sum(axis=1)
            at_edge = (np.abs(numbers - edges[:, None]) < NEAR).sum(axis=1)
            assert (np.abs(histogram.cumsum()[:-1] - below) <= at_edge).all(), (NAMES[metric], head)
            for share in (0.05, 0.5, 0.95):
                part = np.searchsorted(histogram.cumsum(), share * len(numbers))
                exact = np.quantile(numbers, share, method="inverted_cdf")
                assert abs((part + 0.5) / BINS * highs[metric] - exact) <= highs[metric] / BINS, NAMES[metric]


def test_attention_between_classes(plain):
    """From each class to each other, what even attention would have given, and how many queries there were."""
    heads = len(plain.tally.heads.measured)
    attention, chance = np.zeros((2, heads, len(CLASSES), len(CLASSES)))
    queries = np.zeros(len(CLASSES))
    for query in plain.queries:
        of = CLASSES.index(query.of)
        queries[of] += 1
        for key, name in enumerate(query.keys):
            attention[:, of, CLASSES.index(name)] += query.weights[:, key]
            chance[:, of, CLASSES.index(name)] += query.even[key]
    assert (queries > 9).tolist() == [name != "blank" for name in CLASSES]  # of which there are none
    np.testing.assert_array_equal(plain.tally.queries, np.tile(queries, (heads, 1)))
    np.testing.assert_allclose(plain.tally.attention.values, attention, atol=1e-4)
    assert np.abs(attention - attention.swapaxes(1, 2)).max() > 1  # queries and keys cannot be mistaken for each other
    np.testing.assert_allclose(plain.tally.chance.values, chance if plain.model.captures else 0, atol=1e-4)


def test_attention_by_distance(plain):
    ranges = distance_ranges(plain.tally.settings.passage_tokens)
    assert ranges[:, 0].tolist() == sorted(-last for last in ranges[:, 1])
    assert ranges[1:, 0].tolist() == (ranges[:-1, 1] + 1).tolist()  # none is missing, none twice
    assert (ranges[0, 0], ranges[-1, 1]) == (-64, 64)
    expected, chance = np.zeros((2, len(plain.tally.heads.measured), len(ranges)))
    for query in plain.queries:
        for key in range(len(query.keys)):
            (into,) = np.flatnonzero((ranges[:, 0] <= key - query.place) & (key - query.place <= ranges[:, 1]))
            expected[:, into] += query.weights[:, key]
            chance[:, into] += query.even[key]
    np.testing.assert_allclose(plain.tally.by_distance.values, expected, atol=1e-4)
    np.testing.assert_allclose(plain.tally.distance_chance.values, chance if plain.model.captures else 0, atol=1e-4)


def test_the_strongest_queries(plain):
    """Those that sorting all queries of all texts puts first; each with its weights."""
    settings, rows = plain.tally.settings, plain.tally.strongest.rows
    at = {(query.passage.id, query.place): number for number, query in enumerate(plain.queries)}
    for metric, name in enumerate(settings.examples_of):
        if NAMES.index(name) not in usable(plain):
            continue
        for head in range(len(plain.tally.heads.measured)):
            numbers = plain.numbers[NAMES.index(name), head]
            order = [one for one in np.argsort(-numbers) if numbers[one] > 1e-9][: settings.strongest]
            mine = rows[(rows["head"] == head) & (rows["metric"] == metric)]
            found = [at[one] for one in zip(mine["passage"].tolist(), mine["query"].tolist(), strict=True)]
            assert len(set(found)) == len(found) == len(order), (name, head)
            assert (np.diff(mine["score"]) <= 0).all()
            np.testing.assert_allclose(mine["score"], numbers[order], atol=NEAR, err_msg=name)
            np.testing.assert_allclose(mine["score"], numbers[found], atol=NEAR, err_msg=name)
            for one, weights in zip(found, mine["weights"], strict=True):
                assert_row(weights, plain.queries[one].weights[head])


def assert_row(kept, weights):
    """A kept row is the weights of all keys of the passage, of those that are masked too, and NaN behind them."""
    np.testing.assert_allclose(kept[: len(weights)], weights, atol=2e-6)
    assert np.isnan(kept[len(weights) :]).all()


def test_the_sample(plain):
    """Exactly those queries with the smallest draws, of all texts, with every metric and weight of every head."""
    sample = plain.tally.sample.rows
    drawn = sorted(plain.queries, key=lambda query: query.draw)[: plain.tally.settings.sample]
    assert sample["draw"].tolist() == [query.draw for query in drawn]
    assert sample["passage"].tolist() == [query.passage.id for query in drawn]
    assert sample["query"].tolist() == [query.place for query in drawn]
    assert len({query.passage.id for query in drawn}) > 5
    for query, values, weights in zip(drawn, sample["values"], sample["weights"], strict=True):
        for metric in usable(plain):
            np.testing.assert_allclose(values[metric], query.numbers[NAMES[metric]], atol=NEAR, err_msg=NAMES[metric])
        for head, row in enumerate(weights):
            assert_row(row, query.weights[head])


def test_what_a_model_without_a_mask_cannot_say_is_missing(plain):
    """Weights alone: all else is there, chance and evenness are not."""
    written = dict(tables(plain.tally, tokens_of(plain.tally)))
    for name in ("classes", "distances"):
        chance = written[name]["chance"].to_numpy()
        attention = written[name]["attention"].to_numpy()
        assert np.isfinite(attention).any()
        assert np.isfinite(chance).any() == plain.model.captures, name
    counts = plain.tally.counts[NAMES.index("entropy_share")]
    assert (counts > 0).all() == plain.model.captures


def tokens_of(tally):
    return dict.fromkeys(tally.shown_passages, ("token",))


def folder_bytes(tally, folder):
    """Every file of a run: name -> its bytes."""
    found = {}
    for name, table in tables(tally, tokens_of(tally)):
        write(table, fs.LocalFileSystem(), str(folder / name), about())
        found[name] = (folder / name).read_bytes()
    return found


def test_the_same_to_the_last_bit_in_any_parts_and_order(bert, tmp_path):
    """One after another, in 3 and 7 parts, shuffled, parts joined in any order: the same files."""
    settings = settings_of(bert, strongest=3, sample=7)
    taken = [(passage, take(bert, passage)) for passage in (*TEXTS, *SENTENCES)]

    def run(parts, seed):
        chance, given = random.Random(seed), [*taken]
        chance.shuffle(given)
        tallies = []
        for part in range(parts):
            tallies.append(empty_tally(settings))
            for passage, one in given[part::parts]:
                tallies[-1].add(passage, one)
            tallies[-1].note([Problem(Location("bad.txt", part), "No.")])
        while len(tallies) > 1:  # two at random, until one is left
            chance.shuffle(tallies)
            tallies[-2].merge(tallies.pop())
        return tallies[0]

    first = run(1, 0)
    expected = folder_bytes(first, tmp_path)
    assert len(expected) == 8
    assert not first.relations.table().empty
    for parts, seed in ((1, 1), (3, 2), (7, 3)):
        other = run(parts, seed)
        found = folder_bytes(other, tmp_path)
        assert {name for name in expected if found[name] != expected[name]} <= ({"problems"} if parts > 1 else set())
        assert (other.ids, other.tokens_read, other.problem_count) == (first.ids, first.tokens_read, parts)


@pytest.mark.parametrize("name", ["BERT", "Llama"])
def test_a_text_in_many_blocks(name, monkeypatch):
    """Blocks of a model that looks back only end with the last key that may be looked at: weights behind it are 0."""
    model = load_model(tiny(name), tokenizer=reader())
    settings = settings_of(model)
    whole, parts = empty_tally(settings), empty_tally(settings)
    reaches = []
    for passage in TEXTS[:4]:
        taken = take(model, passage)
        whole.add(passage, taken)
        with monkeypatch.context() as small:  # a few rows at a time, as of a long text
            small.setitem(row_blocks.__kwdefaults__, "cells", 4 * 30)
            reaches += [block.weights.shape[2] for layer in taken.in_rows("self") for block in layer]
            parts.add(passage, taken)
    assert len(reaches) > 20
    np.testing.assert_array_equal(parts.counts, whole.counts)
    np.testing.assert_array_equal(parts.queries, whole.queries)
    for name in SUMS:
        one, other = getattr(parts, name), getattr(whole, name)
        np.testing.assert_allclose(one.values, other.values, rtol=1e-5, atol=1e-4, err_msg=name)
    np.testing.assert_array_equal(parts.sample.rows["query"], whole.sample.rows["query"])
    np.testing.assert_allclose(parts.sample.rows["weights"], whole.sample.rows["weights"], atol=1e-6)
    np.testing.assert_allclose(parts.sample.rows["values"], whole.sample.rows["values"], atol=NEAR)
    mine, its = parts.strongest.rows, whole.strongest.rows
    np.testing.assert_allclose(mine["score"], its["score"], atol=NEAR)
    assert (np.isfinite(mine["weights"]).sum(axis=1) == np.isfinite(its["weights"]).sum(axis=1)).mean() > 0.95
    np.testing.assert_allclose(np.nansum(mine["weights"], axis=1), 1, atol=1e-5)


def test_some_heads_alone_are_what_they_are_among_all(bert):
    every, some = settings_of(bert), settings_of(bert, heads=((1, 2), (0, 3), (1, 0)))
    whole, part = tallied(bert, TEXTS[:4], every), tallied(bert, TEXTS[:4], some)
    places = [every.heads.index(head) for head in some.heads]
    np.testing.assert_array_equal(part.histogram, whole.histogram[:, places])
    np.testing.assert_array_equal(part.totals.values, whole.totals.values[:, places])
    np.testing.assert_array_equal(part.sample.rows["weights"], whole.sample.rows["weights"][:, places])
    # A product of other heads may round otherwise.
    np.testing.assert_allclose(part.attention.values, whole.attention.values[places], rtol=1e-6, atol=1e-9)


def test_tallies_that_do_not_belong_together(bert):
    one = tallied(bert, TEXTS[:2], settings_of(bert))
    with pytest.raises(ValueError, match="other settings"):
        one.merge(empty_tally(settings_of(bert, sample=19)))
    with pytest.raises(ValueError, match="in common"):
        one.merge(tallied(bert, TEXTS[1:2], settings_of(bert)))


def test_only_passages_that_are_shown_are_kept(bert):
    one, other = (tallied(bert, part, settings_of(bert, strongest=1, sample=1)) for part in (TEXTS[::2], TEXTS[1::2]))
    one.merge(other)
    wanted = {*one.strongest.rows["passage"].tolist(), *one.sample.rows["passage"].tolist()}
    assert set(one.passages) == wanted
    assert [*one.shown_passages] == sorted(wanted)


def test_a_real_model(minilm):
    """Two sentences, against the weights that the model's own eager code gives."""
    texts = passages(2, 12)
    tally = tallied(minilm, texts, settings_of(minilm, sample=10))
    queries = queries_of(minilm, texts, causal=False)
    mean, _ = mean_and_spread(tally.counts, tally.totals, tally.squares)
    for name in ("entropy", "previous", "largest", "distance"):
        expected = np.nanmean([query.numbers[name] for query in queries], axis=0)
        np.testing.assert_allclose(mean[NAMES.index(name)], expected, atol=5e-5, err_msg=name)
    assert sorted(query.draw for query in queries)[:10] == tally.sample.rows["draw"].tolist()


def test_of_many_problems_the_first_are_listed_and_all_are_counted():
    """However they come: whoever counts them need not hold more than are listed."""
    settings = RunSettings(heads=((0, 0),), passage_tokens=8)
    every = [Problem(Location(name, row), "No.") for name in "ab" for row in range(1, LISTED + LISTED // 2)]
    whole, parts, one, other = (empty_tally(settings) for _ in range(4))
    whole.note(every)
    for number, problem in reversed([*enumerate(every)]):
        (one if number % 2 else other).note([problem])
    one.merge(other)
    held, count = [], 0
    for start in range(len(every), 0, -700):
        further = every[max(start - 700, 0) : start]
        held, count = first_of([*held, *further]), count + len(further)
        assert len(held) <= LISTED
    parts.note(held, count)
    assert parts.problems == whole.problems == one.problems == every[:LISTED]
    assert parts.problem_count == whole.problem_count == one.problem_count == len(every)
