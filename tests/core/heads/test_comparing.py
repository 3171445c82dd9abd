"""Two heads on the same axes, against the definition in plain loops."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from core import attend, compare
from core.attention.head import Head
from core.attention.pooling import pool
from core.errors import InputError
from core.heads.comparing import HeadPair, align, divergence, mean_divergence, worst_divergence
from tests.refusals import refused

LN2 = math.log(2)
RNG = np.random.default_rng(1)


def shannon(p, q):
    """Lin 1991 by its definition, outcome by outcome."""
    p, q = (np.append(side, max(0.0, 1 - math.fsum(side))) for side in (p, q))
    total = 0.0
    for one, other in zip(p.tolist(), q.tolist(), strict=True):
        m = (one + other) / 2
        total += (one * math.log(one / m) if one else 0) + (other * math.log(other / m) if other else 0)
    return total / 2


def made(queries, keys, seed=0, **options):
    rng = np.random.default_rng(seed)
    return attend(*(2 * rng.normal(size=(count, 4)) for count in (queries, keys, keys)), **options)


def of(*rows):
    return SimpleNamespace(weights=np.array(rows, dtype=float))


def causal(count):
    return np.tri(count, dtype=bool)


def test_each_row_by_the_definition():
    one, other = made(7, 9), made(7, 9, seed=1)
    found, back = compare(one, other), compare(other, one)
    np.testing.assert_allclose(found.difference, other.weights - one.weights, atol=1e-15)
    expected = [shannon(*rows) for rows in zip(one.weights, other.weights, strict=True)]
    np.testing.assert_allclose(found.divergence, expected, atol=1e-14)
    assert found.mean == pytest.approx(np.mean(expected))
    assert found.worst == (int(np.argmax(expected)), pytest.approx(max(expected)))
    difference, of_rows = found
    assert (difference.shape, of_rows.shape) == ((7, 9), (7,))
    np.testing.assert_allclose(found.divergence, back.divergence, atol=1e-15)
    np.testing.assert_array_equal(found.difference, -back.difference)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        # No key in common.
        ([1, 0, 0, 0], [0, 0, 0, 1], LN2),
        ([0.5, 0.5, 0, 0], [0, 0, 0.25, 0.75], LN2),
        # p = (1, 0), q = (1/2, 1/2), m = (3/4, 1/4): ½ ln 4/3 + ½ (½ ln 2/3 + ½ ln 2)
        ([1, 0], [0.5, 0.5], math.log(4 / 3) / 2 + (math.log(2 / 3) + math.log(2)) / 4),
        # What a row lacks is one further outcome.
        ([0, 0], [0, 0], 0),
        ([0, 0], [0.25, 0.75], LN2),
        ([0.125, 0.375], [0.25, 0.75], shannon([0.125, 0.375], [0.25, 0.75])),
        ([0.125, 0.375], [0.125, 0.375], 0),
    ],
)
def test_cases_by_hand(one, other, expected):
    (found,) = compare(of(one), of(other)).divergence
    assert found == pytest.approx(expected, rel=1e-14)
    assert found <= LN2


@pytest.mark.parametrize("options", [{}, {"mask": causal(6)}, {"mask": np.zeros((6, 6))}, {"sinks": 1.0}])
def test_a_head_is_exactly_0_from_itself(options):
    trace = made(6, 6, **options)
    found = compare(trace, trace)
    assert not found.divergence.any()
    assert not found.difference.any()


def test_tiny_and_torch_weights():
    torch = pytest.importorskip("torch")
    tiny = np.array([[1e-40, 1 - 1e-40], [1e-300, 1.0]])
    assert np.isfinite(divergence(tiny, tiny[::-1])).all()
    one, other = made(8, 8).weights, made(8, 8, seed=5).weights
    in_torch = divergence(torch.tensor(one, dtype=torch.float32)[None], torch.tensor(other, dtype=torch.float32)[None])
    np.testing.assert_allclose(in_torch[0].numpy(), divergence(one, other), atol=1e-6)
    low = torch.full((1, 4), 1e-40)
    assert divergence(low, low).item() == 0


# --- with gaps


def test_an_inserted_token_moves_nothing():
    """The same weights wherever both texts have a token: only what goes to the inserted one tells the heads apart."""
    trace = made(5, 5)
    for at in range(6):
        weights = np.insert(np.insert(trace.weights, at, 0, axis=1), at, 1 / 6, axis=0)
        axis = align("abcde", "abcde"[:at] + "x" + "abcde"[at:])
        found = compare(trace, SimpleNamespace(weights=weights), queries=axis, keys=axis)
        rest = [place for place in range(6) if place != at]
        assert not found.difference[np.ix_(rest, rest)].any()
        assert np.isnan(found.difference[at]).all()
        assert np.isnan(found.difference[:, at]).all()
        assert np.isnan(found.divergence[at])
        assert not found.divergence[rest].any()
        assert found.mean == 0
        assert found.worst[1] == 0


def test_what_goes_to_a_key_of_one_text_alone_counts_in_full():
    keys, queries = align("ab", "axb"), align("a", "a")
    found = compare(of([0.5, 0.5]), of([0.2, 0.6, 0.2]), queries=queries, keys=keys)
    assert found.divergence[0] == pytest.approx(shannon([0.5, 0, 0.5], [0.2, 0.6, 0.2]))
    np.testing.assert_allclose(found.difference, [[-0.3, np.nan, -0.3]])
    # And one way or the other:
    keys = align("axb", "ayyb")
    found = compare(of([0, 1, 0]), of([0, 0.5, 0.5, 0]), queries=queries, keys=keys)
    assert found.divergence[0] == pytest.approx(LN2)


def test_shapes_that_do_not_fit_are_refused():
    one, other = made(4, 5), made(4, 6)
    with refused("keys", r"4 × 5 .*4 × 6 .*keys=align"):
        compare(one, other)
    with refused("queries"):
        compare(made(3, 5), one)
    with pytest.raises(InputError, match="of 5 and 5 tokens, but the heads have 5 and 6 keys"):
        compare(one, other, keys=align("abcde", "abcde"))
    assert compare(one, other, keys=align("abcde", "abcdex")).difference.shape == (4, 6)


# --- in blocks


@pytest.fixture
def pair():
    """Two causal heads of texts of which one has three tokens more, and their tokens."""
    first = "".join(RNG.choice(list("abcdef"), 60))
    second = first[:20] + "xyz" + first[20:]
    one, other = made(60, 60, mask=causal(60)), made(63, 63, seed=2, mask=causal(63))
    axis = align(first, second)
    return one, other, axis


@pytest.mark.parametrize("cells", [1, 100, 10_000])
@pytest.mark.parametrize("most", [7, 20, 256])
def test_blocks_give_what_the_whole_does(pair, cells, most, monkeypatch):
    one, other, axis = pair
    monkeypatch.setattr(HeadPair, "cells", cells)
    told = []
    found = HeadPair.of(Head.of(one), Head.of(other), queries=axis, keys=axis).overview(most, told.append)
    whole = compare(one, other, queries=axis, keys=axis)
    np.testing.assert_allclose(found.row_numbers["divergence"], whole.divergence, atol=1e-15)
    divergence_of_rows = found.row_numbers["divergence"]
    assert mean_divergence(divergence_of_rows) == pytest.approx(whole.mean)
    assert worst_divergence(divergence_of_rows)[0] == whole.worst[0]
    either = np.ones((63, 63), dtype=bool)
    at = np.array([place is not None for place in axis.first])
    either[np.ix_(at, at)] = causal(60)
    expected = pool(whole.difference, most, either | causal(63))
    np.testing.assert_allclose(found.matrices["difference"].values, expected.values, atol=1e-15)
    np.testing.assert_array_equal(found.matrices["difference"].allowed, expected.allowed)
    assert told[-1] == 63
    assert told == sorted(told)


def test_masked_pairs_and_gaps_are_told_apart_and_a_window_is_a_part_of_the_whole(pair):
    one, other, axis = pair
    heads = HeadPair.of(Head.of(one), Head.of(other), queries=axis, keys=axis)
    found = heads.overview()
    gaps = axis.gaps[0]
    assert gaps == [20, 21, 22]
    for part in (found.matrices["first"], found.matrices["difference"]):
        assert np.isnan(part.values[gaps]).all()
        assert np.isnan(part.values[:, gaps]).all()
        assert part.allowed[gaps].all()
        assert part.allowed[:, gaps].all()
    assert np.isnan(found.matrices["first"].values[0, 5])
    assert not found.matrices["first"].allowed[0, 5]
    assert not np.isnan(found.matrices["second"].values[gaps][:, :20]).any()
    part = heads.window(range(18, 30), range(5, 40))
    assert part.matrices["difference"].start == (18, 5)
    for name in ("first", "second", "difference"):
        np.testing.assert_allclose(part.matrices[name].values, found.matrices[name].values[18:30, 5:40])
    np.testing.assert_allclose(part.row_numbers["divergence"], found.row_numbers["divergence"][18:30])
    with pytest.raises(InputError):
        heads.window(range(60, 70), range(5))
