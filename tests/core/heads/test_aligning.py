"""Two texts on one axis: nothing is lost, nothing is moved, and what only one text has is a gap."""

import time

import numpy as np
import pytest

from core.errors import InputError
from core.heads.comparing import Alignment, align
from tests.refusals import refused

HOSTILE = (" <b>", "$x$", "*", "", "\n", "\u202eabc", "😀", "[CLS]", "##", " ")


def words(text):
    return tuple(text.split())


def whole(alignment):
    """Every position of each side, in order."""
    return [[position for position in side if position is not None] for side in (alignment.first, alignment.second)]


def test_a_text_is_beside_itself():
    for tokens in (words("a b a b"), HOSTILE):
        found = align(tokens, tokens)
        assert found.first == found.second == tuple(range(len(tokens)))
        assert all(found.equal)
        assert found.gaps == ([], [])
        assert found.labels(tokens, tokens) == (tokens,) * 3


@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize("tokens", ["a b c d e", "the cat the cat the", "a a a a a"])
def test_what_is_put_in_moves_nothing_else(tokens, at):
    before = words(tokens)
    after = (*before[:at], "new", *before[at:])
    found = align(before, after)
    assert found.first == (*range(at), None, *range(at, 5))
    assert found.second == tuple(range(6))
    assert found.gaps == ([at], [])
    assert align(after, before).gaps == ([], [at])


def test_another_token_in_the_same_place_is_paired():
    before, after = words("the doctor said he was late"), words("the nurse said she was late")
    found = align(before, after)
    assert found.first == found.second == tuple(range(6))
    assert found.equal == (True, False, True, False, True, True)
    labels = found.labels(before, after)
    assert (labels.first, labels.second) == (before, after)
    assert labels.both == ("the", "doctor / nurse", "said", "he / she", "was", "late")


def test_stretches_of_different_lengths_are_gaps_on_both_sides():
    before, after = words("a x y b"), words("a p b")
    found = align(before, after)
    assert found.first == (0, 1, 2, None, 3)
    assert found.second == (0, None, None, 1, 2)
    assert found.gaps == ([3], [1, 2])
    assert found.labels(before, after) == (("a", "x", "y", "p", "b"),) * 3


def test_a_text_that_goes_on_begins_like_the_other():
    found = align(words("it was hot ."), words("it was hot . so was I . really ."))
    assert found.first[:4] == found.second[:4] == (0, 1, 2, 3)


def test_any_two_texts_keep_every_token_in_order_and_match_as_many_as_can_be():
    rng = np.random.default_rng(0)
    for _ in range(60):
        one, other = (tuple(rng.choice(list("abcd"), rng.integers(1, 9)).tolist()) for _ in range(2))
        if not set(one) & set(other):
            continue
        found = align(one, other)
        assert whole(found) == [list(range(len(one))), list(range(len(other)))]
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


@pytest.mark.parametrize(("one", "other"), [((), ()), ((), ("a",)), (("a",), ("b",))])
def test_texts_without_anything_in_common_are_refused(one, other):
    with pytest.raises(InputError, match="no token in common"):
        align(one, other)


def test_the_most_repetitive_texts_take_no_longer():
    start = time.thread_time()  # which counts only while this thread has a processor
    found = align(["a", "b"] * 2048, ["b", "a", "c"] * 1365)
    assert time.thread_time() - start < 5
    assert found.lengths == (4096, 4095)


def test_positions_as_arrays():
    found = Alignment((0, None, 1), (0, 1, None), (True, False, False))
    np.testing.assert_array_equal(found.positions, [[0, -1, 1], [0, 1, -1]])
