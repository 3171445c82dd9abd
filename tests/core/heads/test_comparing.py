"""Two heads on the same axes, against the definition in plain loops; two texts on one axis."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from core import attend, compare
from core.attention.head import Head
from core.attention.rowwise import pool
from core.errors import InputError
from core.heads.comparing import HeadPair, align, mean_divergence, worst_divergence
from tests.refusals import refused

LN2 = math.log(2)
SOME_TOKENS = st.lists(st.sampled_from(["a", "<b>", "", "\u202ec"]), min_size=1, max_size=8).map(tuple)


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
    with refused("keys", "of 5 and 5 tokens, but the heads have 5 and 6 keys"):
        compare(one, other, keys=align("abcde", "abcde"))
    assert compare(one, other, keys=align("abcde", "abcdex")).difference.shape == (4, 6)


@pytest.fixture
def pair():
    """Two causal heads of texts of which one has three tokens more, and their tokens."""
    first = "".join(np.random.default_rng(1).choice(list("abcdef"), 60))
    second = first[:20] + "xyz" + first[20:]
    one, other = made(60, 60, mask=causal(60)), made(63, 63, seed=2, mask=causal(63))
    axis = align(first, second)
    return one, other, axis


@pytest.mark.parametrize(("cells", "most"), [(1, 20), (100, 7), (10_000, 256)])
def test_blocks_give_what_the_whole_does(pair, cells, most, monkeypatch):
    one, other, axis = pair
    monkeypatch.setattr(HeadPair, "cells", cells)
    told = []
    found = HeadPair.of(Head.of(one), Head.of(other), queries=axis, keys=axis).overview(most, told.append)
    whole, divergence_of_rows = compare(one, other, queries=axis, keys=axis), found.row_numbers["divergence"]
    np.testing.assert_allclose(divergence_of_rows, whole.divergence, atol=1e-15)
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
        for place in (gaps, (slice(None), gaps)):
            assert np.isnan(part.values[place]).all()
            assert part.allowed[place].all()
    assert np.isnan(found.matrices["first"].values[0, 5])
    assert not found.matrices["first"].allowed[0, 5]
    assert not np.isnan(found.matrices["second"].values[gaps][:, :20]).any()
    assert np.flatnonzero(np.isnan(found.row_numbers["divergence"])).tolist() == gaps
    part = heads.window(range(18, 30), range(5, 40))
    assert part.matrices["difference"].start == (18, 5)
    for name in ("first", "second", "difference"):
        np.testing.assert_allclose(part.matrices[name].values, found.matrices[name].values[18:30, 5:40])
    np.testing.assert_allclose(part.row_numbers["divergence"], found.row_numbers["divergence"][18:30])
    with pytest.raises(InputError):
        heads.window(range(60, 70), range(5))


def words(text):
    return tuple(text.split())


def test_another_token_in_the_same_place_is_paired():
    before, after = words("the doctor said he was late"), words("the nurse said she was late")
    found = align(before, after)
    assert found.first == found.second == tuple(range(6))
    assert found.equal == (True, False, True, False, True, True)
    assert found.labels(before, after).both == ("the", "doctor / nurse", "said", "he / she", "was", "late")


def test_stretches_of_different_lengths_are_gaps_on_both_sides():
    before, after = words("a x y b"), words("a p b")
    found = align(before, after)
    assert found.first == (0, 1, 2, None, 3)
    assert found.second == (0, None, None, 1, 2)
    assert found.gaps == ([3], [1, 2])
    assert found.labels(before, after) == (("a", "x", "y", "p", "b"),) * 3
    # A text that goes on begins like the other.
    found = align(words("it was hot ."), words("it was hot . so was I . really ."))
    assert found.first[:4] == found.second[:4] == (0, 1, 2, 3)


@given(SOME_TOKENS, SOME_TOKENS)
def test_any_two_texts_keep_every_token_in_order_and_match_as_many_as_can_be(one, other):
    assume(set(one) & set(other))
    found = align(one, other)
    for side, text in ((found.first, one), (found.second, other)):
        assert [position for position in side if position is not None] == list(range(len(text)))
    assert found.lengths == (len(one), len(other))
    pairs = list(zip(found.first, found.second, found.equal, strict=True))
    assert all(one[i] == other[j] for i, j, equal in pairs if equal)
    assert (None, None) not in [pair[:2] for pair in pairs]
    assert sum(found.equal) == longest(one, other)


def longest(one, other):
    """The length of a longest common subsequence, by its definition."""
    if not one or not other:
        return 0
    if one[0] == other[0]:
        return 1 + longest(one[1:], other[1:])
    return max(longest(one[1:], other), longest(one, other[1:]))


def test_letters_and_blanks_count_unless_loosely():
    bert, gpt = ("[CLS]", "the", "cat", "##s", "[SEP]"), ("The", " cat", "S")
    with refused("text", "no token in common") as raised:
        align(bert, gpt)
    assert "“[CLS]” “the”" in str(raised.value)
    assert "“ cat”" in str(raised.value)
    found = align(bert, gpt, loosely=True)
    assert found.first == (0, 1, 2, 3, 4)
    assert found.second == (None, 0, 1, 2, None)
    # Blanks and marks alone stay what they are.
    assert align(("\n", "##", " "), ("\n", "##", " "), loosely=True).equal == (True,) * 3
    assert align(("\n", "a"), (" ", "a"), loosely=True).equal == (False, True)
    for one, other in (("", ""), ("", "a"), ("a", "b")):
        with refused("text", "no token in common"):
            align(one, other)
