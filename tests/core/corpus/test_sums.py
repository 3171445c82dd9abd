"""The queries that are kept, against sorting all of them."""

import random

import numpy as np
import pytest

from core.corpus.sums import SampleSoFar, StrongestSoFar, draws, rows_of, sample_dtype
from tests.core.corpus.plain import splitmix

HEADS, METRICS, MOST, TOKENS = 3, 2, 4, 5


def test_draws_are_those_of_splitmix64():
    for seed in (0, 1, 2**63 + 12345, 2**64 - 1):
        assert draws(seed, 200).tolist() == [splitmix(seed, place) for place in range(200)]
    # The first numbers that the generator gives for the seed 1234567, as they are published for checking.
    assert draws(1234567, 3).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def collected(passages, most=MOST):
    """As a tally does it: each passage is asked for candidates, and these are added."""
    kept = StrongestSoFar(HEADS, METRICS, most, TOKENS)
    for passage, scores in passages:
        draw = draws(passage, scores.shape[2])
        metric, head, query = kept.candidates(slice(None), scores, draw)
        kept.add(
            head=head,
            metric=metric,
            score=scores[metric, head, query],
            draw=draw[query],
            passage=passage,
            query=query,
            weights=np.full((len(query), TOKENS), passage, np.float32),
        )
    return kept


def sorted_out(passages, most=MOST):
    """The same by sorting everything."""
    found = []
    for head in range(HEADS):
        for metric in range(METRICS):
            every = [
                (-float(scores[metric, head, query]), splitmix(passage, query), passage, query)
                for passage, scores in passages
                for query in range(scores.shape[2])
                if scores[metric, head, query] > 0
            ]
            found += [(head, metric, -score, *rest) for score, *rest in sorted(every)[:most]]
    return found


def as_tuples(rows):
    return rows[["head", "metric", "score", "draw", "passage", "query"]].tolist()


@pytest.mark.parametrize("levels", [2, 3, 1000])
@pytest.mark.parametrize("seed", range(4))
def test_the_strongest_whatever_the_order(levels, seed):
    """With few different scores nearly all are ties."""
    chance = np.random.default_rng([levels, seed])
    passages = []
    for passage in range(30):
        scores = chance.integers(0, levels + 1, (METRICS, HEADS, chance.integers(1, 12))) / levels
        scores[chance.random(scores.shape) < 0.2] = np.nan
        passages.append((passage, scores.astype(np.float32)))
    expected = sorted_out(passages)
    for order in range(3):
        random.Random(order).shuffle(passages)
        rows = collected(passages).rows
        assert as_tuples(rows) == expected
        np.testing.assert_array_equal(rows["weights"][:, 0], rows["passage"])
        kept = collected(passages[:9])
        kept.extend(collected(passages[9:]).rows)
        assert as_tuples(kept.rows) == expected


def same_scores(score, queries):
    return np.full((METRICS, HEADS, queries), score, np.float32)


def test_what_is_not_above_zero_is_never_kept_and_fewer_than_wanted_are():
    assert len(collected([(1, same_scores(0, 6)), (2, same_scores(np.nan, 6))]).rows) == 0
    passages = [(9, same_scores(0.5, 2))]
    assert as_tuples(collected(passages).rows) == sorted_out(passages)
    assert len(collected(passages).rows) == 2 * METRICS * HEADS


def test_memory_is_bounded():
    kept = StrongestSoFar(HEADS, METRICS, MOST, TOKENS)
    for passage in range(200):
        rows = collected([(passage, same_scores(passage + 1, 5))]).rows
        kept.extend(rows)
        assert sum(map(len, kept._held)) <= 1.25 * HEADS * METRICS * MOST + len(rows)


def sample_of(parts, most=7):
    """The sample of rows that come in these parts, each only as far as it asks for them."""
    sample = SampleSoFar(parts[0].dtype, most)
    for rows in parts:
        wanted = sample.candidates(rows["draw"])
        sample.extend(rows[wanted])
        assert sum(map(len, sample._held)) <= 1.25 * most + len(rows)
    return sample


def test_a_sample_keeps_the_smallest_draws():
    chance = np.random.default_rng(0)
    draw = chance.integers(0, 2**63, 40).astype(np.uint64)
    number = np.arange(40)
    whole = rows_of(
        sample_dtype(METRICS, HEADS, TOKENS),
        draw=draw,
        passage=number,
        query=number,
        values=np.broadcast_to(number[:, None, None], (40, METRICS, HEADS)),
        weights=np.broadcast_to(number[:, None, None], (40, HEADS, TOKENS)),
    )
    expected = np.argsort(draw)[:7]
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(40)
        parts = [sample_of(np.array_split(whole[order[start::3]], 4)).rows for start in range(3)]
        found = sample_of(parts).rows
        for column in (found["passage"], found["query"], found["values"][:, 1, 2], found["weights"][:, 1, 3]):
            assert column.tolist() == expected.tolist()
    assert len(sample_of([whole], 50).rows) == 40
